//! `treering serve` as local and remote programs use it.

#![allow(clippy::panic, clippy::unwrap_used)]

use crate::endpoints;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use crate::endpoints::{
    McpClient, TestServer, assert_given_back, await_request, fill, ok, summarized_by, treering,
    turn,
};
use serde_json::{Value, json};
use treering_testkit::fault_server::{FaultServer, ScriptedResponse};

#[test]
fn appended_turns_are_searchable_streamed_and_counted() {
    let home = tempfile::tempdir().unwrap();
    let server = TestServer::start(home.path(), &[]);
    let entries: Vec<Value> = (0..40).map(turn).collect();
    let appended =
        server.post("/v1/append", &json!({ "key": "day", "title": "Gates", "entries": entries }));
    assert_eq!(
        (&appended["slug"], appended["messages"].as_array().unwrap().len()),
        (&json!("gates"), 80)
    );
    let again = server.post("/v1/append", &json!({ "key": "day", "entries": [turn(3)] }));
    assert_eq!(again["known"], 2);

    let found = server.post("/v1/search", &json!({ "query": "gate 17", "limit": 10 }));
    let hits = found["hits"].as_array().unwrap();
    assert!(hits.iter().any(|hit| hit["idx"] == 34 || hit["idx"] == 35), "{found}");
    let asked = json!({ "conversation": "day", "query": "gate 17", "format": "messages" });
    let context = server.post("/v1/context", &asked);
    assert!(
        context["messages"].is_array() && context["receipt"]["gate"]["degraded"] == false,
        "{context}"
    );
    let page = server.get("/v1/conversations/gates?from=2&limit=2");
    assert_eq!((&page["turns"][0]["turn"], &page["next"]), (&json!(2), &json!(4)));
    assert_eq!(server.get("/v1/conversations"), ok(home.path(), &["sessions"]));
    while server.get("/v1/jobs")["jobs"] != json!([]) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let nodes = server.get("/v1/conversations/gates/messages/0/nodes");
    let node = server.get(&format!("/v1/nodes/{}", nodes["up"][0]["id"].as_str().unwrap()));
    assert_eq!(
        node,
        ok(home.path(), &["show", nodes["up"][0]["id"].as_str().unwrap()]),
        "as the command line tells it"
    );
    let update =
        server.post("/v1/conversations/gates/update", &json!({ "full": true, "dry_run": true }));
    assert!(update["job"].is_null() && update["calls"].as_u64().unwrap() > 3);
    assert_eq!(
        server
            .request("PATCH", "/v1/conversations/gates", &[], Some(&json!({ "state": "closed" })))
            .1["state"],
        "closed"
    );
    assert_eq!(server.get("/v1/conversations/gates/status")["open"], false);
    assert!(!server.get("/v1/logs?limit=5")["lines"].as_array().unwrap().is_empty());
    assert_eq!(server.get("/v1/stats")["turns"], 40);
    assert!(server.get("/v1/jobs")["jobs"].is_array());

    let metrics = server.get("/metrics");
    let metrics = metrics.as_str().unwrap();
    for line in [
        "treering_turns{tenant=\"default\"} 40",
        "treering_http_requests_total",
        "treering_events_total",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(metrics.ends_with("# EOF\n"));
    let log = server.stop();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        lines.iter().any(|line| line["path"] == "/v1/append" && line["status"] == 200),
        "{log}"
    );
    assert_eq!(ok(home.path(), &["verify"])["clean"], true);
}

