//! The tree on the command line and after crashes. Every test runs the real program in real
//! processes. Whatever happens to a worker, the tree ends up as an undisturbed worker builds it.
//!
//! `TREERING_CRASH_SEED` sets the random seed for the moments at which workers are killed; a
//! failing test prints it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "all of this is test code, also what is not in a function marked as a test"
)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::home::{FILE, Home};

// ---------------------------------------------------------------- commands

#[test]
fn show_prints_a_tree_and_its_nodes() {
    let home = Home::demo();
    let drawn = home.ok(&["show", "tidewatch", "--tree"]);
    for word in
        ["● l2-", "nodes over messages", "├─ ● l1-", "−90%", "◌ open window", "sms-retry-idea"]
    {
        assert!(drawn.contains(word), "{word}: {drawn}");
    }
    let nodes = home.nodes("tidewatch");
    let mut in_order: Vec<(&String, &Value)> = nodes.iter().collect();
    in_order.sort_by_key(|(_, node)| (node["level"].as_u64(), node["ordinal"].as_u64()));
    let (mut last_idx, mut below): (BTreeMap<String, Value>, Vec<&str>) = Default::default();
    for (id, node) in in_order {
        assert_eq!(
            (node["slug"].as_str(), node["dirty"].as_bool()),
            (Some("tidewatch"), Some(false))
        );
        assert_eq!(node["created_at"], node["range_end"], "{id}");
        assert!(id.starts_with(&format!("l{}-", node["level"])), "{id}");
        assert!(!node["content"]["overview"].as_str().unwrap().is_empty(), "{id}");
        match node["covers"]["nodes"].as_array() {
            Some(children) => below.extend(children.iter().map(|child| child.as_str().unwrap())),
            None => {
                let window = &node["covers"]["messages"];
                let thread = window["thread"].as_str().unwrap().to_owned();
                let before = last_idx.insert(thread, window["until_idx"].clone());
                assert_eq!(
                    window["from_idx"],
                    before.unwrap_or(json!(0)),
                    "{id} follows the one before"
                );
            }
        }
    }
    assert!(below.len() > 4 && below.iter().all(|child| nodes[*child]["state"] == "superseded"));
    let (id, group) = nodes.iter().find(|(_, node)| node["level"] == 2).unwrap();
    let output = home.ok(&["show", &id[..10]]);
    let first = group["covers"]["nodes"][0].as_str().unwrap();
    for word in [id, "level 2", "sealed: ", "written by extractive", "sources", first] {
        assert!(output.contains(word), "{word}: {output}");
    }
    assert!(output.contains(group["content"]["overview"].as_str().unwrap()));
}

#[test]
fn a_dry_run_writes_nothing() {
    let home = Home::demo();
    let levels = home.json(&["stats"])["tree"]["levels"].clone();
    let (first, second) = (&levels[0]["nodes"], &levels[1]["nodes"]);
    let total = first.as_u64().unwrap() + second.as_u64().unwrap();
    let (before, logged) = (std::fs::read(home.path().join(FILE)).unwrap(), home.items(&["logs"]));
    let estimate = |args: &[&str]| {
        let args: Vec<&str> =
            ["update", "tidewatch", "--dry-run"].iter().chain(args).copied().collect();
        let view = home.json(&args);
        assert_eq!(
            (&view["dry_run"], &view["job"], &view["done"]),
            (&json!(true), &Value::Null, &json!(0))
        );
        view
    };
    assert_eq!(estimate(&[])["calls"], 0);
    let full = estimate(&["--full"]);
    assert_eq!((&full["dropped_nodes"], &full["jobs_by_level"][0]), (&json!(total), first));
    assert!(full["tokens_in"].as_u64() > full["tokens_out"].as_u64() && full["tokens_out"] != 0);
    let upper = estimate(&["--full", "--level", "2"]);
    assert_eq!((&upper["dropped_nodes"], &upper["jobs_by_level"]), (second, &json!([0, second])));
    let other = estimate(&["--full", "--with", "window_chars=2000", "--with", "min_flush_chars=0"]);
    assert!(other["jobs_by_level"][0].as_u64() > first.as_u64(), "{other}");
    assert!(home.ok(&["update", "--full", "--dry-run"]).contains("Nothing was written"));
    assert_eq!(home.items(&["logs"]), logged);
    let mut names: Vec<_> =
        std::fs::read_dir(home.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [FILE, "treering.lock", "treering.opening"]);
    assert!(std::fs::read(home.path().join(FILE)).unwrap() == before, "the store was touched");
}

