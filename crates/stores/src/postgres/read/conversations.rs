//! Reads conversations and their totals.

use tokio_postgres::Row;
use treering_core::ports::{ConversationFilter, ConversationQuery, StoreResult};
use treering_core::{
    Conversation, ConversationId, ConversationKind, ConversationTotals, Label, Labels, paths_below,
};

use super::{TenantReader, limit};
use crate::codes;
use crate::postgres::connection::SqlQuery;
use crate::postgres::value::{Columns, Decoded, SqlValue, UndecodableRow, texts, values};
use crate::row_codec::decode_threads;

pub(super) const COLUMNS: &str = "id, slug, title, participants, cwd, project_path, started_at, last_activity,
    state, external_id, messages, turns, tool_calls, chars, tokens, title_source, threads, policy, tree_state, labels";

impl TenantReader<'_> {
    pub(super) fn read_conversations(
        &self,
        query: &ConversationQuery<'_>,
    ) -> StoreResult<Vec<Conversation>> {
        if let ConversationQuery::Id(id) = query
            && let Some((known, facts)) = self.facts()?
            && known == *id
        {
            return Ok(facts.conversation.iter().cloned().collect());
        }
        let by = |column: &str, value: SqlValue| {
            let sql =
                format!("SELECT {COLUMNS} FROM conversations WHERE tenant = $1 AND {column} = $2");
            SqlQuery::new(sql, vec![self.tenant_value(), value])
        };
        let query = match query {
            ConversationQuery::Id(id) => by("id", (*id).into()),
            ConversationQuery::ExternalId(id) => by("external_id", id.as_str().into()),
            ConversationQuery::Slug(slug) => by("slug", (*slug).into()),
            ConversationQuery::IdPrefix(prefix, count) => {
                let Some(query) = self.by_id_prefix(prefix, *count) else { return Ok(Vec::new()) };
                query
            }
            ConversationQuery::List(filter) => self.listing(filter),
        };
        self.query_all(query, conversation)
    }

    fn by_id_prefix(&self, prefix: &str, count: usize) -> Option<SqlQuery> {
        let bound =
            |pad: &str| format!("{prefix}{}", pad.repeat(32_usize.saturating_sub(prefix.len())));
        let min_id: ConversationId = bound("0").parse().ok()?;
        let max_id: ConversationId = bound("f").parse().ok()?;
        let sql = format!(
            "SELECT {COLUMNS} FROM conversations WHERE tenant = $1 AND id BETWEEN $2 AND $3
            ORDER BY id LIMIT $4"
        );
        Some(SqlQuery::new(sql, values![self.tenant.as_str(), min_id, max_id, count]))
    }

    fn listing(&self, filter: &ConversationFilter) -> SqlQuery {
        let mut conditions = Conditions::of(self.tenant_value(), filter);
        if let Some((at, id)) = filter.after {
            let (at, id) = (conditions.bind(at.into()), conditions.bind(id.into()));
            conditions
                .sql
                .push(format!("last_activity <= {at} AND (last_activity < {at} OR id > {id})"));
        }
        let count = conditions.bind(limit(filter.limit));
        let sql = format!(
            "SELECT {COLUMNS} FROM conversations WHERE {}
            ORDER BY last_activity DESC, id LIMIT {count}",
            conditions.sql.join(" AND ")
        );
        SqlQuery::new(sql, conditions.values)
    }

    pub(super) fn read_conversation_ids(
        &self,
        filter: &ConversationFilter,
    ) -> StoreResult<Vec<ConversationId>> {
        let conditions = Conditions::of(self.tenant_value(), filter);
        let sql = format!("SELECT id FROM conversations WHERE {}", conditions.sql.join(" AND "));
        self.query_all(SqlQuery::new(sql, conditions.values), |row| row.conversation(0))
    }

    pub(super) fn read_totals(&self) -> StoreResult<(u32, ConversationTotals)> {
        let sql = format!(
            "SELECT count(*) FILTER (WHERE {}), coalesce(sum(messages), 0)::bigint,
                coalesce(sum(turns), 0)::bigint, coalesce(sum(tool_calls), 0)::bigint,
                coalesce(sum(chars), 0)::bigint, coalesce(sum(tokens), 0)::bigint
            FROM conversations WHERE tenant = $1",
            of_kind(ConversationKind::Session)
        );
        let query = SqlQuery::new(sql, vec![self.tenant_value()]);
        let sums = self.query_one(query, |row| Ok((row.number(0)?, totals(row, 1)?)))?;
        Ok(sums.unwrap_or_default())
    }
}