#[test]
fn statistics_agree_over_http_and_the_command_line() {
    let home = tempfile::tempdir().unwrap();
    let server = TestServer::start(home.path(), &[]);
    let entries: Vec<Value> = (0..120).map(turn).collect();
    server.post("/v1/append", &json!({ "key": "day", "title": "Gates", "entries": entries }));
    while server.get("/v1/jobs")["jobs"] != json!([]) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_ne!(server.post("/v1/search", &json!({ "query": "gate 17" }))["hits"], json!([]));
    let one = server.get("/v1/stats?conversation=gates");
    let reply = ok(home.path(), &["stats", "gates"]);
    assert_eq!(
        (&one["conversation"], &one["compression"]),
        (&json!("gates"), &reply["compression"])
    );
    assert_eq!((&one["tree"], &one["times"]["found_share"]), (&reply["tree"], &json!(1.0)));
    let (status, problem) = server.request("GET", "/v1/stats?conversation=nobody", &[], None);
    assert_eq!(status, 404, "{problem}");
    assert_eq!(server.request("GET", "/v1/stats?conversaton=gates", &[], None).0, 400);
    let nothing = json!({ "query": "gate 17", "role": "system" });
    assert_eq!(server.post("/v1/search", &nothing)["hits"], json!([]));
    let metrics = server.get("/metrics");
    let metrics = metrics.as_str().unwrap();
    for line in [
        "treering_searches_total{tenant=\"default\",found=\"true\"} 1",
        "treering_searches_total{tenant=\"default\",found=\"false\"} 1",
        "treering_search_seconds_count{tenant=\"default\"} 2",
        "treering_store_turn_seconds_sum{tenant=\"default\"} ",
        "treering_summary_seconds_count{tenant=\"default\",level=\"1\"} ",
        "treering_compression_ratio{tenant=\"default\",level=\"1\"} 0.",
        "treering_average_generation_seconds{tenant=\"default\",level=\"2\"} ",
        "treering_tokens_saved{tenant=\"default\"} ",
        "treering_estimated_cost_savings_dollars{tenant=\"default\"} 0.",
        "treering_recall_lag_max_seconds{tenant=\"default\"} ",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[test]
fn events_include_writes_of_other_processes() {
    let home = tempfile::tempdir().unwrap();
    let server = TestServer::start(home.path(), &[]);
    std::thread::scope(|scope| {
        let following = scope.spawn(|| server.events("0", &["turn", "sealed", "node"]));
        let lines: String = (0..20).map(|number| format!("{}\n", turn(number))).collect();
        let file = home.path().join("lines.jsonl");
        std::fs::write(&file, lines).unwrap();
        let stdin = std::fs::File::open(&file).unwrap();
        assert!(
            treering(home.path(), &["append", "--no-tree"])
                .stdin(stdin)
                .output()
                .unwrap()
                .status
                .success()
        );
        let events = following.join().unwrap();
        let (_, first) = events.iter().find(|(kind, _)| kind == "turn").unwrap();
        assert_eq!((&first["turn"], &first["messages"]), (&json!(0), &json!([0, 1])));
        let (_, node) = events.iter().find(|(kind, _)| kind == "node").unwrap();
        assert!(node["node"].as_str().unwrap().starts_with("l1-"));
        let (_, sealed) = events.iter().find(|(kind, _)| kind == "sealed").unwrap();
        assert!(sealed["log"]["text"].as_str().unwrap().contains("level 1"));
    });
    let (status, _) = server.request("GET", "/v1/events", &[("last-event-id", "nonsense")], None);
    assert_eq!(status, 400);
    server.stop();
}

#[test]
fn failed_jobs_are_events() {
    let home = tempfile::tempdir().unwrap();
    let provider = FaultServer::start([ScriptedResponse::refuse(500, "out of order")]);
    let options = summarized_by(&provider);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let server = TestServer::start(home.path(), &options);
    let entries: Vec<Value> = (0..20).map(turn).collect();
    server.post("/v1/append", &json!({ "title": "Gates", "entries": entries }));
    let events = server.events("0", &["failed"]);
    let (_, failed) = events.iter().find(|(kind, _)| kind == "failed").unwrap();
    assert_eq!(
        (&failed["slug"], &failed["log"]["event"]),
        (&json!("gates"), &json!("fail")),
        "{failed}"
    );
    assert!(failed["log"]["text"].as_str().unwrap().contains("failed"), "{failed}");
    server.stop();
}

#[test]
fn http_and_mcp_serve_one_home_concurrently() {
    let home = tempfile::tempdir().unwrap();
    let server = TestServer::start(home.path(), &[]);
    let mut client = McpClient::start(home.path());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..40 {
                server.post("/v1/append", &json!({ "key": "shared", "entries": [turn(number)] }));
            }
        });
        fill(&mut client, "shared", 40);
    });
    // A message stored over HTTP is found over MCP, and the other way round.
    let heron = json!({ "key": "shared", "entries": [{ "type": "turn", "user": "A heron stands at the weir." }] });
    server.post("/v1/append", &heron);
    client.ok("remember", &json!({ "key": "shared", "user": "A cormorant nests at the lock." }));
    let found = client.text("search", &json!({ "query": "heron weir", "limit": 1 }));
    assert!(found.contains("> A heron stands at the weir."), "{found}");
    let found = server.post("/v1/search", &json!({ "query": "cormorant lock", "limit": 1 }));
    assert!(found["hits"][0]["snippet"].to_string().contains("cormorant"), "{found}");
    let context = client.text("context", &json!({ "conversation": "shared" }));
    assert!(!context.contains("unfinished summaries"), "{context}");
    while server.get("/v1/jobs")["jobs"] != json!([]) {
        std::thread::sleep(Duration::from_millis(20));
    }
    client.end();
    server.stop();
    let verified = ok(home.path(), &["verify"]);
    assert_eq!(
        (&verified["clean"], &verified["messages"]),
        (&json!(true), &json!(162)),
        "{verified}"
    );
}

#[test]
fn errors_are_json_with_a_hint() {
    let home = tempfile::tempdir().unwrap();
    let server = TestServer::start(home.path(), &["--set", "serve.body_bytes=20000"]);
    let check = |method: &str, path: &str, body: Option<Value>, expected: u16, word: &str| {
        let (status, value) = server.request(method, path, &[], body.as_ref());
        assert_eq!(status, expected, "{method} {path}: {value}");
        assert!(value["error"].as_str().unwrap().contains(word), "{method} {path}: {value}");
    };
    check("GET", "/nowhere", None, 404, "not found");
    check("DELETE", "/v1/search", None, 405, "method");
    check("GET", "/v1/conversations/none", None, 404, "none");
    check("GET", "/v1/conversations?limit=x", None, 400, "limit");
    check("GET", "/v1/conversations?colour=red", None, 400, "colour");
    check("GET", "/v1/conversations?limit=9999", None, 400, "500");
    check("POST", "/v1/search", Some(json!({})), 400, "query");
    check("POST", "/v1/search", Some(json!({ "query": "a", "tenant": "b" })), 400, "tenant");
    check("POST", "/v1/append", Some(json!({ "entries": [] })), 400, "entries");
    check("POST", "/v1/append", Some(json!({ "entries": [{ "type": "song" }] })), 400, "song");
    check("POST", "/v1/append", Some(json!({ "entries": [{ "type": "turn" }] })), 400, "entry 0");
    let long = json!({ "type": "turn", "user": "u", "external_id": "e".repeat(101) });
    check(
        "POST",
        "/v1/append",
        Some(json!({ "entries": [turn(1), long] })),
        400,
        "entry 1: external_id has 101",
    );
    let calls = vec![json!({ "name": "n" }); 201];
    let large = json!({ "type": "turn", "user": "u", "tool_calls": calls });
    check(
        "POST",
        "/v1/append",
        Some(json!({ "entries": [large] })),
        400,
        "entry 0: there are 201 tool_calls",
    );
    check(
        "POST",
        "/v1/append",
        Some(json!({ "entries": [{ "type": "turn", "user": "x".repeat(30000) }] })),
        413,
        "large",
    );
    check("POST", "/v1/context", Some(json!({})), 400, "name a conversation, or a scope");
    check("GET", "/v1/nodes/l1-00", None, 404, "l1-00");
    check("GET", "/v1/conversations/x/nodes?level=0", None, 400, "level is 0");
    let (status, value) =
        server.request("POST", "/v1/search", &[("content-type", "text/plain")], None);
    assert_eq!((status, &value["error"]), (415, &json!("the body is not JSON")));
    server.stop();
}

