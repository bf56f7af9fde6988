//! Authorization: the scopes and the tenant of a caller. Both come from a credential, never from
//! an argument.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use treering_core::Invalid;

use super::{Service, ServiceError};

/// A permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenScope {
    /// Search, read and stream events.
    Read,
    /// Append, amend, rename, close, and update trees.
    Write,
    /// Forget, which cannot be undone; read metrics and retry failed jobs.
    Admin,
}

impl TokenScope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// The name in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for TokenScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TokenScope {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or_else(|| {
            Invalid::new(format!("scope {text:?}"), "a scope is read, write or admin")
        })
    }
}

/// A set of scopes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenScopes(Vec<TokenScope>);

impl TokenScopes {
    /// A sorted set without duplicates.
    #[must_use]
    pub fn new(mut scopes: Vec<TokenScope>) -> Self {
        scopes.sort_unstable();
        scopes.dedup();
        Self(scopes)
    }

    /// Whether the set contains a scope.
    #[must_use]
    pub fn allow(&self, scope: TokenScope) -> bool {
        self.0.contains(&scope)
    }
}

impl fmt::Display for TokenScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.0.iter().map(|scope| scope.as_str()).collect();
        f.write_str(&words.join(","))
    }
}

/// Access to the memory of one tenant, limited by the scopes of a credential.
#[derive(Clone)]
pub struct Grant {
    service: Service,
    scopes: TokenScopes,
    everything: bool,
}

impl Grant {
    /// Unrestricted access, for the operator of the process.
    #[must_use]
    pub fn full_access(service: Service) -> Self {
        Self { service, scopes: TokenScopes::new(TokenScope::ALL.to_vec()), everything: true }
    }

    /// Access limited to these scopes.
    #[must_use]
    pub const fn new(service: Service, scopes: TokenScopes) -> Self {
        Self { service, scopes, everything: false }
    }

    /// Whether the grant belongs to the operator and not to a token.
    #[must_use]
    pub const fn has_full_access(&self) -> bool {
        self.everything
    }

    /// Returns the service if the grant includes the scope.
    pub fn require(&self, scope: TokenScope) -> Result<&Service, ServiceError> {
        match self.scopes.allow(scope) {
            true => Ok(&self.service),
            false => Err(ServiceError::Forbidden(scope)),
        }
    }
}
