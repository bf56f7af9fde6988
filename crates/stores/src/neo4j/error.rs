//! Converts errors of the client and the server into store errors that say what to do.

use treering_core::StoreError;

use super::bolt::{BoltError, Neo4jAddress};
use super::values::UnreadableValue;

/// Converts an error of the store at an address.
pub(super) fn explain(address: &Neo4jAddress, error: &BoltError) -> StoreError {
    let location = address.to_string();
    let remote = |detail: String, hint: &str| StoreError::Remote {
        location: location.clone(),
        detail,
        hint: (!hint.is_empty()).then(|| hint.to_owned()),
    };
    let code = error.code();
    match error {
        BoltError::Unreachable(_) => remote(
            error.to_string(),
            "nothing was written; check that the server runs and that `store.url` names it",
        ),
        BoltError::Broken(_) => remote(
            error.to_string(),
            "the store connects again with the next call; nothing acknowledged was lost",
        ),
        BoltError::Version => remote(
            error.to_string(),
            "use Neo4j 5.26 or later, and the address of its Bolt connector (7687 by default), \
             not that of the browser (7474)",
        ),
        BoltError::Protocol(_) => remote(error.to_string(), ""),
        BoltError::Refused { message, .. } if code.starts_with("Neo.ClientError.Security.") => {
            remote(
                format!("{message} ({code})"),
                "check TREERING_STORE_USER and TREERING_STORE_PASSWORD, or `store.credentials`, \
                 and that the user may read and write the database",
            )
        }
        BoltError::Refused { message, .. } if is_read_only(error) => remote(
            format!("it is read-only: {message}"),
            "nothing was changed; reading works; give the user write access, or make the database \
             writable",
        ),
        BoltError::Refused { message, .. }
            if code == "Neo.ClientError.Database.DatabaseNotFound" =>
        {
            remote(message.clone(), "create the database, or leave it out of `store.url`")
        }
        BoltError::Refused { .. } if error.is_transient() => {
            remote(error.to_string(), "nothing was written; try again")
        }
        BoltError::Refused { .. } => remote(error.to_string(), ""),
    }
}

/// Converts a value that this program cannot have written.
pub(super) fn unreadable(
    address: &Neo4jAddress,
    UnreadableValue(detail): UnreadableValue,
) -> StoreError {
    StoreError::Remote {
        location: address.to_string(),
        detail: format!("it holds a value that Treering did not write: {detail}"),
        hint: Some("run `treering verify`; restore the graph from a backup".to_owned()),
    }
}

/// Whether the server refused a write because the database or the user may only read.
pub(super) fn is_read_only(error: &BoltError) -> bool {
    matches!(
        error.code(),
        "Neo.ClientError.General.WriteOnReadOnlyAccessDatabase"
            | "Neo.ClientError.General.ForbiddenOnReadOnlyDatabase"
            | "Neo.ClientError.Security.Forbidden"
            | "Neo.ClientError.Cypher.AccessMode"
    )
}
