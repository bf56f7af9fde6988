//! The methods of the storage interface of the source documents, over the command line, HTTP and
//! MCP of the real program.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is test code, also what is not in a function marked as a test"
)]

use serde_json::{Value, json};

use crate::endpoints::{McpClient, TestServer};
use crate::home::Home;

/// The text of a turn's answer, long enough to be summarized.
fn answer(turn: u32) -> String {
    format!("The gate {turn} of the lock opens at {turn}:30, and its motor needs oil. ").repeat(8)
}

/// A conversation of its own with this many turns.
fn with_turns(home: &Home, name: &str, turns: u32) {
    for turn in 0..turns {
        let question = format!("When does gate {turn} open?");
        let args = ["append", "--key", name, "--title", name, "--user", &question, "--assistant"];
        let answer = answer(turn);
        let args: Vec<&str> = args.into_iter().chain([answer.as_str()]).collect();
        home.ok(&args);
    }
}

/// A setting that makes one window of each turn.
const PER_TURN: [&str; 2] = ["--set", "tree.preset=per-turn"];

#[test]
fn a_summary_of_your_own_is_stored_and_found() {
    let home = Home::new();
    with_turns(&home, "lock", 4);
    let text = "My words: all gates open at half past, and the motors are dry.";
    let node = home.json(&[
        "summarize",
        "lock",
        "--turns",
        "0-2",
        "--text",
        text,
        "--topic",
        "hydraulics",
        "--finding",
        "the motors are dry",
    ]);
    assert_eq!(node["content"]["overview"], text);
    assert_eq!(
        (&node["level"], &node["turns"], &node["generated_by"], &node["sealed_because"]),
        (&json!(1), &json!(3), &json!("caller"), &json!("on request"))
    );
    assert_eq!(node["content"]["key_findings"], json!(["the motors are dry"]));
    let found = home.items(&["search", "my words", "--no-turns"]);
    assert_eq!(found[0]["node"], node["id"], "{found}");
    let output = home.ok(&["show", node["id"].as_str().unwrap()]);
    assert!(output.contains("caller") && output.contains("on request"), "{output}");
    home.ok(&["verify"]);

    home.refuses(
        &["summarize", "lock", "--turns", "1-2", "--text", "x"],
        &["sealed window of turns 0–2"],
    );
    home.refuses(&["summarize", "lock", "--turns", "4", "--text", "x"], &["turn 4 does not exist"]);
    home.refuses(&["summarize", "lock"], &["--turn", "--level", "--nodes"]);
    home.misused(&["summarize", "lock", "--turns", "0-2"], &["--text"]);
    let output = home.feed(&["summarize", "lock", "--turns", "0-2", "--text", "-"], "Piped.\n");
    assert!(output.status.success());
    let nodes = home.items(&["show", "lock", "--nodes"]);
    assert_eq!(
        (nodes.as_array().unwrap().len(), &nodes[0]["content"]["overview"]),
        (1, &json!("Piped."))
    );

    let dry = home.ok(&["update", "lock", "--full", "--dry-run"]);
    assert!(dry.contains("1 node would be deleted first, 1 of them stored"), "{dry}");
    let done = home.ok(&["update", "lock", "--full"]);
    assert!(done.contains("stored with `treering summarize`"), "{done}");
    assert_eq!(home.items(&["show", "lock", "--nodes"]), json!([]));
    home.ok(&["verify"]);
}

