//! The advisory locks that serialize commits. They are held until the transaction ends, need no row, and are taken before a
//! commit has a transaction id.

use treering_core::{CommitScope, ContentHash, ConversationKey, TenantId};

use super::value::SqlValue;

/// The locks of one commit, in the order in which they are taken: the tenant, then what is below it. Every commit
/// follows this order, so that commits never wait for each other in a circle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Locks {
    /// Shared with other commits of the tenant.
    pub(super) shared: Option<i64>,
    pub(super) exclusive: Vec<i64>,
}

impl Locks {
    pub(super) fn of(schema: &str, scope: &CommitScope) -> Self {
        match scope {
            CommitScope::Tenant(tenant) => {
                Self { shared: None, exclusive: vec![tenant_key(schema, tenant)] }
            }
            CommitScope::Conversation(key) => Self {
                shared: Some(tenant_key(schema, &key.tenant)),
                exclusive: vec![conversation_key(schema, key)],
            },
            CommitScope::Provider(tenant, provider) => Self {
                shared: Some(tenant_key(schema, tenant)),
                exclusive: vec![
                    hashed(&[schema.as_bytes(), b"provider", provider.as_bytes()]),
                    hashed(&[schema.as_bytes(), b"ledger", tenant.as_str().as_bytes()]),
                ],
            },
        }
    }

    /// Locks several conversations, in an order that all callers share.
    pub(super) fn of_conversations<'a>(
        schema: &str,
        tenant: &TenantId,
        conversations: impl IntoIterator<Item = &'a ConversationKey>,
    ) -> Self {
        let mut exclusive: Vec<i64> =
            conversations.into_iter().map(|key| conversation_key(schema, key)).collect();
        exclusive.sort_unstable();
        exclusive.dedup();
        Self { shared: Some(tenant_key(schema, tenant)), exclusive }
    }

    /// The parameters of `begin_commit`.
    pub(super) fn values(&self) -> (SqlValue, SqlValue) {
        (self.shared.into(), SqlValue::Integers(self.exclusive.clone()))
    }
}

/// The lock of a tenant: every commit holds it, shared or alone.
pub(super) fn tenant_key(schema: &str, tenant: &TenantId) -> i64 {
    hashed(&[schema.as_bytes(), b"tenant", tenant.as_str().as_bytes()])
}

fn conversation_key(schema: &str, key: &ConversationKey) -> i64 {
    let tenant = key.tenant.as_str().as_bytes();
    hashed(&[schema.as_bytes(), b"conversation", tenant, key.id.as_bytes()])
}

/// The lock that one process holds while it migrates.
pub(super) fn migration_key(schema: &str) -> i64 {
    hashed(&[schema.as_bytes(), b"migration"])
}

/// Two keys with the same hash only wait for each other without need.
fn hashed(fields: &[&[u8]]) -> i64 {
    let hash = ContentHash::of_fields(fields);
    let (first, _) = hash.as_bytes().split_at(8);
    first.iter().fold(0, |key, byte| key << 8 | i64::from(*byte))
}
