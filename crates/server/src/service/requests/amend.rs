//! Requests to edit a message, and to mark one as wrong.

use serde::Deserialize;
use treering_engine::Amendment;
use utoipa::ToSchema;

use super::{MAX_ITEM_CHARS, MAX_TEXT_CHARS, RequestLimits, check_lengths};
use crate::service::ServiceError;

/// An amendment of a message. Exactly one of `text` and `wrong` is set.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AmendRequest {
    /// The new text. The earlier one stays in the history of the message.
    #[schema(max_length = 4000000)]
    pub text: Option<String>,
    /// Whether the summaries that cover the message are regenerated at once; default: the policy
    /// parameter `regenerate_on_edit`.
    #[serde(alias = "regenerateOnEdit")]
    pub regenerate: Option<bool>,
    /// Marks the message as wrong: it is never returned as true, and the summaries that cover it are
    /// regenerated without it.
    pub wrong: bool,
    /// The text that is returned instead of a wrong message.
    #[schema(max_length = 4000000)]
    pub correction: Option<String>,
}

impl AmendRequest {
    /// The amendment. Refuses a request that is none or two.
    pub fn amendment(&self) -> Result<Amendment, ServiceError> {
        let invalid = |reason: &str| Err(ServiceError::InvalidRequest(reason.to_owned()));
        match (&self.text, self.wrong) {
            (Some(_), true) => invalid("set text or wrong, not both"),
            (None, false) => invalid("set text to edit the message, or wrong to correct it"),
            (Some(_), false) if self.correction.is_some() => {
                invalid("a correction needs wrong; to replace the text, set text")
            }
            (None, true) if self.regenerate.is_some() => invalid(
                "regenerate needs text; the summaries that cover a wrong message are always regenerated",
            ),
            (Some(text), false) => {
                Ok(Amendment::Edit { text: text.clone(), regenerate: self.regenerate })
            }
            (None, true) => Ok(Amendment::Correct { text: self.correction.clone() }),
        }
    }
}

/// An amendment of a message that is named like in search results. Exactly one of `text` and `wrong`
/// is set.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedAmendRequest {
    /// A message such as `my-chat#42`.
    #[schema(min_length = 1, max_length = 300)]
    pub id: String,
    /// The new text.
    pub text: Option<String>,
    /// Whether the summaries that cover the message are regenerated at once.
    #[serde(alias = "regenerateOnEdit")]
    pub regenerate: Option<bool>,
    /// Marks the message as wrong.
    #[serde(default)]
    pub wrong: bool,
    /// The text that is returned instead of a wrong message.
    pub correction: Option<String>,
}

impl NamedAmendRequest {
    /// The conversation, the position of the message, and the amendment.
    pub fn into_parts(self) -> Result<(String, u32, AmendRequest), ServiceError> {
        let Self { id, text, regenerate, wrong, correction } = self;
        let (conversation, idx) = message_reference(&id).ok_or_else(|| {
            ServiceError::InvalidRequest(format!("id {id:?}; expected a message like my-chat#42"))
        })?;
        Ok((conversation.to_owned(), idx, AmendRequest { text, regenerate, wrong, correction }))
    }
}

/// The conversation and the position in the reference of a message, such as `my-chat#42`.
#[must_use]
pub fn message_reference(text: &str) -> Option<(&str, u32)> {
    let (conversation, idx) = text.rsplit_once('#')?;
    Some((conversation, idx.parse().ok()?))
}

impl RequestLimits for NamedAmendRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("id", Some(&self.id), MAX_ITEM_CHARS),
            ("text", self.text.as_ref(), MAX_TEXT_CHARS),
            ("correction", self.correction.as_ref(), MAX_TEXT_CHARS),
        ])
    }
}

impl RequestLimits for AmendRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("text", self.text.as_ref(), MAX_TEXT_CHARS),
            ("correction", self.correction.as_ref(), MAX_TEXT_CHARS),
        ])
    }
}
