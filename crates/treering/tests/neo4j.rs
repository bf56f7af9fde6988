//! The whole product on Neo4j, against a real server: the four queries of the source documents
//! give what the product's own commands give, and several programs share a database.
//! tools/test-neo4j starts the server.

#![allow(clippy::unwrap_used)]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use treering::{
    ConversationHandle, Entry, EntryKind, HitItem, Memory, NewMessage, NewToolCall, Options,
    Preset, Role, StaticEmbedder, StoreOptions, StoreUrl, ThreadName, Timestamp, ToolResult,
};
use treering_core::Json;
use treering_stores::{Neo4jCredentials, Neo4jStore, neo4j::BoltValue};

static DATABASE: Mutex<()> = Mutex::new(());

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; run tools/test-neo4j"))
}

fn url() -> String {
    variable("TREERING_TEST_NEO4J")
}

/// A connection of its own to the graph.
fn graph() -> Neo4jStore {
    let password = variable("TREERING_TEST_NEO4J_PASSWORD");
    let credentials = Neo4jCredentials { user: "neo4j".into(), password };
    Neo4jStore::open(url().parse().unwrap(), credentials).unwrap()
}

/// Opens the memory as another program would, with a home folder of its own.
fn open() -> (Memory, TempDir) {
    let home = tempfile::tempdir().unwrap();
    let store = StoreOptions { url: StoreUrl::new(url()).unwrap(), credentials: None };
    let options = Options { store, ..Options::default() };
    let policy = treering::Policy::from(Preset::Triggers);
    (Memory::builder(home.path()).options(options).policy(policy).open().unwrap(), home)
}

fn empty_graph() -> (Neo4jStore, MutexGuard<'static, ()>) {
    let guard = DATABASE.lock().unwrap_or_else(PoisonError::into_inner);
    let graph = graph();
    graph.cypher("MATCH (n) DETACH DELETE n", Vec::new()).unwrap();
    drop(graph);
    (self::graph(), guard)
}

const TOPICS: [&str; 6] = [
    "the tide gauge in the harbor reports the water level every ten minutes",
    "staging moved to port 7410 because the proxy needed the old one",
    "the bakery delivers bread to the lighthouse on Tuesdays",
    "migrations of the billing database run before each deployment",
    "the choir rehearses the requiem for the concert in November",
    "the parser of the import tool refuses files without a header",
];