/// The conditions of a filter, apart from its page. The tenant is the first parameter.
struct Conditions {
    sql: Vec<String>,
    values: Vec<SqlValue>,
}

impl Conditions {
    fn of(tenant: SqlValue, filter: &ConversationFilter) -> Self {
        let mut it = Self { sql: vec!["tenant = $1".into()], values: vec![tenant] };
        it.sql.extend(filter.kind.map(of_kind));
        if !filter.states.is_empty() {
            // Literals, so that the index of archived conversations applies.
            let states =
                filter.states.iter().map(|it| format!("state = {}", codes::state_code(*it)));
            it.sql.push(format!("({})", states.collect::<Vec<_>>().join(" OR ")));
        }
        if let Some(folder) = &filter.cwd {
            it.at_or_below(&["cwd"], folder);
        }
        if let Some(folder) = &filter.project {
            it.at_or_below(&["cwd", "project_path"], folder);
        }
        if !filter.labels.is_empty() {
            let labels: Vec<String> = filter.labels.iter().map(ToString::to_string).collect();
            let labels = it.bind(texts(labels.iter().map(String::as_str)));
            it.sql.push(format!("labels @> {labels}"));
        }
        it
    }

    /// Adds a value and returns the parameter that stands for it.
    fn bind(&mut self, value: SqlValue) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }

    /// Requires that one of the columns is a folder or lies below it.
    fn at_or_below(&mut self, columns: &[&str], folder: &str) {
        let (first, end) = paths_below(folder);
        let (folder, first, end) =
            (self.bind(folder.into()), self.bind(first.into()), self.bind(end.into()));
        let conditions = columns.iter().map(|column| {
            format!("{column} = {folder} OR ({column} >= {first} AND {column} < {end})")
        });
        self.sql.push(format!("({})", conditions.collect::<Vec<_>>().join(" OR ")));
    }
}

/// The condition that a conversation is of a kind. A key of a kind is its prefix, or continues it
/// with a colon.
fn of_kind(kind: ConversationKind) -> String {
    match kind {
        ConversationKind::Session => {
            let is_other = |kind: ConversationKind| {
                format!("NOT starts_with(external_id, '{}')", kind.key_prefix())
            };
            let others = ConversationKind::RESERVED.map(is_other);
            format!("(external_id IS NULL OR ({}))", others.join(" AND "))
        }
        ConversationKind::Notes | ConversationKind::Project => {
            let prefix = kind.key_prefix();
            format!("external_id >= '{prefix}' AND external_id < '{prefix};'")
        }
    }
}

fn totals(row: &Row, from: usize) -> Decoded<ConversationTotals> {
    Ok(ConversationTotals {
        messages: row.number(from)?,
        turns: row.number(from + 1)?,
        tool_calls: row.number(from + 2)?,
        chars: row.number(from + 3)?,
        tokens: row.number(from + 4)?,
    })
}

/// Reads a conversation from [`COLUMNS`].
pub(super) fn conversation(row: &Row) -> Decoded<Conversation> {
    Ok(Conversation {
        id: row.conversation(0)?,
        slug: row.text(1)?,
        title: row.optional_text(2)?,
        participants: row.parsed(3)?,
        cwd: row.optional_text(4)?,
        project_path: row.optional_text(5)?,
        started_at: row.time(6)?,
        last_activity: row.time(7)?,
        state: codes::state(row.long(8)?).ok_or("no such state")?,
        external_id: row.external_id(9)?,
        totals: totals(row, 10)?,
        title_source: codes::title_source(row.long(15)?).ok_or("no such source of a title")?,
        threads: decode_threads(&row.text(16)?)?,
        policy: row.parsed(17)?,
        tree_state: row.parsed(18)?,
        labels: labels(row, 19)?,
    })
}

fn labels(row: &Row, column: usize) -> Decoded<Labels> {
    let mut labels = Labels::new();
    for text in row.texts(column)? {
        let (name, value) = text.split_once('=').ok_or("a label without a value")?;
        let label = Label::new(name, value).map_err(UndecodableRow::new)?;
        labels.set(label).map_err(UndecodableRow::new)?;
    }
    Ok(labels)
}
