//! The contract of a store. Every store passes this suite; a new one passes it or is not done.
//!
//! A store's tests call [`store_contract!`](crate::store_contract) with a function that gives a
//! fresh store and whatever must outlive it.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use treering_core::conversation::{Fork, Naming, Thread, Totals};
use treering_core::growth::Growth;
use treering_core::ports::{ConversationFilter, Known, Span};
use treering_core::windowing::Piece;
use treering_core::{
    Commit, Conversation, ConversationId, ConversationKey, ConversationState, Invalid, Json, Message,
    MessageIdx, NewMessage, NewToolCall, Policy, Role, Store, StoreError, TenantId, ThreadName, Timestamp,
    ToolCall, ToolResult, Turn, TurnNo, Write,
};

use crate::generate::{draw, external};

/// Makes one test of every rule of the contract.
#[macro_export]
macro_rules! store_contract {
    ($fresh:expr) => {
        $crate::store_contract!($fresh, contract,
            what_is_put_comes_back,
            any_text_comes_back,
            a_refused_plan_writes_nothing,
            a_failing_write_takes_the_whole_commit_with_it,
            a_panicking_plan_harms_nobody,
            tenants_do_not_see_each_other,
            listing_is_newest_first_and_pages,
            listing_follows_activity,
            ids_are_found_by_their_first_digits,
            external_ids_are_known,
            a_tool_call_gets_its_result_once,
            turns_are_made_by_what_is_in_them,
            a_reader_sees_one_moment,
            commits_are_seen_at_once,
            a_sound_store_has_no_problems,
        );
        $crate::writers_contract!($fresh);
        $crate::tree_contract!($fresh);
        $crate::follow_contract!($fresh);
        $crate::spend_contract!($fresh);
    };
    ($fresh:expr, $part:ident, $($rule:ident),* $(,)?) => {
        $(
            #[test]
            fn $rule() {
                let (store, _guard) = $fresh;
                $crate::$part::$rule(&store);
            }
        )*
    };
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + second * 1_000_000)
}

pub(crate) fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

pub fn key(number: u8) -> ConversationKey {
    ConversationKey { tenant: TenantId::default(), id: ConversationId::from_bytes([number; 16]) }
}

pub fn conversation(number: u8) -> Conversation {
    Conversation {
        id: ConversationId::from_bytes([number; 16]),
        slug: format!("slug-{number}"),
        title: Some(format!("Title {number}")),
        naming: Naming::Source,
        participants: vec!["Ana".into(), "Juno".into()],
        cwd: Some("/home/ana".into()),
        project_path: None,
        started_at: at(0),
        last_activity: at(i64::from(number)),
        state: ConversationState::Open,
        external_id: Some(external(&format!("source:{number}"))),
        totals: Totals { messages: 1, turns: 1, tool_calls: 0, chars: 5, tokens: 2 },
        threads: vec![Thread { name: ThreadName::main(), fork: None, last_turn: Some(turn(0, 0, 1)) }],
        policy: vec!["window_chars=4000".parse().unwrap(), "length@2=3-4 sentences".parse().unwrap()],
        growth: growth(),
    }
}

/// A tree that has begun to grow.
fn growth() -> Growth {
    let mut growth = Growth { sealed: vec![3, 1], offered: vec![2], closings: vec![7], ..Growth::default() };
    let said = message(0, 0, Role::User, "hello");
    growth.push(0, &ThreadName::main(), &Piece::from(&said), &Policy::default());
    growth
}

fn turn(no: u32, from: u32, until: u32) -> Turn {
    Turn {
        no: TurnNo(no),
        thread: ThreadName::main(),
        from: MessageIdx(from),
        until: MessageIdx(until),
        messages: until - from,
        tool_calls: 0,
        answered: false,
        started_at: at(0),
        ended_at: at(0),
    }
}

