//! Reads conversations and their totals.

use treering_core::ports::{ConversationFilter, ConversationQuery, StoreResult};
use treering_core::{
    Conversation, ConversationId, ConversationKind, ConversationTotals, Labels, paths_below,
};

use super::{GraphView, rows};
use crate::neo4j::bolt::{BoltValue, Cypher};
use crate::neo4j::values::{BoltRow, Read, unreadable};
use crate::row_codec::decode_threads;

pub(in crate::neo4j) const CONVERSATION: &str =
    "c.sessionId, c.slug, c.title, c.titleSource, c.participants, c.cwd, c.projectPath, c.startTime,
    c.lastActivity, c.state, c.externalId, c.labels, c.messages, c.turns, c.toolCalls, c.chars,
    c.tokens, c.threads, c.policy, c.treeState";

impl GraphView<'_> {
    pub(super) fn read_conversations(
        &self,
        query: &ConversationQuery<'_>,
    ) -> StoreResult<Vec<Conversation>> {
        let by = |property: &str, value: BoltValue| {
            let lock = self.lock("SET c:ConversationSession");
            let query = format!(
                "MATCH (c:ConversationSession {{tenant: $tenant, {property}: $value}}) {lock} WITH c
                RETURN {CONVERSATION}"
            );
            self.query(self.statement(query).with("value", value), conversation)
        };
        match query {
            ConversationQuery::Id(id) => match &self.state {
                Some(state) if state.conversation.0 == *id => {
                    Ok(state.conversation.1.clone().into_iter().collect())
                }
                _ => by("sessionId", (*id).into()),
            },
            ConversationQuery::ExternalId(id) => by("externalId", id.as_str().into()),
            ConversationQuery::Slug(slug) => by("slug", (*slug).into()),
            ConversationQuery::IdPrefix(prefix, limit) => self.read_by_id_prefix(prefix, *limit),
            ConversationQuery::List(filter) => self.list_conversations(filter),
        }
    }

    fn read_by_id_prefix(&self, prefix: &str, limit: usize) -> StoreResult<Vec<Conversation>> {
        if !prefix.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Vec::new());
        }
        let statement = self.of_tenant(&format!(
            "MATCH (c:ConversationSession)
            WHERE c.tenant = $tenant AND c.sessionId STARTS WITH $prefix
            RETURN {CONVERSATION} ORDER BY c.sessionId LIMIT $limit"
        ));
        let statement = statement.with("prefix", prefix.to_ascii_lowercase());
        self.query(statement.with("limit", rows(limit)), conversation)
    }

    fn list_conversations(&self, filter: &ConversationFilter) -> StoreResult<Vec<Conversation>> {
        let mut conditions = conditions(filter);
        if filter.after.is_some() {
            conditions.push_str(
                " AND c.lastActivity <= $at AND (c.lastActivity < $at OR c.sessionId > $after)",
            );
        }
        let statement = self.of_tenant(&format!(
            "MATCH (c:ConversationSession) WHERE {conditions}
            RETURN {CONVERSATION} ORDER BY c.lastActivity DESC, c.sessionId LIMIT $limit"
        ));
        let mut statement = with_filter(statement, filter).with("limit", rows(filter.limit));
        if let Some((at, id)) = filter.after {
            statement = statement.with("at", at).with("after", id);
        }
        self.query(statement, conversation)
    }

    pub(super) fn read_conversation_ids(
        &self,
        filter: &ConversationFilter,
    ) -> StoreResult<Vec<ConversationId>> {
        let conditions = conditions(filter);
        let query = format!("MATCH (c:ConversationSession) WHERE {conditions} RETURN c.sessionId");
        self.query(with_filter(self.of_tenant(&query), filter), BoltRow::take)
    }

    pub(super) fn read_totals(&self) -> StoreResult<(u32, ConversationTotals)> {
        let statement = self.of_tenant(
            "MATCH (c:ConversationSession)
            WHERE c.tenant = $tenant AND c.lastActivity IS NOT NULL
            RETURN sum(CASE c.kind WHEN 'session' THEN 1 ELSE 0 END), sum(c.messages), sum(c.turns),
                sum(c.toolCalls), sum(c.chars), sum(c.tokens)",
        );
        let sums = self.query_one(statement, |row| Ok((row.take()?, totals(row)?)))?;
        Ok(sums.unwrap_or_default())
    }
}

/// The name of a kind in the graph.
pub(in crate::neo4j) const fn kind_name(kind: ConversationKind) -> &'static str {
    match kind {
        ConversationKind::Session => "session",
        ConversationKind::Notes => "notes",
        ConversationKind::Project => "project",
    }
}

/// The condition of a filter, apart from its page.
fn conditions(filter: &ConversationFilter) -> String {
    let below = |property: &str, name: &str| {
        format!(
            "(c.{property} = ${name} OR (c.{property} >= ${name}First AND c.{property} < ${name}End))"
        )
    };
    let mut conditions = vec!["c.tenant = $tenant AND c.lastActivity IS NOT NULL".to_owned()];
    conditions.extend(filter.kind.map(|_| "c.kind = $kind".to_owned()));
    conditions.extend((!filter.states.is_empty()).then(|| "c.state IN $states".to_owned()));
    conditions.extend(filter.cwd.as_ref().map(|_| below("cwd", "cwd")));
    conditions.extend(
        filter.project.as_ref().map(|_| {
            format!("({} OR {})", below("cwd", "project"), below("projectPath", "project"))
        }),
    );
    conditions.extend(
        (!filter.labels.is_empty()).then(|| "all(l IN $labels WHERE l IN c.labels)".to_owned()),
    );
    conditions.join(" AND ")
}

/// The parameters of [`conditions`].
fn with_filter(mut statement: Cypher, filter: &ConversationFilter) -> Cypher {
    let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
    let labels: Vec<String> = filter.labels.iter().map(ToString::to_string).collect();
    statement = statement.with("states", states).with("labels", labels);
    statement = statement.with("kind", filter.kind.map(kind_name));
    for (name, folder) in [("cwd", &filter.cwd), ("project", &filter.project)] {
        let Some(folder) = folder else { continue };
        let (first, end) = paths_below(folder);
        statement = statement
            .with(name, folder)
            .with(&format!("{name}First"), first)
            .with(&format!("{name}End"), end);
    }
    statement
}

fn totals(row: &mut BoltRow) -> Read<ConversationTotals> {
    Ok(ConversationTotals {
        messages: row.take()?,
        turns: row.take()?,
        tool_calls: row.take()?,
        chars: row.take()?,
        tokens: row.take()?,
    })
}

/// Reads a conversation from [`CONVERSATION`].
pub(in crate::neo4j) fn conversation(row: &mut BoltRow) -> Read<Conversation> {
    Ok(Conversation {
        id: row.take()?,
        slug: row.take()?,
        title: row.take()?,
        title_source: row.take::<String>()?.parse().or_else(unreadable)?,
        participants: row.take()?,
        cwd: row.take()?,
        project_path: row.take()?,
        started_at: row.take()?,
        last_activity: row.take()?,
        state: row.take::<String>()?.parse().or_else(unreadable)?,
        external_id: row.take()?,
        labels: Labels::parse(row.take::<Vec<String>>()?.iter().map(String::as_str))
            .or_else(unreadable)?,
        totals: totals(row)?,
        threads: decode_threads(&row.take::<String>()?).or_else(unreadable)?,
        policy: row.json()?,
        tree_state: row.json()?,
    })
}
