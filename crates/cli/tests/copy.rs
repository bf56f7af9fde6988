//! `copy` between folders, and the choice of the store by its address.

#![allow(clippy::unwrap_used)]

use crate::home::Home;

#[test]
fn a_store_is_copied_to_another_folder() {
    let (home, other) = (Home::demo(), Home::new());
    home.ok(&["remember", "Deploys need two reviews."]);
    let target = other.path().to_str().unwrap();
    let copy = || home.json(&["copy", "--from", ".", "--to", target]);
    let report = copy();
    assert!(report["messages"].as_u64().unwrap() > 20 && report["nodes"].as_u64().unwrap() > 0);
    assert_eq!(copy(), report, "a second time changes nothing");
    for args in [&["sessions"][..], &["show", "tidewatch", "--tree"], &["notes"]] {
        assert_eq!(home.json(args), other.json(args), "{args:?}");
    }
    assert_eq!(home.ok(&["export"]), other.ok(&["export"]));
    other.ok(&["verify"]);
    home.ok(&["append", "tidewatch", "--user", "One more?", "--assistant", "Yes."]);
    let error = home.complains(&["copy", "--from", ".", "--to", target], 1, &[]);
    assert!(error.contains("tidewatch") && error.contains("empty store"), "{error}");
}

#[test]
fn stores_that_cannot_be_copied_are_refused() {
    let home = Home::demo();
    let check = |from: &str, to: &str, words: &[&str]| {
        let error = home.complains(&["copy", "--from", from, "--to", to], 1, &[]);
        for word in words {
            assert!(error.contains(word), "{error}");
        }
        assert!(!error.contains("hunter2"), "{error}");
    };
    check(".", ".", &["same store"]);
    check("nothing", "other", &["no store in nothing"]);
    check(".", "neo4j://neo4j:hunter2@host", &["TREERING_STORE_PASSWORD"]);
    check(".", "mysql://host", &["mysql", "neo4j"]);
    assert!(!home.path().join("other").exists(), "nothing was created");
}

/// The address of a server that nobody can reach, or that this build does not know.
#[test]
fn a_store_on_a_server_that_is_not_there_is_explained() {
    let home = Home::new();
    let mut command = home.command(&["--set", "store.url=neo4j://127.0.0.1:1", "sessions"]);
    command.env("TREERING_STORE_USER", "ana").env("TREERING_STORE_PASSWORD", "hunter2");
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && !error.contains("hunter2"), "{error}");
    assert!(error.contains("127.0.0.1:1"), "{error}");
    assert!(error.contains("cannot connect") || error.contains("--features neo4j"), "{error}");
    let error =
        home.complains(&["--set", "store.url=neo4j://host", "restore", "backup.db"], 1, &[]);
    assert!(error.contains("treering copy"), "{error}");
}
