//! `treering verify` on a damaged store: its output, its exit code, and `--repair`.
//! crates/engine/tests/verify covers every kind of damage.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, also what is not in a function marked as a test"
)]

mod home;

use home::{FILE, Home};
use serde_json::json;

/// A home with the sample conversation, damaged behind the program's back.
fn damaged(sql: &str) -> Home {
    let home = Home::demo();
    let connection = rusqlite::Connection::open(home.path().join(FILE)).unwrap();
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    connection.execute_batch(sql).unwrap();
    home
}

/// The output of `verify` and its exit code.
fn verify(home: &Home, args: &[&str]) -> (String, Option<i32>) {
    let output = home.run(&[&["verify"], args].concat());
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

#[test]
fn a_changed_message_is_reported_and_left_alone() {
    let home = damaged("UPDATE messages SET text = 'x' WHERE idx = 3");
    for args in [&[][..], &["--repair"], &[]] {
        let (said, code) = verify(&home, args);
        assert!(
            said.contains(
                "✗ tidewatch: message #3 was changed after it was stored: its hash differs"
            ),
            "{said}"
        );
        assert_eq!(code, Some(1));
    }
}

#[test]
fn a_changed_node_is_reported_and_rebuilt() {
    let home = damaged(
        "UPDATE nodes SET content = json_set(content, '$.overview', 'x') WHERE level = 1 AND ordinal = 2",
    );
    let (said, code) = verify(&home, &[]);
    assert!(said.contains("✗ store: conversation tidewatch: node l1-"), "{said}");
    assert!(said.contains(" is corrupt: its checksum differs"), "{said}");
    assert_eq!(code, Some(1));
    let (said, code) = verify(&home, &["--repair"]);
    assert!(said.contains("its checksum differs; it was removed"), "{said}");
    assert!(
        said.contains("✓ tidewatch: rebuilt the tree") && said.contains("no problems found"),
        "{said}"
    );
    assert_eq!((code, verify(&home, &[]).1), (Some(0), Some(0)));
}

#[test]
fn a_wrong_count_is_recomputed() {
    let home = damaged("UPDATE conversations SET messages = messages + 2");
    let report = home.run(&["--json", "verify"]);
    assert_eq!(report.status.code(), Some(1));
    let repaired = home.json(&["verify", "--repair"]);
    assert_eq!(
        (&repaired["clean"], &repaired["repaired"], &repaired["repaired_store"]),
        (
            &json!(true),
            &json!([]),
            &json!(["tidewatch: its counts, times and latest turns were recomputed"])
        )
    );
}

#[test]
fn vectors_of_an_unused_model_are_removed() {
    let home = damaged(
        "INSERT INTO vector_models (pk, tenant, model) VALUES (1, 1, 'old');
        INSERT INTO vectors (tenant, seq, model, hash, vector) SELECT 1, seq + 1, 1, zeroblob(16), zeroblob(8) FROM tenants;
        UPDATE tenants SET seq = seq + 1",
    );
    let (said, code) = verify(&home, &[]);
    let expected = "✗ store: tenant default: model old has vectors but is neither the current model nor the next one";
    assert!(said.contains(expected), "{said}");
    assert_eq!(
        (code, verify(&home, &["--repair"]).1, verify(&home, &[]).1),
        (Some(1), Some(0), Some(0))
    );
}
