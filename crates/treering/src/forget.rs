//! Forgetting, in the store and in the captures in the spool.

use std::path::{Path, PathBuf};

use treering_core::ports::ScrubReport;
use treering_core::{ForgetTarget, ItemSelection};
use treering_engine::{Engine, Forget, ForgetPreview, ForgetReport};

use crate::Result;
use crate::capture::Spool;
use crate::conversation::ConversationHandle;

/// Forgets, also in the captures in the spool.
pub fn forget(engine: &Engine, request: &Forget) -> Result<ForgetReport> {
    let remaining = Spool::prepare_forget(&home_of(engine)?, engine)?;
    let mut report = engine.forget(request)?;
    if let Some(scrub) = &mut report.scrub {
        scrub.pending = scrub.pending.take().or(remaining);
    }
    Ok(report)
}

/// Completes the work that earlier forgets postponed, also in the captures in the spool.
pub fn scrub(engine: &Engine) -> Result<ScrubReport> {
    let remaining = Spool::prepare_forget(&home_of(engine)?, engine)?;
    let report = engine.scrub()?;
    Ok(ScrubReport { pending: report.pending.or(remaining), ..report })
}

/// The folder of the store.
pub fn home_of(engine: &Engine) -> Result<PathBuf> {
    let location = engine.stats()?.store.location;
    Ok(Path::new(&location).parent().unwrap_or(Path::new(".")).to_path_buf())
}

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

    /// Forgets. Captures of agents that wait in the spool are stored first, so that the forget
    /// reaches them.
    pub fn run(&self) -> Result<ForgetReport> {
        forget(self.engine, &self.request)
    }
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
