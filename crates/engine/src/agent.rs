//! The agent loop: waits for the gate, assembles the context, calls the model and stores the
//! turn. All other work runs in the background.
//!
//! No text is lost: the question is stored before the model is called, and the received part of
//! an interrupted answer is stored as well.

use std::sync::Arc;
use std::time::Duration;

use treering_core::chat::{ChatMessage, ChatRequest, FinishReason, Usage};
use treering_core::packing::Profile;
use treering_core::ports::Span;
use treering_core::spend::Metered;
use treering_core::{
    ChatModel, ConversationId, Entry, EntryOutcome, Json, MessageIdx, NewMessage, ProviderError,
    Redactions, RetryAdvice, Role, ThreadName,
};

use crate::context::{Context, ContextRequest};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ingest::{AppendTarget, EntryBatch, ReplayDetection};
use crate::worker::WorkerHandle;

/// Settings of an agent.
#[derive(Debug, Clone, Default)]
pub struct AgentOptions {
    /// Instructions that precede everything else in the prompt.
    pub instructions: Option<String>,
    /// Maximum tokens of the context; the default budget if absent.
    pub budget: Option<u32>,
    /// The profile of the context; the default profile if absent.
    pub profile: Option<Profile>,
    /// Maximum tokens of an answer.
    pub max_tokens: Option<u32>,
    /// Sampling temperature, from 0 up.
    pub temperature: Option<f32>,
    /// Maximum time to wait for the gate; the configured timeout if absent.
    pub gate_timeout: Option<Duration>,
}

/// A chat model with memory. Background work runs as long as the agent exists.
pub struct Agent {
    engine: Engine,
    chat: Arc<dyn ChatModel>,
    settings: AgentOptions,
    _worker: WorkerHandle,
}

/// A stored answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The model's answer.
    pub text: String,
    /// Why the answer ended.
    pub end: FinishReason,
    /// The token usage of the call.
    pub usage: Usage,
    /// The parts redacted before the request left this machine.
    pub redacted: Redactions,
    /// The context that the model received, with its receipt.
    pub context: Context,
    /// The position of the question.
    pub question: MessageIdx,
    /// The position of the answer.
    pub answer: MessageIdx,
}

impl Agent {
    /// Creates an agent over an engine and a model, and starts its background worker.
    pub fn new(engine: Engine, chat: Arc<dyn ChatModel>, settings: AgentOptions) -> Result<Self> {
        let worker = engine.spawn_worker()?;
        Ok(Self { engine, chat, settings, _worker: worker })
    }

    /// The model's provider and name.
    #[must_use]
    pub fn model(&self) -> &str {
        self.chat.name()
    }

    /// Answers a message in a conversation.
    pub fn ask(&self, conversation: ConversationId, text: &str) -> Result<Reply> {
        self.turn(conversation, text, |chat, request| (chat.complete(request), String::new()))
    }

