//! Check, repair and description of the store.

use std::path::{Path, PathBuf};

use treering_core::ports::{Description, Maintenance, ScrubReport, StoreResult};
use treering_core::{StoreError, TenantId};

use super::bolt::Cypher;
use super::error::explain;
use super::schema::{self, VERSION};
use super::values::BoltRow;
use super::{Neo4jStore, unreadable};

/// A rule that the graph keeps: what breaks it, a query for the number of nodes that do, and the
/// statement that repairs derived ones.
struct GraphRule {
    broken: &'static str,
    count: &'static str,
    repair: Option<&'static str>,
}

/// The turn of a message or tool call that is not attached to it.
const DETACHED: &str = "MATCH (it) WHERE (it:TreeringMessage AND NOT (it)<-[:HAS_MESSAGE]-())
    OR (it:ToolCall AND it.tenant IS NOT NULL AND NOT (it)<-[:HAS_TOOL_CALL]-())";

const RULES: [GraphRule; 6] = [
    GraphRule {
        broken: "messages, turns, tool calls, summaries or jobs without a conversation",
        count: "MATCH (it:TreeringMessage|ConversationTurn|ToolCall|ConversationSummary|TreeringJob)
            WHERE it.tenant IS NOT NULL AND NOT EXISTS { MATCH (c:ConversationSession
                {tenant: it.tenant, sessionId: it.sessionId}) }
            RETURN count(it)",
        repair: None,
    },
    GraphRule {
        broken: "messages or tool calls that are not attached to their turn",
        count: "",
        repair: None,
    },
    GraphRule {
        broken: "turns that are not attached to their conversation",
        count: "MATCH (n:ConversationTurn) WHERE n.tenant IS NOT NULL AND NOT (n)<-[:HAS_TURN]-()
            RETURN count(n)",
        repair: Some(
            "MATCH (n:ConversationTurn) WHERE n.tenant IS NOT NULL AND NOT (n)<-[:HAS_TURN]-()
            MATCH (c:ConversationSession {tenant: n.tenant, sessionId: n.sessionId})
            CREATE (c)-[:HAS_TURN {index: n.turnIndex}]->(n)",
        ),
    },
    GraphRule {
        broken: "summaries that are not attached to their conversation",
        count: "MATCH (n:ConversationSummary) WHERE n.tenant IS NOT NULL
                AND NOT (n)<-[:HAS_SUMMARY]-()
            RETURN count(n)",
        repair: Some(
            "MATCH (n:ConversationSummary) WHERE n.tenant IS NOT NULL AND NOT (n)<-[:HAS_SUMMARY]-()
            MATCH (c:ConversationSession {tenant: n.tenant, sessionId: n.sessionId})
            CREATE (c)-[:HAS_SUMMARY {level: n.level}]->(n)",
        ),
    },
    GraphRule {
        broken: "turns whose length is not that of their messages",
        count: "MATCH (n:ConversationTurn) WHERE n.tenant IS NOT NULL
                AND n.charCount <> reduce(sum = 0, chars IN
                    [(n)-[:HAS_MESSAGE]->(m) | m.chars] | sum + chars)
            RETURN count(n)",
        repair: Some(
            "MATCH (n:ConversationTurn) WHERE n.tenant IS NOT NULL
            SET n.charCount = reduce(sum = 0, chars IN
                [(n)-[:HAS_MESSAGE]->(m) | m.chars] | sum + chars)",
        ),
    },
    GraphRule {
        broken: "messages with a sequence number that was not given yet",
        count: "MATCH (x:TreeringTenant) MATCH (m:TreeringMessage)
                WHERE m.tenant = x.name AND m.seq > x.seq
            RETURN count(m)",
        repair: None,
    },
];

impl GraphRule {
    fn count(&self) -> String {
        match self.count {
            "" => format!("{DETACHED} RETURN count(it)"),
            count => count.to_owned(),
        }
    }
}

impl Neo4jStore {
    /// The number of nodes that break a rule.
    fn broken(&self, rule: &GraphRule) -> StoreResult<i64> {
        self.number(&rule.count())
    }

