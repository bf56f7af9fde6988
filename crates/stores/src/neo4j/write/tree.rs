//! Writes nodes, and the relationships to what they summarize.

use treering_core::{ConversationId, Coverage, Level, Node, NodeSpec};

use super::StatementBuilder;
use crate::neo4j::bolt::BoltValue;
use crate::neo4j::values::{json_text, map};

/// The node keeps its place in the graph, so the relationship from its group stays.
const PUT_NODE: &str = "MATCH (c:ConversationSession {tenant: $tenant, sessionId: $session})
    MERGE (n:ConversationSummary {tenant: $tenant, sessionId: $session, level: $level,
        ordinal: $ordinal})
    ON CREATE SET n.isNew = true
    FOREACH (_ IN CASE WHEN n.isNew THEN [1] ELSE [] END |
        CREATE (c)-[:HAS_SUMMARY {level: $level}]->(n))
    SET n = $properties
    WITH n OPTIONAL MATCH (n)-[r:SUMMARIZES]->() DELETE r";

const NODE: &str = "MATCH (n:ConversationSummary {tenant: $tenant, sessionId: $session,
    level: $level, ordinal: $ordinal})";

const NODES: &str = "UNWIND $ordinals AS ordinal
    MATCH (n:ConversationSummary {tenant: $tenant, sessionId: $session, level: $level,
        ordinal: ordinal})";

const LINK_TURNS: &str = "MATCH (m:TreeringMessage) WHERE m.tenant = $tenant
        AND m.sessionId = $session AND m.idx >= $from AND m.idx < $until AND m.thread = $thread
    WITH n, collect(DISTINCT m.turnIndex) AS turns UNWIND turns AS turn
    MATCH (it:ConversationTurn {tenant: $tenant, sessionId: $session, turnIndex: turn})
    CREATE (n)-[:SUMMARIZES {level: $level}]->(it)";

const LINK_CHILDREN: &str = "MATCH (it:ConversationSummary) WHERE it.tenant = $tenant
        AND it.sessionId = $session AND it.level = $level - 1 AND it.parent = $ordinal
    CREATE (n)-[:SUMMARIZES {level: $level}]->(it)";

const LINK_ROOTS: &str = "MATCH (it:ConversationSummary) WHERE it.tenant = $tenant
        AND it.sessionId = $session AND it.uuid IN $covered AND it <> n
    CREATE (n)-[:SUMMARIZES {level: $level}]->(it)";

/// A node of a project tree summarizes the top nodes of its sessions.
const LINK_SESSIONS: &str = "UNWIND $covered AS session
    MATCH (it:ConversationSummary) WHERE it.tenant = $tenant AND it.sessionId = session
        AND it.ordinal = $top
    CREATE (n)-[:SUMMARIZES {level: $level}]->(it)";

