//! The store contract for conversations, messages and tool calls.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use treering_core::ports::{
    ConversationFilter, ConversationQuery, ExistingItem, ItemRef, Span, StoredItem,
};
use treering_core::{
    CommitScope, Conversation, ConversationId, ConversationState, Fork, Invalid, Json, MessageIdx,
    Role, Store, StoreError, TenantId, Thread, ThreadName, ToolResult, Turn, TurnNo, Write,
};

use super::tree::node;
use super::{
    at, commit, commit_for, conversation, everything, key, message, put, reader, tenant, tool_call,
    turn,
};
use crate::generate::external_id;

pub fn stored_items_are_read_back(store: &dyn Store) {
    let mut it = conversation(1);
    let fork = Fork { parent: ThreadName::main(), after: Some(MessageIdx(0)) };
    let thread_name = ThreadName::new("idea: 2").unwrap();
    it.threads.push(Thread {
        name: thread_name.clone(),
        fork: Some(fork),
        last_turn: None,
        turn_ended: false,
    });
    let mut other = message(1, 1, Role::Assistant, "there");
    other.thread = thread_name;
    let call = tool_call(
        0,
        0,
        Some(ToolResult { result: Json::string("ok"), success: None, duration_ms: None }),
    );
    let messages = [message(0, 0, Role::User, "hello"), other];
    let writes = [
        vec![Write::PutConversation(it.clone())],
        messages.iter().map(|message| Write::AddMessage(it.id, message.clone())).collect(),
        vec![Write::AddToolCall(it.id, call.clone())],
    ];
    commit(store, writes.concat()).unwrap();
    let reads = reader(store);
    assert_eq!(reads.conversation(key(1).id).unwrap(), Some(it.clone()));
    assert_eq!(reads.conversation_by_slug("slug-1").unwrap(), Some(it.clone()));
    let by_external = reads.conversation_by_external_id(&external_id("source:1"));
    assert_eq!(by_external.unwrap(), Some(it.clone()));
    assert_eq!(reads.messages(key(1).id, everything(MessageIdx(0))).unwrap(), messages);
    assert_eq!(
        reads.messages(key(1).id, Span::between(MessageIdx(1), MessageIdx(2))).unwrap(),
        messages[1..]
    );
    assert_eq!(reads.messages(key(1).id, Span::starting(MessageIdx(0), 1)).unwrap(), messages[..1]);
    for span in [
        everything(MessageIdx(0)),
        Span::between(MessageIdx(1), MessageIdx(2)),
        Span::starting(MessageIdx(0), 1),
    ] {
        let read = reads.messages(key(1).id, span).unwrap();
        let tokens: u64 = read.iter().map(|message| u64::from(message.tokens)).sum();
        assert_eq!(reads.message_tokens(key(1).id, span).unwrap(), tokens, "{span:?}");
    }
    assert_eq!(reads.tool_calls(key(1).id, everything(TurnNo(0))).unwrap(), [call]);
    assert_eq!(reads.totals().unwrap(), (1, it.totals));
    drop(reads);
    it.slug = "renamed".into();
    it.state = ConversationState::Archived;
    it.cwd = None;
    commit(store, vec![Write::PutConversation(it.clone())]).unwrap();
    let reader = reader(store);
    assert_eq!(reader.conversation(key(1).id).unwrap(), Some(it));
    assert_eq!(reader.conversation_by_slug("slug-1").unwrap(), None);
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
    let stored = reader(store).messages(key(1).id, everything(MessageIdx(0))).unwrap();
    let stored_texts: Vec<&str> = stored.iter().map(|message| message.body.text.as_str()).collect();
    assert_eq!(stored_texts[..texts.len()], texts);
    assert_eq!(stored_texts[texts.len()], large);
    assert!(stored.iter().all(|message| message.hash == message.body.hash()));
}

pub fn a_refused_plan_writes_nothing(store: &dyn Store) {
    put(store, 1);
    let refused = store.commit(
        CommitScope::Tenant(TenantId::default()),
        Box::new(|_| Err(Invalid::new("entry", "no").into())),
    );
    assert_eq!(refused, Err(StoreError::Refused(Invalid::new("entry", "no"))));
    assert_eq!(reader(store).totals().unwrap().0, 1);
}

pub fn a_failing_write_takes_the_whole_commit_with_it(store: &dyn Store) {
    put(store, 1);
    let id = conversation(1).id;
    let duplicate_slug = vec![
        Write::AddMessage(id, message(1, 0, Role::Assistant, "new")),
        Write::AddMessage(id, message(0, 0, Role::User, "the place is taken")),
    ];
    commit(store, duplicate_slug).unwrap_err();
    let orphan = ConversationId::from_bytes([77; 16]);
    let orphaned = vec![
        Write::AddMessage(id, message(1, 0, Role::Assistant, "new")),
        Write::AddMessage(orphan, message(0, 0, Role::User, "of no conversation")),
    ];
    commit(store, orphaned).unwrap_err();
    assert_eq!(reader(store).messages(key(1).id, everything(MessageIdx(0))).unwrap().len(), 1);
}

