//! Secrets assigned to names that suggest one: `api_key = "…"`, `PASSWORD=…`, `--token …`.

use std::ops::Range;

use super::{Find, Secret, entropy};

/// Name parts whose values are passwords, whatever they look like.
const PASSWORDS: [&str; 5] = ["password", "passwd", "passphrase", "pwd", "passwort"];
/// Name parts whose values are secrets if they look random.
const SECRETS: [&str; 12] = [
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
    "token",
    "credential",
];
/// Placeholders for a value.
const NO_VALUES: [&str; 18] = [
    "null",
    "none",
    "nil",
    "true",
    "false",
    "undefined",
    "string",
    "str",
    "bool",
    "optional",
    "required",
    "password",
    "secret",
    "token",
    "changeme",
    "example",
    "redacted",
    "hidden",
];

/// Finds the assigned values that are secrets.
pub(super) fn values(text: &str) -> Vec<Find> {
    let bytes = text.as_bytes();
    let mut findings = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !is_name(bytes[at]) {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && is_name(bytes[at]) {
            at += 1;
        }
        let name = normalized(&text[start..at]);
        let is_password = PASSWORDS.iter().any(|part| name.contains(part));
        if !is_password && !SECRETS.iter().any(|part| name.contains(part)) {
            continue;
        }
        let is_flag = text[start..at].starts_with("--");
        let Some(value) = value_after(text, at, is_flag) else { continue };
        let words = &text[value.span.clone()];
        let is_secret = match is_password {
            true => is_password_value(words, &value),
            false => is_random(words),
        };
        if is_secret && !is_placeholder(words) {
            at = value.span.end;
            let secret = if is_password { Secret::Password } else { Secret::Assigned };
            findings.push((value.span, secret));
        }
    }
    findings
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

/// A name in lower case, without separators.
fn normalized(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

struct Value {
    span: Range<usize>,
    is_quoted: bool,
    /// Whether the value follows its name without a space, as in a shell.
    is_tight: bool,
}

/// The value after a name that ends at `name_end`.
fn value_after(text: &str, name_end: usize, is_flag: bool) -> Option<Value> {
    let after_name = skip(text, name_end, "\\\"'`]");
    let spaced = skip(text, after_name, " \t");
    let rest = &text[spaced..];
    let sign = ["=>", ":=", "==", "=", ":"].into_iter().find(|sign| rest.starts_with(sign));
    let after_sign = match sign {
        Some("==") => return None,
        Some(sign) => spaced + sign.len(),
        None if is_flag && spaced > name_end => spaced,
        None => return None,
    };
    let before_value = skip(text, after_sign, " \t");
    let start = skip(text, before_value, "\\");
    let quote = text[start..].chars().next()?;
    let is_quoted = "\"'`".contains(quote);
    let start = if is_quoted { start + 1 } else { before_value };
    let is_end = |c: char| match is_quoted {
        true => c == quote || c == '\n' || c == '\\',
        false => c.is_whitespace() || ",;\"'`)}]<>&|\\".contains(c),
    };
    let length = text[start..].find(is_end).unwrap_or(text.len() - start);
    let is_tight = sign == Some("=") && before_value == name_end + 1;
    (length > 0).then_some(Value { span: start..start + length, is_quoted, is_tight })
}

fn skip(text: &str, from: usize, these: &str) -> usize {
    text[from..].find(|c: char| !these.contains(c)).map_or(text.len(), |at| from + at)
}

/// Whether a value is a password: a word that is quoted or directly follows `=`, otherwise only a
/// word with digits or special characters.
fn is_password_value(words: &str, value: &Value) -> bool {
    let is_code = words.contains(['(', '$', '{']) || words.contains("::");
    let has_odd = words.chars().any(|c| c.is_ascii_digit() || "!@#%^&*+=~?".contains(c));
    let chars = words.chars().count();
    !is_code
        && chars >= 4
        && !words.contains(' ')
        && (value.is_quoted || value.is_tight || (chars >= 6 && has_odd))
}

/// Whether a value is long and random.
fn is_random(words: &str) -> bool {
    const MIN_LENGTH: usize = 12;
    let letters = words.bytes().filter(u8::is_ascii_alphabetic).count();
    let digits = words.bytes().filter(u8::is_ascii_digit).count();
    let is_plain =
        words.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.+/=~:".contains(&byte));
    let mixed = words.bytes().any(|byte| byte.is_ascii_uppercase())
        && words.bytes().any(|byte| byte.is_ascii_lowercase());
    is_plain
        && words.len() >= MIN_LENGTH
        && letters >= 3
        && (digits >= 2 || (mixed && words.len() >= 20))
        && entropy(words) >= 3.0
}

/// Whether a value is only a placeholder: `<password>`, `${TOKEN}`, `****`, `your-token-here`.
pub(super) fn is_placeholder(words: &str) -> bool {
    let lower = words.to_ascii_lowercase();
    words.starts_with(['<', '$', '{', '[', '%', '('])
        || words.chars().all(|c| "*.xX-_…•".contains(c))
        || NO_VALUES.contains(&lower.as_str())
        || ["your", "my-", "process.env", "os.environ", "env.", "example"]
            .iter()
            .any(|head| lower.starts_with(head))
}