#[test]
fn a_token_gives_access_to_its_own_tenant_only() {
    let home = tempfile::tempdir().unwrap();
    let refused = treering(home.path(), &["serve", "--address", "0.0.0.0:0"]).output().unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("treering token create"));

    let make = |args: &[&str]| token(home.path(), args);
    let (writer, writer_id) = make(&[]);
    let (reader, _) = make(&["--scopes", "read"]);
    let (other, _) = make(&["--tenant", "other", "--scopes", "read,write,admin"]);
    let server = TestServer::start(home.path(), &["--set", "serve.require_token=true"]);
    let stats = |token: &str| server.request("GET", "/v1/stats", &[("authorization", token)], None);
    let append = |token: &str| {
        let body = json!({ "key": "k", "entries": [turn(1)] });
        server.request("POST", "/v1/append", &[("authorization", token)], Some(&body)).0
    };
    assert_eq!(server.request("GET", "/v1/stats", &[], None).0, 401);
    for wrong in ["Bearer x", "Bearer trg_00000000_00", "Basic eDp5", &writer[..writer.len() - 1]] {
        assert_eq!(stats(wrong).0, 401, "{wrong}");
    }
    assert_eq!(server.get("/health")["status"], "ok", "needs none");
    assert_eq!((append(&reader), append(&writer), append(&other)), (403, 200, 200));
    assert_eq!(stats(&reader).1["turns"], 1, "its own, not what the other has");
    assert_eq!(stats(&other).1["tenant"], "other");
    let metrics =
        |token: &str| server.request("GET", "/metrics", &[("authorization", token)], None);
    assert_eq!((metrics(&writer).0, metrics(&other).0), (403, 200));

    // MCP enforces the same tenant, and no argument can override it.
    let call = |token: &str, tool: &str, arguments: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments } });
        let accept = "application/json, text/event-stream";
        server
            .request("POST", "/mcp", &[("authorization", token), ("accept", accept)], Some(&body))
            .1
    };
    assert_eq!(call(&reader, "remember", json!({ "user": "x" }))["result"]["isError"], true);
    assert_eq!(call(&other, "status", json!({}))["result"]["structuredContent"]["turns"], 1);
    assert_eq!(server.request("POST", "/mcp", &[], Some(&json!({}))).0, 401);

    ok(home.path(), &["token", "revoke", &writer_id]);
    assert_eq!(stats(&writer).0, 401, "revoked at once");
    assert_eq!(ok(home.path(), &["token", "list"]).as_array().unwrap().len(), 2);
    let log = server.stop();
    assert!(!log.contains("trg_"), "no secret is logged");
}

/// Every request over HTTP stands alone, and still finds the task that another one started.
#[test]
fn a_task_is_found_by_its_own_tenant_only() {
    let home = tempfile::tempdir().unwrap();
    let tokens = ["aaa", "bbb"].map(|tenant| {
        let created = ok(home.path(), &["token", "create", "--tenant", tenant]);
        format!("Bearer {}", created["token"].as_str().unwrap())
    });
    let server = TestServer::start(home.path(), &[]);
    let ask = |token: &str, method: &str, name: &str, params: Value| {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities":
                { "extensions": { "io.modelcontextprotocol/tasks": {} } },
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let headers = [
            ("authorization", token),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
            ("mcp-name", name),
        ];
        server.request("POST", "/mcp", &headers, Some(&body)).1
    };
    let entries: Vec<Value> = (0..20).map(turn).collect();
    let body = json!({ "key": "k", "entries": entries });
    server.request("POST", "/v1/append", &[("authorization", &tokens[0])], Some(&body));
    let call = json!({ "name": "summaries_update", "arguments": { "full": true } });
    let started = ask(&tokens[0], "tools/call", "summaries_update", call);
    assert_eq!(started["result"]["resultType"], "task", "{started}");
    let id = started["result"]["taskId"].as_str().unwrap();
    let get = |token: &str| ask(token, "tasks/get", id, json!({ "taskId": id }));
    while get(&tokens[0])["result"]["status"] == "working" {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(get(&tokens[0])["result"]["status"], "completed");
    assert_eq!(get(&tokens[1])["error"]["code"], -32602, "another tenant");
    server.stop();
}

/// Creates a token with these options. Returns the header that sends it, and its id.
fn token(home: &Path, options: &[&str]) -> (String, String) {
    let created = ok(home, &[&["token", "create"], options].concat());
    let text = |name: &str| created[name].as_str().unwrap().to_owned();
    (format!("Bearer {}", text("token")), text("id"))
}

#[test]
fn revoking_a_token_ends_its_event_streams() {
    let home = tempfile::tempdir().unwrap();
    let [(revoked, id), (other, _)] = [(), ()].map(|()| token(home.path(), &[]));
    let server = TestServer::start(home.path(), &["--set", "serve.require_token=true"]);
    let stream = |token: &str| {
        let mut stream = server.send(&format!(
            "GET /v1/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: {token}\r\nlast-event-id: 0\r\n\r\n"
        ));
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        stream
    };
    let (mut of_revoked, mut of_other) = (stream(&revoked), stream(&other));
    ok(home.path(), &["token", "revoke", &id]);
    let append = json!({ "key": "k", "entries": [turn(1)] });
    let headers = [("authorization", other.as_str())];
    assert_eq!(server.request("POST", "/v1/append", &headers, Some(&append)).0, 200);
    let mut rest = String::new();
    of_revoked.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("event: turn"), "{rest}");
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("event: turn") {
        let mut more = [0; 1024];
        let length = of_other.read(&mut more).unwrap();
        assert!(length > 0, "the other stream goes on");
        seen.extend_from_slice(&more[..length]);
    }
    server.stop();
}

