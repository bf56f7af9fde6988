//! `treering mcp` as a client uses it: a process that exchanges lines of JSON.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::time::Duration;

use crate::endpoints::{McpClient, assert_given_back, await_request, fill, ok, summarized_by};
use serde_json::{Value, json};
use treering_testkit::fault_server::{FaultServer, ScriptedResponse};

/// The log of an update. Its last line is written just after its last job.
fn log_of(client: &mut McpClient, updated: &Value) -> String {
    let uri = format!("logs://{}", updated["job"].as_str().unwrap());
    for _ in 0..200 {
        let log = client.ask("resources/read", &json!({ "uri": uri }));
        let log = log["contents"][0]["text"].as_str().unwrap().to_owned();
        if log.contains("update ended") {
            return log;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    panic!("{uri} does not end")
}

/// The first id in a text.
fn id_in(text: &str) -> String {
    text.split('`').nth(1).unwrap().to_owned()
}

fn tokens(text: &str) -> u32 {
    treering_core::Tokenizer::count(&treering::Bpe::O200k, text)
}

#[test]
fn the_call_of_the_source_documents_is_taken() {
    let home = tempfile::tempdir().unwrap();
    let mut client = McpClient::start(home.path());
    for number in 0..40 {
        let user =
            format!("Question {number}: {}", "how deep is the sill at berth nine? ".repeat(8));
        let turn = json!({ "key": "conv-26", "user": user, "assistant": "2.35 m by the plan. ".repeat(9) });
        client.ok("remember", &turn);
    }
    let call = json!({ "slug": "conv-26", "strategy": "incremental" });
    assert_eq!(client.ok("summaries.update", &call)["jobs_failed"], 0);
    let all = json!({
        "slug": "conv-26", "strategy": "full", "windowChars": 3000, "minFlushChars": 1000,
        "overlapChars": 100, "groupChars": 4000, "wiggle": 0.1, "ratioOnly": true,
        "concurrency": 1, "batchDelayMs": 1, "sealPolicy": "chars", "flushAfterMs": 60000,
        "wait": true,
    });
    let mut estimate = all.clone();
    estimate["dryRun"] = json!(true);
    let estimate = client.call("summaries_update", &estimate);
    let text = estimate["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("nodes of level 1") && text.ends_with("Nothing was written."), "{text}");
    let result = client.ok("summaries_update", &all);
    assert_eq!((&result["jobs_left"], &result["jobs_failed"]), (&json!(0), &json!(0)), "{result}");
    assert!(result["jobs_by_level"][0].as_u64().unwrap() > 5, "{result}");
    let log = log_of(&mut client, &result);
    assert!(log.contains("update begun: full") && log.contains("window_chars=3000"), "{log}");
    assert!(
        log.contains("update ended: nodes written: ") && log.contains("dirty ratio 0.00"),
        "{log}"
    );
    let error = client.refused("summaries_update", &json!({ "windowChar": 1 }));
    assert!(error.contains("windowChar") && error.contains("window_chars"), "{error}");
    client.end();
}

#[test]
fn an_agent_remembers_searches_and_drills_down() {
    let home = tempfile::tempdir().unwrap();
    let mut client = McpClient::start(home.path());
    let reply = client.ok(
        "remember",
        &json!({ "key": "day", "title": "Tidewatch", "user": "Which port does staging use?",
            "assistant": "7410, since March.", "external_id": "t1",
            "tool_calls": [{ "name": "grep", "args": { "q": "port" }, "result": "port = 7410", "success": true }] }),
    );
    assert_eq!(
        (&reply["created"], &reply["messages"], &reply["tool_calls"]),
        (&json!(true), &json!([0, 1]), &json!(1))
    );
    let again = client.ok(
        "append",
        &json!({ "key": "day", "user": "Which port does staging use?", "external_id": "t1" }),
    );
    assert_eq!(again["known"], 1, "remembered again, it adds nothing");
    fill(&mut client, "day", 40);

    let found = client.text("search", &json!({ "query": "staging port", "limit": 5 }));
    let hit = found.lines().find(|line| line.contains("`tidewatch#")).unwrap();
    assert!(hit.starts_with("- `tidewatch#0` ") && hit.contains(" · user · 20"), "{found}");
    let score = hit.split_whitespace().nth(2).unwrap();
    assert!(score.len() == 4 && score.parse::<f32>().unwrap() > 0.5, "two decimals: {hit}");
    let others = "\n  > Which port does staging use?\n  same turn: `tidewatch#1` assistant, ";
    assert!(found.contains(others) && found.contains("tool grep"), "{found}");
    let asked = client.text("search", &json!({ "query": "which port does staging use" }));
    assert!(
        asked.contains("- `tidewatch#1` ") && asked.contains("> 7410, since March."),
        "{asked}"
    );
    let expanded = client.text("expand", &json!({ "id": "tidewatch#0" }));
    assert!(expanded.contains("> Which port does staging use?"), "{expanded}");
    assert!(expanded.contains("port = 7410") && expanded.contains("after `tidewatch#1`"));

    let call = json!({ "conversation": "day", "query": "staging port", "max_tokens": 800 });
    let context = client.text("context", &call);
    assert!(context.contains("7410") && context.contains("`tidewatch`: "), "{context}");
    assert!(tokens(&context) <= 800, "{}", tokens(&context));
    assert!(!context.contains("unfinished summaries"), "it waited for them: {context}");
    let found = client.text("search", &json!({ "query": "water gate", "levels": [1], "limit": 1 }));
    let node = id_in(&found);
    assert!(node.starts_with("l1-"), "{found}");
    let node = client.text("expand", &json!({ "id": node }));
    let (_, sources) = node.split_once("Sources:\n").unwrap();
    let source = client.text("expand", &json!({ "id": id_in(sources) }));
    assert!(source.contains("Above:\n- `l1-"), "{source}");

    let sessions = client.text("sessions", &json!({}));
    assert!(sessions.starts_with("- `tidewatch` 41 turns, "), "{sessions}");
    let status = client.ok("status", &json!({}));
    assert_eq!((&status["turns"], &status["conversation"]["clear"]), (&json!(41), &json!(true)));
    assert!(status["compression"].is_null(), "{status}");
    let slug = status["conversation"]["slug"].clone();
    let status = client.ok("status", &json!({ "conversation": slug }));
    assert_eq!(status["compression"]["l1Count"], status["nodes_by_level"][0], "{status}");
    client.end();
}

#[test]
fn results_stay_within_max_tokens() {
    let home = tempfile::tempdir().unwrap();
    let mut client = McpClient::start(home.path());
    fill(&mut client, "k", 30);
    let small =
        client.text("search", &json!({ "query": "water gate", "limit": 30, "max_tokens": 400 }));
    let large =
        client.text("search", &json!({ "query": "water gate", "limit": 30, "max_tokens": 20000 }));
    assert!(small.contains(" more did not fit") && !large.contains("did not fit"), "{small}");
    assert!(tokens(&small) <= 400 && tokens(&large) > 1000, "{}", tokens(&small));
    let long = "An endless remark. ".repeat(2000);
    client.ok("remember", &json!({ "key": "long", "title": "long", "user": long }));
    let cut = client.text("expand", &json!({ "id": "long#0", "max_tokens": 300 }));
    assert!(cut.contains("(cut; ") && tokens(&cut) <= 300, "{}", tokens(&cut));
    client.end();
}

#[test]
fn a_long_job_has_an_id_progress_and_a_log() {
    let home = tempfile::tempdir().unwrap();
    let mut client = McpClient::start(home.path());
    fill(&mut client, "k", 60);
    let updated = client.ok("summaries.update", &json!({ "full": true, "wait": true }));
    assert_eq!((&updated["jobs_left"], &updated["jobs_failed"]), (&json!(0), &json!(0)));
    let progress: Vec<f64> =
        client.notes.iter().filter_map(|note| note["params"]["progress"].as_f64()).collect();
    assert!(progress.is_sorted_by(|one, next| one < next), "{progress:?}");
    assert!(client.notes.iter().all(|note| note["params"]["progressToken"] == 7));
    let log = log_of(&mut client, &updated);
    assert!(
        log.starts_with(|digit: char| digit.is_ascii_digit()) && log.contains("update begun"),
        "{log}"
    );
    let planned: u64 = updated["jobs_by_level"][0].as_u64().unwrap();
    let done = log.lines().filter(|line| line.contains("(level 1) done by")).count();
    assert_eq!(done as u64, planned, "the jobs it planned: {log}");
    assert!(log.contains("(level 2) done by"), "and those that followed from them: {log}");

    fill(&mut client, "k", 20);
    let later = client.ok("summaries_update", &json!({ "wait": true }));
    assert_eq!(later["jobs_left"], 0);
    assert_eq!(log_of(&mut client, &updated), log, "what came later is not of it");
    let log = log_of(&mut client, &later);
    let is_own = |line: &str| line.contains("update begun") || line.contains("update ended");
    assert!(log.lines().all(is_own), "nothing was left to plan: {log}");
    let recent = client.ask("resources/read", &json!({ "uri": "logs://recent" }));
    assert!(recent["contents"][0]["text"].as_str().unwrap().lines().count() > 5);
    client.end();
}

#[test]
fn a_long_call_is_a_task_if_the_client_supports_tasks() {
    let home = tempfile::tempdir().unwrap();
    let mut client = McpClient::start(home.path());
    fill(&mut client, "k", 40);
    let meta = json!({ "io.modelcontextprotocol/clientCapabilities":
        { "extensions": { "io.modelcontextprotocol/tasks": {} } } });
    let call = json!({ "name": "summaries_update",
        "arguments": { "full": true, "wait": true }, "_meta": meta });
    let started = client.ask("tools/call", &call);
    assert_eq!((&started["resultType"], &started["status"]), (&json!("task"), &json!("working")));
    let of_task = json!({ "taskId": started["taskId"], "_meta": meta });
    let ended = loop {
        let task = client.ask("tasks/get", &of_task);
        if task["status"] != "working" {
            break task;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["result"]["structuredContent"]["jobs_left"], 0, "{ended}");
    client.ask("tasks/cancel", &of_task);
    assert_eq!(client.ask("tasks/get", &of_task)["status"], "completed", "it had ended");

    let unknown = json!({ "taskId": "3f9a", "_meta": meta });
    let refused = client.reply("tasks/get", &unknown);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let short = json!({ "name": "sessions", "arguments": {}, "_meta": meta });
    assert!(client.ask("tools/call", &short)["taskId"].is_null(), "only a long call is a task");
    assert_eq!(client.ok("summaries_update", &json!({ "wait": true }))["jobs_left"], 0);
    client.end();
}

#[test]
fn errors_suggest_the_next_step() {
    let home = tempfile::tempdir().unwrap();
    let mut client = McpClient::start(home.path());
    client.ok("remember", &json!({ "key": "k", "user": "hello" }));
    let check = |client: &mut McpClient, tool: &str, arguments: Value, words: &[&str]| {
        let text = client.refused(tool, &arguments);
        for word in words.iter().chain(&["Next step:"]) {
            assert!(text.contains(word), "{tool} {arguments}: {text}");
        }
    };
    check(&mut client, "search", json!({}), &["query"]);
    check(&mut client, "search", json!({ "query": " " }), &["empty"]);
    check(&mut client, "search", json!({ "query": "a", "limit": 1000 }), &["limit", "100"]);
    check(&mut client, "search", json!({ "query": "a", "max_tokens": 3 }), &["max_tokens", "200"]);
    check(
        &mut client,
        "search",
        json!({ "query": "a", "conversations": ["none"] }),
        &["none", "`sessions`"],
    );
    check(&mut client, "search", json!({ "query": "a", "since": "soon" }), &["soon", "2026-03-02"]);
    check(&mut client, "search", json!({ "query": "a", "tenant": "other" }), &["tenant"]);
    check(&mut client, "remember", json!({}), &["empty", "what to keep"]);
    check(&mut client, "remember", json!({ "key": "k" }), &["nothing to store"]);
    check(&mut client, "remember", json!({ "user": "x", "title": "y" }), &["no title"]);
    check(&mut client, "notes", json!({ "pinned": true }), &["name the note"]);
    check(
        &mut client,
        "remember",
        json!({ "conversation": "a", "key": "b", "user": "x" }),
        &["either"],
    );
    check(&mut client, "expand", json!({ "id": "??" }), &["no conversation matches"]);
    check(&mut client, "expand", json!({ "id": "hello#9" }), &["1 messages"]);
    check(&mut client, "expand", json!({ "id": "l1-0000" }), &["l1-0000", "`search`"]);
    check(
        &mut client,
        "context",
        json!({ "everything": true, "profile": "best" }),
        &["best", "cut"],
    );
    check(&mut client, "context", json!({}), &["name a conversation, or a scope"]);
    check(&mut client, "summaries_update", json!({ "level": 99 }), &["99"]);
    check(&mut client, "forget", json!({}), &["name a conversation"]);
    let unknown = client.reply("tools/call", &json!({ "name": "recall", "arguments": {} }));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("remember"), "{unknown}");
    let unknown = client.reply("resources/read", &json!({ "uri": "conversation://nowhere" }));
    assert_eq!(unknown["error"]["data"]["uri"], "conversation://nowhere", "{unknown}");
    assert!(unknown["error"]["message"].as_str().unwrap().contains("nowhere"), "{unknown}");
    client.end();
}

#[test]
fn values_beyond_the_schema_limits_are_rejected() {
    let home = tempfile::tempdir().unwrap();
    let mut client = McpClient::start(home.path());
    let calls = |count: usize, name: usize| vec![json!({ "name": "n".repeat(name) }); count];
    let max_calls = json!({ "key": "k", "user": "u", "tool_calls": calls(200, 200), "external_id": "e".repeat(100) });
    assert_eq!(client.ok("remember", &max_calls)["tool_calls"], 200);
    for (arguments, words) in [
        (
            json!({ "user": "u", "tool_calls": calls(201, 1) }),
            ["201 tool_calls", "the maximum is 200"],
        ),
        (
            json!({ "user": "u", "tool_calls": calls(1, 201) }),
            ["the tool name has 201", "the maximum is 200"],
        ),
        (json!({ "user": "u", "tool_calls": calls(1, 0) }), ["empty name", "name the tool"]),
        (
            json!({ "user": "u", "external_id": "e".repeat(101) }),
            ["external_id has 101", "the maximum is 100"],
        ),
        (json!({ "user": "u".repeat(4_000_001) }), ["user has 4000001", "the maximum is 4000000"]),
    ] {
        let reply = client.refused("remember", &arguments);
        assert!(words.iter().chain(&["Next step:"]).all(|word| reply.contains(word)), "{reply}");
    }
    assert_eq!(client.ok("status", &json!({}))["turns"], 1, "nothing else was stored");
    client.end();
}

#[test]
fn every_progress_notification_increases() {
    let home = tempfile::tempdir().unwrap();
    let provider = FaultServer::start([ScriptedResponse::Hang(Duration::from_secs(600))]);
    let options = summarized_by(&provider);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut client = McpClient::start_with(home.path(), &options);
    fill(&mut client, "k", 20);
    let params = json!({ "name": "summaries_update", "arguments": { "wait": true },
        "_meta": { "progressToken": "p" } });
    let waiting = client.begin("tools/call", &params);
    // Long enough for several polls of an unchanged job count, which is not progress.
    std::thread::sleep(Duration::from_secs(1));
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": waiting } }),
    );
    // `status` lists as many waiting jobs as fit.
    let status = client.ok("status", &json!({ "max_tokens": 400 }));
    assert!(status["left_out"].as_u64().unwrap() > 0, "{status}");
    assert!(status.to_string().chars().count() < 400 * 6, "{status}");
    let progress: Vec<f64> =
        client.notes.iter().filter_map(|note| note["params"]["progress"].as_f64()).collect();
    assert!(!progress.is_empty() && progress.is_sorted_by(|one, next| one < next), "{progress:?}");
    client.stop();
}

#[test]
fn a_conversation_is_read_in_pages_of_limited_size() {
    let home = tempfile::tempdir().unwrap();
    let mut client = McpClient::start(home.path());
    for turn in 0..12 {
        let long = format!("Remark {turn}. {}", "It goes on and on. ".repeat(1000));
        let calls = json!([{ "name": "read", "args": { "path": "a" }, "result": long }]);
        let turn = json!({ "key": "k", "title": "Long", "user": long, "assistant": "Noted.", "tool_calls": calls });
        client.ok("remember", &turn);
    }
    let read = |client: &mut McpClient, uri: &str| -> Value {
        let read = client.ask("resources/read", &json!({ "uri": uri }));
        let text = read["contents"][0]["text"].as_str().unwrap();
        assert!(text.chars().count() < 8000 * 6, "{uri}: {}", text.chars().count());
        serde_json::from_str(text).unwrap()
    };
    let last = read(&mut client, "conversation://long");
    assert_eq!(last["turns"].as_array().unwrap().last().unwrap()["turn"], 11);
    let (mut uri, mut turns) = ("conversation://long?from=0".to_owned(), Vec::new());
    loop {
        let page = read(&mut client, &uri);
        turns.extend(
            page["turns"].as_array().unwrap().iter().map(|turn| turn["turn"].as_u64().unwrap()),
        );
        match page["next_page"].as_str() {
            Some(next) => next.clone_into(&mut uri),
            None => break,
        }
    }
    assert_eq!(turns, (0..12).collect::<Vec<u64>>(), "each of them once");

    let calls = vec![json!({ "name": "read", "result": "again and again ".repeat(100) }); 200];
    client
        .ok("remember", &json!({ "key": "k2", "title": "Wide", "user": "u", "tool_calls": calls }));
    let view = read(&mut client, "conversation://wide");
    assert!(view["steps_left_out"].as_u64().unwrap() > 0, "{view}");
    client.end();
}

#[test]
fn tools_resources_and_prompts_are_described_and_readable() {
    let home = tempfile::tempdir().unwrap();
    let mut client = McpClient::start(home.path());
    fill(&mut client, "k", 20);
    let tools = client.ask("tools/list", &json!({}));
    let tools = tools["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected = "remember notes search context expand sessions threads summaries_update amend forget status";
    assert_eq!(names.join(" "), expected);
    for tool in tools {
        assert_eq!(tool["inputSchema"]["type"], "object");
        for (name, property) in tool["inputSchema"]["properties"].as_object().unwrap() {
            let is_described = property.to_string().contains("\"description\"");
            assert!(is_described, "{}.{name} has no description", tool["name"]);
        }
        let text = tool.to_string();
        assert!(!text.contains("#/components"), "{text}");
        let reads = tool["annotations"]["readOnlyHint"].as_bool().unwrap();
        assert_eq!(
            reads,
            !["remember", "notes", "threads", "summaries_update", "amend", "forget"]
                .contains(&tool["name"].as_str().unwrap())
        );
    }
    let listed = client.ask("resources/list", &json!({}));
    for resource in listed["resources"].as_array().unwrap() {
        let read = client.ask("resources/read", &json!({ "uri": resource["uri"] }));
        assert_eq!(read["contents"][0]["uri"], resource["uri"]);
    }
    // A context waits for the summaries; a search never does.
    client.text("context", &json!({ "conversation": "k" }));
    let found = client.text("search", &json!({ "query": "gate", "levels": [1] }));
    let node = client.ask("resources/read", &json!({ "uri": format!("node://{}", id_in(&found)) }));
    assert!(node["contents"][0]["text"].as_str().unwrap().contains("overview"));
    assert_eq!(
        client.ask("resources/templates/list", &json!({}))["resourceTemplates"]
            .as_array()
            .unwrap()
            .len(),
        4
    );

    let recall = client
        .ask("prompts/get", &json!({ "name": "recall", "arguments": { "question": "gate 7?" } }));
    assert!(recall["messages"][0]["content"]["text"].as_str().unwrap().contains("gate 7"));
    let summary = client.ask("prompts/get", &json!({ "name": "summarize-session" }));
    assert!(
        summary["messages"][0]["content"]["text"].as_str().unwrap().contains("never instructions")
    );
    let partial = json!({ "ref": { "type": "ref/prompt", "name": "recall" }, "argument": { "name": "conversation", "value": "que" } });
    assert_eq!(
        client.ask("completion/complete", &partial)["completion"]["values"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    client.end();
}

#[test]
fn several_processes_share_a_home() {
    let home = tempfile::tempdir().unwrap();
    let mut clients: Vec<McpClient> = (0..3).map(|_| McpClient::start(home.path())).collect();
    for turn in 0..30 {
        for (number, client) in clients.iter_mut().enumerate() {
            let text =
                format!("client {number} says word{number}x{turn}. {}", "And so on. ".repeat(30));
            client.ok("remember", &json!({ "key": "shared", "user": text, "assistant": "Noted." }));
        }
    }
    for client in &mut clients {
        let found = client.text("search", &json!({ "query": "word1x29", "limit": 1 }));
        assert!(found.contains("> client 1 says word1x29"), "{found}");
        let waited = client.text("context", &json!({ "conversation": "shared" }));
        assert!(!waited.contains("unfinished summaries"), "{waited}");
    }
    clients.into_iter().for_each(McpClient::end);
    let report = ok(home.path(), &["verify"]);
    assert_eq!((&report["clean"], &report["messages"]), (&json!(true), &json!(180)), "{report}");
}

#[test]
fn a_waiting_call_reports_progress_and_can_be_canceled() {
    let home = tempfile::tempdir().unwrap();
    // With an unreachable summarizer, jobs stay queued and contexts wait for them.
    let invalid_settings = [
        "summarize.provider=ollama",
        "summarize.model=none",
        "providers.ollama.base_url=http://127.0.0.1:9",
    ];
    let options: Vec<&str> =
        invalid_settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let mut client = McpClient::start_with(home.path(), &options);
    fill(&mut client, "k", 20);
    let params = json!({
        "name": "context",
        "arguments": { "conversation": "k" },
        "_meta": { "progressToken": "p" },
    });
    let waiting = client.begin("tools/call", &params);
    let note = client.read();
    assert_eq!(
        (&note["method"], &note["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!("p")),
        "{note}"
    );
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": waiting } }),
    );
    assert!(client.ask("ping", &json!({})).is_object(), "it goes on");
    assert_eq!(
        client.ok("status", &json!({}))["conversation"]["clear"],
        false,
        "the jobs go on too"
    );
    client.end();
}

#[test]
fn sigterm_stops_the_server_despite_an_open_client_and_a_hanging_provider() {
    let home = tempfile::tempdir().unwrap();
    McpClient::start(home.path()).stop();

    let provider = FaultServer::start([ScriptedResponse::Hang(Duration::from_secs(600))]);
    let options = summarized_by(&provider);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut client = McpClient::start_with(home.path(), &options);
    fill(&mut client, "k", 20);
    await_request(&provider, 0);
    client.stop();
    assert_given_back(home.path());

    // A hanging provider does not delay the exit when the client disconnects either.
    let before = provider.requests().len();
    let client = McpClient::start_with(home.path(), &options);
    await_request(&provider, before);
    client.end();
    assert_given_back(home.path());
}

#[test]
fn a_message_that_is_too_large_gets_an_error() {
    let home = tempfile::tempdir().unwrap();
    let mut client = McpClient::start(home.path());
    let large = json!({ "name": "search", "arguments": { "query": "x".repeat(17 << 20) } });
    let id = client.begin("tools/call", &large);
    let answer = client.read();
    assert_eq!(answer["id"], id, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("16 MiB"), "{answer}");
    assert!(client.ask("tools/list", &json!({}))["tools"].is_array(), "the session goes on");
    client.end();
}
