//! Reads conversations and their totals.

use std::ops::Deref;

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};
use treering_core::ports::{ConversationFilter, ConversationQuery, StoreResult};
use treering_core::{
    Conversation, ConversationId, ConversationKind, ConversationTotals, paths_below,
};

use super::{TenantView, external_id, parsed, rows, threads, timestamp, unreadable, unsigned};
use crate::codes;

pub(super) const COLUMNS: &str =
    "id, slug, title, participants, cwd, project_path, started_at, last_activity,
    state, external_id, messages, turns, tool_calls, chars, tokens, naming, threads, policy, growth,
    (SELECT json_group_object(l.name, l.value) FROM labels l
        WHERE l.tenant = conversations.tenant AND l.conversation = conversations.pk)";

/// The index of the tree state in [`COLUMNS`].
pub(super) const GROWTH: usize = 18;

impl<C: Deref<Target = Connection>> TenantView<'_, C> {
    pub(super) fn read_conversations(
        &self,
        query: &ConversationQuery<'_>,
    ) -> StoreResult<Vec<Conversation>> {
        let by = |column: &str| {
            format!("SELECT {COLUMNS} FROM conversations WHERE tenant = ?1 AND {column} = ?2")
        };
        match query {
            ConversationQuery::Id(id) => {
                self.query_all(&by("id"), params![self.tenant, id.as_bytes()], conversation)
            }
            ConversationQuery::ExternalId(id) => {
                self.query_all(&by("external_id"), params![self.tenant, id.as_str()], conversation)
            }
            ConversationQuery::Slug(slug) => {
                self.query_all(&by("slug"), params![self.tenant, slug], conversation)
            }
            ConversationQuery::IdPrefix(prefix, limit) => self.read_by_id_prefix(prefix, *limit),
            ConversationQuery::List(filter) => self.list_conversations(filter),
        }
    }

    fn read_by_id_prefix(&self, prefix: &str, limit: usize) -> StoreResult<Vec<Conversation>> {
        let bound =
            |pad: &str| format!("{prefix}{}", pad.repeat(32_usize.saturating_sub(prefix.len())));
        let bounds = (bound("0").parse::<ConversationId>(), bound("f").parse::<ConversationId>());
        let (Ok(min_id), Ok(max_id)) = bounds else { return Ok(Vec::new()) };
        let sql = format!(
            "SELECT {COLUMNS} FROM conversations WHERE tenant = ?1 AND id BETWEEN ?2 AND ?3 ORDER BY id LIMIT ?4"
        );
        let params = params![self.tenant, min_id.as_bytes(), max_id.as_bytes(), rows(limit)];
        self.query_all(&sql, params, conversation)
    }

    fn list_conversations(&self, filter: &ConversationFilter) -> StoreResult<Vec<Conversation>> {
        let mut values = vec![Value::from(self.tenant)];
        let mut bind = |value: Value| bind(&mut values, value);
        let mut conditions = conditions(filter, &mut bind);
        if let Some((at, id)) = filter.after {
            let (at, id) = (bind(at.as_micros().into()), bind(id.as_bytes().to_vec().into()));
            conditions
                .push(format!("last_activity <= {at} AND (last_activity < {at} OR id > {id})"));
        }
        let limit = bind(rows(filter.limit).into());
        let sql = format!(
            "SELECT {COLUMNS} FROM conversations WHERE {}
            ORDER BY last_activity DESC, id LIMIT {limit}",
            conditions.join(" AND ")
        );
        self.query_all(&sql, params_from_iter(values), conversation)
    }

    pub(super) fn read_conversation_ids(
        &self,
        filter: &ConversationFilter,
    ) -> StoreResult<Vec<ConversationId>> {
        let mut values = vec![Value::from(self.tenant)];
        let conditions = conditions(filter, &mut |value| bind(&mut values, value));
        let sql = format!("SELECT id FROM conversations WHERE {}", conditions.join(" AND "));
        let id = |row: &Row<'_>| Ok(ConversationId::from_bytes(row.get(0)?));
        self.query_all(&sql, params_from_iter(values), id)
    }

    pub(super) fn read_totals(&self) -> StoreResult<(u32, ConversationTotals)> {
        let sql = format!(
            "SELECT count(*), ifnull(sum(messages), 0), ifnull(sum(turns), 0),
                ifnull(sum(tool_calls), 0), ifnull(sum(chars), 0), ifnull(sum(tokens), 0)
            FROM conversations WHERE tenant = ?1 AND {}",
            of_kind(ConversationKind::Session)
        );
        let sums = self.query_one(&sql, [self.tenant], |row| Ok((row.get(0)?, totals(row, 1)?)))?;
        Ok(sums.unwrap_or_default())
    }
}

