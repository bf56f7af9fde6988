//! The names of rows in problem descriptions: SQL expressions over the row `x` of a table.

use treering_core::TenantId;

/// The tables whose rows are derived from messages and tool calls, or can be dropped without
/// losing any of those.
pub(super) const DERIVED: [&str; 6] =
    ["nodes", "jobs", "log", "vectors", "vector_models", "vector_indexes"];

/// The expression that names a row of a table, e.g. `conversation notes: message #3`.
pub(super) fn name_of(table: &str) -> String {
    let item = match table {
        "tenants" => return "'tenant ' || x.name".to_owned(),
        "conversations" => return format!("'conversation ' || {}", slug("x.tenant", "x.slug")),
        "vector_models" => "'model ' || x.model",
        "vector_indexes" => "'the vector index'",
        "vectors" => {
            "'vector ' || substr(lower(hex(x.hash)), 1, 12) || ifnull(' of model ' ||
                (SELECT m.model FROM vector_models m WHERE m.pk = x.model), '')"
        }
        "removals" => "'removed conversation ' || substr(lower(hex(x.id)), 1, 12)",
        "audit" => "'audit record ' || x.id",
        "messages" => "'message #' || x.idx",
        "versions" => "'earlier version of message #' || x.idx",
        "tool_calls" => "'tool call ' || x.place || ' of turn ' || x.turn",
        "nodes" => "'node ' || x.id",
        "jobs" => "'job ' || substr(lower(hex(x.id)), 1, 12)",
        "labels" => "'label ' || x.name",
        _ => "'log line ' || x.pk",
    };
    let owner = match table {
        "vector_models" | "vector_indexes" | "vectors" | "removals" | "audit" => tenant(),
        _ => conversation(),
    };
    format!("{owner} || {item}")
}

/// The noun for a row of a table.
pub(super) fn kind_of(table: &str) -> &'static str {
    match table {
        "tenants" => "tenant",
        "conversations" => "conversation of its tenant",
        "vector_models" => "model of its tenant",
        "removals" => "removed conversation",
        "audit" => "audit record",
        "messages" => "message",
        "versions" => "earlier version",
        "tool_calls" => "tool call",
        "nodes" => "node",
        "jobs" => "job",
        "labels" => "label",
        "vectors" => "vector",
        "vector_indexes" => "vector index",
        _ => "log line",
    }
}

fn conversation() -> String {
    let slug = slug("c.tenant", "c.slug");
    format!(
        "ifnull('conversation ' || (SELECT {slug} FROM conversations c WHERE c.pk = x.conversation) || ': ', '')"
    )
}

fn tenant() -> String {
    "ifnull('tenant ' || (SELECT t.name FROM tenants t WHERE t.pk = x.tenant) || ': ', '')"
        .to_owned()
}

/// A slug, prefixed with its tenant unless that is the default one.
fn slug(tenant: &str, slug: &str) -> String {
    let default = TenantId::default();
    format!(
        "ifnull((SELECT t.name || '/' FROM tenants t WHERE t.pk = {tenant} AND t.name <> '{default}'), '') || {slug}"
    )
}
