//! Private keys in PEM blocks and PuTTY files.

use super::{Find, Secret};

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
/// Maximum number of bytes from a label to the end of its dashes.
const MAX_LABEL: usize = 64;
const PUTTY: &str = "Private-Lines: ";

/// Private keys in PEM blocks, including blocks truncated at either end, and in PuTTY files.
pub(super) fn blocks(text: &str) -> Vec<Find> {
    let mut findings: Vec<Find> = Vec::new();
    let mut end = 0;
    let begins = text.match_indices(BEGIN).map(|(at, sign)| (at, sign, true));
    let ends = text.match_indices(END).map(|(at, sign)| (at, sign, false));
    let mut marks: Vec<_> = begins.chain(ends).collect();
    marks.sort_unstable();
    for (index, (at, sign, is_begin)) in marks.iter().enumerate() {
        let Some(label_end) = header_end(text, at + sign.len()) else { continue };
        if *at < end {
            continue;
        }
        let (from, to) = match is_begin {
            true => {
                let footer = marks.get(index + 1).filter(|(.., is_begin)| !is_begin);
                let footer_end = footer.and_then(|(at, sign, _)| header_end(text, at + sign.len()));
                (*at, footer_end.unwrap_or_else(|| label_end + key_material(&text[label_end..])))
            }
            false => (at - material_before(&text[end..*at]), label_end),
        };
        if *is_begin || from < *at {
            findings.push((from..to, Secret::PrivateKey));
            end = to;
        }
    }
    findings
        .extend(text.match_indices(PUTTY).filter_map(|(at, sign)| putty(text, at + sign.len())));
    findings
}

/// The lines of a PuTTY key, whose number stands at `count`.
fn putty(text: &str, count: usize) -> Option<Find> {
    let lines = text[count..].trim_start_matches(|c: char| c.is_ascii_digit());
    let lines = lines.strip_prefix("\r\n").or_else(|| lines.strip_prefix('\n'))?;
    let start = text.len() - lines.len();
    let length = key_material(lines);
    (length > 0).then_some((start..start + length, Secret::PrivateKey))
}

/// The length of the key material at the end of a text.
fn material_before(text: &str) -> usize {
    let words = text.split_inclusive(char::is_whitespace).rev();
    words.take_while(|word| is_key_material(word)).map(str::len).sum()
}

/// The end of the PEM header whose label starts at `label`; `None` if it is not a private key.
fn header_end(text: &str, label: usize) -> Option<usize> {
    let rest = &text[label..text.floor_char_boundary(label + MAX_LABEL)];
    let dashes = rest.find("-----")?;
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
