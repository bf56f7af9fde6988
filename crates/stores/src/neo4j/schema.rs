//! The constraints and indexes of the graph, and its version. Each statement is idempotent, so
//! that several programs may open an empty database at the same time.

use super::bolt::{BoltConnection, BoltError, Cypher};
use super::read::{from_hex, to_hex};
use super::values::{BoltRow, UnreadableValue};

/// The newest version of the schema that this program knows.
pub(super) const VERSION: u32 = 1;

/// The constraints and indexes. The tenant leads every key. A query uses an index over several
/// properties only if it has a condition on each of them, so some queries say `IS NOT NULL`.
pub(super) const STATEMENTS: &[&str] = &[
    // The graph of the source documents.
    "CREATE CONSTRAINT session_id IF NOT EXISTS FOR (n:ConversationSession)
        REQUIRE (n.tenant, n.sessionId) IS UNIQUE",
    "CREATE CONSTRAINT session_slug IF NOT EXISTS FOR (n:ConversationSession)
        REQUIRE (n.tenant, n.slug) IS UNIQUE",
    "CREATE CONSTRAINT session_external IF NOT EXISTS FOR (n:ConversationSession)
        REQUIRE (n.tenant, n.externalId) IS UNIQUE",
    "CREATE INDEX session_plain_id IF NOT EXISTS FOR (n:ConversationSession) ON (n.sessionId)",
    "CREATE INDEX session_cwd IF NOT EXISTS FOR (n:ConversationSession) ON (n.cwd)",
    "CREATE INDEX session_activity IF NOT EXISTS FOR (n:ConversationSession)
        ON (n.tenant, n.lastActivity)",
    "CREATE CONSTRAINT turn_position IF NOT EXISTS FOR (n:ConversationTurn)
        REQUIRE (n.tenant, n.sessionId, n.turnIndex) IS UNIQUE",
    "CREATE INDEX turn_time IF NOT EXISTS FOR (n:ConversationTurn) ON (n.timestamp)",
    "CREATE CONSTRAINT tool_call_position IF NOT EXISTS FOR (n:ToolCall)
        REQUIRE (n.tenant, n.sessionId, n.turnIndex, n.order) IS UNIQUE",
    "CREATE CONSTRAINT tool_call_external IF NOT EXISTS FOR (n:ToolCall)
        REQUIRE (n.tenant, n.externalId, n.sessionId) IS UNIQUE",
    "CREATE INDEX tool_call_session IF NOT EXISTS FOR (n:ToolCall) ON (n.tenant, n.sessionId)",
    "CREATE INDEX tool_call_seq IF NOT EXISTS FOR (n:ToolCall) ON (n.tenant, n.seq)",
    "CREATE CONSTRAINT summary_position IF NOT EXISTS FOR (n:ConversationSummary)
        REQUIRE (n.tenant, n.sessionId, n.level, n.ordinal) IS UNIQUE",
    "CREATE INDEX summary_session IF NOT EXISTS FOR (n:ConversationSummary)
        ON (n.tenant, n.sessionId)",
    "CREATE INDEX summary_level IF NOT EXISTS FOR (n:ConversationSummary) ON (n.level)",
    "CREATE INDEX summary_id IF NOT EXISTS FOR (n:ConversationSummary) ON (n.tenant, n.uuid)",
    "CREATE INDEX summary_seq IF NOT EXISTS FOR (n:ConversationSummary) ON (n.tenant, n.seq)",
    // Written in the background, so that an append does not wait for it.
    "CREATE FULLTEXT INDEX conversation_text IF NOT EXISTS
        FOR (n:ConversationTurn|ConversationSummary)
        ON EACH [n.userMessage, n.assistantMessage, n.summary]
        OPTIONS { indexConfig: { `fulltext.eventually_consistent`: true } }",
    // The nodes that the product has beside it.
    "CREATE CONSTRAINT treering_tenant IF NOT EXISTS FOR (n:TreeringTenant)
        REQUIRE n.name IS UNIQUE",
    "CREATE CONSTRAINT treering_store IF NOT EXISTS FOR (n:TreeringStore)
        REQUIRE n.name IS UNIQUE",
    "CREATE CONSTRAINT treering_message_position IF NOT EXISTS FOR (n:TreeringMessage)
        REQUIRE (n.tenant, n.sessionId, n.idx) IS UNIQUE",
    "CREATE CONSTRAINT treering_message_external IF NOT EXISTS FOR (n:TreeringMessage)
        REQUIRE (n.tenant, n.externalId, n.sessionId) IS UNIQUE",
    "CREATE INDEX treering_message_seq IF NOT EXISTS FOR (n:TreeringMessage) ON (n.tenant, n.seq)",
    "CREATE INDEX treering_version IF NOT EXISTS FOR (n:TreeringVersion)
        ON (n.tenant, n.sessionId, n.idx)",
    "CREATE CONSTRAINT treering_job IF NOT EXISTS FOR (n:TreeringJob)
        REQUIRE (n.tenant, n.sessionId, n.height, n.position, n.jobId) IS UNIQUE",
    "CREATE INDEX treering_job_session IF NOT EXISTS FOR (n:TreeringJob)
        ON (n.tenant, n.sessionId)",
    "CREATE INDEX treering_event_seq IF NOT EXISTS FOR (n:TreeringJobEvent) ON (n.tenant, n.seq)",
    "CREATE INDEX treering_event_session IF NOT EXISTS FOR (n:TreeringJobEvent)
        ON (n.tenant, n.sessionId)",
    "CREATE INDEX treering_removal_seq IF NOT EXISTS FOR (n:TreeringRemoval) ON (n.tenant, n.seq)",
    "CREATE CONSTRAINT treering_vector IF NOT EXISTS FOR (n:TreeringVector)
        REQUIRE (n.tenant, n.model, n.hash) IS UNIQUE",
    "CREATE INDEX treering_vector_seq IF NOT EXISTS FOR (n:TreeringVector)
        ON (n.tenant, n.model, n.seq)",
    "CREATE CONSTRAINT treering_audit IF NOT EXISTS FOR (n:TreeringAudit)
        REQUIRE (n.tenant, n.id) IS UNIQUE",
    "CREATE CONSTRAINT treering_tombstone IF NOT EXISTS FOR (n:TreeringTombstone)
        REQUIRE (n.tenant, n.hash) IS UNIQUE",
    "CREATE CONSTRAINT treering_spend IF NOT EXISTS FOR (n:TreeringSpend)
        REQUIRE (n.tenant, n.day, n.sessionId, n.model) IS UNIQUE",
    "CREATE CONSTRAINT treering_provider IF NOT EXISTS FOR (n:TreeringProvider)
        REQUIRE n.name IS UNIQUE",
    "CREATE CONSTRAINT treering_request IF NOT EXISTS FOR (n:TreeringRequest)
        REQUIRE (n.provider, n.at) IS UNIQUE",
];