#[test]
fn turns_and_levels_are_summarized_on_demand() {
    let home = Home::new();
    home.ok(&["config"]);
    std::fs::write(
        home.path().join("treering.toml"),
        "[tree]\npreset = \"per-turn\"\nparameters = [\"raw_chars=off\", \"group_chars=100000\"]\n",
    )
    .unwrap();
    with_turns(&home, "lock", 5);
    let before = home.items(&["show", "lock", "--nodes"]);
    assert_eq!(before.as_array().unwrap().len(), 5);
    let summary = home.json(&["summarize", "lock", "--turn", "2"]);
    assert!(summary["content"]["overview"].as_str().unwrap().contains("gate 2"), "{summary}");
    assert_eq!(summary["generated_by"], "extractive");
    assert_eq!(home.items(&["show", "lock", "--nodes"]), before, "nothing is stored");
    home.refuses(&["summarize", "lock", "--turn", "9"], &["turn 9", "5 turns"]);

    let latest = home.items(&[
        "show",
        "lock",
        "--nodes",
        "--level",
        "1",
        "--uncovered",
        "--latest-first",
        "-n",
        "2",
    ]);
    let ordinals: Vec<&Value> =
        latest.as_array().unwrap().iter().map(|node| &node["ordinal"]).collect();
    assert_eq!(ordinals, [&json!(4), &json!(3)]);

    let node = home.json(&["summarize", "lock", "--level", "1"]);
    assert_eq!((&node["level"], &node["turns"]), (&json!(2), &json!(4)));
    home.refuses(&["summarize", "lock", "--level", "1"], &["needs three nodes", "there are 1"]);
    let uncovered = home.items(&["show", "lock", "--nodes", "--level", "1", "--uncovered"]);
    assert_eq!(uncovered.as_array().unwrap().len(), 1);
    let ids: Vec<&str> =
        before.as_array().unwrap()[..4].iter().map(|node| node["id"].as_str().unwrap()).collect();
    let own = home.json(&["summarize", "lock", "--nodes", &ids.join(","), "--text", "Four gates."]);
    assert_eq!((&own["level"], &own["content"]["overview"]), (&json!(2), &json!("Four gates.")));
    assert_ne!(own["id"], node["id"]);
    home.ok(&["verify"]);
}

#[test]
fn search_by_meaning_alone_without_turns_and_by_topic() {
    let home = Home::new();
    with_turns(&home, "lock", 3);
    home.ok(&[
        "summarize",
        "lock",
        "--turns",
        "0-1",
        "--text",
        "The gates open at half past.",
        "--topic",
        "Hydraulics",
    ]);
    let fused = home.items(&["search", "oil for the motor"]);
    let semantic = home.items(&["search", "oil for the motor", "--semantic"]);
    let hit = &semantic[0];
    let parts: Vec<&Value> =
        hit["parts"].as_array().unwrap().iter().map(|part| &part["signal"]).collect();
    assert_eq!(parts, [&json!("similarity")], "{hit}");
    let [part, score] = [&hit["parts"][0]["score"], &hit["score"]].map(|it| it.as_f64().unwrap());
    assert!((part - 0.6 * score).abs() < 1e-4, "the score is the cosine, its part is weighted");
    assert!(fused[0]["parts"].as_array().unwrap().len() > 1, "{fused}");
    let scores: Vec<f64> =
        semantic.as_array().unwrap().iter().map(|hit| hit["score"].as_f64().unwrap()).collect();
    assert!(scores.windows(2).all(|pair| pair[0] >= pair[1]) && scores[0] <= 1.0, "{scores:?}");

    let by_meaning = ["search", "when they open", "--semantic", "--no-turns"];
    assert_eq!(home.items(&by_meaning).as_array().unwrap().len(), 1);
    let off = ["--set", "search.embed_summaries=false"];
    let without: Vec<&str> = by_meaning.iter().chain(&off).copied().collect();
    assert_eq!(home.items(&without), json!([]), "summaries have no embeddings then");
    let by_words: Vec<&str> =
        ["search", "gates open", "--no-turns"].iter().chain(&off).copied().collect();
    assert_eq!(home.items(&by_words).as_array().unwrap().len(), 1);

    let levels = |args: &[&str]| -> Vec<u64> {
        let args: Vec<&str> = ["search", "gate"].iter().chain(args).copied().collect();
        let hits = home.items(&args);
        hits.as_array().unwrap().iter().map(|hit| hit["level"].as_u64().unwrap()).collect()
    };
    assert!(levels(&[]).contains(&0));
    assert_eq!(levels(&["--no-turns"]), [1]);
    home.refuses(&["search", "gate", "--no-turns", "--level", "0"], &["levels", "include_turns"]);

    let hits = home.items(&["search", "gate", "--topic", "hydraulics", "-n", "20"]);
    let hits = hits.as_array().unwrap();
    assert!(hits.iter().any(|hit| hit["level"] == 1));
    let turns: Vec<u64> = hits.iter().filter_map(|hit| hit["idx"].as_u64()).collect();
    assert!(
        !turns.is_empty() && turns.iter().all(|idx| *idx < 4),
        "only under the node: {turns:?}"
    );
    assert_eq!(home.items(&["search", "gate", "--topic", "sails"]), json!([]));
}