    /// Answers a message in a conversation, streaming: `on_text` receives each chunk as it arrives.
    pub fn ask_streaming(
        &self,
        conversation: ConversationId,
        text: &str,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Reply> {
        self.turn(conversation, text, |chat, request| {
            let mut received = String::new();
            let reply = chat.stream(request, &mut |piece| {
                received.push_str(piece);
                on_text(piece);
            });
            (reply, received)
        })
    }

    /// Runs one turn. `call` returns the reply and the text received while streaming.
    fn turn(
        &self,
        conversation: ConversationId,
        text: &str,
        mut call: impl FnMut(&dyn ChatModel, &ChatRequest) -> (Answered, String),
    ) -> Result<Reply> {
        let thread = self.latest_thread(conversation)?;
        let context = self.context(conversation, &thread, text)?;
        let question = self.store(conversation, &thread, Role::User, text, None)?;
        let request = ChatRequest {
            max_tokens: self.settings.max_tokens,
            temperature: self.settings.temperature,
            ..ChatRequest::new(prompt(self.settings.instructions.as_deref(), &context, text))
        };
        let meter = self.engine.spend_meter(Some(conversation));
        let chat = Metered { chat: &*self.chat, meter: &meter };
        let (mut reply, mut received) = call(&chat, &request);
        if let Some(pause) =
            reply.as_ref().err().and_then(acceptable_delay).filter(|_| received.is_empty())
        {
            std::thread::sleep(pause);
            (reply, received) = call(&chat, &request);
        }
        // A failure to log does not invalidate the answer.
        drop(meter.log(&format!("called {} for an answer", self.chat.name())));
        match reply {
            Ok(reply) if reply.text.trim().is_empty() => {
                let end_reason = match reply.finish_reason {
                    FinishReason::Truncated => {
                        "the answer was cut off before its first word; raise `chat.max_tokens`"
                    }
                    FinishReason::Declined => "the model declined to answer",
                    FinishReason::Complete => "the answer has no text",
                };
                Err(Error::Unanswered(ProviderError::permanent(format!(
                    "{}: {end_reason}",
                    self.chat.name()
                ))))
            }
            Ok(reply) => {
                let answer =
                    self.store(conversation, &thread, Role::Assistant, &reply.text, None)?;
                let (text, end, usage, redacted) =
                    (reply.text, reply.finish_reason, reply.usage, reply.redacted);
                Ok(Reply { text, end, usage, redacted, context, question, answer })
            }
            Err(error) => {
                if !received.trim().is_empty() {
                    let parts = broken_off(&error)?;
                    self.store(conversation, &thread, Role::Assistant, &received, Some(parts))?;
                }
                Err(Error::Unanswered(error))
            }
        }
    }

    /// The thread of the last message, which the turn continues.
    fn latest_thread(&self, conversation: ConversationId) -> Result<ThreadName> {
        let reader = self.engine.reader()?;
        let found = reader.conversation(conversation)?;
        let found = found.ok_or_else(|| Error::no_conversation(conversation))?;
        let Some(last) = found.totals.messages.checked_sub(1) else {
            return Ok(ThreadName::main());
        };
        let last = reader.messages(conversation, Span::starting(MessageIdx(last), 1))?.pop();
        Ok(last.map(|message| message.thread).unwrap_or_default())
    }

    fn context(
        &self,
        conversation: ConversationId,
        thread: &ThreadName,
        query: &str,
    ) -> Result<Context> {
        let mut request = ContextRequest::new(conversation);
        request.thread = Some(thread.clone());
        request.query = Some(query.to_owned());
        request.budget = self.settings.budget.unwrap_or(request.budget);
        request.gate_timeout = self.settings.gate_timeout;
        if let Some(profile) = &self.settings.profile {
            request.profile = profile.clone();
        }
        self.engine.context(&request)
    }

    fn store(
        &self,
        conversation: ConversationId,
        thread: &ThreadName,
        role: Role,
        text: &str,
        parts: Option<Json>,
    ) -> Result<MessageIdx> {
        let message =
            NewMessage { parts, ..NewMessage::new(role, text, self.engine.clock().now()) };
        let mut entries = vec![Entry::message(thread.clone(), message)];
        if role == Role::Assistant {
            entries.push(Entry::turn_end(thread.clone()));
        }
        let target = AppendTarget::Existing(conversation);
        let stored = self.engine.append(EntryBatch {
            target,
            entries,
            replay_detection: ReplayDetection::None,
        })?;
        match stored.outcomes.first() {
            Some(EntryOutcome::Message(idx)) => Ok(*idx),
            _ => Ok(MessageIdx(stored.conversation.totals.messages.saturating_sub(1))),
        }
    }
}

type Answered = std::result::Result<treering_core::chat::ChatReply, ProviderError>;

/// The delay that the provider asks for, if a user can wait that long.
fn acceptable_delay(error: &ProviderError) -> Option<Duration> {
    const MAX_DELAY_MS: u64 = 10_000;
    match error.advice {
        RetryAdvice::RetryAfter(ms) | RetryAdvice::Throttled(ms) if ms <= MAX_DELAY_MS => {
            Some(Duration::from_millis(ms))
        }
        _ => None,
    }
}

/// The metadata of an interrupted answer.
fn broken_off(error: &ProviderError) -> Result<Json> {
    Ok(Json::new(&format!("{{\"broken_off\":{}}}", Json::string(&error.reason)))?)
}

/// The prompt: instructions and history, the latest turns, then the recalled items with the
/// question. Adjacent messages of one role are merged, since some models require alternation.
fn prompt(instructions: Option<&str>, context: &Context, text: &str) -> Vec<ChatMessage> {
    let mut messages: Vec<ChatMessage> = Vec::new();
    let instructions = instructions.map(|text| ChatMessage::new(Role::System, text));
    let remembered = if context.sections.is_empty() { Vec::new() } else { context.messages() };
    let question = ChatMessage::new(Role::User, text);
    for message in instructions.into_iter().chain(remembered).chain([question]) {
        match messages.last_mut() {
            Some(last) if last.role == message.role => {
                last.text.push_str("\n\n");
                last.text.push_str(&message.text);
            }
            _ => messages.push(message),
        }
    }
    messages
}
