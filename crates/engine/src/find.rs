//! Finds conversations by the references that people type.

use treering_core::ports::{ConversationFilter, ConversationQuery};
use treering_core::{Conversation, ExternalId, Reader, suggest_slugs};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Number of recent conversations considered for suggestions.
const LOOKED_AT: usize = 500;

impl Engine {
    /// The conversation with this slug, key, id or id prefix.
    pub fn find(&self, reference: &str) -> Result<Conversation> {
        let reader = self.reader()?;
        if let Some(conversation) = reader.conversation_by_slug(reference)? {
            return Ok(conversation);
        }
        if let Ok(key) = ExternalId::new(reference) {
            let found = reader.conversations(&ConversationQuery::ExternalId(&key))?.pop();
            if let Some(conversation) = found {
                return Ok(conversation);
            }
        }
        let digits = reference.to_ascii_lowercase();
        let is_prefix =
            (4..=32).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let mut found = match is_prefix {
            true => reader.conversations(&ConversationQuery::IdPrefix(&digits, 6))?,
            false => Vec::new(),
        };
        match (found.len(), found.pop()) {
            (_, None) => {
                let suggestions = self.suggest(&*reader, reference)?;
                Err(Error::ConversationNotFound { reference: reference.to_owned(), suggestions })
            }
            (1, Some(one)) => Ok(one),
            (_, Some(last)) => {
                let candidates = found.into_iter().chain([last]).map(|c| c.slug).collect();
                Err(Error::Ambiguous { reference: reference.to_owned(), candidates })
            }
        }
    }

    /// Similar slugs among the recent conversations.
    fn suggest(&self, reader: &dyn Reader, reference: &str) -> Result<Vec<String>> {
        let latest =
            reader.conversations(&ConversationQuery::List(&ConversationFilter::all(LOOKED_AT)))?;
        let slugs: Vec<&str> =
            latest.iter().map(|conversation| conversation.slug.as_str()).collect();
        Ok(suggest_slugs(reference, &slugs).into_iter().map(str::to_owned).collect())
    }
}
