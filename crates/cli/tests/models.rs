//! Chat, embeddings and summaries with a real language model on this machine. `tools/test-models`
//! starts its server and passes the address in `TREERING_MODEL_SERVER`.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use treering::{
    Agent, AgentOptions, AppendTarget, EmbedOptions, Engine, Entry, EntryBatch, JobScope, Models,
    NewConversation, NewMessage, Options, ProviderOptions, Query, ReplayDetection, Role,
    SummarizeOptions, ThreadName, Timestamp, WorkOptions, Worker,
};
use treering_core::acceptance::MIN_GROUNDED;
use treering_core::chat::{ChatMessage, ChatRequest, FinishReason};
use treering_core::ports::{ConversationFilter, JobEventFilter};
use treering_core::{ConversationState, Node};

const MODEL: &str = "smollm2";

fn providers() -> ProviderOptions {
    let mut options = ProviderOptions::default();
    let server = options.providers.get_mut("compatible").unwrap();
    server.base_url = std::env::var("TREERING_MODEL_SERVER").expect("tools/test-models sets it");
    server.timeout = Duration::from_secs(300);
    options
}

fn question() -> ChatRequest {
    let messages = vec![
        ChatMessage::new(Role::System, "You answer in one short sentence."),
        ChatMessage::new(Role::User, "Which animal says meow?"),
    ];
    ChatRequest { max_tokens: Some(24), temperature: Some(0.0), ..ChatRequest::new(messages) }
}

#[test]
fn chat_answers_at_once_and_streams() {
    let chat = Models::new(providers()).chat("compatible", MODEL).unwrap();
    let reply = chat.complete(&question()).unwrap();
    assert!(reply.text.chars().any(char::is_alphabetic), "{reply:?}");
    assert!(reply.usage.tokens_in > 10 && (1..=24).contains(&reply.usage.tokens_out), "{reply:?}");
    assert!(matches!(reply.finish_reason, FinishReason::Complete | FinishReason::Truncated));
    let mut received = Vec::new();
    let streamed = chat.stream(&question(), &mut |piece| received.push(piece.to_owned())).unwrap();
    assert_eq!(received.concat(), streamed.text);
    assert!(received.len() > 1, "{received:?}");
    assert!(streamed.usage.tokens_out > 0, "{streamed:?}");
}

#[test]
fn embeddings_reflect_meaning() {
    let embedder = Models::new(providers()).embedder("compatible", MODEL, None).unwrap();
    let texts =
        ["The cat sat on the mat.", "", "A cat was sitting on a mat.", "fn main() { panic!() }"];
    let vectors = embedder.embed(&texts).unwrap();
    assert_eq!(embedder.dims(), 576);
    let cosine =
        |a: usize, b: usize| vectors[a].iter().zip(&vectors[b]).map(|(x, y)| x * y).sum::<f32>();
    for (at, length) in [(0, 1.0), (1, 0.0), (2, 1.0), (3, 1.0)] {
        assert!((cosine(at, at) - length).abs() < 1e-4, "{at}");
    }
    assert!(cosine(0, 2) > cosine(0, 3), "{} against {}", cosine(0, 2), cosine(0, 3));
}

/// The agent loop: the model is given the earlier turns, and both sides are stored.
#[test]
fn the_agent_loop_remembers_earlier_turns() {
    let home = tempfile::tempdir().unwrap();
    let engine = treering::open_engine(home.path()).unwrap();
    let chat = Models::new(providers()).chat("compatible", MODEL).unwrap();
    let settings = AgentOptions {
        instructions: Some("You answer in one short sentence.".into()),
        budget: Some(600),
        max_tokens: Some(24),
        temperature: Some(0.0),
        ..AgentOptions::default()
    };
    let agent = Agent::new(engine.clone(), chat, settings).unwrap();
    let target = AppendTarget::FindOrCreate(NewConversation::default());
    let incoming =
        EntryBatch { target, entries: Vec::new(), replay_detection: ReplayDetection::None };
    let id = engine.append(incoming).unwrap().conversation.id;
    agent.ask(id, "My boat is called Argoat and lies at berth 12.").unwrap();
    let mut received = String::new();
    let reply = agent
        .ask_streaming(id, "Where does my boat Argoat lie?", &mut |piece| received.push_str(piece))
        .unwrap();
    assert_eq!(received, reply.text);
    assert!(reply.context.markdown().contains("lies at berth 12"), "{}", reply.context.markdown());
    assert!(reply.usage.tokens_in > 60, "{:?}", reply.usage);
    println!("it remembers: {}", reply.text);
    assert_eq!(engine.find(&id.to_string()).unwrap().totals.messages, 4);
}

/// A fixed time, so that the model is given the same prompt in every run.
fn then() -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000)
}

fn open(home: &Path, embed: EmbedOptions) -> Engine {
    let options = Options {
        summarize: SummarizeOptions {
            provider: "compatible".into(),
            model: MODEL.into(),
            temperature: 0.0,
            ..SummarizeOptions::default()
        },
        embed,
        providers: providers(),
        work: WorkOptions { batch_delay_ms: 0, ..WorkOptions::default() },
        ..Options::default()
    };
    treering::open_engine_with(home, options).unwrap()
}