#[test]
fn the_policy_in_force_has_the_origin_of_each_parameter() {
    let home = Home::new();
    with_turns(&home, "lock", 1);
    let of = |view: &Value, name: &str| -> (String, String) {
        let all = view["in_force"].as_array().unwrap();
        let it =
            all.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{name}: {view}"));
        (it["value"].as_str().unwrap().to_owned(), it["origin"].as_str().unwrap().to_owned())
    };
    let pair = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    let view = home.json(&["policy", "lock"]);
    assert_eq!(of(&view, "window_chars"), pair("6000", "preset window (default)"));
    assert_eq!(of(&view, "enabled"), pair("true", "preset window (default)"));

    let file = home.path().join("treering.toml");
    std::fs::write(&file, "[tree]\nparameters = [\"window_chars=4000\"]\n").unwrap();
    home.ok(&["policy", "lock", "l2TokenThreshold=5000"]);
    let view = home.json(&["policy", "lock"]);
    assert_eq!(of(&view, "window_chars"), pair("4000", file.to_str().unwrap()));
    assert_eq!(of(&view, "group_tokens"), pair("5000", "conversation"));
    let flagged = home.json(&["policy", "lock", "--set", "tree.preset=turns"]);
    assert_eq!(of(&flagged, "turns"), pair("5", "preset turns (flag)"));
    let mut command = home.command(&["--json", "policy", "lock"]);
    let output = command.env("TREERING_TREE_PARAMETERS", "wiggle=0.1").output().unwrap();
    let view: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(of(&view, "wiggle"), pair("0.1", "TREERING_TREE_PARAMETERS"));
    let output = home.ok(&["policy", "lock"]);
    assert!(output.contains("group_tokens") && output.contains("conversation"), "{output}");

    let server = TestServer::start(home.path(), &[]);
    let view = server.get("/v1/conversations/lock/policy");
    assert_eq!(of(&view, "window_chars"), pair("4000", file.to_str().unwrap()));
    let body = json!({ "parameters": ["preset=per-turn"] });
    let (status, view) = server.request("PUT", "/v1/conversations/lock/policy", &[], Some(&body));
    assert_eq!((status, of(&view, "turns")), (200, pair("1", "preset per-turn (conversation)")));
    let bad = json!({ "parameters": ["window_chars=none"] });
    let (status, problem) = server.request("PUT", "/v1/conversations/lock/policy", &[], Some(&bad));
    assert_eq!(status, 400, "{problem}");
    server.stop();
    let mut client = McpClient::start(home.path());
    let read = client.ask("resources/read", &json!({ "uri": "policy://lock" }));
    let view: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(of(&view, "turns").1, "preset per-turn (conversation)");
    client.end();
}

#[test]
fn a_tree_that_is_turned_off_captures_and_searches() {
    let home = Home::new();
    let off = [PER_TURN[0], PER_TURN[1], "--set", "tree.parameters=[\"enabled=false\"]"];
    for turn in 0..4 {
        let (question, answer) = (format!("When does gate {turn} open?"), answer(turn));
        let args = [
            "append",
            "--key",
            "lock",
            "--title",
            "lock",
            "--user",
            &question,
            "--assistant",
            &answer,
        ];
        home.ok(&args.iter().chain(&off).copied().collect::<Vec<_>>());
    }
    let nodes = |args: &[&str]| {
        let args: Vec<&str> = ["show", "lock", "--nodes"].iter().chain(args).copied().collect();
        home.items(&args).as_array().unwrap().len()
    };
    assert_eq!(nodes(&off), 0);
    assert!(!home.items(&["search", "gate 3"]).as_array().unwrap().is_empty());
    let context = home.ok(&["context", "lock"]);
    assert!(context.contains("gate 3"), "{context}");
    let refused: Vec<&str> = ["update", "lock", "--full"].iter().chain(&off).copied().collect();
    home.refuses(&refused, &["turned off", "enabled=true"]);
    home.ok(&["verify"]);
    let on: Vec<&str> = ["update", "lock"].iter().chain(&PER_TURN).copied().collect();
    home.ok(&on);
    assert_eq!(nodes(&[]), 4, "it has caught up");
    home.ok(&["verify"]);
}