#[test]
fn tokens_expire_and_the_list_shows_their_last_use() {
    let home = tempfile::tempdir().unwrap();
    let (short, short_id) = token(home.path(), &["--expires", "1s"]);
    let (long, long_id) = token(home.path(), &["--expires", "30d"]);
    let (_, unused_id) = token(home.path(), &[]);
    let refused =
        treering(home.path(), &["token", "create", "--expires", "soon"]).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("such as 12h or 30d"));
    let server = TestServer::start(home.path(), &["--set", "serve.require_token=true"]);
    let stats = |token: &str| server.request("GET", "/v1/stats", &[("authorization", token)], None);
    let expired = loop {
        match stats(&short) {
            (200, _) => std::thread::sleep(Duration::from_millis(50)),
            (status, problem) => break (status, problem["error"].clone()),
        }
    };
    assert_eq!(expired, (401, json!("the token has expired")));
    assert_eq!(stats(&long).0, 200);
    server.stop();
    let list = ok(home.path(), &["token", "list"]);
    let of = |id: &str| list.as_array().unwrap().iter().find(|it| it["id"] == id).unwrap();
    assert!(of(&short_id)["expires_at"].is_string() && of(&long_id)["expires_at"].is_string());
    assert!(of(&long_id)["last_used_at"].is_string(), "{list}");
    assert!(of(&unused_id)["expires_at"].is_null() && of(&unused_id)["last_used_at"].is_null());
}

#[test]
fn counters_tell_a_tenant_nothing_about_others() {
    let home = tempfile::tempdir().unwrap();
    let make = |tenant: &str, scopes: &str| {
        token(home.path(), &["--tenant", tenant, "--scopes", scopes]).0
    };
    let (busy, quiet) = (make("busy", "read,write"), make("quiet", "read,write,admin"));
    let operator = make("default", "read,admin");
    let server = TestServer::start(home.path(), &["--set", "serve.require_token=true"]);
    let seen = |token: &str| {
        let headers = [("authorization", token)];
        let stats = server.request("GET", "/v1/stats", &headers, None).1;
        let (_, metrics) = server.request("GET", "/metrics", &headers, None);
        let metrics = metrics.as_str().unwrap_or_default().contains("treering_store_bytes");
        (stats["store"]["bytes"].is_u64(), metrics)
    };
    let append = |token: &str, turns: usize| {
        let entries: Vec<Value> = (0..turns).map(turn).collect();
        let headers = [("authorization", token)];
        let body = json!({ "key": "k", "entries": entries });
        assert_eq!(server.request("POST", "/v1/append", &headers, Some(&body)).0, 200);
    };
    append(&busy, 40);
    append(&quiet, 1);
    assert_eq!((seen(&quiet), seen(&operator)), ((false, false), (true, true)));
    // The ids of events count the changes of the tenant alone.
    let mut stream = server.send(&format!(
        "GET /v1/events HTTP/1.1\r\nhost: localhost\r\nauthorization: {quiet}\r\nlast-event-id: 0\r\n\r\n"
    ));
    let mut text = String::new();
    let id = loop {
        let mut more = [0; 1024];
        let length = stream.read(&mut more).unwrap();
        text.push_str(&String::from_utf8_lossy(&more[..length]));
        if let Some((_, id)) = text.split_once("\nid: ")
            && let Some((id, _)) = id.split_once('\n')
        {
            break id.parse::<u64>().unwrap();
        }
    };
    assert!(id < 10, "{text}");
    server.stop();
}

