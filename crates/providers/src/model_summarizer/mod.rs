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

use crate::extractive::{completion, lists};

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

    fn request(&self, summary_request: &SummaryRequest) -> ChatRequest {
        let prompt = self
            .prompts
            .get(&summary_request.strategy)
            .map_or_else(|| prompt::text(summary_request.strategy), String::as_str);
        let messages = vec![
            ChatMessage::new(Role::System, ask::instructions(prompt, summary_request)),
            ChatMessage::new(Role::User, ask::source(summary_request)),
        ];
        ChatRequest {
            schema: ask::schema(),
            max_tokens: Some(ask::max_tokens(summary_request)),
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

    fn summarize(&self, summary_request: &SummaryRequest) -> Result<NodeContent, ProviderError> {
        self.summarize_metered(summary_request, &Unmetered)
    }

    fn summarize_metered(
        &self,
        summary_request: &SummaryRequest,
        meter: &dyn Meter,
    ) -> Result<NodeContent, ProviderError> {
        let chat = Metered { chat: &*self.chat, meter };
        let source = summary_request.facts();
        let mut request = self.request(summary_request);
        let reply = chat.complete(&request)?;
        let mut instructions: Vec<String> =
            request.messages.first().map(|message| message.text.clone()).into_iter().collect();
        let parsed = read::content(&reply.text);
        let rejection = match take(&reply, parsed, summary_request, source, &instructions) {
            Ok(content) => return Ok(content),
            Err(reason) => reason,
        };
        let again = ask::again(&rejection);
        request.messages.extend([
            ChatMessage::new(Role::Assistant, preview(&reply.text, ask::QUOTED_CHARS)),
            ChatMessage::new(Role::User, again.as_str()),
        ]);
        instructions.push(again);
        if reply.finish_reason == FinishReason::Truncated {
            request.max_tokens = request.max_tokens.map(|limit| limit * 2);
        }
        let second = chat.complete(&request)?;
        // An answer that is truncated even at twice the limit may still contain a usable part.
        let take =
            |reply: &ChatReply, parsed| take(reply, parsed, summary_request, source, &instructions);
        let take_part = |reply: &ChatReply| take(reply, read::content_of_cut(&reply.text));
        let accepted = take(&second, read::content(&second.text));
        accepted
            .or_else(|again| take_part(&second).or_else(|_| take_part(&reply)).map_err(|_| again))
            .map_err(|again| {
                let reason = format!(
                    "{} wrote no usable summary: {rejection}; second attempt: {again}",
                    self.name()
                );
                ProviderError::new(reason, RetryAdvice::UseFallback)
            })
    }
}

/// Validates an answer. The error says why it is unusable.
fn take(
    reply: &ChatReply,
    parsed: Option<NodeContent>,
    summary_request: &SummaryRequest,
    source: &Facts,
    instructions: &[String],
) -> Result<NodeContent, String> {
    if reply.finish_reason == FinishReason::Declined {
        return Err(format!("the model declined: {:?}", preview(&reply.text, 80)));
    }
    let Some(mut content) = parsed else {
        let reason = if reply.finish_reason == FinishReason::Truncated {
            "the answer was too long and was cut off"
        } else {
            "the answer has no summary"
        };
        return Err(reason.to_owned());
    };
    let is_grounded = |item: &str| source.partition_known(&Facts::of(item)).1.is_empty();
    let points = [
        &mut content.key_findings,
        &mut content.decisions,
        &mut content.action_items,
        &mut content.unresolved,
        &mut content.topics,
    ];
    for list in points {
        list.retain(|item| is_grounded(item));
    }
    completion::complete(summary_request, &mut content, is_grounded);
    // Facts are extracted from the source, not requested from the model.
    lists::facts(summary_request, source, &mut content);
    content.tags = lists::tags(&content);
    acceptance::accept(&content, source, summary_request.chars())
        .and_then(|_| acceptance::check_copied_instructions(&content, instructions))
        .map_err(|unusable| unusable.to_string())?;
    Ok(content)
}

#[cfg(test)]
mod tests;
