//! Keys and tokens that are recognized by their own format, wherever they stand.

use super::formats::{KEY_FORMATS, KeyFormat};
use super::{Find, Secret};

/// Minimum length of a key; most words are shorter.
const SHORTEST: usize = shortest();

const fn shortest() -> usize {
    let (mut shortest, mut at) = (usize::MAX, 0);
    while at < KEY_FORMATS.len() {
        let length = KEY_FORMATS[at].prefix.len() + KEY_FORMATS[at].length;
        if length < shortest {
            shortest = length;
        }
        at += 1;
    }
    shortest
}

/// The length and kind of the key at the start of `rest`.
fn key_at(rest: &[u8]) -> Option<(usize, Secret)> {
    if !rest.get(..SHORTEST)?.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    let token = json_token(rest).or_else(|| bot_token(rest));
    let key = || KEY_FORMATS.iter().find_map(|format| key(rest, format));
    token.map(|length| (length, Secret::Token)).or_else(|| Some((key()?, Secret::ApiKey)))
}

/// Vendors' keys, JSON Web Tokens and the tokens of chat bots.
pub(super) fn keys(text: &str) -> Vec<Find> {
    let bytes = text.as_bytes();
    let mut findings = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let starts_word = at == 0 || !is_word(bytes[at - 1]);
        // After an escaped line break, the `n` is not part of the word.
        let escaped = at >= 2 && bytes[at - 2] == b'\\' && b"nrt".contains(&bytes[at - 1]);
        if (starts_word || escaped)
            && bytes[at].is_ascii_alphanumeric()
            && let Some((length, secret)) = key_at(&bytes[at..])
        {
            findings.push((at..at + length, secret));
            at += length;
        }
        at += 1;
    }
    findings
}

/// Whether a byte continues a word. `+` is part of base64.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-+".contains(&byte)
}

/// The length of a key in this format. Examines only as many bytes as the format needs, so that
/// the scan stays linear.
fn key(rest: &[u8], format: &KeyFormat) -> Option<usize> {
    let body = rest.strip_prefix(format.prefix.as_bytes())?;
    let is_part = |byte: &u8| format.alphabet.contains(*byte);
    let start = body.get(..format.length)?;
    if !start.iter().all(is_part) || !looks_random(start) {
        return None;
    }
    if format.is_exact {
        let ends = body.get(format.length).is_none_or(|byte| !is_word(*byte));
        return ends.then_some(format.prefix.len() + format.length);
    }
    let mut length = body.iter().take_while(|byte| is_part(byte)).count();
    while b".:/@".contains(&body[length - 1]) {
        length -= 1;
    }
    Some(format.prefix.len() + length)
}

/// Whether the text contains a digit or mixes cases, unlike words.
pub(super) fn looks_random(body: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| body.iter().any(is);
    has(u8::is_ascii_digit) || (has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase))
}

/// The length of a run of letters, digits, `_` and `-`.
fn url_run(bytes: &[u8]) -> usize {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    bytes.iter().take_while(is_part).count()
}

/// The lengths of the parts of `a.b.c`, and of the whole.
fn three_parts(bytes: &[u8]) -> Option<([usize; 3], usize)> {
    let mut parts = [0; 3];
    let mut end = 0;
    for (index, part) in parts.iter_mut().enumerate() {
        if index > 0 {
            end += usize::from(bytes.get(end) == Some(&b'.'));
        }
        *part = url_run(&bytes[end..]);
        end += *part;
    }
    (end == parts.iter().sum::<usize>() + 2).then_some((parts, end))
}

/// The length of a JSON Web Token with its three parts, or of an encrypted one with five.
fn json_token(bytes: &[u8]) -> Option<usize> {
    if !bytes.starts_with(b"eyJ") {
        return None;
    }
    let ([header, payload, _], mut end) = three_parts(bytes)?;
    if header < 10 || payload < 6 {
        return None;
    }
    while bytes.get(end) == Some(&b'.') && url_run(&bytes[end + 1..]) > 0 {
        end += 1 + url_run(&bytes[end + 1..]);
    }
    Some(end)
}

/// The length of a bot's token: Telegram's `123456789:AA…` or Discord's three parts.
fn bot_token(bytes: &[u8]) -> Option<usize> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if (8..=10).contains(&digits) && bytes[digits..].starts_with(b":AA") {
        let length = url_run(&bytes[digits + 1..]);
        return (length == 35).then_some(digits + 1 + length);
    }
    if !b"MNO".contains(&bytes[0]) {
        return None;
    }
    let ([id, time, code], end) = three_parts(bytes)?;
    let is_bot = (24..=28).contains(&id) && time == 6 && (27..=38).contains(&code);
    (is_bot && looks_random(&bytes[..id])).then_some(end)
}
