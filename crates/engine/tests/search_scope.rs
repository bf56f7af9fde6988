//! A search leaves out items on request, and shows the items of one turn as one hit.

#![allow(clippy::unwrap_used)]

use crate::common::{engine_with_defaults, start};
use treering_core::{
    ConversationId, ConversationState, Entry, EntryKind, Json, MessageIdx, NewMessage, NewToolCall,
    Role, ThreadName, ToolResult,
};
use treering_engine::{
    AppendTarget, ContextRequest, Engine, EntryBatch, Exclusion, Hit, HitItem, NewConversation,
    Query, ReplayDetection,
};
use treering_testkit::generate::external_id;

/// Appends turns of a question, a tool call and an answer.
fn append(engine: &Engine, key: &str, turns: &[[&str; 3]]) -> ConversationId {
    let target = AppendTarget::FindOrCreate(NewConversation {
        external_id: Some(external_id(key)),
        ..NewConversation::default()
    });
    let message = |role, text: &&str| {
        Entry::message(ThreadName::main(), NewMessage::new(role, *text, start()))
    };
    let call = |text: &&str| {
        let result = ToolResult { result: Json::string(text), success: None, duration_ms: None };
        let call = NewToolCall {
            name: "read".into(),
            args: Json::empty_object(),
            outcome: Some(result),
            at: start(),
            external_id: None,
        };
        Entry::from(EntryKind::ToolCall(call))
    };
    let entries = turns.iter().flat_map(|[user, tool, answer]| {
        let tool = Some(tool).filter(|tool| !tool.is_empty()).map(call);
        let answer = Some(answer).filter(|text| !text.is_empty());
        let answer = answer.map(|answer| message(Role::Assistant, answer));
        let turn = [Some(message(Role::User, user)), tool, answer];
        turn.into_iter().flatten().chain([Entry::turn_end(ThreadName::main())])
    });
    let (entries, replay_detection) = (entries.collect(), ReplayDetection::None);
    engine.append(EntryBatch { target, entries, replay_detection }).unwrap().conversation.id
}

fn query(text: &str) -> Query {
    Query { text: text.to_owned(), limit: 10, min_score: Some(0.0), ..Query::default() }
}

fn search(engine: &Engine, query: &Query) -> Vec<Hit> {
    engine.search(query).unwrap().hits
}

/// The position of a message, or the name of a tool.
fn name(hit: &Hit) -> String {
    match &hit.item {
        HitItem::Message(message) => message.idx.to_string(),
        HitItem::ToolCall(call) => call.call.name.clone(),
        HitItem::Node(node) => node.id.to_string(),
    }
}

fn conversations(hits: &[Hit]) -> Vec<ConversationId> {
    let mut ids: Vec<_> = hits.iter().map(|hit| hit.conversation).collect();
    ids.sort();
    ids.dedup();
    ids
}

#[test]
fn archived_conversations_are_left_out_unless_asked_for() {
    let (engine, _folder) = engine_with_defaults();
    let turn = [["How deep is the sill?", "", "The sill lies at 2.35 metres."]];
    let kept = append(&engine, "kept", &turn);
    let archived = append(&engine, "archived", &turn);
    engine.set_state(archived, ConversationState::Archived).unwrap();
    let found = |query: Query| conversations(&search(&engine, &query));
    let mut both = vec![kept, archived];
    both.sort();
    assert_eq!(found(query("sill")), [kept]);
    assert_eq!(found(Query { semantic: true, ..query("sill") }), [kept]);
    assert_eq!(found(Query { archived: true, ..query("sill") }), both);
    let states = vec![ConversationState::Archived];
    assert_eq!(found(Query { states, ..query("sill") }), [archived]);
    let named = Query { conversations: vec![archived], ..query("sill") };
    assert_eq!(found(named), [archived]);
    let query = Some("sill".to_owned());
    let context =
        engine.context(&ContextRequest { query, ..ContextRequest::new(archived) }).unwrap();
    assert!(context.markdown().contains("2.35"), "a context of it still works");
    engine.set_state(archived, ConversationState::Open).unwrap();
    assert_eq!(found(Query { limit: 20, ..self::query("sill") }), both);
}

#[test]
fn a_search_leaves_out_what_it_is_told_to() {
    let (engine, _folder) = engine_with_defaults();
    let turns = [
        ["How deep is the sill?", "sill: 2.35", "The sill lies at 2.35 metres."],
        ["Is the sill dry?", "sill: wet", "No, the sill is wet."],
    ];
    let (one, two) = (append(&engine, "one", &turns), append(&engine, "two", &turns));
    let found = |exclude: Vec<Exclusion>| search(&engine, &Query { exclude, ..query("sill") });
    assert_eq!(found(Vec::new()).len(), 10, "six items in each, at most ten");
    assert_eq!(conversations(&found(vec![Exclusion::Conversation(one)])), [two]);
    let both = vec![Exclusion::Conversation(one), Exclusion::Conversation(two)];
    assert!(found(both).is_empty());
    let no_tools = found(vec![Exclusion::Role(Role::Tool), Exclusion::Conversation(two)]);
    let mut names: Vec<String> = no_tools.iter().map(name).collect();
    names.sort();
    assert_eq!(names, ["#0", "#1", "#2", "#3"]);
    let range = Exclusion::Messages(one, MessageIdx(1), MessageIdx(2));
    let mut names: Vec<String> =
        found(vec![range, Exclusion::Conversation(two)]).iter().map(name).collect();
    names.sort();
    assert_eq!(names, ["#0", "#3", "read"], "the call before message 1 went with it");
}

