//! Redaction: removes secrets from a text before it leaves the machine. Removed secrets are
//! counted by kind and never stored.
//!
//! Detection is by shape: private keys, keys and tokens of well-known vendors, passwords in
//! URLs, and values assigned to names like `api_key`. Hashes, identifiers and ordinary code
//! stay.

mod assignment;
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
    let mut findings = private_keys(text);
    findings.extend(vendor::keys(text));
    findings.extend(addresses(text));
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

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";

/// Private keys in PEM blocks, including blocks truncated at either end.
fn private_keys(text: &str) -> Vec<Find> {
    let mut findings: Vec<Find> = Vec::new();
    for (start, _) in text.match_indices(BEGIN) {
        let Some(header) = header_end(text, start + BEGIN.len()) else { continue };
        if findings.last().is_some_and(|(span, _)| start < span.end) {
            continue;
        }
        let footer = text[header..].find(END).map(|at| header + at);
        let footer_end = footer.and_then(|footer| header_end(text, footer + END.len()));
        let end = footer_end.unwrap_or_else(|| header + key_material(&text[header..]));
        findings.push((start..end, Secret::PrivateKey));
    }
    for (footer, _) in text.match_indices(END) {
        let Some(end) = header_end(text, footer + END.len()) else { continue };
        if findings.iter().any(|(span, _)| span.contains(&footer)) {
            continue;
        }
        let words = text[..footer].split_inclusive(char::is_whitespace).rev();
        let material: usize = words.take_while(|word| is_key_material(word)).map(str::len).sum();
        if material > 0 {
            findings.push((footer - material..end, Secret::PrivateKey));
        }
    }
    findings
}

/// The end of the PEM header whose label starts at `label`; `None` if it is not a private key.
fn header_end(text: &str, label: usize) -> Option<usize> {
    let rest = &text[label..];
    let dashes = rest.find("-----").filter(|dashes| *dashes < 60)?;
    rest[..dashes].contains("PRIVATE KEY").then_some(label + dashes + 5)
}

/// The length of the key material in a block without a footer: base64 words, of which the last
/// may be short.
fn key_material(text: &str) -> usize {
    let mut end = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        let is_last = end + word.len() == text.len();
        let is_rest = is_last && end > 0 && is_base64(word.trim());
        if !is_key_material(word) && !is_rest {
            break;
        }
        end += word.len();
    }
    text[..end].trim_end().len()
}

fn is_key_material(word: &str) -> bool {
    let word = word.trim();
    word.is_empty() || (word.len() >= 16 && is_base64(word))
}

fn is_base64(word: &str) -> bool {
    // In undecoded JSON, a line break of the key is a two-character escape.
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=\\".contains(&byte))
}

/// Passwords in URLs: `scheme://user:password@host`.
fn addresses(text: &str) -> Vec<Find> {
    let mut findings = Vec::new();
    for (at, _) in text.match_indices("://") {
        let start = at + 3;
        let authority =
            text[start..].split(|c: char| c.is_whitespace() || "/?#\"'<>`\\".contains(c)).next();
        let Some((user, _)) = authority.and_then(|authority| authority.rsplit_once('@')) else {
            continue;
        };
        let Some((name, password)) = user.split_once(':') else { continue };
        let from = start + name.len() + 1;
        if !password.is_empty() && !assignment::is_placeholder(password) {
            findings.push((from..from + password.len(), Secret::Password));
        }
    }
    findings
}

/// The Shannon entropy in bits per character: above three for random text, below for most
/// words.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let total = text.len() as f64;
    let probability = |count: &u32| f64::from(*count) / total;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| -probability(count) * probability(count).log2())
        .sum()
}

#[cfg(test)]
mod tests;