#[test]
fn rebuilding_a_tree_gives_the_same_tree() {
    let home = Home::demo();
    let (tree, nodes) = (home.tree("tidewatch"), home.nodes("tidewatch"));
    let node_list = |home: &Home| -> Vec<Value> {
        let pages = nodes.keys().map(|id| home.json(&["show", id])["node"]["generated_at"].clone());
        pages.collect()
    };
    let before = node_list(&home);
    let updated = home.json(&["update", "tidewatch", "--full"]);
    assert_eq!((&updated["done"], &updated["failed"]), (&json!(nodes.len()), &json!(0)));
    assert_eq!((home.tree("tidewatch"), home.nodes("tidewatch")), (tree.clone(), nodes.clone()));
    let after = node_list(&home);
    assert!(
        before.iter().zip(&after).all(|(before, after)| before != after),
        "it was really rewritten"
    );

    let job = updated["job"].as_str().unwrap();
    let log = home.items(&["logs", &job[..12], "--limit", "500"]);
    let lines =
        |event: &str| log.as_array().unwrap().iter().filter(|line| line["event"] == event).count();
    assert_eq!((lines("update"), lines("release")), (1, nodes.len()), "with everything it led to");
    let update = log.as_array().unwrap().iter().find(|line| line["event"] == "update").unwrap();
    let text = update["text"].as_str().unwrap();
    assert!(text.contains(&format!("{} nodes deleted", nodes.len())), "{text}");

    let groups = nodes.values().filter(|node| node["level"] == 2).count();
    let updated = home.json(&["update", "--full", "--level", "2"])[0].clone();
    assert_eq!((&updated["done"], &updated["dropped_nodes"]), (&json!(groups), &json!(groups)));
    assert_eq!((home.tree("tidewatch"), home.nodes("tidewatch")), (tree, nodes.clone()));
    let last = node_list(&home);
    let rewritten = after.iter().zip(&last).filter(|(before, after)| before != after).count();
    assert_eq!(rewritten, groups, "what lies below stays as it was");
    assert_eq!(home.json(&["update"])[0]["done"], 0, "nothing is left to do");
    home.verify();
}

#[test]
fn parameters_hold_for_one_update_only() {
    let home = home_with_turns(60);
    home.json(&["work"]);
    let (tree, nodes) = (home.tree("told"), home.nodes("told"));
    let other = [
        "update",
        "told",
        "--full",
        "--with",
        "window_chars=500",
        "--with",
        "length@2=1-2 sentences",
    ];
    assert!(home.json(&other)["done"].as_u64().unwrap() > nodes.len() as u64);
    assert!(
        home.nodes("told").keys().all(|id| !nodes.contains_key(id)),
        "other windows, other nodes"
    );
    home.verify();
    assert_eq!(home.json(&["policy", "told"])["parameters"], json!([]));
    home.json(&["update", "told", "--full"]);
    assert_eq!((home.tree("told"), home.nodes("told")), (tree, nodes));
}

#[test]
fn an_update_can_leave_upper_levels_to_a_worker() {
    let home = home_with_turns(60);
    home.json(&["update", "told", "--background"]);
    let left = home.jobs();
    assert!(
        !left.is_empty() && left.iter().all(|job| job["level"] == 2 && job["critical"] == false)
    );
    let status = home.json(&["status", "told"]);
    assert_eq!((&status["clear"], &status["jobs_queued"]), (&json!(true), &json!(left.len())));
    home.verify();
    assert_eq!(home.json(&["update", "told", "--level", "1"])["done"], 0);
    assert_eq!(home.json(&["update", "told", "--level", "2"])["done"], left.len());
    assert!(home.jobs().iter().all(|job| job["level"] == 3), "what follows from it waits");
    home.json(&["work"]);
    assert_eq!(home.tree("told"), undisturbed(60).tree("told"));
}

