//! Requests to edit a message, and to mark one as wrong.

use serde::Deserialize;
use treering_engine::Amendment;
use utoipa::ToSchema;

use super::{RequestLimits, ServiceError};

/// An amendment of a message. Exactly one of `text` and `wrong` is set.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AmendRequest {
    /// The new text. The earlier one stays in the history of the message.
    pub text: Option<String>,
    /// Whether the summaries over the message are written again at once; default: the policy
    /// parameter `regenerate_on_edit`.
    #[serde(alias = "regenerateOnEdit")]
    pub regenerate: Option<bool>,
    /// Marks the message as wrong: it is never handed out as true, and the summaries over it are
    /// written again without it.
    pub wrong: bool,
    /// The text that is handed out instead of a wrong message.
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
                "regenerate needs text; the summaries over a wrong message are always written again",
            ),
            (Some(text), false) => {
                Ok(Amendment::Edit { text: text.clone(), regenerate: self.regenerate })
            }
            (None, true) => Ok(Amendment::Correct { text: self.correction.clone() }),
        }
    }
}

impl RequestLimits for AmendRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        Ok(())
    }
}