#[test]
fn metrics_of_a_tenant_are_visible_to_its_tokens_and_the_operator() {
    let home = tempfile::tempdir().unwrap();
    let tokens = ["aaa", "bbb"].map(|tenant| {
        let created = ok(
            home.path(),
            &["token", "create", "--tenant", tenant, "--scopes", "read,write,admin"],
        );
        format!("Bearer {}", created["token"].as_str().unwrap())
    });
    let server = TestServer::start(home.path(), &[]);
    let metrics = |headers: &[(&str, &str)]| {
        let (status, text) = server.request("GET", "/metrics", headers, None);
        assert_eq!(status, 200, "{text}");
        text.as_str().unwrap().to_owned()
    };
    let body = json!({ "key": "k", "entries": [turn(1)] });
    for token in &tokens {
        let headers = [("authorization", token.as_str())];
        assert_eq!(server.request("POST", "/v1/append", &headers, Some(&body)).0, 200);
        // The event for the turn is delivered and counted.
        while !metrics(&headers).contains("treering_events_total{") {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let of_one = metrics(&[("authorization", &tokens[0])]);
    assert!(of_one.contains("treering_turns{tenant=\"aaa\"} 1"), "{of_one}");
    for foreign in ["bbb", "default", "http_requests", "resident_bytes"] {
        assert!(!of_one.contains(foreign), "{foreign}: {of_one}");
    }
    let of_all = metrics(&[]);
    for series in
        ["turns{tenant=\"aaa\"} 1", "turns{tenant=\"bbb\"} 1", "turns{tenant=\"default\"} 0"]
    {
        assert!(of_all.contains(series), "{series}: {of_all}");
    }
    assert!(
        of_all.contains("treering_events_total{tenant=\"bbb\"") && of_all.ends_with("# EOF\n"),
        "{of_all}"
    );
    server.stop();
}

#[test]
fn process_metrics_require_a_token_of_the_served_tenant() {
    let home = tempfile::tempdir().unwrap();
    let make = |args: &[&str]| {
        let created = ok(home.path(), &[&["token", "create", "--scopes"], args].concat());
        format!("Bearer {}", created["token"].as_str().unwrap())
    };
    let (admin, writer) = (make(&["admin"]), make(&["read,write"]));
    let other = make(&["admin", "--tenant", "other"]);
    let server = TestServer::start(home.path(), &["--set", "serve.require_token=true"]);
    let metrics =
        |token: &str| server.request("GET", "/metrics", &[("authorization", token)], None);
    assert_eq!((metrics(&writer).0, server.request("GET", "/metrics", &[], None).0), (403, 401));
    let (status, of_other) = metrics(&other);
    assert!(status == 200 && !of_other.to_string().contains("resident_bytes"), "{of_other}");
    let (status, of_admin) = metrics(&admin);
    let of_admin = of_admin.as_str().unwrap();
    assert_eq!(status, 200);
    for series in [
        "http_requests_total{",
        "http_request_seconds_bucket{",
        "resident_bytes ",
        "turns{tenant=\"default\"}",
    ] {
        assert!(of_admin.contains(&format!("treering_{series}")), "{series}: {of_admin}");
    }
    assert!(!of_admin.contains("tenant=\"other\""), "tenants are nobody else's: {of_admin}");
    server.stop();
}

#[test]
fn unknown_methods_and_paths_share_one_metrics_label() {
    let home = tempfile::tempdir().unwrap();
    let server = TestServer::start(home.path(), &[]);
    for number in 0..20 {
        let request = format!(
            "BREW{number} /{number} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        );
        let mut answer = String::new();
        server.send(&request).read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    }
    let metrics = server.get("/metrics");
    let metrics = metrics.as_str().unwrap();
    let counted =
        "treering_http_requests_total{method=\"other\",route=\"none\",status=\"404\"} 20\n";
    assert!(metrics.contains(counted) && !metrics.contains("BREW"), "{metrics}");
    server.stop();
}

#[test]
fn connections_with_unfinished_headers_are_closed() {
    let home = tempfile::tempdir().unwrap();
    let settings = ["--set", "serve.header_timeout_ms=500", "--set", "serve.connections=1"];
    let server = TestServer::start(home.path(), &settings);
    let mut half = server.send("GET /health HTTP/1.1\r\nhost: localhost\r\nx-half: ");
    assert_eq!(server.get("/health")["status"], "ok", "answered when there is room");
    let closed = half.read_to_end(&mut Vec::new());
    let is_reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
    assert!(closed.as_ref().err().is_none_or(is_reset), "{closed:?}");
    server.stop();
}

/// Clients that ask for much and never read, or never finish their request, hold all connections.
#[test]
fn stalled_connections_lock_nobody_out() {
    let home = tempfile::tempdir().unwrap();
    let server = TestServer::start(home.path(), &["--set", "serve.connections=8"]);
    let document = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(40);
    let body = "POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 1000\r\n\r\n{";
    for stalled in [document.as_str(), "GET /health HTTP/1.1\r\nhost: ", body] {
        let stalled: Vec<_> = (0..30).map(|_| server.send(stalled)).collect();
        // An idle connection may be closed for the next client, so each request has its own.
        let close = [("connection", "close")];
        for _ in 0..20 {
            let query = json!({ "query": "a" });
            assert_eq!(server.request("POST", "/v1/search", &close, Some(&query)).0, 200);
            assert_eq!(server.request("GET", "/ready", &close, None).0, 200);
        }
        drop(stalled);
    }
    server.stop();
}

#[test]
fn answers_that_nobody_reads_end_at_the_write_timeout() {
    let home = tempfile::tempdir().unwrap();
    let server = TestServer::start(home.path(), &["--set", "serve.write_timeout_ms=300"]);
    let requests = 400;
    let mut lazy = server.send(&"GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n".repeat(requests));
    std::thread::sleep(std::time::Duration::from_secs(2));
    let mut answers = Vec::new();
    // The connection was closed: the rest is gone.
    drop(lazy.read_to_end(&mut answers));
    let complete = requests * server.get("/openapi.json").to_string().len();
    assert!(answers.len() < complete, "{} of {complete}", answers.len());
    server.stop();
}

#[test]
fn the_body_limit_is_the_setting_and_refusals_are_answered() {
    let home = tempfile::tempdir().unwrap();
    let settings = ["--set", "serve.body_bytes=6000000", "--set", "serve.requests_per_second=2"];
    let server = TestServer::start(home.path(), &settings);
    let long = json!({ "entries": [{ "type": "turn", "user": "sill ".repeat(700_000) }] });
    assert_eq!(server.request("POST", "/v1/append", &[], Some(&long)).0, 200, "3.5 MB");
    let post = |length: &str| {
        format!(
            "POST /v1/append HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{length}\r\n\r\n"
        )
    };
    // Both clients send everything before they read.
    let sized = [post("content-length: 40000000"), "x".repeat(40_000_000)].concat();
    let chunk = format!("f4240\r\n{}\r\n", "x".repeat(1_000_000));
    let chunked =
        [post("transfer-encoding: chunked"), chunk.repeat(20), "0\r\n\r\n".into()].concat();
    for request in [sized, chunked] {
        let mut answer = String::new();
        server.send(&request).read_to_string(&mut answer).unwrap();
        let answer = answer.to_ascii_lowercase();
        let is_refusal = answer.starts_with("http/1.1 413") || answer.starts_with("http/1.1 429");
        assert!(is_refusal && answer.contains("\"hint\":"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
    let busy = (0..20).find_map(|_| {
        let mut answer = [0; 4096];
        let request = [post("content-length: 4"), "{}  ".into()].concat();
        let length = server.send(&request).read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        answer.starts_with("HTTP/1.1 429").then_some(answer)
    });
    assert!(busy.unwrap().contains("connection: close"), "the refusal says so");
    server.stop();
}

#[test]
fn foreign_hosts_foreign_origins_and_excess_requests_are_rejected() {
    let home = tempfile::tempdir().unwrap();
    let settings = [
        "serve.requests_per_second=5",
        "serve.hosts=[\"memory.example\"]",
        "serve.origins=[\"https://app.example\"]",
    ];
    let args: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let server = TestServer::start(home.path(), &args);
    let status = |headers: &[(&str, &str)]| server.request("GET", "/v1/stats", headers, None).0;
    assert_eq!(status(&[("host", "evil.example")]), 403);
    assert_eq!(status(&[("host", "memory.example")]), 200);
    assert_eq!(status(&[("origin", "http://evil.example")]), 403);
    assert_eq!(status(&[("origin", "https://app.example")]), 200);
    let request = ureq::http::Request::options(format!("{}/v1/search", server.address))
        .header("origin", "https://app.example")
        .header("access-control-request-method", "POST");
    let reply = server.agent.run(request.body(()).unwrap()).unwrap();
    assert_eq!(
        reply.headers()["access-control-allow-origin"],
        "https://app.example",
        "browsers are told"
    );
    let (code, _) = server.request("POST", "/mcp", &[("host", "evil.example")], Some(&json!({})));
    assert_eq!(code, 403);
    let answers: Vec<u16> = (0..30).map(|_| status(&[])).collect();
    assert!(answers.contains(&429), "{answers:?}");
    server.stop();
}

#[test]
fn the_page_and_its_openapi_document_load_nothing_external() {
    let home = tempfile::tempdir().unwrap();
    let server = TestServer::start(home.path(), &[]);
    let document = server.get("/openapi.json");
    assert_eq!(
        document,
        serde_json::from_slice::<Value>(
            &treering(home.path(), &["serve", "--openapi"]).output().unwrap().stdout
        )
        .unwrap()
    );
    for path in
        ["/v1/append", "/v1/search", "/v1/context", "/v1/events", "/metrics", "/health", "/ready"]
    {
        assert!(document["paths"][path].is_object(), "{path}");
    }
    let page = server.get("/");
    let page = page.as_str().unwrap();
    assert!(
        page.contains("/openapi.json") && !page.contains("http://") && !page.contains("https://")
    );
    server.stop();
}

#[test]
fn every_operation_of_the_openapi_document_is_named_and_described() {
    let home = tempfile::tempdir().unwrap();
    let document = ok(home.path(), &["serve", "--openapi"]);
    let (mut responses, mut names) = (0, BTreeSet::new());
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert!(names.insert(operation["operationId"].as_str().unwrap()), "{method} {path}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                let description = response["description"].as_str().unwrap_or_default();
                assert!(!description.is_empty(), "{method} {path}: {status}");
                responses += 1;
            }
        }
    }
    assert!(responses > 100, "{responses}");
}

/// The fields that the parser knows, from its error about an unknown one.
fn known_fields(refusal: &str) -> Vec<&str> {
    let refused = |at: &str| refusal.split_once(at).map(|(_, rest)| rest);
    let mut fields: Vec<&str> = match refused("the allowed fields are ") {
        Some(list) => list.split(", ").collect(),
        None => refused("expected ").unwrap().split('`').skip(1).step_by(2).collect(),
    };
    fields.sort_unstable();
    fields
}

#[test]
fn the_openapi_document_has_every_entry_shape_that_append_accepts() {
    let home = tempfile::tempdir().unwrap();
    let server = TestServer::start(home.path(), &[]);
    let schemas = server.get("/openapi.json")["components"]["schemas"].clone();
    let shapes = schemas["EntryRequest"]["oneOf"].as_array().unwrap();
    let mut types = Vec::new();
    for shape in shapes {
        let name = shape["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
        let schema = &schemas[name];
        let example = schema["examples"][0].clone();
        server.post("/v1/append", &json!({ "key": "shapes", "entries": [example] }));
        let mut odd = example.clone();
        odd["no_such_field"] = json!(1);
        let body = json!({ "key": "shapes", "entries": [odd] });
        let (status, refused) = server.request("POST", "/v1/append", &[], Some(&body));
        assert_eq!(status, 400, "{refused}");
        let listed: Vec<&str> =
            schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(known_fields(refused["error"].as_str().unwrap()), listed, "{name}");
        types.extend(example["type"].as_str().map(str::to_owned));
    }
    let (_, refused) = server.request(
        "POST",
        "/v1/append",
        &[],
        Some(&json!({ "key": "shapes", "entries": [{ "type": "odd" }] })),
    );
    // The parser names its types; a request has no entry for the conversation.
    let known = refused["error"].as_str().unwrap().split_once("expected conversation, ").unwrap().1;
    let mut known: Vec<&str> = known.split(&[',', ' '][..]).filter(|it| *it != "or").collect();
    known.retain(|it| !it.is_empty());
    known.sort_unstable();
    types.sort_unstable();
    assert_eq!(known, types);
    assert_eq!(shapes.len(), types.len() + 1, "and the messages of chat APIs");
    server.stop();
}

/// The command line prints with `--json` the JSON that HTTP answers.
#[test]
fn the_command_line_and_http_have_one_shape() {
    let home = tempfile::tempdir().unwrap();
    let server = TestServer::start(home.path(), &[]);
    let entries: Vec<Value> = (0..40).map(turn).collect();
    server.post("/v1/append", &json!({ "key": "day", "title": "Gates", "entries": entries }));
    while server.get("/v1/jobs")["jobs"] != json!([]) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let node = server.get("/v1/conversations/gates/nodes")["nodes"][0]["id"].clone();
    let node = node.as_str().unwrap();
    let pairs: [(&[&str], String); 13] = [
        (&["sessions"], "/v1/conversations".into()),
        (&["show", "gates"], "/v1/conversations/gates".into()),
        (&["show", "gates", "--tree"], "/v1/conversations/gates/tree".into()),
        (&["show", "gates", "--nodes"], "/v1/conversations/gates/nodes".into()),
        (&["show", node], format!("/v1/nodes/{node}")),
        (&["show", "gates#3", "--history"], "/v1/conversations/gates/messages/3/history".into()),
        (&["expand", "gates#3"], "/v1/conversations/gates/messages/3/nodes".into()),
        (&["jobs"], "/v1/jobs".into()),
        (&["logs"], "/v1/logs".into()),
        (&["threads", "gates"], "/v1/conversations/gates/threads".into()),
        (&["policy", "gates"], "/v1/conversations/gates/policy".into()),
        (&["audit"], "/v1/audit".into()),
        (&["search", "gate 17"], String::new()),
    ];
    for (command, path) in pairs {
        let answer = match path.as_str() {
            "" => server.post("/v1/search", &json!({ "query": "gate 17" })),
            path => server.get(path),
        };
        assert_eq!(ok(home.path(), command), answer, "{command:?}");
    }
    let context = json!({ "conversation": "gates", "budget": 500, "format": "json" });
    let (printed, answer) = (
        ok(home.path(), &["context", "gates", "--budget", "500"]),
        server.post("/v1/context", &context),
    );
    assert_eq!(shape(&printed), shape(&answer));
    let update = json!({ "full": true, "dry_run": true });
    let answer = server.post("/v1/conversations/gates/update", &update);
    let printed = ok(home.path(), &["update", "gates", "--full", "--dry-run"]);
    assert_eq!(shape(&printed), shape(&answer));
    server.stop();
}

/// The types of a JSON value, without its content.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect()
        }
        Value::Array(items) => json!([items.first().map(shape)]),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        Value::Bool(_) => json!("flag"),
        Value::Null => Value::Null,
    }
}

#[test]
fn shutdown_finishes_running_jobs_and_leaves_no_lease() {
    let home = tempfile::tempdir().unwrap();
    let server = TestServer::start(home.path(), &[]);
    let entries: Vec<Value> = (0..400).map(turn).collect();
    server.post("/v1/append", &json!({ "key": "long", "entries": entries }));
    server.stop();
    let jobs = ok(home.path(), &["jobs", "--limit", "1000"]);
    let leased =
        jobs["jobs"].as_array().unwrap().iter().filter(|job| job["state"] == "generating").count();
    assert_eq!(leased, 0, "{jobs}");
    ok(home.path(), &["work"]);
    let verified = ok(home.path(), &["verify"]);
    assert_eq!((&verified["clean"], &verified["messages"]), (&json!(true), &json!(800)));
}

#[test]
fn shutdown_releases_the_jobs_of_a_hanging_provider() {
    let home = tempfile::tempdir().unwrap();
    let provider = FaultServer::start([ScriptedResponse::Hang(Duration::from_secs(600))]);
    let options = summarized_by(&provider);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let server = TestServer::start(home.path(), &options);
    let entries: Vec<Value> = (0..40).map(turn).collect();
    server.post("/v1/append", &json!({ "key": "long", "entries": entries }));
    await_request(&provider, 0);
    let log = server.stop();
    assert!(log.contains("another worker takes them"), "{log}");
    assert_given_back(home.path());
}

#[test]
fn the_log_says_what_a_context_waits_for() {
    let home = tempfile::tempdir().unwrap();
    let provider = FaultServer::start([ScriptedResponse::Hang(Duration::from_secs(3600))]);
    let options = summarized_by(&provider);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let server = TestServer::start(home.path(), &options);
    let entries: Vec<Value> = (0..40).map(turn).collect();
    server.post("/v1/append", &json!({ "key": "long", "entries": entries }));
    await_request(&provider, 0);
    server.post("/v1/context", &json!({ "conversation": "long", "gate_timeout_ms": 200 }));
    let log = server.stop();
    let wait = log.find("waiting for critical operations").expect(&log);
    let end = log.find("timeout: still pending").expect(&log);
    assert!(wait < end && log.contains("summarize messages #0"), "{log}");
}

/// Appends until the store fails with an I/O error. Returns the number of acknowledged messages
/// and the refusal.
#[cfg(unix)]
fn append_until_it_fails(server: &TestServer) -> (usize, Value) {
    let mut acknowledged = 0;
    for batch in 0..200 {
        let entries: Vec<Value> = (0..20).map(|number| turn(batch * 20 + number)).collect();
        let body = json!({ "key": "k", "title": "Gates", "entries": entries });
        let (status, answer) = server.request("POST", "/v1/append", &[], Some(&body));
        if status != 200 {
            assert_eq!(status, 503, "{answer}");
            return (acknowledged, answer);
        }
        acknowledged += answer["messages"].as_array().unwrap().len();
    }
    panic!("nothing failed");
}

#[cfg(unix)]
#[test]
fn after_an_io_error_writes_are_refused_and_reads_continue() {
    let home = tempfile::tempdir().unwrap();
    let server = TestServer::start_limited(home.path(), 3000);
    assert_eq!(server.get("/ready")["status"], "ok");
    let (acknowledged, refusal) = append_until_it_fails(&server);
    assert!(acknowledged > 0);
    let one = json!({ "key": "k", "entries": [turn(100_000)] });
    for refusal in [refusal, server.request("POST", "/v1/append", &[], Some(&one)).1] {
        assert!(
            refusal["error"].as_str().unwrap().contains("stopped accepting writes"),
            "{refusal}"
        );
        assert!(refusal["hint"].as_str().unwrap().contains("restart"), "{refusal}");
    }
    assert_eq!(server.get("/health")["status"], "ok");
    let (status, ready) = server.request("GET", "/ready", &[], None);
    assert_eq!((status, &ready["status"]), (503, &json!("the store refuses writes")));
    let stats = server.get("/v1/stats");
    assert_eq!(stats["messages"], acknowledged);
    for view in [&stats["store"], &server.get("/v1/conversations/gates/status")] {
        assert!(view["writes_refused"].as_str().unwrap().contains("restart"), "{view}");
    }
    assert_eq!(
        server.post("/v1/search", &json!({ "query": "gate 7", "limit": 1 }))["hits"][0]["slug"],
        "gates"
    );
    let context = server
        .post("/v1/context", &json!({ "conversation": "gates", "query": "gate 7", "budget": 500 }));
    assert!(context["text"].as_str().unwrap().contains("gate"), "{context}");

    let call = |tool: &str, arguments: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments } });
        let accept = [("accept", "application/json, text/event-stream")];
        server.request("POST", "/mcp", &accept, Some(&body)).1["result"].clone()
    };
    let refused = call("remember", json!({ "key": "k", "user": "And gate 8?" }));
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(refused["isError"] == true && text.contains("restart"), "{text}");
    assert!(
        text.contains("the arguments are valid") && !text.contains("correct the argument"),
        "{text}"
    );
    let reply = call("status", json!({}))["structuredContent"]["writes_refused"].clone();
    assert!(reply.as_str().unwrap().contains("restart"), "{reply}");

    let log = server.stop();
    assert_eq!(log.matches("the store refuses writes").count(), 1, "{log}");
    let verified = ok(home.path(), &["verify"]);
    assert_eq!((&verified["clean"], &verified["messages"]), (&json!(true), &json!(acknowledged)));
    let server = TestServer::start(home.path(), &[]);
    assert_eq!(server.get("/ready")["status"], "ok", "a restart lets it write again");
    server.post("/v1/append", &one);
    server.stop();
}