#[test]
fn jobs_are_listed_logged_and_waited_for() {
    let home = home_with_turns(40);
    let queued = home.jobs();
    assert!(queued.len() > 2, "{queued:?}");
    for job in &queued {
        assert_eq!(
            (&job["state"], &job["level"], &job["critical"]),
            (&json!("pending"), &json!(1), &json!(true))
        );
        assert_eq!((&job["slug"], &job["failures"]), (&json!("told"), &json!(0)));
    }
    let status = home.json(&["status"]);
    assert_eq!((&status["clear"], &status["jobs_queued"]), (&json!(false), &json!(queued.len())));
    assert_eq!(status["pending"][0]["hash"], queued[0]["id"]);
    assert_eq!(status["pending"].as_array().unwrap().len(), queued.len());
    assert!(home.ok(&["status"]).contains("gate: waiting for"));
    assert_eq!(home.json(&["stats"])["tree"]["jobs_queued"], queued.len());
    assert!(home.ok(&["show", "--tree"]).contains("pending"));
    assert_eq!(home.items(&["jobs", "-n", "1"]).as_array().unwrap().len(), 1);
    let id = queued[0]["id"].as_str().unwrap();
    let events = |id: &str| -> Vec<Value> {
        home.items(&["logs", id])
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line["event"].clone())
            .collect()
    };
    assert_eq!(events(&id[..8]), ["acquire"]);
    assert_eq!(home.items(&["jobs", "retry"]), json!([]), "none has failed");

    let report = home.json(&["work", "told"]);
    assert_eq!((&report["failed"], home.jobs()), (&json!(0), vec![]));
    assert!(report["done"].as_u64().unwrap() > queued.len() as u64, "{report}");
    assert_eq!(events(&id[..8]), ["acquire", "release"]);
    assert_eq!(events("ffffffffffff"), [""; 0]);
    assert_eq!(home.items(&["logs", "-n", "3", "--of", "told"]).as_array().unwrap().len(), 3);
    assert_eq!(home.json(&["status"])["clear"], true);
    assert!(home.ok(&["jobs"]).contains("no unfinished jobs"));
    assert!(home.ok(&["work"]).contains("nothing to do"));
}

#[test]
fn the_wait_for_the_gate_ends_at_its_timeout() {
    let home = home_with_turns(40);
    let none = home.json(&["--set", "work.gate_timeout_ms=0", "status", "--wait"]);
    let clear = home.json(&["status", "--wait"]);
    assert_eq!(clear["clear"], true, "{clear}");
    assert_eq!(none["clear"], false, "no time at all is too little: {none}");
    home.verify();
}

#[test]
fn failed_jobs_are_reported_and_retried() {
    let home = home_with_turns(20);
    let queued = home.jobs();
    let given_up = queued[1]["id"].as_str().unwrap();
    home.store(|store| {
        let sql =
            "UPDATE jobs SET state = 2, failures = 4, error = 'no such model' WHERE hex(id) = upper(?1)";
        assert_eq!(store.execute(sql, [given_up]).unwrap(), 1);
    });
    home.json(&["work"]);
    let status = home.json(&["status"]);
    assert_eq!((&status["clear"], &status["jobs_failed"]), (&json!(true), &json!(1)));
    assert_eq!(status["failed"][0]["error"], "no such model");
    assert_eq!(home.json(&["stats"])["tree"]["jobs_failed"], 1);
    let listed = home.ok(&["jobs"]);
    assert!(listed.contains("failed") && listed.contains("4 failures: no such model"), "{listed}");
    home.verify();
    assert_eq!(home.items(&["jobs", "retry", &given_up[..6]])[0]["state"], "pending");
    home.refuses(&["jobs", "retry", &given_up[..6]], &["no job with this id has failed"]);
    assert!(home.json(&["work"])["done"].as_u64().unwrap() > 0);
    assert_eq!(home.nodes("told"), undisturbed(20).nodes("told"), "late, and the same");
}