    fn number(&self, query: &str) -> StoreResult<i64> {
        let rows = self.query(&Cypher::new(query))?;
        Ok(self.column(rows)?.pop().unwrap_or_default())
    }

    /// The constraints and indexes that are missing or do not work.
    fn index_problems(&self) -> StoreResult<Vec<String>> {
        let rows = self.query(&Cypher::new("SHOW INDEXES YIELD name, state RETURN name, state"))?;
        let decode = |row| {
            let mut row = BoltRow::new(row);
            Ok((row.take::<String>()?, row.take::<String>()?))
        };
        let found: Result<Vec<(String, String)>, _> = rows.into_iter().map(decode).collect();
        let found = found.map_err(|error| unreadable(self.address(), error))?;
        let problem = |name: &str| match found.iter().find(|(known, _)| known == name) {
            None => Some(format!("the index {name} is missing")),
            Some((_, state)) if state == "FAILED" => Some(format!("the index {name} failed")),
            Some(_) => None,
        };
        Ok(schema::names().filter_map(problem).collect())
    }

    /// Runs a statement that changes derived parts of the graph.
    fn rebuild(&self, query: &str) -> StoreResult<()> {
        let ran = self.take()?.run(&Cypher::new(query));
        ran.map(drop).map_err(|error| explain(self.address(), &error))
    }
}

impl Maintenance for Neo4jStore {
    fn tenants(&self) -> StoreResult<Vec<TenantId>> {
        let query = "MATCH (x:TreeringTenant) RETURN x.name, x.seq ORDER BY x.name";
        Ok(self.tenant_names(query)?.into_iter().map(|(name, _)| name).collect())
    }

    fn check(&self) -> StoreResult<Vec<String>> {
        let mut problems = self.index_problems()?;
        for rule in &RULES {
            match self.broken(rule)? {
                0 => {}
                number => problems.push(format!("{number} {}", rule.broken)),
            }
        }
        Ok(problems)
    }

    fn repair(&self) -> StoreResult<Vec<String>> {
        if let Some(error) = &self.read_only {
            return Err(error.clone());
        }
        let mut repaired = Vec::new();
        let problems = self.index_problems()?;
        if !problems.is_empty() {
            let mut connection = self.take()?;
            schema::create_indexes(&mut connection)
                .map_err(|error| explain(self.address(), &error))?;
            repaired.push(format!("created indexes: {}", problems.join(", ")));
        }
        for rule in &RULES {
            let Some(repair) = rule.repair else { continue };
            let number = self.broken(rule)?;
            if number > 0 {
                self.rebuild(repair)?;
                repaired.push(format!("repaired {number} {}", rule.broken));
            }
        }
        Ok(repaired)
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn open_warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn failure(&self) -> Option<StoreError> {
        None
    }

    /// The backup is an embedded store.
    fn backup(&self, to: &Path) -> StoreResult<()> {
        crate::copy::backup(self, to)
    }

    fn pending_scrubs(&self) -> StoreResult<u32> {
        let number = self.number("MATCH (a:TreeringAudit {scrub: true}) RETURN count(a)")?;
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    }

    fn copies(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Neo4j reuses the records of deleted properties, and keeps its transaction logs for a while.
    /// No statement erases them.
    fn scrub(&self) -> StoreResult<ScrubReport> {
        let pending = match self.pending_scrubs()? {
            0 => None,
            _ => Some(
                "the server keeps the freed records and the transaction logs until they are \
                 reused; `neo4j-admin database copy` writes a database without them"
                    .to_owned(),
            ),
        };
        Ok(ScrubReport { deleted: Vec::new(), pending })
    }

    fn describe(&self) -> StoreResult<Description> {
        // The server does not tell the size of its files. Most of a store is text, which stands in
        // the messages and in the turns.
        let bytes = self.number(
            "MATCH (c:ConversationSession) WITH sum(c.chars) AS chars
            MATCH (it) WITH chars, count(it) AS nodes RETURN 2 * chars + 500 * nodes",
        )?;
        Ok(Description {
            kind: "neo4j",
            location: self.address().to_string(),
            schema_version: VERSION,
            bytes: u64::try_from(bytes).unwrap_or_default(),
        })
    }
}
