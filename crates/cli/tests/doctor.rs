//! `doctor`, `status`, `stats` and `show` with a provider, which is a scripted server on
//! loopback.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use treering_testkit::fault_server::{FaultServer, ScriptedResponse};

/// A home whose models are all on one server.
struct ProviderHome(tempfile::TempDir);

impl ProviderHome {
    fn new(server: &FaultServer, more: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let file = format!(
            "[summarize]\nprovider = \"compatible\"\nmodel = \"m-1\"\n[providers.compatible]\nbase_url = \"{}\"\n\
             [work]\nbatch_delay_ms = 0\nretry_delay_ms = 1\n[tree]\nparameters = [\"window_chars=274\", \"min_flush_chars=0\"]\n{more}",
            server.url()
        );
        std::fs::write(home.path().join("treering.toml"), file).unwrap();
        Self(home)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_treering"));
        command.env_clear().env("TREERING_HOME", self.path()).args(args).current_dir(self.path());
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = ["--json"].iter().chain(args).copied().collect();
        serde_json::from_str(&self.ok(&args)).unwrap()
    }

    /// Whether `doctor` succeeds, and its report.
    fn doctor(&self, args: &[&str]) -> (bool, Value) {
        let args: Vec<&str> = ["--json", "doctor"].iter().chain(args).copied().collect();
        let output = self.run(&args);
        (output.status.success(), serde_json::from_slice(&output.stdout).unwrap())
    }

    fn append_turn(&self) {
        let user = "Ana put the gauge of Kerzavel into src/tide.rs on 9 December 2025, where it reads the tide every 20 \
                    minutes and writes what it read to the ledger of the harbour office in town.";
        let assistant = "It is served on port 7410 now, because 7400 was taken by the harbour office, and 3 months of \
                         readings are kept, about 2 GB of them, next to the old ones.";
        self.ok(&["append", "--title", "gauge", "--user", user, "--assistant", assistant]);
    }
}

fn check<'a>(found: &'a Value, name: &str) -> &'a Value {
    let checks = found["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap_or(&Value::Null)
}