#[test]
fn a_conversation_has_its_own_policy() {
    let home = home_with_turns(3);
    let parameters = |args: &[&str]| -> Value {
        home.json(&["policy", "told"].iter().chain(args).copied().collect::<Vec<_>>())["parameters"]
            .clone()
    };
    assert_eq!(parameters(&[]), json!([]));
    assert_eq!(
        parameters(&["preset=per-turn", "length@2=0.2"]),
        json!(["preset=per-turn", "length@2=0.2"])
    );
    home.refuses(&["policy", "told", "window_chars=10"], &["window_chars", "at least 200"]);
    home.refuses(&["policy", "nothing", "turns=3"], &["nothing", "treering sessions"]);
    home.misused(
        &["policy", "told", "nonsense=2"],
        &["nonsense", "there is no such parameter", "window_chars"],
    );
    home.misused(&["policy", "told", "turns=many"], &["turns", "many"]);
    home.misused(&["policy", "told", "turns"], &["turns"]);
    home.misused(&["policy", "told", "--reset", "turns=3"], &["--reset"]);
    assert_eq!(
        parameters(&[]),
        json!(["preset=per-turn", "length@2=0.2"]),
        "a refusal changes nothing"
    );
    home.ok(&[
        "append",
        "told",
        "--user",
        "And the buoy?",
        "--assistant",
        "It is red.",
        "--at",
        "2026-03-09",
    ]);
    let tree = home.tree("told");
    assert_eq!(tree[0]["level"], 1, "sealed at once: {tree}");
    assert_eq!(parameters(&["--reset"]), json!([]));
    home.verify();
}

#[test]
fn statistics_match_the_nodes() {
    let home = Home::demo();
    let nodes = home.nodes("tidewatch");
    let tree = home.json(&["stats"])["tree"].clone();
    let stats = home.json(&["stats", "tidewatch"]);
    assert_eq!(stats["spend"], json!([]), "no model was asked");
    assert_eq!(stats["tree"], tree, "it is the only one");
    let sum = |level: &Value, field: &str| -> u64 {
        let of = nodes.values().filter(|node| node["level"] == *level);
        of.map(|node| node[field].as_u64().unwrap()).sum()
    };
    for level in tree["levels"].as_array().unwrap() {
        let number = &level["level"];
        let of = || nodes.values().filter(|node| node["level"] == *number);
        assert_eq!(level["nodes"], of().count());
        assert_eq!(level["uncovered"], of().filter(|node| node["state"] == "active").count());
        for field in ["chars", "tokens", "source_chars"] {
            assert_eq!(level[field], sum(number, field), "{field} of level {number}");
        }
        assert_eq!(level["dirty"], 0);
        assert!(level["grounded_mean"].as_f64().unwrap() > 0.9, "{level}");
    }
    let kept: u64 = nodes
        .values()
        .filter(|it| it["state"] == "active")
        .map(|it| it["tokens"].as_u64().unwrap())
        .sum();
    assert_eq!(tree["tokens_kept"], kept);
    assert_eq!(tree["tokens_saved"], tree["tokens_covered"].as_u64().unwrap() - kept);
    assert_eq!((&tree["jobs_queued"], &tree["dirty_ratio"]), (&json!(0), &json!(0.0)));
}