#[test]
fn the_items_of_a_turn_are_one_hit() {
    let (engine, _folder) = engine_with_defaults();
    let numbers: Vec<String> = (0..12).map(|number| format!("berth{number}")).collect();
    let texts: Vec<[String; 3]> = numbers
        .iter()
        .map(|berth| {
            [format!("Sill at {berth}?"), format!("sill {berth}"), format!("The sill at {berth}.")]
        })
        .collect();
    let turns: Vec<[&str; 3]> =
        texts.iter().map(|[a, b, c]| [a.as_str(), b.as_str(), c.as_str()]).collect();
    append(&engine, "one", &turns);
    let hits = search(&engine, &Query { by_turn: true, ..query("sill") });
    assert_eq!(hits.len(), 10);
    let turn = |hit: &Hit| match &hit.item {
        HitItem::Message(message) => message.turn,
        HitItem::ToolCall(call) => call.turn,
        HitItem::Node(_) => unreachable!(),
    };
    let mut turns: Vec<_> = hits.iter().map(turn).collect();
    turns.sort();
    turns.dedup();
    assert_eq!(turns.len(), 10, "ten different turns");
    for hit in &hits {
        assert!(hit.same_turn.iter().all(|other| turn(other) == turn(hit)));
        assert!(hit.same_turn.iter().all(|other| other.score <= hit.score));
        assert!(!hit.snippet.text.is_empty());
    }
    assert!(hits[0].same_turn.len() == 2, "{:?}", hits[0]);
    let items = search(&engine, &query("sill"));
    assert_eq!(name(&items[0]), name(&hits[0]), "the best hit is the same");
    assert!(items.iter().all(|hit| hit.same_turn.is_empty()));
}

/// One turn with more matching items than a page has: the others still fill the page.
#[test]
fn a_turn_with_many_items_does_not_fill_the_page() {
    let (engine, _folder) = engine_with_defaults();
    let target = AppendTarget::FindOrCreate(NewConversation {
        external_id: Some(external_id("long")),
        ..NewConversation::default()
    });
    let message = |text: String| {
        Entry::message(ThreadName::main(), NewMessage::new(Role::Assistant, text, start()))
    };
    let mut entries =
        vec![Entry::message(ThreadName::main(), NewMessage::new(Role::User, "sill sill", start()))];
    entries.extend((0..300).map(|number| message(format!("sill {number}"))));
    entries.push(Entry::turn_end(ThreadName::main()));
    engine.append(EntryBatch { target, entries, replay_detection: ReplayDetection::None }).unwrap();
    let far = "a word about the sill among many other words of no interest to anyone here";
    append(&engine, "short", &[[far, "", ""], [far, "", ""], [far, "", ""]]);
    let hits = search(&engine, &Query { by_turn: true, limit: 4, ..query("sill") });
    assert_eq!(hits.len(), 4);
}

/// A captured question does not stand before its answer.
#[test]
fn a_question_is_not_its_own_answer() {
    let (engine, _folder) = engine_with_defaults();
    let question = "Which port does the staging server use?";
    append(&engine, "one", &[[question, "", "Port 7410 for the staging server, since March."]]);
    append(&engine, "two", &[["The staging server moved to port 7410 in March.", "", "Noted."]]);
    append(&engine, "three", &[[question, "", ""]]);
    let asked = "which port does the staging server use";
    let hits = search(&engine, &Query { by_turn: true, ..query(asked) });
    let texts: Vec<&str> = hits
        .iter()
        .map(|hit| match &hit.item {
            HitItem::Message(message) => message.body.text.as_str(),
            _ => unreachable!(),
        })
        .collect();
    assert!(texts[0].contains("7410") && texts[1].contains("7410"), "{texts:?}");
    assert_eq!(*texts.last().unwrap(), question, "without an answer it comes last");
    let answered = hits.iter().find(|hit| !hit.same_turn.is_empty()).unwrap();
    assert_eq!(name(&answered.same_turn[0]), "#0", "the question is named with its answer");
    append(&engine, "four", &[["harbour pilot", "", "The harbour pilot is Ana."]]);
    let keywords = search(&engine, &Query { by_turn: true, limit: 1, ..query("harbour pilot") });
    assert_eq!(name(&keywords[0]), "#0", "keywords are no question");
    let items = search(&engine, &query(asked));
    assert_eq!(name(&items[0]), "#0", "without turns the ranking stays as it is");
}
