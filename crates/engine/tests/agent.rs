//! The agent loop: gate, context, model, stored turn and background work, also when the model
//! fails.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

use std::sync::{Arc, Condvar, Mutex};

use crate::common::{assert_sound, engine_with_policy, open, parts, start};
use treering_core::chat::{ChatMessage, ChatReply, ChatRequest, FinishReason, Usage};
use treering_core::ports::Span;
use treering_core::spend::{Cap, Caps};
use treering_core::{
    ChatModel, ConversationId, Entry, Message, MessageIdx, NodeContent, Policy, ProviderError,
    RetryAdvice, Role, Summarizer, SummaryRequest, TenantId, Timestamp,
};
use treering_engine::{
    Agent, AgentOptions, AppendTarget, Engine, EngineParts, EntryBatch, Error, NewConversation,
    ReplayDetection, SpendLimits,
};
use treering_testkit::{FakeClock, PrefixSummarizer};

/// A model that follows a script and records its requests.
#[derive(Default)]
struct ScriptedChat {
    script: Mutex<Vec<ScriptedReply>>,
    requests: Mutex<Vec<ChatRequest>>,
}

enum ScriptedReply {
    Say(&'static str),
    Fail(&'static str),
    /// Asks for a retry after this many milliseconds.
    Busy(u64),
    /// Sends a text and then fails.
    Break(&'static str, &'static str),
}

impl ScriptedChat {
    fn new(script: impl IntoIterator<Item = ScriptedReply>) -> Arc<Self> {
        let mut script: Vec<ScriptedReply> = script.into_iter().collect();
        script.reverse();
        Arc::new(Self { script: Mutex::new(script), requests: Mutex::default() })
    }

    fn requests(&self) -> Vec<ChatRequest> {
        self.requests.lock().unwrap().clone()
    }
}

impl ChatModel for ScriptedChat {
    fn name(&self) -> &str {
        "test/parrot"
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ProviderError> {
        self.stream(request, &mut |_| ())
    }

    fn stream(
        &self,
        request: &ChatRequest,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<ChatReply, ProviderError> {
        self.requests.lock().unwrap().push(request.clone());
        let (text, broken) = match self.script.lock().unwrap().pop().expect("nothing more to say") {
            ScriptedReply::Say(text) => (text, None),
            ScriptedReply::Fail(reason) => return Err(ProviderError::transient(reason)),
            ScriptedReply::Busy(ms) => {
                return Err(ProviderError::new("too many requests", RetryAdvice::RetryAfter(ms)));
            }
            ScriptedReply::Break(text, reason) => (text, Some(ProviderError::transient(reason))),
        };
        text.split_inclusive(' ').for_each(on_text);
        match broken {
            Some(error) => Err(error),
            None => Ok(ChatReply {
                text: text.into(),
                usage: Usage::for_call(1000, 20),
                ..ChatReply::default()
            }),
        }
    }
}

fn begin(engine: &Engine) -> ConversationId {
    let target = AppendTarget::FindOrCreate(NewConversation::default());
    engine
        .append(EntryBatch { target, entries: Vec::new(), replay_detection: ReplayDetection::None })
        .unwrap()
        .conversation
        .id
}

fn append_lines(engine: &Engine, id: ConversationId, lines: &[(Role, &str)]) {
    let at = |number: usize| Timestamp::from_micros(start().as_micros() + number as i64);
    let message = |(number, (role, text)): (usize, &(Role, &str))| {
        Entry::message(Default::default(), treering_core::NewMessage::new(*role, *text, at(number)))
    };
    let entries = lines.iter().enumerate().map(message).collect();
    engine
        .append(EntryBatch {
            target: AppendTarget::Existing(id),
            entries,
            replay_detection: ReplayDetection::None,
        })
        .unwrap();
}

fn messages(engine: &Engine, id: ConversationId) -> Vec<Message> {
    engine.messages(id, Span::starting(MessageIdx(0), 1000)).unwrap()
}

fn stored_messages(engine: &Engine, id: ConversationId) -> Vec<(Role, String)> {
    messages(engine, id).into_iter().map(|message| (message.body.role, message.body.text)).collect()
}

fn settings() -> AgentOptions {
    AgentOptions {
        instructions: Some("Be brief.".into()),
        budget: Some(600),
        ..AgentOptions::default()
    }
}

#[test]
fn a_turn_builds_a_context_calls_the_model_and_is_stored() {
    let (engine, _folder) = engine_with_policy(Policy::default());
    let id = begin(&engine);
    let chat =
        ScriptedChat::new([ScriptedReply::Say("On 7410."), ScriptedReply::Say("Since March.")]);
    let agent = Agent::new(engine.clone(), chat.clone(), settings()).unwrap();

    let reply = agent.ask(id, "Which port does staging use?").unwrap();
    assert_eq!((reply.text.as_str(), reply.end), ("On 7410.", FinishReason::Complete));
    assert_eq!((reply.question, reply.answer), (MessageIdx(0), MessageIdx(1)));
    let first = [
        ChatMessage::new(Role::System, "Be brief."),
        ChatMessage::new(Role::User, "Which port does staging use?"),
    ];
    assert_eq!(chat.requests()[0].messages, first, "there is nothing to remember yet");

    let mut received = Vec::new();
    let reply = agent
        .ask_streaming(id, "Since when?", &mut |piece| received.push(piece.to_owned()))
        .unwrap();
    assert_eq!((received.concat(), received.len()), (reply.text, 2));
    let messages = chat.requests()[1].messages.clone();
    assert_eq!(messages[..2], first, "what was recalled is not in the system message");
    assert_eq!(messages[2], ChatMessage::new(Role::Assistant, "On 7410."));
    assert!(messages[3].text.ends_with("Since when?"), "{messages:?}");
    assert_eq!(engine.spend(Some(id)).unwrap().account.conversation.tokens_in, 2000);
    let texts: Vec<String> =
        stored_messages(&engine, id).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["Which port does staging use?", "On 7410.", "Since when?", "Since March."]);
    drop(agent);
    assert_sound(&engine);
}

#[test]
fn the_question_is_kept_when_the_model_fails() {
    let (engine, _folder) = engine_with_policy(Policy::default());
    let id = begin(&engine);
    let chat = ScriptedChat::new([
        ScriptedReply::Fail("the model is away"),
        ScriptedReply::Break("The sill is \"13", "the stream \"ended\" early\n"),
        ScriptedReply::Say("130 cm."),
    ]);
    let agent = Agent::new(engine.clone(), chat.clone(), settings()).unwrap();
    let failed = agent.ask(id, "How high is the sill?").unwrap_err();
    assert!(matches!(&failed, Error::Unanswered(error) if error.reason == "the model is away"));
    assert!(failed.hint().unwrap().contains("stored"));
    assert_eq!(stored_messages(&engine, id), [(Role::User, "How high is the sill?".to_owned())]);

    let mut received = String::new();
    agent.ask_streaming(id, "How high?", &mut |piece| received.push_str(piece)).unwrap_err();
    let last = messages(&engine, id).pop().unwrap();
    assert_eq!((last.body.role, &last.body.text), (Role::Assistant, &received));
    let parts = last.body.parts.unwrap();
    assert!(parts.as_str().contains("broken_off") && parts.as_str().contains("early"), "{parts}");

    agent.ask(id, "Once more, please.").unwrap();
    assert_eq!(stored_messages(&engine, id).len(), 5);
    for request in chat.requests() {
        let roles: Vec<Role> = request.messages.iter().map(|message| message.role).collect();
        assert_eq!(roles[..2], [Role::System, Role::User], "{roles:?}");
        assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "roles take turns: {roles:?}");
        assert_eq!(roles.last(), Some(&Role::User));
    }
    drop(agent);
    assert_sound(&engine);
}

#[test]
fn a_busy_model_is_retried_once() {
    let (engine, _folder) = engine_with_policy(Policy::default());
    let id = begin(&engine);
    let script = [
        ScriptedReply::Busy(1),
        ScriptedReply::Say("At five."),
        ScriptedReply::Busy(1),
        ScriptedReply::Busy(1),
        ScriptedReply::Busy(60_000),
        ScriptedReply::Say(""),
    ];
    let chat = ScriptedChat::new(script);
    let agent = Agent::new(engine.clone(), chat.clone(), settings()).unwrap();
    assert_eq!(agent.ask(id, "When?").unwrap().text, "At five.");
    assert!(agent.ask_streaming(id, "Surely?", &mut |_| ()).is_err(), "once more, not for ever");
    assert_eq!(chat.requests().len(), 4);
    assert!(agent.ask(id, "Really?").is_err(), "nobody waits for a minute");
    assert_eq!(chat.requests().len(), 5);
    let silent = agent.ask(id, "Well?").unwrap_err().to_string();
    assert!(silent.contains("no text"), "an answer that says nothing is none: {silent}");
    let stored = stored_messages(&engine, id);
    assert_eq!(stored.iter().filter(|(role, _)| *role == Role::Assistant).count(), 1, "{stored:?}");
    assert_eq!(stored.len(), 5);
}

#[test]
fn the_question_is_stored_when_a_cap_is_reached() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let spend = SpendLimits {
        caps: Caps { conversation: Cap { tokens: Some(900), money: None }, ..Caps::default() },
        ..SpendLimits::default()
    };
    let embedders: Vec<Arc<dyn treering_core::Embedder>> =
        vec![Arc::new(treering_testkit::BagOfWordsEmbedder::default())];
    let parts = parts(
        folder.path(),
        Policy::default(),
        Arc::new(PrefixSummarizer::default()),
        clock,
        embedders,
    );
    let engine = Engine::new(EngineParts { spend, ..parts }, TenantId::default());
    let id = begin(&engine);
    let chat = ScriptedChat::new([ScriptedReply::Say("Yes.")]);
    let agent = Agent::new(engine.clone(), chat.clone(), settings()).unwrap();
    agent.ask(id, "Is it dry?").unwrap();
    let refused = agent.ask(id, "And tomorrow?").unwrap_err();
    assert!(matches!(refused, Error::Unanswered(_)), "{refused}");
    assert_eq!(chat.requests().len(), 1, "past the cap nobody is asked");
    assert_eq!(stored_messages(&engine, id).len(), 3);
}

/// A summarizer that blocks until it is released.
#[derive(Default)]
struct BlockingSummarizer(Mutex<bool>, Condvar);

impl BlockingSummarizer {
    fn let_go(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }
}

impl Summarizer for BlockingSummarizer {
    fn name(&self) -> &str {
        "held"
    }