#[test]
fn metrics_have_the_names_and_values_of_the_document() {
    let home = Home::demo();
    let nodes = home.nodes("tidewatch");
    let view = home.json(&["stats", "tidewatch"]);
    let metrics = &view["compression"];
    let tokens = |level: u64| -> u64 {
        let of = nodes.values().filter(|node| node["level"] == level);
        of.map(|node| node["tokens"].as_u64().unwrap()).sum()
    };
    let is = |name: &str, expected: f64| {
        let value = metrics[name].as_f64().unwrap_or_else(|| panic!("{name}: {metrics}"));
        assert!((value - expected).abs() < 1e-9, "{name}: {value} instead of {expected}");
    };
    assert_eq!(metrics["sessionId"].as_str().unwrap().len(), 32);
    assert_eq!(metrics["totalMessages"], view["messages"]);
    for level in 1..=2 {
        let of = || nodes.values().filter(move |node| node["level"] == level);
        is(&format!("l{level}Count"), of().count() as f64);
        assert!(metrics[format!("averageL{level}GenerationTime")].is_number(), "{metrics}");
    }
    let covered: Vec<&Value> = nodes
        .values()
        .filter_map(|node| node["covers"]["nodes"].as_array())
        .flatten()
        .map(|id| &nodes[id.as_str().unwrap()])
        .collect();
    let below: u64 = covered.iter().map(|node| node["tokens"].as_u64().unwrap()).sum();
    is("l2CompressionRatio", 1.0 - tokens(2) as f64 / below as f64);
    let raw = view["tree"]["levels"][0]["source_tokens"].as_u64().unwrap();
    assert!(raw > tokens(1) && raw <= view["tokens"].as_u64().unwrap(), "{view}");
    is("l1CompressionRatio", 1.0 - tokens(1) as f64 / raw as f64);
    for (name, of) in
        [("l3Count", 0.0), ("l3CompressionRatio", 0.0), ("averageL3GenerationTime", 0.0)]
    {
        is(name, of);
    }
    is("overallCompressionRatio", view["tree"]["ratio"].as_f64().unwrap());
    is("tokensSavedByCompression", view["tree"]["tokens_saved"].as_f64().unwrap());
    is("estimatedCostSavings", view["tree"]["dollars_saved_per_context"].as_f64().unwrap());
    for score in ["summaryQualityScore", "informationLossScore"] {
        assert!((0.0..=1.0).contains(&metrics[score].as_f64().unwrap()), "{metrics}");
    }
}