/// A response with these words that reports 1,000 tokens in and 100 out.
fn answer(words: &str) -> ScriptedResponse {
    ScriptedResponse::json(
        &json!({"choices": [{"message": {"content": words}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100}}),
    )
}

fn summary(overview: &str) -> ScriptedResponse {
    answer(&json!({"overview": overview, "key_findings": [], "decisions": [], "action_items": [], "unresolved": [],
        "topics": []}).to_string())
}

#[test]
fn a_healthy_home_passes_every_check() {
    let server = FaultServer::start([answer("ready")]);
    let home = ProviderHome::new(&server, "");
    let (healthy, found) = home.doctor(&[]);
    assert!(healthy, "{found}");
    assert!(check(&found, "store")["found"].as_str().unwrap().contains("none yet"), "{found}");
    assert!(!home.path().join("treering.db").exists(), "nothing is made");
    assert!(
        check(&found, "summaries")["found"].as_str().unwrap().contains("compatible/m-1 answers")
    );
    assert_eq!(server.requests().len(), 1);
    home.append_turn();
    let (healthy, found) = home.doctor(&[]);
    assert!(
        healthy && check(&found, "store")["found"].as_str().unwrap().contains("healthy, schema 12"),
        "{found}"
    );
    assert_eq!(
        (&check(&found, "index")["state"], &check(&found, "vectors")["state"]),
        (&json!("fine"), &json!("fine"))
    );
    let requests = server.requests().len();
    assert!(home.doctor(&["--offline"]).0);
    assert_eq!(server.requests().len(), requests);
    assert!(home.ok(&["doctor"]).contains("✓ store"), "{}", home.ok(&["doctor"]));
}

/// `doctor` writes nothing but the spending of its own model calls.
#[cfg(unix)]
#[test]
fn doctor_reports_its_own_failed_writes() {
    let server = FaultServer::start([answer("ready")]);
    let more = "[chat]\nmodel = \"compatible/m-2\"\n[spend]\nday_tokens = 100000000\n";
    let home = ProviderHome::new(&server, more);
    home.append_turn();
    // Enough space for the WAL index and little more.
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$@\"";
    let program = env!("CARGO_BIN_EXE_treering");
    let output = Command::new("/bin/sh")
        .args(["-c", script, "limited", program, "--json", "doctor"])
        .env_clear()
        .env("TREERING_HOME", home.path())
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let writes = check(&found, "writes");
    assert!(!output.status.success() && writes["state"] == "broken", "{found}");
    assert!(writes["found"].as_str().unwrap().contains("stopped accepting writes"), "{writes}");
    assert!(writes["fix"].as_str().unwrap().contains("restart"), "{writes}");
    assert!(home.doctor(&["--offline"]).0, "the store itself is sound");
}

#[test]
fn processes_of_a_home_share_a_quota() {
    let server = FaultServer::start([answer("ready")]);
    let home = ProviderHome::new(&server, "");
    home.append_turn();
    let requests = server.requests().len();
    let doctor = || home.doctor(&["--set", "providers.compatible.requests_per_minute=2"]).1;
    let found: Vec<Value> = std::thread::scope(|threads| {
        let doctors: Vec<_> = (0..5).map(|_| threads.spawn(doctor)).collect();
        doctors.into_iter().map(|doctor| doctor.join().unwrap()).collect()
    });
    let with = |words: &str| {
        let is_about =
            |found: &&Value| check(found, "summaries")["found"].as_str().unwrap().contains(words);
        found.iter().filter(is_about).count()
    };
    assert_eq!(
        (
            with("answers"),
            with("compatible: the quota for this minute is used up; the next call can start in")
        ),
        (2, 3),
        "{found:?}"
    );
    assert_eq!(server.requests().len(), requests + 2);
    assert_eq!(
        with("is used up"),
        found.iter().filter(|found| check(found, "summaries")["state"] == "waits").count()
    );
}

#[test]
fn problems_are_reported_with_a_fix() {
    let server =
        FaultServer::start([ScriptedResponse::refuse(401, r#"{"error": {"message": "bad key"}}"#)]);
    let home = ProviderHome::new(&server, "[embed]\nmodel = \"compatible/e-1\"\n");
    let (healthy, found) = home.doctor(&[]);
    assert!(!healthy && found["healthy"] == false);
    for name in ["summaries", "vectors"] {
        let check = check(&found, name);
        assert_eq!(check["state"], "broken", "{found}");
        assert!(check["found"].as_str().unwrap().contains("bad key"), "{found}");
        assert!(
            check["fix"].as_str().unwrap().contains("providers.compatible.base_url"),
            "{found}"
        );
    }
    std::fs::write(home.path().join("treering.toml"), "[summarize]\nprovider = \"oracle\"")
        .unwrap();
    let (healthy, found) = home.doctor(&[]);
    assert!(
        !healthy && check(&found, "settings")["found"].as_str().unwrap().contains("oracle"),
        "{found}"
    );
    std::fs::remove_file(home.path().join("treering.toml")).unwrap();
    std::fs::write(
        home.path().join("treering.db"),
        "no store at all, but a text that is long enough to be read",
    )
    .unwrap();
    let (healthy, found) = home.doctor(&[]);
    assert!(!healthy && check(&found, "store")["state"] == "broken", "{found}");
}

#[test]
fn spending_fallbacks_and_ungrounded_facts_are_shown() {
    // One ungrounded detail among several facts is accepted and reported.
    let summary_text = "Ana put the gauge of Kerzavel into src/tide.rs; it reads every 20 minutes and is served on port 7410 by Bertrand.";
    let server = FaultServer::start([summary(summary_text)]);
    let caps = "[spend]\nconversation_tokens = 1000\n[spend.prices]\n\"compatible/m-1\" = { input = 1, output = 10 }\n";
    let home = ProviderHome::new(&server, caps);
    home.append_turn();
    home.ok(&["work"]);
    let more = "Then Bob asked who reads the ledger, since nobody in the office does, and Ana said that the town pays for \
                it, which is reason enough to go on writing to it until somebody complains about the cost of paper and ink, which the clerk counts once every week.";
    home.ok(&["append", "gauge", "--user", more, "--assistant", "Then it goes on as it is."]);
    home.ok(&["work"]);
    let tree = home.json(&["show", "gauge", "--tree"]);
    let ids: Vec<&str> = tree["branches"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|branch| branch["id"].as_str())
        .filter(|id| !id.is_empty())
        .collect();
    let nodes: Vec<Value> = ids.iter().map(|id| home.json(&["show", id])["node"].clone()).collect();
    let by =
        |name: &str| nodes.iter().filter(|node| node["generated_by"] == name).collect::<Vec<_>>();
    let written = by("compatible/m-1");
    assert_eq!((written.len(), &written[0]["invented"]), (1, &json!(["Bertrand"])), "{nodes:#?}");
    let page = home.ok(&["show", written[0]["id"].as_str().unwrap()]);
    assert!(page.contains("not in the sources:") && page.contains("Bertrand"), "{page}");
    assert!(!by("extractive for compatible/m-1").is_empty(), "past the cap: {nodes:#?}");

    let status = home.json(&["status", "gauge"]);
    let spent = &status["spend"]["conversation"];
    assert_eq!(
        (&spent["calls"], &spent["tokens_in"], &spent["tokens_out"]),
        (&json!(1), &json!(1000), &json!(100))
    );
    assert_eq!((&spent["dollars"], &spent["calls_of_unknown_price"]), (&json!(0.002), &json!(0)));
    assert!(
        status["spend"]["cap_reached"]
            .as_str()
            .unwrap()
            .contains("1000 tokens for this conversation")
    );
    assert!(status["fallback_nodes"].as_u64().unwrap() >= 1, "{status}");
    let words = home.ok(&["status", "gauge"]);
    for word in ["by the fallback", "$0.002", "cap of 1000 tokens", "treering update"] {
        assert!(words.contains(word), "{words}");
    }
    assert_eq!(home.json(&["stats"])["spend"][0]["model"], "compatible/m-1");
    assert!(
        home.ok(&["stats"]).contains("1 call, 1000 tokens in, 100 out, $0.002000"),
        "{}",
        home.ok(&["stats"])
    );
    assert!(home.ok(&["logs", "-n", "99"]).contains("1 call, 1000 tokens in, 100 out, $0.002000"));
    home.ok(&["verify"]);
}

#[test]
fn eval_uses_the_provider_settings() {
    let server =
        FaultServer::start([ScriptedResponse::refuse(401, r#"{"error": {"message": "bad key"}}"#)]);
    let home = ProviderHome::new(&server, "[embed]\nmodel = \"compatible/e-1\"\n");
    let haystack = json!({"conversation": {"speaker_a": "Ana", "speaker_b": "Bob", "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [{"speaker": "Ana", "dia_id": "D1:1", "text": "The gauge of Kerzavel is on port 7410."},
            {"speaker": "Bob", "dia_id": "D1:2", "text": "Noted, thank you."}]},
        "qa": [{"question": "Which port?", "answer": "7410", "evidence": ["D1:1"], "category": 4}], "sample_id": "conv-1"});
    let path = home.path().join("locomo.json");
    std::fs::write(&path, json!([haystack]).to_string()).unwrap();
    let output = home.run(&["eval", path.to_str().unwrap()]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("bad key"), "{errors}");
    assert!(!server.requests().is_empty());
}

/// Servers on loopback are reached directly.
#[test]
fn remote_servers_are_reached_through_the_proxy() {
    let proxy = FaultServer::start([answer("Yes.")]);
    let home = ProviderHome::new(&proxy, "");
    let through = |home: &ProviderHome| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_treering"));
        command.env_clear().env("TREERING_HOME", home.path()).env("HTTP_PROXY", proxy.url());
        command
            .args(["--json", "doctor"])
            .current_dir(home.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    through(&home);
    assert!(
        proxy.requests().iter().all(|request| request.path.starts_with('/')),
        "loopback is reached directly"
    );
    let direct = proxy.requests().len();
    let file = home.path().join("treering.toml");
    let remote_config =
        std::fs::read_to_string(&file).unwrap().replace(proxy.url(), "http://models.invalid/v1");
    std::fs::write(&file, remote_config).unwrap();
    through(&home);
    let requests = proxy.requests();
    assert!(requests.len() > direct, "the proxy is asked");
    assert!(requests[direct].path.contains("models.invalid"), "{:?}", requests[direct]);
}

/// The fallback writes the summaries, and `doctor` and `logs` report the reason.
#[test]
fn a_broken_prompt_does_not_stop_capture() {
    let server = FaultServer::start([answer("Yes.")]);
    let home = ProviderHome::new(&server, "");
    std::fs::create_dir(home.path().join("prompts")).unwrap();
    std::fs::write(home.path().join("prompts/detailed.md"), " ").unwrap();
    let (well, found) = home.doctor(&[]);
    assert!(
        !well
            && check(&found, "prompts")["found"].as_str().unwrap().contains("detailed.md is empty"),
        "{found}"
    );
    home.append_turn();
    assert_eq!(home.json(&["stats"])["messages"], 2);
    home.ok(&["work"]);
    let logged = home.ok(&["logs"]);
    assert!(
        logged.contains("extractive for compatible/m-1") && logged.contains("is empty"),
        "{logged}"
    );
    std::fs::write(home.path().join("prompts/detailed.md"), "Tell it briefly.").unwrap();
    assert_eq!(check(&home.doctor(&[]).1, "prompts")["state"], "fine");
}