/// A conversation is captured, embedded, closed, summarized by the model or its fallback, and
/// found.
#[test]
fn a_conversation_is_captured_summarized_and_found() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(
        home.path(),
        EmbedOptions { model: format!("compatible/{MODEL}"), ..EmbedOptions::default() },
    );
    let messages = [
        (
            Role::User,
            "Which port does the tide gauge of Kerzavel use? The old one, 7400, is taken by the harbour office.",
        ),
        (
            Role::Assistant,
            "We moved the gauge to port 7410. The change is in src/tide.rs, and it reads every 20 minutes.",
        ),
        (
            Role::User,
            "Good. Ana decided to keep 3 months of readings. The key is sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8x.",
        ),
        (
            Role::Assistant,
            "Noted: 3 months of readings are kept, about 2 GB. I will tell the harbour office on Monday.",
        ),
    ];
    let message = |(role, text): (Role, &str)| {
        Entry::message(ThreadName::main(), NewMessage::new(role, text, then()))
    };
    let entries = messages.map(message).into();
    let target = AppendTarget::FindOrCreate(NewConversation::default());
    let id = engine
        .append(EntryBatch { target, entries, replay_detection: ReplayDetection::None })
        .unwrap()
        .conversation
        .id;
    engine.set_state(id, ConversationState::Closed).unwrap();
    let failed = std::sync::Mutex::new(Vec::new());
    let worker = Worker::new(engine.clone()).unwrap();
    let report = worker
        .run(&JobScope::default(), &|job, outcome| {
            if let treering_engine::JobOutcome::Failed(error) = outcome {
                failed.lock().unwrap().push(format!("{}: {error}", job.kind));
            }
        })
        .unwrap();
    assert_eq!(*failed.lock().unwrap(), Vec::<String>::new());
    assert!(report.done >= 4, "{report:?}");

    let nodes = engine.tree(id).unwrap().nodes;
    assert_eq!(nodes.len(), 1);
    let log = engine
        .job_events(&JobEventFilter { conversation: Some(id), job_prefix: None, limit: 99 })
        .unwrap();
    let written = log.iter().find(|line| line.text.contains("done by")).unwrap();
    println!("{}\n{}", nodes[0].content.overview, written.text);
    let (by, model) = (nodes[0].provenance.by.as_str(), format!("compatible/{MODEL}"));
    assert!(by == model || by == format!("extractive for {model}"), "{by}");
    let spent = engine.spend(Some(id)).unwrap().account.conversation;
    println!("{spent}");
    assert!(
        spent.calls >= 3 && spent.tokens_in > 100 && spent.tokens_out > 10,
        "summary and vectors: {spent}"
    );
    assert_eq!(spent.unpriced, spent.calls, "nobody knows what it costs");
    let query = Query { text: "tide gauge port".into(), limit: 5, ..Query::default() };
    let answer = engine.search(&query).unwrap();
    assert!(
        !answer.hits.is_empty() && answer.lexical_only_reason.is_none(),
        "{:?}",
        answer.lexical_only_reason
    );
    assert!(engine.verify(|_| ()).unwrap().problems.is_empty());
}

/// A small model fails now and then, and then the fallback writes. Its summaries of a few lines
/// are good enough to keep.
#[test]
fn summaries_of_the_model_are_accepted() {
    let home = tempfile::tempdir().unwrap();
    let engine = open(home.path(), EmbedOptions::default());
    let conversations = [
        [
            "The bakery opens too late for me. Where else can I get bread?",
            "The market in the old town sells bread from seven in the morning.",
        ],
        [
            "When does the ferry to Groix leave today?",
            "It leaves Lorient at 14:30 and is there at 15:20.",
        ],
        [
            "Ana wants to paint the boat. Which colour?",
            "Dark blue hides the scratches. Two coats are enough.",
        ],
    ];
    for turn in conversations {
        let message =
            |(role, text)| Entry::message(ThreadName::main(), NewMessage::new(role, text, then()));
        let entries = [Role::User, Role::Assistant].into_iter().zip(turn).map(message).collect();
        let target = AppendTarget::FindOrCreate(NewConversation::default());
        let stored = engine
            .append(EntryBatch { target, entries, replay_detection: ReplayDetection::None })
            .unwrap();
        engine.set_state(stored.conversation.id, ConversationState::Closed).unwrap();
    }
    Worker::new(engine.clone()).unwrap().run(&JobScope::default(), &|_, _| {}).unwrap();
    let sessions = engine.listed_conversations(&ConversationFilter::all(9)).unwrap();
    let nodes =
        sessions.iter().flat_map(|session| engine.tree(session.conversation.id).unwrap().nodes);
    let nodes: Vec<Node> = nodes.collect();
    for line in engine
        .job_events(&JobEventFilter { conversation: None, job_prefix: None, limit: 99 })
        .unwrap()
    {
        println!("{}", line.text);
    }
    let by_model = nodes.iter().filter(|node| node.provenance.by == format!("compatible/{MODEL}"));
    let by_model: Vec<&Node> =
        by_model.inspect(|node| println!("{}", node.content.overview)).collect();
    assert!(nodes.len() == 3 && !by_model.is_empty(), "{} of {}", by_model.len(), nodes.len());
    assert!(by_model.iter().all(|node| node.grounded >= MIN_GROUNDED || node.invented.len() == 1));
}