#[test]
fn damage_to_a_tree_is_found_and_repaired() {
    let damages: [(&str, &[&str]); 4] = [
        (
            "DELETE FROM nodes WHERE level = 1 AND ordinal = 2",
            &[
                "level 1: node 2 has neither content nor a job",
                "level 2: group",
                "of main are in no window",
            ],
        ),
        (
            "DELETE FROM nodes WHERE level = 2 AND ordinal = 1",
            &[
                "level 2: node 1 has neither content nor a job",
                "group 1 has children but was never planned",
            ],
        ),
        (
            "UPDATE nodes SET parent = NULL WHERE level = 1 AND ordinal = 0",
            &["level 2: group 0 covers 3 nodes and has 2"],
        ),
        (
            "UPDATE nodes SET dirty = 1 WHERE level = 2 AND ordinal = 0",
            &["number 0 is dirty and has no job"],
        ),
    ];
    let complete = undisturbed(60);
    let (tree, nodes) = (complete.tree("told"), complete.nodes("told"));
    for (damage, words) in damages {
        let home = complete.copy();
        home.store(|store| assert_eq!(store.execute(damage, []).unwrap(), 1));
        let output = home.run(&["--json", "verify"]);
        assert_eq!(output.status.code(), Some(1), "{damage}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let problems = report["problems"].as_array().unwrap();
        let locations: Vec<&Value> =
            problems.iter().map(|problem| &problem["conversation"]).collect();
        assert!(locations.iter().all(|location| location.as_str() == Some("told")), "{report}");
        for word in words {
            let is_reported = problems
                .iter()
                .any(|problem| problem["description"].as_str().unwrap().contains(word));
            assert!(is_reported, "{damage}: {word}: {report}");
        }
        let repaired = home.json(&["verify", "--repair"]);
        assert_eq!((&repaired["clean"], &repaired["repaired"]), (&json!(true), &json!(["told"])));
        assert_eq!(
            (home.tree("told"), home.nodes("told")),
            (tree.clone(), nodes.clone()),
            "{damage}"
        );
        assert_eq!(home.json(&["verify", "--repair"])["repaired"], json!([]), "once is enough");
    }
}

#[test]
fn an_update_logs_its_begin_and_its_end() {
    let home = Home::demo();
    for (args, prefix) in [
        (&["update", "tidewatch"][..], "update begun: incremental, 0 jobs queued"),
        (
            &["update", "tidewatch", "--strategy", "full", "--windowChars", "4000"],
            "update begun: full",
        ),
    ] {
        let update = home.json(args);
        let lines = home.items(&["logs", update["job"].as_str().unwrap(), "--limit", "500"]);
        let lines = lines.as_array().unwrap();
        let texts: Vec<&str> = lines.iter().map(|line| line["text"].as_str().unwrap()).collect();
        assert!(texts[0].starts_with(prefix), "{}", texts[0]);
        let last = texts.last().unwrap();
        assert!(last.starts_with("update ended: nodes written: "), "{last}");
        assert!(last.contains("queue depth 0, dirty ratio 0.00"), "{last}");
        if prefix.contains("full") {
            let nodes = home.nodes("tidewatch");
            let of_level = |level: u64| nodes.values().filter(|it| it["level"] == level).count();
            assert!(last.contains(&format!("{} at level 1", of_level(1))), "{last}");
            assert!(last.contains(&format!("{} at level 2", of_level(2))), "{last}");
        }
    }
}

#[test]
fn invalid_arguments_are_named() {
    let home = home_with_turns(1);
    home.refuses(&["show", "l1-ffffffff"], &["l1-ffffffff", "show --tree"]);
    home.refuses(&["update", "nothing"], &["nothing", "treering sessions"]);
    home.refuses(&["work", "nothing"], &["nothing", "treering sessions"]);
    home.refuses(&["status", "nothing"], &["nothing", "treering sessions"]);
    home.refuses(&["stats", "nothing"], &["nothing", "treering sessions"]);
    home.refuses(&["jobs", "--of", "nothing"], &["nothing", "treering sessions"]);
    home.refuses(&["logs", "--of", "nothing"], &["nothing", "treering sessions"]);
    home.refuses(
        &["jobs", "retry", "ffff"],
        &["ffff", "no job with this id has failed", "treering jobs"],
    );
    home.refuses(&["jobs", "retry", "%"], &["%", "no job with this id has failed"]);
    home.refuses(
        &["update", "--full", "--with", "window_chars=10"],
        &["window_chars", "at least 200"],
    );
    home.misused(&["update", "--level", "0"], &["--level", "1 or more"]);
    home.misused(&["update", "--level", "top"], &["--level", "1 or more"]);
    home.misused(&["update", "--with", "windows=3"], &["windows", "there is no such parameter"]);
    home.misused(&["update", "--with", "length=2"], &["length", "0.5"]);
    let ambiguous = Home::demo();
    ambiguous.refuses(&["show", "l1-"], &["l1-", "matches", "a few more digits"]);
}

// ---------------------------------------------------------------- crashes

#[cfg(unix)]
mod crashes {
    use super::*;

    use std::os::unix::process::ExitStatusExt as _;
    use std::thread;
    use std::time::{Duration, Instant};

    const SIGKILL: i32 = 9;
    const SIGABRT: i32 = 6;

    /// The worker dies at each kill point, at the first level and above it. It leaves a
    /// consistent store, and other workers finish its jobs once its leases expire.
    #[cfg(debug_assertions)]
    #[test]
    fn a_worker_that_dies_at_any_kill_point_does_not_change_the_tree() {
        let complete = undisturbed(60);
        let expected = (complete.tree("told"), complete.nodes("told"));
        let first = home_with_turns(60);
        let level_2_home = home_with_turns(60);
        level_2_home.json(&["update", "told", "--background"]);
        // Only the summary of the whole conversation is left to write.
        complete.json(&["close", "told"]);
        let closed = (complete.tree("told"), complete.nodes("told"));
        complete.json(&["reopen", "told"]);
        let check = |start: &Home, command: &[&str], fault: &str| {
            let home = start.copy();
            let killed = home.command(command).env("TREERING_FAULT", fault).output().unwrap();
            assert_eq!(killed.status.signal(), Some(SIGABRT), "{fault}: {killed:?}");
            let expected = if command[0] == "close" { &closed } else { &expected };
            assert!(!home.jobs().is_empty() || command[0] == "close", "{fault}");
            home.verify();
            finish(&home);
            home.verify();
            assert!(
                (home.tree("told"), home.nodes("told")) == *expected,
                "{fault}: another tree came out of {command:?}"
            );
        };
        let commands: [(&Home, &[&str]); 3] =
            [(&first, &["work"]), (&level_2_home, &["work"]), (&complete, &["close", "told"])];
        thread::scope(|scope| {
            for fault in treering_engine::KillPoint::ALL {
                for (start, command) in commands {
                    scope.spawn(move || check(start, command, fault.as_str()));
                }
            }
        });
    }

    /// Runs workers until no job is left, including those whose dead owner still holds a lease.
    fn finish(home: &Home) {
        let started = Instant::now();
        loop {
            home.json(&["work"]);
            if home.jobs().is_empty() {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{:#?}", home.jobs());
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// Two concurrent workers are killed again and again at random moments. Leases of killed
    /// workers are ended by hand, so that the test reaches every level quickly.
    #[test]
    fn killed_workers_do_not_change_the_tree() {
        const ROUNDS: u32 = 40;
        let (complete, home) = (home_with_turns(400), home_with_turns(400));
        let started = Instant::now();
        complete.json(&["work"]);
        let longest = u64::try_from(started.elapsed().as_millis()).unwrap() / 8 + 1;
        let mut chance = Chance::seeded();
        let mut kills = 0;
        for _ in 0..ROUNDS {
            let mut workers =
                [(); 2].map(|()| home.command(&["work"]).stdout(Stdio::null()).spawn().unwrap());
            for worker in &mut workers {
                thread::sleep(Duration::from_millis(chance.below(longest)));
                worker.kill().unwrap();
                kills += u32::from(worker.wait().unwrap().signal() == Some(SIGKILL));
            }
            home.verify();
            if home.jobs().is_empty() {
                break;
            }
            home.store(|store| {
                store.execute_batch("UPDATE jobs SET moment = 0 WHERE state = 1").unwrap();
            });
        }
        println!("{kills} kills, {} jobs left", home.jobs().len());
        assert!(kills >= 4, "the workers were done too soon: {kills} kills");
        finish(&home);
        home.verify();
        assert_eq!(home.tree("told"), complete.tree("told"));
        assert!(home.nodes("told") == complete.nodes("told"), "other contents came out");
    }

    /// A seeded random number generator. It prints its seed when the test fails.
    struct Chance(u64, u64);

    impl Chance {
        fn seeded() -> Self {
            let seed = std::env::var("TREERING_CRASH_SEED")
                .map_or(0x7472_6565, |seed| seed.parse().unwrap());
            Self(seed, seed)
        }

        /// A number below `end` (splitmix64).
        fn below(&mut self, end: u64) -> u64 {
            self.1 = self.1.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.1 ^ (self.1 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % end
        }
    }

    impl Drop for Chance {
        fn drop(&mut self) {
            if thread::panicking() {
                eprintln!("TREERING_CRASH_SEED={} repeats the moments of this run", self.0);
            }
        }
    }
}

// ---------------------------------------------------------------- homes

impl Home {
    /// A copy of the home. No process may have the store open.
    fn copy(&self) -> Self {
        let copy = Self::new();
        for entry in std::fs::read_dir(self.path()).unwrap().map(Result::unwrap) {
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
        copy
    }

    #[track_caller]
    fn verify(&self) {
        let output = self.run(&["verify"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    fn jobs(&self) -> Vec<Value> {
        self.items(&["jobs", "-n", "1000"]).as_array().unwrap().clone()
    }

    fn tree(&self, conversation: &str) -> Value {
        self.json(&["show", conversation, "--tree"])["branches"].clone()
    }

    /// The nodes of a conversation by id, with everything but the time they were written.
    fn nodes(&self, conversation: &str) -> Nodes {
        let tree = self.tree(conversation);
        let finished = tree.as_array().unwrap().iter().filter(|branch| branch["turns"] != 0);
        let ids = finished.filter_map(|branch| branch["id"].as_str()).filter(|id| !id.is_empty());
        let page = |id: &str| {
            let mut page = self.json(&["show", id])["node"].take();
            for field in ["generated_at", "generation_ms"] {
                page.as_object_mut().unwrap().remove(field).unwrap();
            }
            (id.to_owned(), page)
        };
        ids.map(page).collect()
    }

    /// Changes the store behind the program's back.
    fn store(&self, change: impl FnOnce(&rusqlite::Connection)) {
        change(&rusqlite::Connection::open(self.path().join(FILE)).unwrap());
    }
}

type Nodes = BTreeMap<String, Value>;

/// A home with a conversation of this many turns, small windows and groups, and the pending jobs
/// of the first level.
fn home_with_turns(turns: u32) -> Home {
    let home = Home::new();
    // The smaller tokenizer, because every process builds its own.
    let settings = concat!(
        "tokens.tokenizer = \"cl100k\"\n",
        "tree.parameters = [\"window_chars=1000\", \"min_flush_chars=0\", \"group_children=3\", ",
        "\"group_chars=off\"]\n"
    );
    std::fs::write(home.path().join("treering.toml"), settings).unwrap();
    let lines: String = (0..turns).map(turn).collect();
    let args = ["append", "--key", "told", "--title", "Told", "--cwd", "/harbour", "--no-tree"];
    let mut child =
        home.command(&args).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    home
}

/// The same home with its tree, built by an undisturbed worker.
fn undisturbed(turns: u32) -> Home {
    let home = home_with_turns(turns);
    home.json(&["work"]);
    assert_eq!(home.jobs(), [Value::Null; 0]);
    home.verify();
    home
}

fn turn(number: u32) -> String {
    let (berth, depth, minute) = (number % 17 + 1, number * 7 % 50, number % 60);
    let user =
        format!("What about berth {berth} after message {number}, with src/berth_{berth}.rs open?");
    let assistant = format!(
        "Berth {berth} is {depth}.{berth} m deep. We decided to dredge it in week {number}; \
         `load_berth_{berth}` in src/berth_{berth}.rs has to be changed."
    );
    let at = format!("2026-03-{:02}T{:02}:{minute:02}:00Z", number / 600 + 1, number / 60 % 10 + 8);
    let line = json!({ "type": "turn", "user": user, "assistant": assistant, "at": at });
    format!("{line}\n")
}

/// `tail` reports turns and nodes that other processes add, and their effect on the context.
#[test]
fn tail_shows_events_of_other_processes() {
    use std::io::{BufRead as _, BufReader};

    let home = Home::demo();
    let mut command =
        home.command(&["tail", "tidewatch", "--json", "--idle", "30", "--budget", "2000"]);
    let mut tail = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // A note announces that `tail` is following.
    let mut stderr = BufReader::new(tail.stderr.take().unwrap());
    let mut note = String::new();
    stderr.read_line(&mut note).unwrap();
    assert!(note.contains("following"), "{note}");
    home.ok(&["append", "--key", "elsewhere", "--user", "not followed", "--assistant", "at all"]);
    home.ok(&[
        "append",
        "tidewatch",
        "--user",
        "Is berth 3 free at dawn?",
        "--assistant",
        "From five on.",
    ]);
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let mut events: Vec<Value> = Vec::new();
    while !events.iter().any(|it| it["event"] == "context")
        || !events.iter().any(|it| it["event"] == "node")
    {
        events.push(serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap());
    }
    tail.kill().unwrap();
    tail.wait().unwrap();
    assert!(events.iter().all(|it| it["slug"] == "tidewatch"), "{events:?}");
    let of = |event: &str| events.iter().find(|it| it["event"] == event).unwrap();
    assert_eq!(of("turn")["messages"], serde_json::json!([279, 280]));
    assert_eq!(of("node")["level"], 1);
    let context = of("context");
    assert_eq!(context["budget"], 2000);
    assert!(context["tokens"].as_u64().unwrap() <= 2000, "{context}");
}
