//! Conversations by the names that people give for them.

use treering_core::Conversation;
use treering_core::ports::{ConversationFilter, Reader};
use treering_core::slug::meant;

use crate::error::{Error, Result};
use crate::memory::Memory;

/// How many of the latest conversations are looked at for what somebody may have meant.
const LOOKED_AT: usize = 500;

impl Memory {
    /// The conversation that goes by a slug, an id, or the first digits of one.
    pub fn find(&self, reference: &str) -> Result<Conversation> {
        let reader = self.store().reader()?;
        if let Some(conversation) = reader.conversation_by_slug(self.tenant(), reference)? {
            return Ok(conversation);
        }
        let digits = reference.to_ascii_lowercase();
        let is_prefix = (4..=32).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let ids = match is_prefix {
            true => reader.conversations_by_id_prefix(self.tenant(), &digits, 6)?,
            false => Vec::new(),
        };
        let mut found = ids.into_iter().filter_map(|id| reader.conversation(&self.key(id)).transpose());
        match (found.next().transpose()?, found.next().transpose()?) {
            (None, _) => {
                let near = self.meant(&*reader, reference)?;
                Err(Error::NoConversation { reference: reference.to_owned(), near })
            }
            (Some(one), None) => Ok(one),
            (Some(one), Some(other)) => {
                let rest = found.collect::<std::result::Result<Vec<_>, _>>()?;
                let candidates = [one, other].into_iter().chain(rest).map(|c| c.slug).collect();
                Err(Error::Ambiguous { reference: reference.to_owned(), candidates })
            }
        }
    }

    /// The slugs that somebody may have meant, of the latest conversations.
    fn meant(&self, reader: &dyn Reader, reference: &str) -> Result<Vec<String>> {
        let latest = reader.conversations(self.tenant(), &ConversationFilter::all(LOOKED_AT))?;
        let slugs: Vec<&str> = latest.iter().map(|conversation| conversation.slug.as_str()).collect();
        Ok(meant(reference, &slugs).into_iter().map(str::to_owned).collect())
    }
}
