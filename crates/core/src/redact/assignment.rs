//! Secrets that follow a name: `api_key = "…"`, `PASSWORD=…`, `--token …`, and headers.

use std::ops::Range;

use super::plausibility::{
    is_encoded_login, is_password, is_placeholder, is_random, is_spoken_password,
};
use super::{Find, Secret, headers};

/// Name parts whose values are passwords, whatever they look like.
const PASSWORDS: [&str; 5] = ["password", "passwd", "passphrase", "pwd", "passwort"];
/// Name parts whose values are secrets if they look random.
const SECRETS: [&str; 29] = [
    "secret",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "authkey",
    "accountkey",
    "sharedkey",
    "appkey",
    "adminkey",
    "globalkey",
    "rootkey",
    "servicekey",
    "storagekey",
    "subscriptionkey",
    "functionskey",
    "licensekey",
    "deploykey",
    "hmackey",
    "sessionkey",
    "clientkeydata",
    "token",
    "credential",
    "sessionid",
    "sessid",
    "xamzsignature",
    "xgoogsignature",
];
/// Name parts of seed phrases (BIP 39).
const PHRASES: [&str; 3] = ["mnemonic", "seedphrase", "recoveryphrase"];
/// Name parts that refer to a secret or describe it; the value is not secret itself.
const HARMLESS: [&str; 12] = [
    "tokenizer",
    "tokentype",
    "tokencount",
    "pagetoken",
    "nexttoken",
    "continuationtoken",
    "publickey",
    "secretname",
    "secretref",
    "secretarn",
    "secretsmanager",
    "cachekey",
];
const HARMLESS_ENDINGS: [&str; 14] = [
    "url", "uri", "endpoint", "name", "path", "file", "type", "arn", "limit", "ttl", "length",
    "version", "expiry", "hash",
];
/// Maximum number of bytes examined of a name or a value, so that the scan stays linear.
const MAX_BYTES: usize = 256;

/// How likely a name's value is a secret.
#[derive(Clone, Copy, PartialEq)]
enum NameKind {
    Password,
    Secret,
    /// Base64 of a login, as in Docker's and npm's configurations.
    Login,
    /// The signature of a URL.
    Signature,
    /// The private part of a JSON Web Key.
    WebKey,
    Phrase,
}

/// Finds the assigned values that are secrets.
pub(super) fn values(text: &str) -> Vec<Find> {
    let bytes = text.as_bytes();
    let mut findings = Vec::new();
    let mut at = 0;
    let mut header_end = 0;
    while at < bytes.len() {
        if !is_name(bytes[at]) {
            at += 1;
            continue;
        }
        let start = at;
        at += bytes[at..].iter().take_while(|byte| is_name(**byte)).count();
        let name = start.max(at.saturating_sub(MAX_BYTES))..at;
        if let Some(found) = assigned(text, name.clone()).or_else(|| spoken(text, name.clone())) {
            at = found.0.end;
            findings.push(found);
        } else if start >= header_end {
            let (found, end) = headers::values(text, name);
            at = found.last().map_or(at, |(span, _)| span.end);
            header_end = end;
            findings.extend(found);
        }
    }
    findings
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

/// The value that is assigned to a name, if it is a secret.
fn assigned(text: &str, name: Range<usize>) -> Option<Find> {
    let value = value_after(text, &name)?;
    let kind = kind_of(text, &name, &value)?;
    let words = value.words(text);
    let is_secret = match kind {
        NameKind::Password => {
            is_password(words, value.is_quoted || value.is_tight, value.is_quoted)
        }
        NameKind::Secret => is_random(words, value.is_quoted),
        NameKind::Login => is_encoded_login(words) && !is_placeholder(words),
        NameKind::Signature => words.len() >= 20 && is_random(words, true),
        NameKind::WebKey => value.is_quoted && words.len() >= 40 && is_random(words, true),
        NameKind::Phrase => return phrase(text, value.span.start),
    };
    let secret = if kind == NameKind::Password { Secret::Password } else { Secret::Assigned };
    is_secret.then(|| (value.whole(text), secret))
}

fn kind_of(text: &str, name: &Range<usize>, value: &Value) -> Option<NameKind> {
    let words = &text[name.clone()];
    let normal = normalized(words);
    let has = |parts: &[&str]| parts.iter().any(|part| normal.contains(part));
    let is_query = text[..name.start].ends_with(['?', '&', ';']) && value.is_tight;
    let last = words.rsplit(['_', '-', '.']).next().unwrap_or_default();
    if HARMLESS_ENDINGS.iter().any(|ending| normal.ends_with(ending)) || has(&HARMLESS) {
        return None;
    }
    match normal.as_str() {
        "auth" => return Some(NameKind::Login),
        "sig" if is_query => return Some(NameKind::Signature),
        "d" => return Some(NameKind::WebKey),
        _ => {}
    }
    let is_pass = last.eq_ignore_ascii_case("pass") && last.len() < words.len();
    match () {
        () if has(&PHRASES) => Some(NameKind::Phrase),
        () if is_pass || has(&PASSWORDS) => Some(NameKind::Password),
        () if has(&SECRETS) || is_key_variable(words) => Some(NameKind::Secret),
        () => None,
    }
}

/// Whether a name is an environment variable for a key: `TIDES_KEY`.
fn is_key_variable(name: &str) -> bool {
    name.ends_with("_KEY") && !name.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// A name in lower case, without separators.
fn normalized(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// A value after a name.
pub(super) struct Value {
    /// The examined bytes.
    span: Range<usize>,
    quote: Option<char>,
    is_quoted: bool,
    /// Whether the value follows its name without a space, as in a shell.
    is_tight: bool,
}

impl Value {
    fn words<'a>(&self, text: &'a str) -> &'a str {
        &text[self.span.clone()]
    }

    /// The value to its end.
    fn whole(&self, text: &str) -> Range<usize> {
        let rest = &text[self.span.end..];
        let end = rest.find(|c| ends_value(c, self.quote)).unwrap_or(rest.len());
        self.span.start..self.span.end + end
    }
}

fn ends_value(c: char, quote: Option<char>) -> bool {
    match quote {
        Some(quote) => c == quote || c == '\n' || c == '\\',
        None => c.is_whitespace() || ",;\"'`)}]<>&|\\".contains(c),
    }
}

/// The value after a name: `name = value`, `"name": "value"`, `--name value`,
/// `<name>value</name>`, `key="name" value="value"`.
fn value_after(text: &str, name: &Range<usize>) -> Option<Value> {
    let after_name = skip(text, name.end, "\\\"'`]");
    let spaced = skip(text, after_name, " \t");
    let rest = &text[spaced..];
    let is_flag = text[name.clone()].starts_with("--");
    let is_element = text[..name.start].ends_with('<');
    let signs = ["=>", ":=", "==", "value=", "=", ":", ">"];
    let sign = signs.into_iter().find(|sign| rest.starts_with(sign));
    let after_sign = match sign {
        Some("==") => return None,
        Some(">") if !is_element => return None,
        Some("value=") if after_name == name.end => return None,
        Some(sign) => spaced + sign.len(),
        None if is_flag && spaced > name.end => spaced,
        None => return None,
    };
    let before_value = skip(text, after_sign, " \t");
    let start = skip(text, before_value, "\\");
    let quote = text[start..].chars().next().filter(|c| "\"'`".contains(*c));
    let start = if quote.is_some() { start + 1 } else { before_value };
    let length = bounded(&text[start..]).find(|c| ends_value(c, quote));
    let length = length.unwrap_or(bounded(&text[start..]).len());
    let is_tight = sign == Some("=") && before_value == name.end + 1;
    let is_quoted = quote.is_some() || sign == Some(">");
    let is_closed = sign != Some(">") || text[start + length..].starts_with("</");
    (length > 0 && is_closed).then_some(Value {
        span: start..start + length,
        quote,
        is_quoted,
        is_tight,
    })
}

fn skip(text: &str, from: usize, these: &str) -> usize {
    text[from..].find(|c: char| !these.contains(c)).map_or(text.len(), |at| from + at)
}

/// The first [`MAX_BYTES`] of a text.
pub(super) fn bounded(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_BYTES)]
}

