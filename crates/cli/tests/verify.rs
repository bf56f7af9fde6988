//! `treering verify` on a damaged store: its output, its exit code, and `--repair`.
//! crates/engine/tests/verify covers every kind of damage.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, also what is not in a function marked as a test"
)]

use crate::home::{FILE, Home};
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
        let (output, code) = verify(&home, args);
        assert!(
            output.contains(
                "✗ tidewatch: message #3 was changed after it was stored: its hash differs"
            ),
            "{output}"
        );
        assert_eq!(code, Some(1));
    }
}

#[test]
fn a_changed_node_is_reported_and_rebuilt() {
    let home = damaged(
        "UPDATE nodes SET content = json_set(content, '$.overview', 'x') WHERE level = 1 AND ordinal = 2",
    );
    let (output, code) = verify(&home, &[]);
    assert!(output.contains("✗ store: conversation tidewatch: node l1-"), "{output}");
    assert!(output.contains(" is corrupt: its checksum differs"), "{output}");
    assert_eq!(code, Some(1));
    let (output, code) = verify(&home, &["--repair"]);
    assert!(output.contains("its checksum differs; it was removed"), "{output}");
    assert!(
        output.contains("✓ tidewatch: rebuilt the tree") && output.contains("no problems found"),
        "{output}"
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
    let (output, code) = verify(&home, &[]);
    let expected = "✗ store: tenant default: model old has vectors but is neither the current model nor the next one";
    assert!(output.contains(expected), "{output}");
    assert_eq!(
        (code, verify(&home, &["--repair"]).1, verify(&home, &[]).1),
        (Some(1), Some(0), Some(0))
    );
}
