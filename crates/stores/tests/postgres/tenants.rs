//! The walls between tenants: every statement names its tenant, and row-level security holds without that.

use std::collections::BTreeSet;

use treering_core::{CommitScope, Store, TenantId, Write};
use treering_testkit::contract::conversation;

use crate::server::{log_file, new_store};

fn put_for(store: &dyn Store, tenant: &str) {
    let tenant = TenantId::new(tenant).unwrap();
    let writes = vec![Write::PutConversation(conversation(1))];
    store.commit(CommitScope::Tenant(tenant), Box::new(move |_| Ok(writes.clone()))).unwrap();
}

/// Statements without a condition on the tenant, which the first wall would never send.
#[test]
fn row_level_security_holds_without_conditions() {
    let (store, schema) = new_store();
    put_for(&store, "a");
    put_for(&store, "b");
    let raw = schema.connect();
    let count = || raw.first("SELECT count(*) FROM conversations").unwrap();
    assert_eq!(count(), "0", "without a tenant nothing is visible");
    raw.execute("SET treering.tenant = 'a'");
    assert_eq!(count(), "1");
    raw.execute("UPDATE conversations SET title = 'mine'");
    raw.execute("DELETE FROM tenants WHERE tenant = 'b'");
    let insert = "INSERT INTO conversations SELECT 'b', '\\x02', version, 'other', title, title_source, participants, cwd,
        project_path, started_at, last_activity, state, NULL, messages, turns, tool_calls, chars, tokens, threads, policy,
        tree_state, labels FROM conversations";
    let refused = raw.try_execute(insert).unwrap_err();
    let refused = refused.as_db_error().unwrap().message().to_owned();
    assert!(refused.contains("row-level security"), "{refused}");
    raw.execute("SET treering.tenant = 'b'");
    assert_eq!(raw.first("SELECT title FROM conversations").as_deref(), Some("Title 1"));
    assert_eq!(raw.first("SELECT count(*) FROM tenants").as_deref(), Some("1"));
}

/// Parts of the statements that concern all tenants or none. docs/operations.md explains each.
const EXCEPTIONS: [&str; 12] = [
    // Quotas of providers apply to all tenants together.
    "INTO requests",
    "FROM requests",
    // Which tenants there are, and which of them has work.
    "SELECT tenant FROM tenants ORDER BY tenant",
    "WITH RECURSIVE visited (tenant)",
    // The store itself: its size, its check, its repair, its scrub.
    "pg_total_relation_size",
    "x.tenant, count(*)",
    "WITH removed AS (DELETE",
    "CASE WHEN pg_is_in_recovery()",
    "FROM audit WHERE NOT is_scrubbed",
    "FROM store",
    "UPDATE store SET system",
    // The state of the server, in which no row of a tenant is read.
    "pg_snapshot_xmax",
];

/// Reads the log of the server: every prepared statement that the other tests ran.
#[test]
#[ignore = "reads the statements of the other tests, so tools/test-postgres runs it after them"]
fn every_statement_names_the_tenant() {
    let log = std::fs::read_to_string(log_file()).unwrap();
    let mut statements: BTreeSet<String> = BTreeSet::new();
    let mut current: Option<String> = None;
    for line in log.lines() {
        let begins = [
            "LOG:  execute s",
            "LOG:  statement:",
            "ERROR:",
            "DETAIL:",
            "STATEMENT:",
            "FATAL:",
            "LOG:",
            "HINT:",
            "CONTEXT:",
            "WARNING:",
        ];
        if begins.iter().any(|begin| line.starts_with(begin)) {
            statements.extend(current.take());
        }
        if let Some(rest) = line.strip_prefix("LOG:  execute s") {
            // The driver names prepared statements `s1`, `s2`, …
            current = rest.split_once(": ").map(|(_, sql)| sql.to_owned());
        } else if let Some(statement) = &mut current {
            statement.push(' ');
            statement.push_str(line.trim());
        }
    }
    statements.extend(current);
    assert!(statements.len() > 100, "{} statements", statements.len());
    let names_tenant = |sql: &str| {
        ["tenant = $1", "(tenant, ", "(tenant) ", "begin_commit($1", "touch_conversations($1"]
            .iter()
            .any(|part| sql.contains(part))
    };
    let reads_rows =
        |sql: &str| sql.contains("FROM ") || sql.contains("INTO ") || sql.contains("UPDATE ");
    let nameless: Vec<&String> = statements
        .iter()
        .filter(|sql| reads_rows(sql) && !names_tenant(sql))
        .filter(|sql| !EXCEPTIONS.iter().any(|part| sql.contains(part)))
        .collect();
    assert!(nameless.is_empty(), "{nameless:#?}");
    println!("{} statements", statements.len());
}
