//! The operations that amend messages, and read their history.

use treering_core::MessageIdx;

use super::requests::AmendRequest;
use super::{Service, ServiceError};
use crate::views::{AmendView, HistoryView};

impl Service {
    /// Edits a message, or marks it as wrong.
    pub fn amend(
        &self,
        reference: &str,
        idx: u32,
        request: &AmendRequest,
    ) -> Result<AmendView, ServiceError> {
        let conversation = self.engine().find(reference)?;
        let report = self.engine().amend(conversation.id, MessageIdx(idx), request.amendment()?)?;
        Ok(AmendView::of(&conversation.slug, &report))
    }

    /// Reads the earlier versions of a message.
    pub fn history(&self, reference: &str, idx: u32) -> Result<HistoryView, ServiceError> {
        let conversation = self.engine().find(reference)?;
        if idx >= conversation.totals.messages {
            return Err(ServiceError::NotFound(format!(
                "{} has {} messages, counted from 0; message {idx} does not exist",
                conversation.slug, conversation.totals.messages
            )));
        }
        let versions = self.engine().message_history(conversation.id, MessageIdx(idx))?;
        Ok(HistoryView::of(&conversation.slug, idx, &versions))
    }
}