/// Adds a value and returns the parameter that stands for it.
fn bind(values: &mut Vec<Value>, value: Value) -> String {
    values.push(value);
    format!("?{}", values.len())
}

/// The conditions of a filter, apart from its page. The tenant is the first parameter. States are
/// literals, so that the index of archived conversations applies.
fn conditions(filter: &ConversationFilter, bind: &mut impl FnMut(Value) -> String) -> Vec<String> {
    let mut conditions = vec!["tenant = ?1".to_owned()];
    conditions.extend(filter.kind.map(of_kind));
    if !filter.states.is_empty() {
        let states = filter.states.iter().map(|it| format!("state = {}", codes::state_code(*it)));
        conditions.push(format!("({})", states.collect::<Vec<_>>().join(" OR ")));
    }
    if let Some(folder) = &filter.cwd {
        conditions.push(at_or_below(&["cwd"], folder, bind));
    }
    if let Some(folder) = &filter.project {
        conditions.push(at_or_below(&["cwd", "project_path"], folder, bind));
    }
    for label in &filter.labels {
        let (name, value) = (label.name().to_owned(), label.value().to_owned());
        let (name, value) = (bind(name.into()), bind(value.into()));
        conditions.push(format!(
            "pk IN (SELECT conversation FROM labels WHERE tenant = ?1 AND name = {name} AND value = {value})"
        ));
    }
    conditions
}

/// The condition that a conversation is of a kind. A key of a kind is its prefix, or continues it
/// with a colon.
fn of_kind(kind: ConversationKind) -> String {
    match kind {
        ConversationKind::Session => {
            let is_other = |kind: ConversationKind| {
                let prefix = kind.key_prefix();
                format!("substr(external_id, 1, {}) <> '{prefix}'", prefix.len())
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

/// The condition that one of the columns is a folder or lies below it.
fn at_or_below(columns: &[&str], folder: &str, bind: &mut impl FnMut(Value) -> String) -> String {
    let (first, end) = paths_below(folder);
    let (folder, first, end) =
        (bind(folder.to_owned().into()), bind(first.into()), bind(end.into()));
    let conditions = columns
        .iter()
        .map(|column| format!("{column} = {folder} OR ({column} >= {first} AND {column} < {end})"));
    format!("({})", conditions.collect::<Vec<_>>().join(" OR "))
}

fn totals(row: &Row<'_>, from: usize) -> rusqlite::Result<ConversationTotals> {
    Ok(ConversationTotals {
        messages: row.get(from)?,
        turns: row.get(from + 1)?,
        tool_calls: row.get(from + 2)?,
        chars: unsigned(row, from + 3)?,
        tokens: unsigned(row, from + 4)?,
    })
}

/// Reads a conversation from [`COLUMNS`].
pub(super) fn conversation(row: &Row<'_>) -> rusqlite::Result<Conversation> {
    Ok(Conversation {
        id: ConversationId::from_bytes(row.get(0)?),
        slug: row.get(1)?,
        title: row.get(2)?,
        participants: parsed(row, 3)?,
        cwd: row.get(4)?,
        project_path: row.get(5)?,
        started_at: timestamp(row, 6)?,
        last_activity: timestamp(row, 7)?,
        state: codes::state(row.get(8)?).ok_or_else(|| unreadable(8, "no such state"))?,
        external_id: external_id(row, 9)?,
        totals: totals(row, 10)?,
        threads: threads::read(row, 16)?,
        policy: parsed(row, 17)?,
        tree_state: parsed(row, GROWTH)?,
        labels: parsed(row, GROWTH + 1)?,
        title_source: codes::title_source(row.get(15)?)
            .ok_or_else(|| unreadable(15, "no such naming"))?,
    })
}
