//! Redaction: removes secrets from a text before it leaves the machine. Removed secrets are
//! counted by kind and never stored.
//!
//! Detection is by shape: private keys, keys and tokens of well-known vendors, passwords in
//! URLs and on command lines, headers, and values assigned to names like `api_key`. Hashes,
//! identifiers and ordinary code stay. The time is linear in the length of the text.

mod assignment;
mod commands;
mod formats;
mod headers;
mod plausibility;
mod private_keys;
mod urls;
mod vendor;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// The kind of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Secret {
    /// A PEM block with a private key.
    PrivateKey,
    /// A key in a vendor's format.
    ApiKey,
    /// A token in an authorization header or a JSON Web Token.
    Token,
    /// A password.
    Password,
    /// A random value assigned to a name like `api_key`.
    Assigned,
}

impl Secret {
    /// The name used in every interface.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::PrivateKey => "private key",
            Self::ApiKey => "API key",
            Self::Token => "token",
            Self::Password => "password",
            Self::Assigned => "secret value",
        }
    }
}

/// The number of redacted secrets, by kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Redactions(BTreeMap<Secret, u32>);

impl Redactions {
    /// Whether nothing was redacted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The total number of redacted secrets.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.values().sum()
    }

    /// Adds the redactions of another text.
    pub fn add(&mut self, other: &Self) {
        for (secret, count) in &other.0 {
            *self.0.entry(*secret).or_default() += count;
        }
    }
}

impl fmt::Display for Redactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (secret, count)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{count} × {}", secret.as_str())?;
        }
        Ok(())
    }
}

/// The range and kind of a secret.
type Find = (Range<usize>, Secret);

/// Redacts the secrets of a text and counts them. Borrowed if there are none.
#[must_use]
pub fn redact(text: &str) -> (Cow<'_, str>, Redactions) {
    let mut findings = private_keys::blocks(text);
    findings.extend(vendor::keys(text));
    findings.extend(urls::credentials(text));
    findings.extend(commands::passwords(text));
    findings.extend(assignment::values(text));
    if findings.is_empty() {
        return (Cow::Borrowed(text), Redactions::default());
    }
    findings.sort_by_key(|(span, secret)| (span.start, std::cmp::Reverse(span.end), *secret));
    let mut redacted = String::with_capacity(text.len());
    let mut redactions = Redactions::default();
    let mut end = 0;
    for (span, secret) in findings {
        if span.end <= end {
            continue;
        }
        // Overlapping matches are one secret.
        if span.start >= end {
            redacted.push_str(&text[end..span.start]);
            redacted.push_str("[redacted ");
            redacted.push_str(secret.as_str());
            redacted.push(']');
            *redactions.0.entry(secret).or_default() += 1;
        }
        end = span.end;
    }
    redacted.push_str(&text[end..]);
    (Cow::Owned(redacted), redactions)
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