#[test]
fn the_interface_works_over_http() {
    let home = Home::new();
    let server = TestServer::start(home.path(), &PER_TURN);
    let post = |path: &str, body: &Value| server.request("POST", path, &[], Some(body));
    let body = json!({ "cwd": home.path(), "projectPath": home.path(), "title": "lock" });
    let (status, created) = post("/v1/conversations", &body);
    assert_eq!((status, &created["slug"]), (200, &json!("lock")));
    for turn in 0..2 {
        let entries = json!([{ "type": "turn", "user": format!("When does gate {turn} open?"), "assistant": answer(turn) }]);
        let (status, stored) =
            post("/v1/append", &json!({ "conversation": "lock", "entries": entries }));
        assert_eq!(status, 200, "{stored}");
    }
    let own = json!({
        "level": 1, "parentIds": ["1"], "summary": "Gate 1 opens at 1:30.", "filesMentioned": ["gate.rs"],
        "keyFindings": ["it needs oil"], "toolsUsed": ["grep"], "topics": ["gates"], "turnCount": 1,
    });
    let (status, node) = post("/v1/conversations/lock/summaries", &own);
    assert_eq!(status, 200, "{node}");
    assert_eq!(node["content"]["files_mentioned"], json!(["gate.rs"]));
    assert_eq!(node["content"]["tools_used"][0]["name"], "grep");
    let wrong = json!({ "level": 1, "parents": [0], "summary": "x", "turnCount": 3 });
    let (status, problem) = post("/v1/conversations/lock/summaries", &wrong);
    assert_eq!(status, 400, "{problem}");
    assert!(problem.to_string().contains("it covers 1"), "{problem}");
    let unknown = json!({ "level": 1, "parents": [0], "summary": "x", "colour": "red" });
    let (status, problem) = post("/v1/conversations/lock/summaries", &unknown);
    assert!(status == 400 && problem.to_string().contains("colour"), "{status} {problem}");

    let (status, summary) = post("/v1/conversations/lock/turns/0/summarize", &json!({}));
    assert_eq!(status, 200, "{summary}");
    assert!(summary["content"]["overview"].as_str().unwrap().contains("gate 0"), "{summary}");
    let given =
        json!({ "user": "Which port does staging use?", "assistant": "Port 7410, since March." });
    let (status, summary) = post("/v1/summarize", &given);
    assert!(status == 200 && summary.to_string().contains("7410"), "{status} {summary}");
    let (status, problem) = post("/v1/conversations/lock/levels/1/summarize", &json!({}));
    assert!(status == 400 && problem.to_string().contains("three nodes"), "{status} {problem}");

    let found = post(
        "/v1/search",
        &json!({ "query": "gate", "semantic": true, "maxResults": 1, "includeTurns": false }),
    )
    .1;
    assert_eq!(found["hits"].as_array().unwrap().len(), 1, "{found}");
    assert!(found["hits"][0]["level"].as_u64().unwrap() >= 1);
    let nodes =
        server.get("/v1/conversations/lock/nodes?level=1&uncovered=true&latestFirst=true&limit=1");
    assert_eq!(nodes["nodes"][0]["id"], node["id"], "{nodes}");
    server.stop();
    home.ok(&["verify"]);
}

#[test]
fn threads_are_listed_and_forked() {
    let home = Home::new();
    with_turns(&home, "lock", 2);
    let names = |list: &Value| -> Vec<String> {
        let all = list["threads"].as_array().unwrap();
        all.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&home.json(&["threads", "lock"])), ["main"]);
    let forked = home.json(&["threads", "lock", "--fork", "retry", "--at", "1"]);
    assert_eq!(names(&forked), ["main", "retry"]);
    assert_eq!(
        (&forked["threads"][1]["parent"], &forked["threads"][1]["fork_idx"]),
        (&json!("main"), &json!(1))
    );
    home.refuses(&["threads", "lock", "--fork", "retry"], &["retry", "already"]);
    home.refuses(&["threads", "lock", "--fork", "x", "--parent", "none"], &["none", "main, retry"]);
    home.ok(&[
        "append",
        "lock",
        "--thread",
        "retry",
        "--user",
        "And now?",
        "--assistant",
        "Now it opens.",
    ]);

    let server = TestServer::start(home.path(), &[]);
    let body = json!({ "thread": "again", "parent": "retry" });
    let (status, list) = server.request("POST", "/v1/conversations/lock/threads", &[], Some(&body));
    assert_eq!(
        (status, names(&list)),
        (200, ["main", "retry", "again"].map(str::to_owned).to_vec())
    );
    assert_eq!(
        (&list["threads"][2]["parent"], &list["threads"][2]["fork_idx"]),
        (&json!("retry"), &json!(5))
    );
    assert_eq!(names(&server.get("/v1/conversations/lock/threads")).len(), 3);
    server.stop();

    let mut client = McpClient::start(home.path());
    let list =
        client.ok("threads", &json!({ "conversation": "lock", "thread": "fourth", "fork_at": 3 }));
    assert_eq!(names(&list).len(), 4);
    assert_eq!(names(&client.ok("threads", &json!({ "conversation": "lock" }))).len(), 4);
    client.end();
    home.ok(&["verify"]);
}
