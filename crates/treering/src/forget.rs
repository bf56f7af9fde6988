//! A builder for forgetting.

use std::path::Path;

use treering_core::{ForgetTarget, ItemSelection};
use treering_engine::{Engine, Forget, ForgetPreview, ForgetReport};

use crate::Result;
use crate::conversation::ConversationHandle;

/// Builds a forget.
#[must_use]
pub struct ForgetBuilder<'a> {
    engine: &'a Engine,
    request: Forget,
}

impl<'a> ForgetBuilder<'a> {
    pub(crate) const fn new(engine: &'a Engine, target: ForgetTarget) -> Self {
        Self { engine, request: Forget::new(target) }
    }

    /// Leaves no tombstones, so that a later import may bring it back.
    pub const fn allow_return(mut self) -> Self {
        self.request.allow_return = true;
        self
    }

    /// Erases the bytes in the files of the store later, with [`Memory::scrub`].
    ///
    /// [`Memory::scrub`]: crate::Memory::scrub
    pub const fn fast(mut self) -> Self {
        self.request.fast = true;
        self
    }

    /// Forgets only what a preview listed.
    pub fn confirm(mut self, preview: &ForgetPreview) -> Self {
        self.request.token = Some(preview.token.clone());
        self
    }

    /// The effect that it would have. Forgets nothing.
    pub fn preview(&self) -> Result<ForgetPreview> {
        self.engine.preview_forget(&self.request)
    }

    /// Forgets. Captures of agents that wait in the spool are not read: if there are any, the
    /// report says that bytes may remain, and `treering forget --scrub` stores and erases them.
    pub fn run(&self) -> Result<ForgetReport> {
        let mut report = self.engine.forget(&self.request)?;
        let location = self.engine.stats()?.store.location;
        let spool = Path::new(&location).with_file_name("spool");
        if let Some(scrub) = report.scrub.as_mut().filter(|_| has_files(&spool)) {
            let reason = "captures of agents wait in the spool; run `treering forget --scrub`";
            scrub.pending.get_or_insert_with(|| reason.to_owned());
        }
        Ok(report)
    }
}

/// Whether a folder or one below it has a file.
fn has_files(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() { has_files(&path) } else { true }
    })
}

impl ConversationHandle {
    /// Forgets part of the conversation.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("My card is 4111.", "I will not keep it.")?;
    /// use treering::{ItemSelection, MessageIdx};
    /// chat.forget(ItemSelection::Message(MessageIdx(0))).run()?;
    /// assert!(memory.search("card 4111").role(treering::Role::User).run()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forget(&self, selection: ItemSelection) -> ForgetBuilder<'_> {
        ForgetBuilder::new(self.memory().engine(), ForgetTarget::Items(self.id(), selection))
    }
}