pub fn a_panicking_plan_harms_nobody(store: &dyn Store) {
    store
        .commit(CommitScope::Tenant(TenantId::default()), Box::new(|_| panic!("a bug in a plan")))
        .unwrap_err();
    put(store, 1);
    assert_eq!(reader(store).totals().unwrap().0, 1);
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
    assert_eq!(store.maintenance().tenants().unwrap(), [tenant("a"), tenant("b")]);
    let first = ItemRef::Message(it.id, MessageIdx(0));
    for name in ["a", "b"] {
        let reader = store.reader(&tenant(name)).unwrap();
        let messages = reader.messages(it.id, everything(MessageIdx(0))).unwrap();
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].body.text, format!("of {name}"));
        assert_eq!(reader.totals().unwrap().0, 1);
        assert_eq!(reader.owners(&[&external_id("m0")]).unwrap(), [Some(it.id)]);
        assert_eq!(
            reader.items(&[first]).unwrap(),
            [Some(StoredItem::Message(Box::new(messages[0].clone())))]
        );
    }
    let reader = store.reader(&tenant("c")).unwrap();
    let everyone = ConversationFilter::all(9);
    for query in [
        ConversationQuery::Id(it.id),
        ConversationQuery::Slug("slug-1"),
        ConversationQuery::ExternalId(&external_id("source:1")),
        ConversationQuery::IdPrefix("0101", 9),
        ConversationQuery::List(&everyone),
    ] {
        assert_eq!(reader.conversations(&query).unwrap(), [], "{query:?}");
    }
    assert!(reader.messages(it.id, everything(MessageIdx(0))).unwrap().is_empty());
    assert_eq!(reader.owners(&[&external_id("m0")]).unwrap(), [None]);
    assert_eq!(reader.items(&[first]).unwrap(), [None]);
}

pub fn ids_are_found_by_their_first_digits(store: &dyn Store) {
    put(store, 0x12);
    put(store, 0x13);
    let reader = reader(store);
    let find = |prefix: &str| -> Vec<ConversationId> {
        let found = reader.conversations(&ConversationQuery::IdPrefix(prefix, 9)).unwrap();
        found.iter().map(|conversation| conversation.id).collect()
    };
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
    let reader = reader(store);
    let (m0, t0, none) = (external_id("m0"), external_id("t0-0"), external_id("nothing"));
    let hash = message(0, 0, Role::User, "hello").hash;
    let stored = Some(ExistingItem::Message(MessageIdx(0), hash));
    let called = Some(ExistingItem::ToolCall { turn: TurnNo(0), order: 0, finished: false });
    assert_eq!(reader.existing(key(1).id, &[&none, &t0, &m0]).unwrap(), [None, called, stored]);
    assert_eq!(reader.existing(key(2).id, &[&t0, &m0]).unwrap(), [None, stored]);
    assert_eq!(reader.existing(key(3).id, &[&m0]).unwrap(), [None]);
    assert_eq!(reader.existing(key(1).id, &[]).unwrap(), []);
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
    let calls = reader(store).tool_calls(key(1).id, everything(TurnNo(0))).unwrap();
    assert_eq!(calls[0].call.outcome, Some(result("first")));
}

pub fn turns_are_made_by_what_is_in_them(store: &dyn Store) {
    let mut it = conversation(1);
    it.threads[0].last_turn = Some(turn(61, 122, 122));
    let mut writes = vec![Write::PutConversation(it.clone())];
    for no in 0..60 {
        writes.push(Write::AddMessage(it.id, message(2 * no, no, Role::User, "question")));
        writes.push(Write::AddMessage(it.id, message(2 * no + 1, no, Role::Assistant, "answer")));
    }
    // An empty assistant message is not an answer.
    writes.push(Write::AddMessage(it.id, message(120, 60, Role::User, "question")));
    writes.push(Write::AddMessage(it.id, message(121, 60, Role::Assistant, "")));
    // Tool calls alone also open a turn.
    let mut call = tool_call(61, 0, None);
    call.before = MessageIdx(122);
    writes.push(Write::AddToolCall(it.id, call));
    commit(store, writes).unwrap();
    let reader = reader(store);
    let turns = reader.turns(key(1).id, everything(TurnNo(0))).unwrap();
    assert_eq!(
        turns.iter().map(|turn| turn.no.0).collect::<Vec<_>>(),
        (0..=61).collect::<Vec<_>>()
    );
    let expected =
        Turn { answered: true, started_at: at(84), ended_at: at(85), ..turn(42, 84, 86) };
    assert_eq!(turns[42], expected);
    assert_eq!(reader.turns(key(1).id, Span::between(TurnNo(42), TurnNo(43))).unwrap(), [expected]);
    let page = reader.turns(key(1).id, Span::starting(TurnNo(58), 2)).unwrap();
    assert_eq!(page, turns[58..60]);
    let unanswered = Turn { started_at: at(120), ended_at: at(121), ..turn(60, 120, 122) };
    let alone = Turn { tool_calls: 1, started_at: at(9), ended_at: at(9), ..turn(61, 122, 122) };
    assert_eq!(turns[60..], [unanswered, alone]);
}

