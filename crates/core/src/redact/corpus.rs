//! The lists of secrets that must go (`secrets.txt`) and of text that must stay
//! (`harmless.txt`).

use super::redact;

/// The lines of a list, without comments.
fn entries(list: &str) -> Vec<String> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.replace("\\n", "\n")).collect()
}

/// Replaces each redaction, and each marked secret, by the same sign.
fn masked(text: &str, start: &str, end: char) -> String {
    let mut parts = text.split(start);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |whole, part| whole + "▒" + part.split_once(end).map_or("", |(_, rest)| rest))
}

#[test]
fn known_kinds_of_secrets_go() {
    let secrets = entries(include_str!("secrets.txt"));
    assert!(secrets.len() >= 110);
    let mut failures = Vec::new();
    for entry in secrets {
        let (kind, marked) = entry.split_once(": ").unwrap();
        let marked = marked.replace('¦', "");
        let text = marked.replace(['«', '»'], "");
        let (redacted, _) = redact(&text);
        if masked(&redacted, "[redacted ", ']') != masked(&marked, "«", '»') {
            failures.push(format!("{kind}: {redacted}"));
        }
        assert_eq!(redact(&redacted).0, redacted, "{kind}: redaction is idempotent");
    }
    assert!(failures.is_empty(), "{} kinds:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn harmless_text_stays() {
    let harmless = entries(include_str!("harmless.txt"));
    assert!(harmless.len() >= 100);
    let changed: Vec<String> = harmless
        .iter()
        .map(|text| (text, redact(text).0))
        .filter(|(text, redacted)| redacted != *text)
        .map(|(_, redacted)| redacted.into_owned())
        .collect();
    assert!(changed.is_empty(), "{} texts:\n{}", changed.len(), changed.join("\n"));
}

/// Texts that make a careless scan start over at every position.
#[test]
fn repetition_is_no_trouble() {
    for part in [
        "secret=",
        "password:\"",
        "SG.",
        "ya29.",
        "eyJaaaaaaaaa.",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY----- ",
        "Private-Lines: ",
        "://a:",
        "a:b@tcp(",
        "curl -u ",
        "login a password ",
        "mnemonic: ",
        "cookie:a=b;a=",
        "authorization=",
        "Authorization: ",
        "hooks.slack.com/",
    ] {
        let text = part.repeat((1 << 16) / part.len());
        let (once, _) = redact(&text);
        assert_eq!(redact(&once).0, once, "{part}");
    }
}