/// The store as it is in the database.
pub(super) struct FoundStore {
    pub(super) version: u32,
    pub(super) salt: Vec<u8>,
}

/// Finds the store; `None` if the database has none.
pub(super) fn find(connection: &mut BoltConnection) -> Result<Option<FoundStore>, BoltError> {
    let query = "MATCH (s:TreeringStore {name: 'treering'}) RETURN s.version, s.salts[0]";
    let rows = connection.run(&Cypher::new(query))?;
    let decode = |row| {
        let mut row = BoltRow::new(row);
        Ok(FoundStore { version: row.take()?, salt: from_hex(&row.take::<String>()?) })
    };
    let found: Result<Option<_>, UnreadableValue> = rows.into_iter().next().map(decode).transpose();
    found.map_err(|UnreadableValue(reason)| BoltError::Protocol(reason))
}

/// Finds the store, and creates it with its schema if the database has none.
pub(super) fn open(connection: &mut BoltConnection) -> Result<FoundStore, BoltError> {
    if let Some(found) = find(connection)? {
        // Taking a lock shows whether the database may be written.
        let query = "MATCH (s:TreeringStore {name: 'treering'}) SET s:TreeringStore";
        connection.run(&Cypher::new(query))?;
        return Ok(found);
    }
    create_indexes(connection)?;
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|error| BoltError::Protocol(error.to_string()))?;
    let query = "MERGE (s:TreeringStore {name: 'treering'})
        ON CREATE SET s.version = $version, s.salts = [$salt]";
    let statement = Cypher::new(query).with("version", VERSION).with("salt", to_hex(&salt));
    connection.run(&statement)?;
    let missing = || BoltError::Protocol("the store that was created is missing".to_owned());
    find(connection)?.ok_or_else(missing)
}

/// Creates the constraints and indexes that are missing, and waits until they are complete.
pub(super) fn create_indexes(connection: &mut BoltConnection) -> Result<(), BoltError> {
    for query in STATEMENTS {
        connection.run(&Cypher::new(*query))?;
    }
    connection.run(&Cypher::new("CALL db.awaitIndexes(300)")).map(drop)
}

/// Creates the vector indexes over turns and summaries for embeddings of this length.
pub(super) fn create_vector_indexes(
    connection: &mut BoltConnection,
    dims: usize,
) -> Result<(), BoltError> {
    for (name, label) in [("turn", "ConversationTurn"), ("summary", "ConversationSummary")] {
        connection.run(&Cypher::new(format!(
            "CREATE VECTOR INDEX {name}_embedding_{dims} IF NOT EXISTS
            FOR (n:{label}) ON (n.embedding) OPTIONS {{ indexConfig: {{
                `vector.dimensions`: {dims}, `vector.similarity_function`: 'cosine' }} }}"
        )))?;
    }
    Ok(())
}

/// The names of the constraints and indexes.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    STATEMENTS.iter().filter_map(|query| {
        let (name, _) = query.split_once(" IF NOT EXISTS")?;
        name.rsplit_once(' ').map(|(_, name)| name)
    })
}
