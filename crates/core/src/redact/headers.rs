//! Credentials in HTTP headers: `Authorization`, `Bearer …`, cookies.

use std::ops::Range;

use super::assignment::bounded;
use super::plausibility::{is_encoded_login, is_placeholder};
use super::vendor::looks_random;
use super::{Find, Secret};

/// The credentials that follow a name, and the end of the header.
pub(super) fn values(text: &str, name: Range<usize>) -> (Vec<Find>, usize) {
    let word = &text[name.clone()];
    let is = |this: &str| word.eq_ignore_ascii_case(this);
    let one = |found: Option<Find>| (found.into_iter().collect(), name.end);
    if is("bearer") {
        return one(token(text, name.end, 16));
    }
    let is_authorization = is("authorization") || is("proxy-authorization");
    if !is_authorization && !is("cookie") && !is("set-cookie") {
        return one(None);
    }
    let sign = text[name.end..].trim_start_matches(['"', '\'', '\\']);
    let Some(value) = sign.strip_prefix(':') else { return one(None) };
    let start = text.len() - value.trim_start_matches([' ', '"', '\'', '\\']).len();
    match is_authorization {
        true => one(authorization(text, start)),
        false => cookies(text, start),
    }
}

/// The credential of an `Authorization` header, after its scheme if it has one.
fn authorization(text: &str, start: usize) -> Option<Find> {
    let line = bounded(&text[start..]);
    let scheme = line.find(|c: char| !c.is_ascii_alphabetic() && c != '-');
    match scheme {
        Some(end) if line[end..].starts_with(' ') => {
            let is_basic = line[..end].eq_ignore_ascii_case("basic");
            token(text, start + end, if is_basic { 8 } else { 16 })
        }
        _ => token(text, start, 20),
    }
}

/// A random token after spaces, with a minimum length.
fn token(text: &str, from: usize, min_length: usize) -> Option<Find> {
    let rest = &text[from..];
    let start = from + rest.len() - rest.trim_start_matches(' ').len();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"._~+/=-".contains(byte);
    let run = |text: &str| text.bytes().take_while(is_part).count();
    let value = &text[start..start + run(bounded(&text[start..]))];
    let is_long = match min_length {
        8 => is_encoded_login(value) || value.len() >= 16,
        _ => value.len() >= min_length,
    };
    if !is_long || !looks_random(value.as_bytes()) || is_placeholder(value) {
        return None;
    }
    let whole = text[start..start + run(&text[start..])].trim_end_matches('.');
    Some((start..start + whole.len(), Secret::Token))
}

/// The random values of `name=value; name=value`.
fn cookies(text: &str, start: usize) -> (Vec<Find>, usize) {
    const MIN_LENGTH: usize = 16;
    const ATTRIBUTES: [&str; 3] = ["expires", "domain", "path"];
    let header = text[start..].split(['"', '\'', '\n']).next().unwrap_or_default();
    let mut findings = Vec::new();
    let mut at = start;
    for pair in header.split_inclusive(';') {
        let Some((name, value)) = pair.trim_end_matches(';').split_once('=') else { break };
        let value = value.trim_end();
        let is_attribute = ATTRIBUTES.iter().any(|word| name.trim().eq_ignore_ascii_case(word));
        let is_word = value.bytes().all(|byte| byte.is_ascii_graphic());
        let is_token = value.len() >= MIN_LENGTH && is_word && looks_random(value.as_bytes());
        if is_token && !is_attribute {
            let from = at + name.len() + 1;
            findings.push((from..from + value.len(), Secret::Token));
        }
        at += pair.len();
    }
    (findings, at)
}