/// A password that follows its name without `=` or `:`: in a sentence, in SQL or in a netrc file.
fn spoken(text: &str, name: Range<usize>) -> Option<Find> {
    let word = &text[name.clone()];
    let is = |this: &str| word.eq_ignore_ascii_case(this);
    let before = &text[text.floor_char_boundary(name.start.saturating_sub(MAX_BYTES))..name.start];
    let is_identified = is("by") && ends_with_word(before, "identified");
    if !is_identified && !is("password") && !is("passwort") {
        return None;
    }
    let is_login = before.split_whitespace().rev().nth(1) == Some("login");
    let space = skip(text, name.end, " \t\n");
    let verb = ["is ", "ist ", "to "].into_iter().find(|verb| text[space..].starts_with(verb));
    let start = space + verb.map_or(0, str::len);
    let quote = text[start..].chars().next().filter(|c| "\"'`".contains(*c));
    let start = start + quote.map_or(0, char::len_utf8);
    let is_end = |c: char| quote.map_or(c.is_whitespace() || c == '"', |quote| c == quote);
    let length = bounded(&text[start..]).find(is_end).unwrap_or(bounded(&text[start..]).len());
    let value = text[start..start + length].trim_end_matches(['.', ',', ';']);
    let is_secret = match () {
        () if space == name.end => false,
        () if is_identified => quote.is_some() && is_password(value, true, true),
        () if is_login && verb.is_none() => is_password(value, true, true),
        () => (verb.is_some() || quote.is_some()) && is_spoken_password(value),
    };
    is_secret.then_some((start..start + value.len(), Secret::Password))
}

fn ends_with_word(text: &str, word: &str) -> bool {
    let trimmed = text.trim_end();
    let start = trimmed.len().saturating_sub(word.len());
    trimmed.len() < text.len()
        && trimmed.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(word))
}

/// Twelve or more short words: a seed phrase.
fn phrase(text: &str, start: usize) -> Option<Find> {
    let mut end = start;
    let mut count = 0;
    for word in bounded(&text[start..]).split_inclusive(' ') {
        let letters = word.trim_end_matches(|c: char| !c.is_ascii_lowercase());
        if !(3..=8).contains(&letters.len()) || !letters.bytes().all(|b| b.is_ascii_lowercase()) {
            break;
        }
        count += 1;
        end += letters.len();
        if word.len() != letters.len() + 1 || !word.ends_with(' ') {
            break;
        }
        end += 1;
    }
    let end = start + text[start..end].trim_end().len();
    (count >= 12).then_some((start..end, Secret::Assigned))
}
