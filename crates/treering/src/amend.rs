//! Amending messages.

use treering_core::MessageIdx;
use treering_engine::{AmendReport, Amendment};

use crate::Result;
use crate::conversation::ConversationHandle;

impl ConversationHandle {
    /// Replaces the text of a message. The earlier text stays in its history until it is
    /// forgotten, and the summaries that cover it are stale until an update, unless the policy says
    /// otherwise.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// use treering::MessageIdx;
    /// chat.edit(MessageIdx(1), "7411, since April.")?;
    /// let history = memory.engine().message_history(chat.id(), MessageIdx(1))?;
    /// assert_eq!(history[0].text, "7410, since March.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn edit(&self, idx: MessageIdx, text: &str) -> Result<AmendReport> {
        let edit = Amendment::Edit { text: text.to_owned(), regenerate: None };
        self.memory().engine().amend(self.id(), idx, edit)
    }

    /// Marks a message as wrong. It stays in the history; search and contexts leave it out, or
    /// return the correction instead.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// chat.correct(treering::MessageIdx(1), Some("It is 7411."))?;
    /// let context = chat.context().build()?.markdown();
    /// assert!(context.contains("Correction: It is 7411.") && !context.contains("7410"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn correct(&self, idx: MessageIdx, with: Option<&str>) -> Result<AmendReport> {
        let correct = Amendment::Correct { text: with.map(str::to_owned) };
        self.memory().engine().amend(self.id(), idx, correct)
    }
}
