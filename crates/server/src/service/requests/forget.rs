//! Requests to forget, and to read the audit.

use serde::Deserialize;
use treering_core::{ForgetTarget, ItemSelection, MessageIdx, ThreadName, TurnNo};
use treering_engine::{Engine, normalize_cwd};
use utoipa::{IntoParams, ToSchema};

use super::{
    MAX_ID_CHARS, MAX_ITEM_CHARS, MAX_KEY_CHARS, MAX_NAME_CHARS, MAX_PATH_CHARS, MAX_ROWS,
    RequestLimits, check_lengths, check_limit,
};
use crate::service::ServiceError;

/// A request to forget. Without `token` it is a preview and forgets nothing. To forget, repeat
/// it with the token of the preview.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ForgetRequest {
    /// Slug, key, id, or the first digits of an id. Alone, the whole conversation.
    #[schema(max_length = 200)]
    pub conversation: Option<String>,
    /// Only the message at this position of the conversation.
    pub message: Option<u32>,
    /// Only this turn of the conversation, with its tool calls.
    pub turn: Option<u32>,
    /// Only these messages of the conversation, with their tool calls: `A..B`, both included.
    #[schema(max_length = 64)]
    pub range: Option<String>,
    /// Only this thread of the conversation.
    #[schema(max_length = 100)]
    pub thread: Option<String>,
    /// Every message of this author, in the conversation or in all of them.
    #[schema(max_length = 200)]
    pub author: Option<String>,
    /// Every conversation in this folder or below it.
    #[schema(max_length = 4096)]
    pub project: Option<String>,
    /// Every conversation with this label, such as `user=42`.
    #[schema(max_length = 300)]
    pub label: Option<String>,
    /// Every secret, in the conversation or in all of them. The rest of each message stays.
    pub secrets: bool,
    /// Every conversation of the tenant.
    pub everything: bool,
    /// Leave no tombstones, so that a later import may bring it back.
    pub allow_return: bool,
    /// Erase the bytes in the files of the store later.
    pub fast: bool,
    /// The token of the preview to confirm.
    #[schema(max_length = 64)]
    pub token: Option<String>,
}

impl ForgetRequest {
    /// The target. Refuses a request that names none or more than one.
    pub fn target(&self, engine: &Engine) -> Result<ForgetTarget, ServiceError> {
        let invalid = |reason: &str| ServiceError::InvalidRequest(reason.to_owned());
        let mut selections = Vec::new();
        selections.extend(self.message.map(|idx| ItemSelection::Message(MessageIdx(idx))));
        selections.extend(self.turn.map(|turn| ItemSelection::Turn(TurnNo(turn))));
        selections.extend(self.range.as_deref().map(range).transpose()?);
        if let Some(thread) = &self.thread {
            selections.push(ItemSelection::Thread(ThreadName::new(thread.clone())?));
        }
        selections.extend(self.author.clone().map(ItemSelection::Author));
        selections.extend(self.secrets.then_some(ItemSelection::Secrets));
        if selections.len() > 1 {
            return Err(invalid("name one of message, turn, range, thread, author and secrets"));
        }
        let is_wide = self.project.is_some() || self.label.is_some() || self.everything;
        let scopes = [
            self.conversation.is_some(),
            self.project.is_some(),
            self.label.is_some(),
            self.everything,
        ];
        if scopes.into_iter().filter(|is_set| *is_set).count() > 1 {
            return Err(invalid("name one of conversation, project, label and everything"));
        }
        match (&self.conversation, selections.pop()) {
            (Some(reference), selection) => {
                let id = engine.find(reference)?.id;
                Ok(match selection {
                    Some(selection) => ForgetTarget::Items(id, selection),
                    None => ForgetTarget::Conversation(id),
                })
            }
            (None, Some(ItemSelection::Author(author))) if !is_wide => {
                Ok(ForgetTarget::Author(author))
            }
            (None, Some(ItemSelection::Secrets)) if !is_wide => Ok(ForgetTarget::Secrets),
            (None, Some(_)) => Err(invalid("name the conversation that it is part of")),
            (None, None) => match (&self.project, &self.label) {
                (Some(folder), _) => Ok(ForgetTarget::Project(normalize_cwd(folder))),
                (None, Some(label)) => Ok(ForgetTarget::Label(label.parse()?)),
                (None, None) if self.everything => Ok(ForgetTarget::Tenant),
                (None, None) => {
                    Err(invalid("name a conversation, an author, a project, a label or everything"))
                }
            },
        }
    }
}

/// Parses `A..B`, both included.
fn range(text: &str) -> Result<ItemSelection, ServiceError> {
    let invalid =
        || ServiceError::InvalidRequest(format!("range {text:?}; expected A..B, like 4..9"));
    let (first, last) = text.split_once("..").ok_or_else(invalid)?;
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| invalid());
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err(invalid());
    }
    Ok(ItemSelection::Range(MessageIdx(first), MessageIdx(last)))
}

impl RequestLimits for ForgetRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("conversation", self.conversation.as_ref(), MAX_NAME_CHARS),
            ("range", self.range.as_ref(), MAX_ID_CHARS),
            ("thread", self.thread.as_ref(), MAX_KEY_CHARS),
            ("author", self.author.as_ref(), MAX_NAME_CHARS),
            ("project", self.project.as_ref(), MAX_PATH_CHARS),
            ("label", self.label.as_ref(), MAX_ITEM_CHARS),
            ("token", self.token.as_ref(), MAX_ID_CHARS),
        ])
    }
}

/// Filters for the audit.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct AuditRequest {
    /// Only records whose id starts with this.
    #[param(max_length = 64)]
    pub record: Option<String>,
    /// Maximum number of records, the latest ones.
    #[param(minimum = 1, maximum = 500, default = 50)]
    pub limit: Option<usize>,
}

impl RequestLimits for AuditRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_limit(self.limit, MAX_ROWS)?;
        check_lengths([("record", self.record.as_ref(), MAX_ID_CHARS)])
    }
}