impl StatementBuilder<'_> {
    pub(super) fn put_node(&mut self, id: ConversationId, node: &Node) {
        let (level, ordinal) = (node.level().number(), node.ordinal());
        let place = || [("level", level.into()), ("ordinal", ordinal.into())];
        let seq = self.next_seq();
        let properties = properties(self.base.tenant, id, node, seq);
        let [at_level, at_ordinal] = place();
        self.run(id, PUT_NODE, [at_level, at_ordinal, ("properties", properties)]);
        let [at_level, at_ordinal] = place();
        match &node.spec.covers {
            Coverage::Messages(window) => {
                let from = ("from", window.from.idx.0.into());
                let until = ("until", window.end().0.into());
                let thread = ("thread", window.thread.as_str().into());
                let query = format!("{NODE} {LINK_TURNS}");
                self.run(id, query, [at_level, at_ordinal, from, until, thread]);
            }
            Coverage::Nodes(_) => {
                self.run(id, format!("{NODE} {LINK_CHILDREN}"), [at_level, at_ordinal]);
            }
            Coverage::Whole(roots) => {
                let roots: Vec<&str> = roots.iter().map(|root| root.as_str()).collect();
                let query = format!("{NODE} {LINK_ROOTS}");
                self.run(id, query, [at_level, at_ordinal, ("covered", roots.into())]);
            }
            Coverage::Sessions(sessions) => {
                let sessions: Vec<ConversationId> =
                    sessions.iter().map(|it| it.conversation).collect();
                let covered = ("covered", sessions.into());
                let top = ("top", NodeSpec::TOP_ORDINAL.into());
                let query = format!("{NODE} {LINK_SESSIONS}");
                self.run(id, query, [at_level, at_ordinal, covered, top]);
            }
        }
    }

    pub(super) fn set_parent(
        &mut self,
        id: ConversationId,
        level: Level,
        ordinals: &[u32],
        parent: Option<u32>,
    ) {
        let query = format!(
            "{NODES} SET n.parent = $parent
            WITH n OPTIONAL MATCH (n)<-[r:SUMMARIZES {{level: $level + 1}}]-(p:ConversationSummary)
                WHERE p.sessionId = $session AND p.ordinal <> $top DELETE r
            WITH DISTINCT n
            MATCH (p:ConversationSummary {{tenant: $tenant, sessionId: $session, level: $level + 1,
                ordinal: $parent}})
            CREATE (p)-[:SUMMARIZES {{level: $level + 1}}]->(n)"
        );
        let top = ("top", NodeSpec::TOP_ORDINAL.into());
        let [level, ordinals] = places(level, ordinals);
        self.run(id, query, [level, ordinals, top, ("parent", parent.into())]);
    }

    pub(super) fn mark_dirty(&mut self, id: ConversationId, level: Level, ordinals: &[u32]) {
        self.run(id, format!("{NODES} SET n.dirty = true"), places(level, ordinals));
    }

    pub(super) fn remove_nodes(&mut self, id: ConversationId, level: Level, ordinals: &[u32]) {
        self.run(id, format!("{NODES} DETACH DELETE n"), places(level, ordinals));
    }

    pub(super) fn drop_tree(&mut self, id: ConversationId, level: Level) {
        for query in [
            "MATCH (n:ConversationSummary) WHERE n.tenant = $tenant AND n.sessionId = $session
                AND n.level >= $level DETACH DELETE n",
            "MATCH (j:TreeringJob) WHERE j.tenant = $tenant AND j.sessionId = $session
                AND j.height >= $level DELETE j",
            "MATCH (n:ConversationSummary) WHERE n.tenant = $tenant AND n.sessionId = $session
                AND n.level = $level - 1 REMOVE n.parent",
        ] {
            self.run(id, query, [("level", level.number().into())]);
        }
    }
}

fn places(level: Level, ordinals: &[u32]) -> [(&'static str, BoltValue); 2] {
    [("level", level.number().into()), ("ordinals", ordinals.to_vec().into())]
}

fn properties(tenant: &str, id: ConversationId, node: &Node, seq: i64) -> BoltValue {
    let (content, source) = (&node.content, &node.source);
    let tools: Vec<&str> = content.tools_used.iter().map(|tool| tool.name.as_str()).collect();
    map([
        ("tenant", tenant.into()),
        ("sessionId", id.into()),
        ("uuid", node.id.as_str().into()),
        ("level", node.level().number().into()),
        ("ordinal", node.ordinal().into()),
        ("summary", (&content.overview).into()),
        ("charCount", node.chars.into()),
        ("turnCount", source.turns.into()),
        ("filesMentioned", content.files_mentioned.clone().into()),
        ("keyFindings", content.key_findings.clone().into()),
        ("decisions", content.decisions.clone().into()),
        ("toolsUsed", tools.into()),
        ("topics", content.topics.clone().into()),
        ("timestamp", node.range_end.into()),
        ("rangeStart", node.range_start.into()),
        ("parent", node.parent.into()),
        ("dirty", node.dirty.into()),
        ("fromIdx", source.from.into()),
        ("untilIdx", source.until.into()),
        ("messageCount", source.messages.into()),
        ("rawChars", source.raw_chars.into()),
        ("rawTokens", source.raw_tokens.into()),
        ("sourceChars", source.chars.into()),
        ("generatedBy", (&node.provenance.by).into()),
        ("generatedAt", node.provenance.at.into()),
        ("tookMs", node.provenance.took_ms.into()),
        ("tokens", node.tokens.into()),
        ("grounded", node.grounded.into()),
        ("retained", node.retained.into()),
        ("invented", node.invented.clone().into()),
        ("spec", json_text(&node.spec)),
        ("content", json_text(content)),
        ("seq", seq.into()),
    ])
}
