//! Keys and tokens in the formats of well-known vendors.

use super::{Find, Secret};

/// The format of a vendor's keys.
struct KeyFormat {
    prefix: &'static str,
    /// The minimum number of characters after the prefix.
    min_length: usize,
    /// Characters allowed besides letters and digits.
    also: &'static str,
}

const fn shape(prefix: &'static str, min_length: usize, also: &'static str) -> KeyFormat {
    KeyFormat { prefix, min_length, also }
}

/// The key formats, as the vendors document them.
const KEY_FORMATS: [KeyFormat; 50] = [
    shape("sk-", 20, "_-"),    // OpenAI, Anthropic, DeepSeek, OpenRouter
    shape("sk_live_", 16, ""), // Stripe
    shape("sk_test_", 16, ""),
    shape("rk_live_", 16, ""),
    shape("rk_test_", 16, ""),
    shape("whsec_", 20, "+/="),
    shape("AKIA", 16, ""), // Amazon
    shape("ASIA", 16, ""),
    shape("AIza", 30, "_-"), // Google
    shape("ya29.", 20, "_-."),
    shape("GOCSPX-", 20, "_-"),
    shape("ghp_", 30, ""), // GitHub
    shape("gho_", 30, ""),
    shape("ghu_", 30, ""),
    shape("ghs_", 30, ""),
    shape("ghr_", 30, ""),
    shape("github_pat_", 22, "_"),
    shape("glpat-", 20, "_-."), // GitLab
    shape("gldt-", 20, "_-"),
    shape("xoxb-", 10, "-"), // Slack
    shape("xoxp-", 10, "-"),
    shape("xoxa-", 10, "-"),
    shape("xoxr-", 10, "-"),
    shape("xoxs-", 10, "-"),
    shape("xapp-", 10, "-"),
    shape("npm_", 36, ""),
    shape("pypi-", 40, "_-"),
    shape("rubygems_", 40, ""),
    shape("dckr_pat_", 20, "_-"),
    shape("hf_", 30, ""),  // Hugging Face
    shape("gsk_", 30, ""), // Groq
    shape("xai-", 40, ""),
    shape("nvapi-", 40, "_-"),
    shape("pplx-", 30, ""),
    shape("r8_", 30, ""),     // Replicate
    shape("dop_v1_", 40, ""), // DigitalOcean
    shape("SG.", 40, "_-."),  // SendGrid
    shape("shpat_", 30, ""),  // Shopify
    shape("shpss_", 30, ""),
    shape("shpca_", 30, ""),
    shape("sntrys_", 40, "_+/="), // Sentry
    shape("lin_api_", 30, ""),
    shape("figd_", 30, "_-"),
    shape("hvs.", 20, "_-"),  // Vault
    shape("tskey-", 20, "-"), // Tailscale
    shape("AGE-SECRET-KEY-1", 40, ""),
    shape("EAACEdEose0cBA", 10, ""), // Meta
    shape("sq0csp-", 30, "_-"),      // Square
    shape("PMAK-", 40, "-"),         // Postman
    shape("ATATT3", 40, "_-="),      // Atlassian
];

/// Vendors' keys, JSON Web Tokens, and tokens after `Bearer` or `Basic`.
pub(super) fn keys(text: &str) -> Vec<Find> {
    let bytes = text.as_bytes();
    let mut findings = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let starts_word = at == 0 || !is_word(bytes[at - 1]);
        // After an escaped line break, the `n` is not part of the word.
        let escaped = at >= 2 && bytes[at - 2] == b'\\' && b"nrt".contains(&bytes[at - 1]);
        if (starts_word || escaped)
            && bytes[at].is_ascii_alphabetic()
            && let Some((length, secret)) = key_at(bytes, at)
        {
            findings.push((at..at + length, secret));
            at += length;
        }
        at += 1;
    }
    findings.extend(presented(text));
    findings
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn key_at(bytes: &[u8], at: usize) -> Option<(usize, Secret)> {
    let rest = &bytes[at..];
    if rest.starts_with(b"eyJ") {
        return json_token(rest).map(|length| (length, Secret::Token));
    }
    KEY_FORMATS.iter().find_map(|shape| {
        let body = rest.strip_prefix(shape.prefix.as_bytes())?;
        let length = run(body, shape.also);
        let is_key = length >= shape.min_length && looks_random(&body[..length]);
        is_key.then_some((shape.prefix.len() + length, Secret::ApiKey))
    })
}

/// The length of a run of letters, digits and the characters in `also`, without trailing full
/// stops.
fn run(bytes: &[u8], also: &str) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || also.as_bytes().contains(byte);
    let mut length = bytes.iter().take_while(|byte| is_part(byte)).count();
    while length > 0 && bytes[length - 1] == b'.' {
        length -= 1;
    }
    length
}

/// Whether it contains a digit, or mixes upper and lower case; words do neither.
fn looks_random(body: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| body.iter().any(is);
    has(u8::is_ascii_digit) || (has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase))
}

/// The length of a JSON Web Token with its three parts.
fn json_token(bytes: &[u8]) -> Option<usize> {
    let length = run(bytes, "_-.=");
    let parts: Vec<&[u8]> = bytes[..length].split(|byte| *byte == b'.').collect();
    (parts.len() >= 3 && parts[0].len() >= 10 && parts[1].len() >= 6).then_some(length)
}

/// Tokens after `Bearer`, and after `Basic` in an `Authorization` header.
fn presented(text: &str) -> Vec<Find> {
    const MIN_LENGTH: usize = 16;
    let lower = text.to_ascii_lowercase();
    let mut findings = Vec::new();
    for word in ["bearer ", "basic "] {
        for (at, _) in lower.match_indices(word) {
            let start = at + word.len();
            let length = run(&text.as_bytes()[start..], "._~+/=-");
            let token = &text.as_bytes()[start..start + length];
            let before = &lower.as_bytes()[at.saturating_sub(20)..at];
            let in_header = before.windows(13).any(|window| window == b"authorization");
            if length >= MIN_LENGTH && looks_random(token) && (word == "bearer " || in_header) {
                findings.push((start..start + length, Secret::Token));
            }
        }
    }
    findings
}