/// Stores a turn with a tool call.
fn store_turn(chat: &ConversationHandle, number: u32) {
    let at = |part: i64| {
        Timestamp::from_micros(1_760_000_000_000_000 + i64::from(number) * 60_000_000 + part)
    };
    let topic = TOPICS[number as usize % TOPICS.len()];
    let said = |role, text: String, part| {
        Entry::message(ThreadName::main(), NewMessage::new(role, text, at(part)))
    };
    let result =
        ToolResult { result: Json::string("found it"), success: Some(true), duration_ms: Some(3) };
    let call = NewToolCall {
        name: "grep_files".into(),
        args: Json::new(r#"{"pattern": "port"}"#).unwrap(),
        outcome: Some(result),
        at: at(1),
        external_id: None,
    };
    let call = Entry { thread: ThreadName::main(), kind: EntryKind::ToolCall(call) };
    chat.append(vec![
        said(Role::User, format!("Question {number}: is it true that {topic}?"), 0),
        call,
        said(Role::Assistant, format!("Yes, decision {number} says that {topic}."), 2),
        Entry::turn_end(ThreadName::main()),
    ])
    .unwrap();
}

/// Waits until no job is left.
fn settle(graph: &Neo4jStore) {
    let started = Instant::now();
    loop {
        let left = graph.cypher("MATCH (j:TreeringJob) RETURN count(j)", Vec::new()).unwrap();
        if left == [[BoltValue::Int(0)]] {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "jobs are left: {left:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn property<'a>(node: &'a BoltValue, name: &str) -> &'a BoltValue {
    let BoltValue::Node(_, properties) = node else { panic!("no node: {node:?}") };
    properties.iter().find(|(key, _)| key == name).map_or(&BoltValue::Null, |(_, value)| value)
}

fn text(value: &BoltValue) -> &str {
    let BoltValue::Text(text) = value else { panic!("no text: {value:?}") };
    text
}

fn number(value: &BoltValue) -> f64 {
    match value {
        BoltValue::Int(number) => *number as f64,
        BoltValue::Float(number) => *number,
        other => panic!("no number: {other:?}"),
    }
}

const RECENT_TURNS: &str = "
MATCH (s:ConversationSession {sessionId: $sessionId})
MATCH (s)-[:HAS_TURN]->(t:ConversationTurn)
WITH t ORDER BY t.timestamp DESC
LIMIT 3
MATCH (t)-[:HAS_TOOL_CALL]->(tc:ToolCall)
RETURN t, collect(tc) as toolCalls
ORDER BY t.timestamp ASC";

/// `gds.similarity.cosine` is the cosine; `vector.similarity.cosine` maps it to 0 to 1.
const SIMILAR_TURNS: &str = "
MATCH (s:ConversationSession {sessionId: $sessionId})
MATCH (s)-[:HAS_TURN]->(t:ConversationTurn)
WITH t,
  2 * vector.similarity.cosine(t.embedding, $queryEmbedding) - 1 as score
WHERE score > 0.3
RETURN 'turn' as type, t, null as summary, score
ORDER BY score DESC
LIMIT 3";

const SIMILAR_SUMMARIES: &str = "
MATCH (s:ConversationSession {sessionId: $sessionId})
MATCH (s)-[:HAS_SUMMARY]->(sum:ConversationSummary)
WHERE sum.level >= 1
WITH sum,
  2 * vector.similarity.cosine(sum.embedding, $queryEmbedding) - 1 as score
WHERE score > 0.3
RETURN 'summary' as type, null as turn, sum as summary, score
ORDER BY score DESC
LIMIT 5";

const RAW_SIZE: &str = "
MATCH (s:ConversationSession {sessionId: $sessionId})
MATCH (s)-[:HAS_TURN]->(t:ConversationTurn)
WHERE NOT EXISTS {
  MATCH (s)-[:HAS_SUMMARY]->(sum:ConversationSummary {level: 1})
  MATCH (sum)-[:SUMMARIZES]->(t)
}
RETURN sum(t.charCount) as totalChars";

const UNCOVERED: &str = "
MATCH (s:ConversationSession {sessionId: $sessionId})
MATCH (s)-[:HAS_SUMMARY]->(sum1:ConversationSummary {level: 1})
WHERE NOT EXISTS {
  MATCH (s)-[:HAS_SUMMARY]->(sum2:ConversationSummary {level: 2})
  MATCH (sum2)-[:SUMMARIZES]->(sum1)
}
RETURN sum1
ORDER BY sum1.timestamp DESC
LIMIT $limit";

#[test]
fn the_queries_of_the_source_documents_give_what_the_product_gives() {
    let (graph, _guard) = empty_graph();
    let (memory, _home) = open();
    let chat = memory.conversation("support:42").unwrap();
    for number in 0..83 {
        store_turn(&chat, number);
    }
    settle(&graph);
    let id = chat.info().unwrap().id.to_string();
    let run = |query: &str, parameters: Vec<(&str, BoltValue)>| {
        let session = vec![("sessionId", BoltValue::Text(id.clone()))];
        graph.cypher(query, [session, parameters].concat()).unwrap()
    };

    let recent = chat.recent_turns(100_000, 3).unwrap();
    let rows = run(RECENT_TURNS, Vec::new());
    assert_eq!((rows.len(), recent.len()), (3, 3));
    for (row, turn) in rows.iter().zip(&recent) {
        assert_eq!(number(property(&row[0], "turnIndex")), f64::from(turn.turn.no.0));
        assert_eq!(text(property(&row[0], "userMessage")), turn.messages[0].body.text);
        assert_eq!(text(property(&row[0], "assistantMessage")), turn.messages[1].body.text);
        let BoltValue::List(calls) = &row[1] else { panic!() };
        assert_eq!(calls.len(), turn.tool_calls.len());
        assert_eq!(text(property(&calls[0], "toolArgs")), turn.tool_calls[0].call.args.as_str());
    }

    let raw = run(RAW_SIZE, Vec::new());
    assert_eq!(number(&raw[0][0]), chat.raw_history_chars().unwrap() as f64);
    assert!(chat.raw_history_chars().unwrap() > 0, "the last turns are not summarized");

    let uncovered = chat.uncovered_nodes(1, 10).unwrap();
    let rows = run(UNCOVERED, vec![("limit", BoltValue::Int(10))]);
    let ids: Vec<&str> = rows.iter().map(|row| text(property(&row[0], "uuid"))).collect();
    assert_eq!(ids, uncovered.iter().map(|node| node.id.as_str()).collect::<Vec<_>>());
    assert!(!ids.is_empty() && !chat.nodes(2, false).unwrap().is_empty());

    let question = "when does the choir rehearse the requiem";
    let embedder = StaticEmbedder::new();
    let vector = embedder.embed(question);
    let values = || vector.iter().map(|number| BoltValue::Float((*number).into())).collect();
    let embedding = || vec![("queryEmbedding", BoltValue::List(values()))];
    let cosine = |other: &[f32]| -> f64 {
        vector.iter().zip(other).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let mut turns = chat.turn_embeddings().unwrap();
    turns.sort_by(|a, b| cosine(&b.vector).total_cmp(&cosine(&a.vector)));
    let rows = run(SIMILAR_TURNS, embedding());
    assert_eq!(rows.len(), 3);
    for (row, expected) in rows.iter().zip(&turns) {
        assert!((number(&row[3]) - cosine(&expected.vector)).abs() < 1e-4);
        assert!(text(property(&row[1], "userMessage")).contains("choir"));
    }
    let by_hash = |row: &Vec<BoltValue>| text(property(&row[1], "embedding_hash")).to_owned();
    assert!(rows.iter().all(|row| turns.iter().any(|it| it.hash.to_string() == by_hash(row))));

    let hits = chat.search(question).semantic().summaries_only().limit(5).run().unwrap();
    let rows = run(SIMILAR_SUMMARIES, embedding());
    assert!(!rows.is_empty());
    for (row, hit) in rows.iter().zip(&hits.hits) {
        assert!((number(&row[3]) - f64::from(hit.score)).abs() < 0.02, "{row:?}");
        assert!(matches!(hit.item, HitItem::Node(_)));
    }
    assert!(memory.verify().unwrap().problems.is_empty());
}

/// Two programs with homes of their own: what one stores, the other finds; jobs run once; edits and
/// forgets reach the graph.
#[test]
fn several_programs_share_a_database() {
    let (graph, _guard) = empty_graph();
    let ((first, _home), (second, _other_home)) = (open(), open());
    let chat = first.conversation("shared").unwrap();
    let same = second.conversation("shared").unwrap();
    std::thread::scope(|scope| {
        for (chat, start) in [(&chat, 0), (&same, 100)] {
            scope.spawn(move || (start..start + 15).for_each(|number| store_turn(chat, number)));
        }
    });
    settle(&graph);
    let info = chat.info().unwrap();
    assert_eq!((info.totals.turns, info.totals.messages, info.totals.tool_calls), (30, 60, 30));
    assert_eq!(chat.messages().unwrap(), same.messages().unwrap());
    let hits = second.search("choir requiem concert").limit(3).run().unwrap();
    assert!(hits.hits.iter().any(|hit| hit.snippet.to_string().contains("choir")));
    let context = second.conversation("shared").unwrap().context().query("staging port").build();
    assert!(context.unwrap().markdown().contains("7410"));
    let unique = "MATCH (n:ConversationTurn) RETURN count(n), count(DISTINCT n.turnIndex),
        sum(CASE WHEN n.embedding IS NULL THEN 1 ELSE 0 END)";
    let [turns, distinct, plain] =
        graph.cypher(unique, Vec::new()).unwrap().remove(0).try_into().unwrap();
    assert_eq!(
        (turns, distinct, plain),
        (BoltValue::Int(30), BoltValue::Int(30), BoltValue::Int(0))
    );
    for memory in [&first, &second] {
        assert!(memory.verify().unwrap().problems.is_empty());
    }
}