pub fn items_are_read_together(store: &dyn Store) {
    put(store, 1);
    put(store, 2);
    let (one, two) = (key(1).id, key(2).id);
    commit(store, vec![Write::AddToolCall(two, tool_call(0, 3, None))]).unwrap();
    commit(store, vec![Write::PutNode(one, Box::new(node(1, 4)))]).unwrap();
    let level = node(1, 4).level();
    let refs = [
        ItemRef::Node(one, level, 4),
        ItemRef::Message(two, MessageIdx(0)),
        ItemRef::Message(two, MessageIdx(1)),
        ItemRef::ToolCall(two, TurnNo(0), 3),
        ItemRef::ToolCall(one, TurnNo(0), 3),
        ItemRef::Node(two, level, 4),
        ItemRef::Message(key(9).id, MessageIdx(0)),
        ItemRef::Message(one, MessageIdx(0)),
    ];
    let hello = || Some(StoredItem::Message(Box::new(message(0, 0, Role::User, "hello"))));
    let expected = [
        Some(StoredItem::Node(Box::new(node(1, 4)))),
        hello(),
        None,
        Some(StoredItem::ToolCall(Box::new(tool_call(0, 3, None)))),
        None,
        None,
        None,
        hello(),
    ];
    assert_eq!(reader(store).items(&refs).unwrap(), expected);
    assert_eq!(reader(store).items(&[]).unwrap(), []);
}

pub fn a_write_outside_its_scope_is_refused(store: &dyn Store) {
    put(store, 1);
    put(store, 2);
    let add = |number: u8| Write::AddMessage(key(number).id, message(1, 0, Role::User, "more"));
    let scopes = [
        CommitScope::Conversation(key(1)),
        CommitScope::Provider(TenantId::default(), "openai".into()),
    ];
    for scope in scopes {
        let writes = vec![add(2)];
        let refused = store.commit(scope, Box::new(move |_| Ok(writes.clone()))).unwrap_err();
        assert!(matches!(refused, StoreError::Refused(_)), "{refused}");
    }
    let writes = vec![add(1)];
    store.commit(CommitScope::Conversation(key(1)), Box::new(move |_| Ok(writes.clone()))).unwrap();
    let count = |number: u8| {
        reader(store).messages(key(number).id, everything(MessageIdx(0))).unwrap().len()
    };
    assert_eq!((count(1), count(2)), (2, 1));
}

pub fn a_renamed_conversation_needs_a_free_name(store: &dyn Store) {
    put(store, 1);
    put(store, 2);
    let renamed = Conversation { slug: "slug-2".into(), ..conversation(1) };
    commit(store, vec![Write::PutConversation(renamed)]).unwrap_err();
    assert_eq!(reader(store).conversation_by_slug("slug-2").unwrap(), Some(conversation(2)));
    assert_eq!(reader(store).conversation_by_slug("slug-1").unwrap(), Some(conversation(1)));
}

pub fn a_backup_is_a_whole_store(store: &dyn Store) {
    put(store, 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    store.maintenance().backup(&file).unwrap();
    assert!(std::fs::metadata(&file).unwrap().len() > 0);
    let before = std::fs::read(&file).unwrap();
    put(store, 2);
    store.maintenance().backup(&file).unwrap_err();
    assert_eq!(std::fs::read(&file).unwrap(), before, "an existing file is not overwritten");
}

pub fn commits_are_seen_at_once(store: &dyn Store) {
    for number in 1..=20 {
        put(store, number);
        assert!(reader(store).conversation(key(number).id).unwrap().is_some());
    }
}

pub fn a_sound_store_has_no_problems(store: &dyn Store) {
    put(store, 1);
    assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
    assert_eq!(store.maintenance().repair().unwrap(), Vec::<String>::new());
    let description = store.maintenance().describe().unwrap();
    assert!(description.bytes > 0 && description.schema_version > 0);
}
