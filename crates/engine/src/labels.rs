//! Changes the labels of a conversation.

use treering_core::{Conversation, ConversationId, Labels};

use crate::engine::Engine;
use crate::error::Result;

impl Engine {
    /// Sets labels of a conversation, and removes others by name.
    pub fn set_labels(
        &self,
        id: ConversationId,
        set: &Labels,
        remove: &[String],
    ) -> Result<Conversation> {
        let (set, remove) = (set.clone(), remove.to_vec());
        self.change(self.scope_of(id), id, move |_, conversation| {
            let labels = &mut conversation.labels;
            for name in &remove {
                labels.remove(name);
            }
            Ok(set.to_vec().into_iter().try_for_each(|label| labels.set(label))?)
        })
    }
}