pub(crate) fn message(idx: u32, turn: u32, role: Role, text: &str) -> Message {
    let mut said = NewMessage::new(role, text, at(i64::from(idx)));
    said.author = Some("Ana".into());
    said.external_id = Some(external(&format!("m{idx}")));
    said.parts = Some(Json::new(r#"[{"a":1.0,"b":"\ud83d"}]"#).unwrap());
    Message {
        idx: MessageIdx(idx),
        turn: TurnNo(turn),
        turns: turn + 1,
        thread: ThreadName::main(),
        chars: treering_core::text::chars(text),
        tokens: 2,
        hash: said.hash(),
        said,
    }
}

pub(crate) fn tool_call(turn: u32, order: u32, outcome: Option<ToolResult>) -> ToolCall {
    ToolCall {
        turn: TurnNo(turn),
        thread: ThreadName::main(),
        order,
        before: MessageIdx(1),
        call: NewToolCall {
            name: "shell".into(),
            args: Json::new(r#"{"cmd": "ls"}"#).unwrap(),
            outcome,
            at: at(9),
            external_id: Some(external(&format!("t{turn}-{order}"))),
        },
    }
}

pub(crate) fn commit(store: &dyn Store, writes: Vec<Write>) -> Result<(), StoreError> {
    commit_for(store, TenantId::default(), writes)
}

pub(crate) fn commit_for(store: &dyn Store, tenant: TenantId, writes: Vec<Write>) -> Result<(), StoreError> {
    let commit = Commit { tenant, writes };
    store.commit(Box::new(move |_| Ok(commit.clone())))
}

/// A conversation with one message.
pub fn put(store: &dyn Store, number: u8) {
    let it = conversation(number);
    let writes = vec![
        Write::PutConversation(it.clone()),
        Write::AddMessage(it.id, message(0, 0, Role::User, "hello")),
    ];
    commit(store, writes).unwrap();
}

pub(crate) fn everything<T>(from: T) -> Span<T> {
    Span::starting(from, usize::MAX)
}

pub fn what_is_put_comes_back(store: &dyn Store) {
    let mut it = conversation(1);
    let fork = Fork { parent: ThreadName::main(), after: Some(MessageIdx(0)) };
    let idea = ThreadName::new("idea: 2").unwrap();
    it.threads.push(Thread { name: idea.clone(), fork: Some(fork), last_turn: None });
    let mut other = message(1, 1, Role::Assistant, "there");
    other.thread = idea;
    let call =
        tool_call(0, 0, Some(ToolResult { result: Json::string("ok"), success: None, duration_ms: None }));
    let messages = [message(0, 0, Role::User, "hello"), other];
    let writes = [
        vec![Write::PutConversation(it.clone())],
        messages.iter().map(|message| Write::AddMessage(it.id, message.clone())).collect(),
        vec![Write::AddToolCall(it.id, call.clone())],
    ];
    commit(store, writes.concat()).unwrap();
    let reader = store.reader().unwrap();
    assert_eq!(reader.conversation(&key(1)).unwrap(), Some(it.clone()));
    assert_eq!(reader.conversation_by_slug(&TenantId::default(), "slug-1").unwrap(), Some(it.clone()));
    let by_external = reader.conversation_by_external_id(&TenantId::default(), &external("source:1"));
    assert_eq!(by_external.unwrap(), Some(it.clone()));
    assert_eq!(reader.messages(&key(1), everything(MessageIdx(0))).unwrap(), messages);
    assert_eq!(reader.messages(&key(1), Span::between(MessageIdx(1), MessageIdx(2))).unwrap(), messages[1..]);
    assert_eq!(reader.messages(&key(1), Span::starting(MessageIdx(0), 1)).unwrap(), messages[..1]);
    assert_eq!(reader.tool_calls(&key(1), everything(TurnNo(0))).unwrap(), [call]);
    assert_eq!(reader.totals(&TenantId::default()).unwrap(), (1, it.totals));
    drop(reader);
    it.slug = "renamed".into();
    it.state = ConversationState::Archived;
    it.cwd = None;
    commit(store, vec![Write::PutConversation(it.clone())]).unwrap();
    let reader = store.reader().unwrap();
    assert_eq!(reader.conversation(&key(1)).unwrap(), Some(it));
    assert_eq!(reader.conversation_by_slug(&TenantId::default(), "slug-1").unwrap(), None);
}

pub fn any_text_comes_back(store: &dyn Store) {
    let texts = [
        "\0",
        "a\0b",
        "",
        "🌊",
        "مرحبا\u{202e}",
        "\u{feff}",
        "\r\n\t\u{7f}",
        "e\u{301}",
        "\u{10ffff}",
        "'; DROP TABLE messages; --",
        "{{}} $1 ?1 %s \\",
    ];
    let mut it = conversation(1);
    it.totals.messages = texts.len() as u32 + 1;
    let mut writes = vec![Write::PutConversation(it.clone())];
    for (idx, text) in texts.iter().enumerate() {
        writes.push(Write::AddMessage(it.id, message(idx as u32, 0, Role::User, text)));
    }
    let large = "tide 潮 ".repeat(400_000);
    writes.push(Write::AddMessage(it.id, message(texts.len() as u32, 0, Role::Tool, &large)));
    commit(store, writes).unwrap();
    let stored = store.reader().unwrap().messages(&key(1), everything(MessageIdx(0))).unwrap();
    let said: Vec<&str> = stored.iter().map(|message| message.said.text.as_str()).collect();
    assert_eq!(said[..texts.len()], texts);
    assert_eq!(said[texts.len()], large);
    assert!(stored.iter().all(|message| message.hash == message.said.hash()));
}

pub fn a_refused_plan_writes_nothing(store: &dyn Store) {
    put(store, 1);
    let refused = store.commit(Box::new(|_| Err(Invalid::new("entry", "no").into())));
    assert_eq!(refused, Err(StoreError::Refused(Invalid::new("entry", "no"))));
    assert_eq!(store.reader().unwrap().totals(&TenantId::default()).unwrap().0, 1);
}

pub fn a_failing_write_takes_the_whole_commit_with_it(store: &dyn Store) {
    put(store, 1);
    let id = conversation(1).id;
    let taken = vec![
        Write::AddMessage(id, message(1, 0, Role::Assistant, "new")),
        Write::AddMessage(id, message(0, 0, Role::User, "the place is taken")),
    ];
    commit(store, taken).unwrap_err();
    let orphan = ConversationId::from_bytes([77; 16]);
    let orphaned = vec![
        Write::AddMessage(id, message(1, 0, Role::Assistant, "new")),
        Write::AddMessage(orphan, message(0, 0, Role::User, "of no conversation")),
    ];
    commit(store, orphaned).unwrap_err();
    assert_eq!(store.reader().unwrap().messages(&key(1), everything(MessageIdx(0))).unwrap().len(), 1);
}

pub fn a_panicking_plan_harms_nobody(store: &dyn Store) {
    store.commit(Box::new(|_| panic!("a bug in a plan"))).unwrap_err();
    put(store, 1);
    assert_eq!(store.reader().unwrap().totals(&TenantId::default()).unwrap().0, 1);
}

pub fn tenants_do_not_see_each_other(store: &dyn Store) {
    let it = conversation(1);
    for name in ["a", "b"] {
        let text = format!("of {name}");
        let writes = vec![
            Write::PutConversation(it.clone()),
            Write::AddMessage(it.id, message(0, 0, Role::User, &text)),
        ];
        commit_for(store, tenant(name), writes).unwrap();
    }
    let reader = store.reader().unwrap();
    assert_eq!(reader.tenants().unwrap(), [tenant("a"), tenant("b")]);
    for name in ["a", "b"] {
        let key = ConversationKey { tenant: tenant(name), id: it.id };
        let messages = reader.messages(&key, everything(MessageIdx(0))).unwrap();
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].said.text, format!("of {name}"));
        assert_eq!(reader.totals(&tenant(name)).unwrap().0, 1);
    }
    let stranger = tenant("c");
    let nothing = ConversationKey { tenant: stranger.clone(), id: it.id };
    assert_eq!(reader.conversation(&nothing).unwrap(), None);
    assert_eq!(reader.conversation_by_slug(&stranger, "slug-1").unwrap(), None);
    assert_eq!(reader.conversation_by_external_id(&stranger, &external("source:1")).unwrap(), None);
    assert!(reader.conversations(&stranger, &ConversationFilter::all(9)).unwrap().is_empty());
    assert!(reader.conversations_by_id_prefix(&stranger, "0101", 9).unwrap().is_empty());
    assert!(reader.messages(&nothing, everything(MessageIdx(0))).unwrap().is_empty());
    assert_eq!(reader.holders(&stranger, &[&external("m0")]).unwrap(), [None]);
    assert_eq!(reader.holders(&tenant("a"), &[&external("m0")]).unwrap(), [Some(it.id)]);
}

pub fn listing_is_newest_first_and_pages(store: &dyn Store) {
    for number in [3, 1, 5, 2, 4] {
        put(store, number);
    }
    // Two of the same moment, one of them archived and elsewhere.
    let mut twin = conversation(6);
    twin.last_activity = at(5);
    twin.state = ConversationState::Archived;
    twin.cwd = Some("/elsewhere".into());
    commit(store, vec![Write::PutConversation(twin)]).unwrap();
    let reader = store.reader().unwrap();
    let list = |filter: &ConversationFilter| -> Vec<u8> {
        let page = reader.conversations(&TenantId::default(), filter).unwrap();
        page.iter().map(|conversation| conversation.id.as_bytes()[0]).collect()
    };
    assert_eq!(list(&ConversationFilter::all(10)), [5, 6, 4, 3, 2, 1]);
    let mut filter = ConversationFilter::all(2);
    let mut seen = Vec::new();
    loop {
        let page = reader.conversations(&TenantId::default(), &filter).unwrap();
        seen.extend(page.iter().map(|conversation| conversation.id.as_bytes()[0]));
        let Some(last) = page.last() else { break };
        filter.after = Some((last.last_activity, last.id));
    }
    assert_eq!(seen, [5, 6, 4, 3, 2, 1]);
    let open = ConversationFilter { states: vec![ConversationState::Open], ..ConversationFilter::all(10) };
    assert_eq!(list(&open), [5, 4, 3, 2, 1]);
    let there = ConversationFilter { cwd: Some("/elsewhere".into()), ..ConversationFilter::all(10) };
    assert_eq!(list(&there), [6]);
}

/// Conversations whose last activity goes forth and back, by moments and by years, also to before 1970.
pub fn listing_follows_activity(store: &dyn Store) {
    const HOUR: i64 = 3_600_000_000;
    let mut state = 7_u64;
    let mut draw = |below| i64::from(draw(&mut state, below));
    let mut all: Vec<Conversation> = (0..40).map(conversation).collect();
    for round in 0..300 {
        let it = &mut all[draw(40) as usize];
        // About the beginning of an hour that it may share with others.
        let micros = (draw(9) - 4) * HOUR + draw(5) - 2;
        it.last_activity = Timestamp::from_micros(if draw(9) == 0 { micros * 40_000 } else { micros });
        it.state = if draw(4) == 0 { ConversationState::Archived } else { ConversationState::Open };
        commit(store, vec![Write::PutConversation(it.clone())]).unwrap();
        if round % 20 != 19 {
            continue;
        }
        let reader = store.reader().unwrap();
        let listed =
            reader.conversations(&TenantId::default(), &ConversationFilter::all(usize::MAX)).unwrap();
        let mut expected: Vec<&Conversation> = listed.iter().collect();
        expected.sort_by_key(|it| (std::cmp::Reverse(it.last_activity), it.id));
        assert!(listed.iter().eq(expected), "after {round} rounds");
        assert!(listed.iter().all(|it| all.contains(it)), "after {round} rounds");
        let mut filter =
            ConversationFilter { states: vec![ConversationState::Open], ..ConversationFilter::all(3) };
        let mut paged = Vec::new();
        loop {
            let page = reader.conversations(&TenantId::default(), &filter).unwrap();
            let Some(last) = page.last() else { break };
            filter.after = Some((last.last_activity, last.id));
            paged.extend(page);
        }
        let open = listed.iter().filter(|it| it.state == ConversationState::Open);
        assert!(paged.iter().eq(open), "after {round} rounds");
    }
}

pub fn ids_are_found_by_their_first_digits(store: &dyn Store) {
    put(store, 0x12);
    put(store, 0x13);
    let reader = store.reader().unwrap();
    let find = |prefix: &str| reader.conversations_by_id_prefix(&TenantId::default(), prefix, 9).unwrap();
    assert_eq!(find("1"), [key(0x12).id, key(0x13).id]);
    assert_eq!(find("121"), [key(0x12).id]);
    assert_eq!(find(&key(0x13).id.to_string()), [key(0x13).id]);
    assert!(find("2").is_empty());
    assert!(find("not hex").is_empty());
}

pub fn external_ids_are_known(store: &dyn Store) {
    put(store, 1);
    put(store, 2);
    commit(store, vec![Write::AddToolCall(conversation(1).id, tool_call(0, 0, None))]).unwrap();
    let reader = store.reader().unwrap();
    let (m0, t0, none) = (external("m0"), external("t0-0"), external("nothing"));
    let hash = message(0, 0, Role::User, "hello").hash;
    let said = Some(Known::Message(MessageIdx(0), hash));
    let called = Some(Known::ToolCall { turn: TurnNo(0), order: 0, finished: false });
    assert_eq!(reader.known(&key(1), &[&none, &t0, &m0]).unwrap(), [None, called, said]);
    assert_eq!(reader.known(&key(2), &[&t0, &m0]).unwrap(), [None, said]);
    assert_eq!(reader.known(&key(3), &[&m0]).unwrap(), [None]);
    assert_eq!(reader.known(&key(1), &[]).unwrap(), []);
}

pub fn a_tool_call_gets_its_result_once(store: &dyn Store) {
    put(store, 1);
    let id = conversation(1).id;
    let result = |text: &str| ToolResult {
        result: Json::string(text),
        success: Some(false),
        duration_ms: Some(u64::from(u32::MAX) + 1),
    };
    commit(store, vec![Write::AddToolCall(id, tool_call(0, 0, None))]).unwrap();
    for text in ["first", "second"] {
        commit(store, vec![Write::FinishToolCall(id, TurnNo(0), 0, result(text))]).unwrap();
    }
    let calls = store.reader().unwrap().tool_calls(&key(1), everything(TurnNo(0))).unwrap();
    assert_eq!(calls[0].call.outcome, Some(result("first")));
}

pub fn turns_are_made_by_what_is_in_them(store: &dyn Store) {
    let mut it = conversation(1);
    it.threads[0].last_turn = Some(turn(60, 121, 122));
    let mut writes = vec![Write::PutConversation(it.clone())];
    for no in 0..60 {
        writes.push(Write::AddMessage(it.id, message(2 * no, no, Role::User, "question")));
        writes.push(Write::AddMessage(it.id, message(2 * no + 1, no, Role::Assistant, "answer")));
    }
    // Tools alone open a turn, too.
    let mut call = tool_call(60, 0, None);
    call.before = MessageIdx(120);
    writes.push(Write::AddToolCall(it.id, call));
    commit(store, writes).unwrap();
    let reader = store.reader().unwrap();
    let turns = reader.turns(&key(1), everything(TurnNo(0))).unwrap();
    assert_eq!(turns.iter().map(|turn| turn.no.0).collect::<Vec<_>>(), (0..=60).collect::<Vec<_>>());
    let expected = Turn { answered: true, started_at: at(84), ended_at: at(85), ..turn(42, 84, 86) };
    assert_eq!(turns[42], expected);
    assert_eq!(reader.turns(&key(1), Span::between(TurnNo(42), TurnNo(43))).unwrap(), [expected]);
    let page = reader.turns(&key(1), Span::starting(TurnNo(58), 2)).unwrap();
    assert_eq!(page, turns[58..60]);
    let alone = Turn { tool_calls: 1, started_at: at(9), ended_at: at(9), ..turn(60, 120, 120) };
    assert_eq!(turns[60], alone);
}

pub fn a_reader_sees_one_moment(store: &dyn Store) {
    put(store, 1);
    let before = store.reader().unwrap();
    assert_eq!(before.totals(&TenantId::default()).unwrap().0, 1);
    put(store, 2);
    assert_eq!(before.totals(&TenantId::default()).unwrap().0, 1);
    assert_eq!(before.conversation(&key(2)).unwrap(), None);
    assert_eq!(store.reader().unwrap().totals(&TenantId::default()).unwrap().0, 2);
}

pub fn commits_are_seen_at_once(store: &dyn Store) {
    for number in 1..=20 {
        put(store, number);
        assert!(store.reader().unwrap().conversation(&key(number)).unwrap().is_some());
    }
}

pub fn a_sound_store_has_no_problems(store: &dyn Store) {
    put(store, 1);
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
    assert_eq!(store.repair().unwrap(), Vec::<String>::new());
    let description = store.describe().unwrap();
    assert!(description.bytes > 0 && description.schema_version > 0);
}
