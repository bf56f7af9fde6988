//! A summarizer over a chat model. It asks for JSON and retries once if the answer is unusable.
//! It never writes a node without the model: after a second unusable answer it returns an error
//! that advises the fallback.

mod ask;
mod read;

use std::collections::BTreeMap;
use std::sync::Arc;

use treering_core::chat::{ChatMessage, ChatReply, ChatRequest, FinishReason};
use treering_core::facts::Facts;
use treering_core::spend::{Metered, Unmetered};
use treering_core::text::preview;
use treering_core::{
    ChatModel, Meter, NodeContent, ProviderError, RetryAdvice, Role, Strategy, Summarizer,
    SummaryRequest, acceptance, prompt,
};

use crate::extractive::lists;

/// Prompts that override the built-in ones.
pub type Prompts = BTreeMap<Strategy, String>;

/// Summarizes with a chat model.
pub struct ModelSummarizer {
    chat: Arc<dyn ChatModel>,
    temperature: f32,
    prompts: Prompts,
}

impl ModelSummarizer {
    /// Creates a summarizer. `prompts` overrides the built-in prompts of some strategies.
    #[must_use]
    pub const fn new(chat: Arc<dyn ChatModel>, temperature: f32, prompts: Prompts) -> Self {
        Self { chat, temperature, prompts }
    }

    fn request(&self, brief: &SummaryRequest) -> ChatRequest {
        let prompt = self
            .prompts
            .get(&brief.strategy)
            .map_or_else(|| prompt::text(brief.strategy), String::as_str);
        let messages = vec![
            ChatMessage::new(Role::System, ask::instructions(prompt, brief)),
            ChatMessage::new(Role::User, ask::source(brief)),
        ];
        ChatRequest {
            schema: ask::schema(),
            max_tokens: Some(ask::max_tokens(brief)),
            temperature: Some(self.temperature),
            ..ChatRequest::new(messages)
        }
    }
}

impl Summarizer for ModelSummarizer {
    fn name(&self) -> &str {
        self.chat.name()
    }

    fn is_remote(&self) -> bool {
        self.chat.is_remote()
    }

    fn summarize(&self, brief: &SummaryRequest) -> Result<NodeContent, ProviderError> {
        self.summarize_metered(brief, &Unmetered)
    }

    fn summarize_metered(
        &self,
        brief: &SummaryRequest,
        meter: &dyn Meter,
    ) -> Result<NodeContent, ProviderError> {
        let chat = Metered { chat: &*self.chat, meter };
        let source = brief.facts();
        let mut request = self.request(brief);
        let reply = chat.complete(&request)?;
        let why = match take(&reply, read::content(&reply.text), brief, source) {
            Ok(content) => return Ok(content),
            Err(why) => why,
        };
        request.messages.extend([
            ChatMessage::new(Role::Assistant, preview(&reply.text, ask::QUOTED_CHARS)),
            ChatMessage::new(Role::User, ask::again(&why)),
        ]);
        if reply.finish_reason == FinishReason::Truncated {
            request.max_tokens = request.max_tokens.map(|most| most * 2);
        }
        let second = chat.complete(&request)?;
        // An answer that is truncated even at twice the limit may still contain a usable part.
        let take_part =
            |reply: &ChatReply| take(reply, read::content_of_cut(&reply.text), brief, source);
        let taken = take(&second, read::content(&second.text), brief, source);
        taken
            .or_else(|again| take_part(&second).or_else(|_| take_part(&reply)).map_err(|_| again))
            .map_err(|again| {
                let reason = format!(
                    "{} wrote no usable summary: {why}; second attempt: {again}",
                    self.name()
                );
                ProviderError::new(reason, RetryAdvice::UseFallback)
            })
    }
}

/// Validates an answer. The error says why it is unusable.
fn take(
    reply: &ChatReply,
    said: Option<NodeContent>,
    brief: &SummaryRequest,
    source: &Facts,
) -> Result<NodeContent, String> {
    if reply.finish_reason == FinishReason::Declined {
        return Err(format!("the model declined: {:?}", preview(&reply.text, 80)));
    }
    let Some(mut content) = said else {
        let why = if reply.finish_reason == FinishReason::Truncated {
            "the answer was too long and was cut off"
        } else {
            "the answer has no summary"
        };
        return Err(why.to_owned());
    };
    let is_grounded = |item: &String| source.partition_known(&Facts::of(item)).1.is_empty();
    let points = [
        &mut content.key_findings,
        &mut content.decisions,
        &mut content.action_items,
        &mut content.unresolved,
        &mut content.topics,
    ];
    for list in points {
        list.retain(is_grounded);
    }
    // Facts are extracted from the source, not requested from the model.
    lists::facts(brief, source, &mut content);
    content.tags = lists::tags(&content);
    acceptance::accept(&content, source, brief.chars()).map_err(|unusable| unusable.to_string())?;
    Ok(content)
}

#[cfg(test)]
mod tests;