#[test]
fn a_served_home_can_be_backed_up_but_not_restored() {
    let home = tempfile::tempdir().unwrap();
    let server = TestServer::start(home.path(), &[]);
    server.post("/v1/append", &json!({ "key": "k", "entries": [turn(0)] }));
    let created = ok(home.path(), &["backup", "one.db"]);
    assert_eq!((&created["conversations"], &created["messages"]), (&json!(1), &json!(2)));
    let refused = treering(home.path(), &["restore", "--yes", "one.db"]).output().unwrap();
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success()
            && stderr.contains("another process")
            && stderr.contains("treering serve"),
        "{stderr}"
    );
    server.post("/v1/append", &json!({ "key": "k", "entries": [turn(1)] }));
    server.stop();
    let restored = ok(home.path(), &["restore", "--yes", "one.db"]);
    assert_eq!(
        (&restored["messages"], &restored["schema_version"]),
        (&json!(2), &created["schema_version"])
    );
    assert_eq!(ok(home.path(), &["stats"])["messages"], 2);
}

#[cfg(unix)]
#[test]
fn status_reports_its_own_failed_writes_and_stops_waiting() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("lines.jsonl");
    std::fs::write(&file, (0..40).map(|number| format!("{}\n", turn(number))).collect::<String>())
        .unwrap();
    ok(home.path(), &["append", "--no-tree", "--key", "k", "--user", "How is the weir?"]);
    let stdin = std::fs::File::open(&file).unwrap();
    let appended = treering(home.path(), &["append", "--no-tree", "--key", "k"])
        .stdin(stdin)
        .output()
        .unwrap();
    assert!(appended.status.success());
    // Enough space for the WAL index and little more.
    let args = ["--json", "--set", "work.gate_timeout_ms=100000000", "status", "--wait"];
    let output = endpoints::limited(&treering(home.path(), &args), 64).output().unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(status["writes_refused"].as_str().unwrap().contains("restart"), "{status}");
    assert_eq!(status["clear"], false);
    assert_eq!(ok(home.path(), &["verify"])["clean"], true);
    assert!(ok(home.path(), &["status"])["writes_refused"].is_null());
}