    fn is_remote(&self) -> bool {
        false
    }

    fn summarize(&self, request: &SummaryRequest) -> Result<NodeContent, ProviderError> {
        drop(self.1.wait_while(self.0.lock().unwrap(), |is_open| !*is_open).unwrap());
        PrefixSummarizer::default().summarize(request)
    }
}

#[test]
fn only_the_next_turn_waits_for_background_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let small = ["window_chars=200", "min_flush_chars=0"].map(|text| text.parse().unwrap());
    let policy = Policy::default().with(&small).unwrap();
    let summarizer = Arc::new(BlockingSummarizer::default());
    let engine = open(folder.path(), policy, summarizer.clone(), Arc::new(FakeClock::at(start())));
    let id = begin(&engine);
    let long = "The gauge at the sill has to be read every morning before the first tide, whatever the weather. ";
    append_lines(&engine, id, &[(Role::User, long), (Role::Assistant, long)]);
    let chat = ScriptedChat::new([ScriptedReply::Say(long), ScriptedReply::Say("Noted.")]);
    let agent = Agent::new(
        engine.clone(),
        chat,
        AgentOptions { gate_timeout: Some(std::time::Duration::ZERO), ..settings() },
    )
    .unwrap();
    agent.ask(id, long).unwrap();
    assert!(
        !engine.gate(id).unwrap().is_clear(),
        "the summary of the window is still to be written"
    );
    summarizer.let_go();
    let reply = {
        let waiting_agent = Agent::new(
            engine.clone(),
            ScriptedChat::new([ScriptedReply::Say("Noted.")]),
            settings(),
        )
        .unwrap();
        waiting_agent.ask(id, "Is it written down?").unwrap()
    };
    assert!(!reply.context.receipt.gate.degraded, "the gate was waited for");
    drop(agent);
    assert_sound(&engine);
}
