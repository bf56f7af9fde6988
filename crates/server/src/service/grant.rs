//! What somebody may do, and with whose memory. Comes from a credential, never from an argument.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use treering_core::Invalid;

use super::{Refusal, Service};

/// A kind of thing that may be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Search, read, follow.
    Read,
    /// Append, rename, close, update trees.
    Write,
    /// Read metrics, and try failed jobs again.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// The word for it in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or_else(|| Invalid::new(format!("scope {text:?}"), "a scope is read, write or admin"))
    }
}

/// Scopes that go together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// These scopes, each once.
    #[must_use]
    pub fn new(mut scopes: Vec<Scope>) -> Self {
        scopes.sort_unstable();
        scopes.dedup();
        Self(scopes)
    }

    /// Whether they hold one.
    #[must_use]
    pub fn allow(&self, scope: Scope) -> bool {
        self.0.contains(&scope)
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.0.iter().map(|scope| scope.as_str()).collect();
        f.write_str(&words.join(","))
    }
}

/// The memory of a tenant, as far as a credential goes.
#[derive(Clone)]
pub struct Grant {
    service: Service,
    scopes: Scopes,
    everything: bool,
}

impl Grant {
    /// Everything, for who runs the program.
    #[must_use]
    pub fn of_everything(service: Service) -> Self {
        Self { service, scopes: Scopes::new(Scope::ALL.to_vec()), everything: true }
    }

    /// What these scopes allow.
    #[must_use]
    pub const fn new(service: Service, scopes: Scopes) -> Self {
        Self { service, scopes, everything: false }
    }

    /// Whether it is held by who runs the program, and not by one of several tenants.
    #[must_use]
    pub const fn is_of_everything(&self) -> bool {
        self.everything
    }

    /// The service, if the credential goes that far.
    pub fn to(&self, scope: Scope) -> Result<&Service, Refusal> {
        match self.scopes.allow(scope) {
            true => Ok(&self.service),
            false => Err(Refusal::Forbidden(scope)),
        }
    }
}
