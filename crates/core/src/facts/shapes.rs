//! Classifies single tokens by shape: URLs, paths, code identifiers.

use super::FactKind;
use super::tokens::{FactToken, TokenShape};

/// The class of a token, and the part of it that is the fact.
pub(super) fn class<'a>(token: &FactToken<'a>, shape: TokenShape) -> Option<(FactKind, &'a str)> {
    let core = token.core;
    if core.len() > 300 || !core.is_ascii() && !shape.has_slash {
        return None;
    }
    if shape.has_slash && (core.contains("://") || core.starts_with("www."))
        || core.starts_with("www.")
    {
        let from = core.find("http").unwrap_or(0);
        return Some((FactKind::Url, &core[from..]));
    }
    if shape.has_slash || shape.has_dot {
        let path_part = without_line(core);
        if is_path(path_part, shape) {
            return Some((FactKind::Path, path_part));
        }
    }
    if core.len() > 120 || shape.has_slash {
        return None;
    }
    if is_identifier(token, shape) {
        let called = core.find('(').map(|at| &core[..at]);
        return Some((
            FactKind::Identifier,
            called.filter(|name| !name.is_empty()).unwrap_or(core),
        ));
    }
    None
}

/// A path without its line and column: `src/main.rs:12:5`.
fn without_line(path: &str) -> &str {
    let mut path_part = path;
    while let Some((before, after)) = path_part.rsplit_once(':') {
        if before.is_empty()
            || after.is_empty()
            || !after.bytes().all(|b| b.is_ascii_digit() || b == b'-')
        {
            break;
        }
        path_part = before;
    }
    path_part
}

/// File name extensions.
const ENDINGS: [&str; 74] = [
    "rs", "py", "js", "ts", "tsx", "jsx", "mjs", "json", "jsonl", "toml", "yaml", "yml", "md",
    "txt", "csv", "tsv", "html", "css", "scss", "sh", "bash", "zsh", "sql", "c", "h", "cc", "cpp",
    "hpp", "go", "java", "kt", "rb", "php", "swift", "lock", "log", "xml", "ini", "cfg", "conf",
    "env", "png", "jpg", "jpeg", "gif", "svg", "webp", "pdf", "docx", "xlsx", "pptx", "zip", "gz",
    "tar", "db", "sqlite", "ipynb", "vue", "svelte", "scala", "lua", "bat", "ps1", "proto", "wasm",
    "bak", "diff", "patch", "mp3", "mp4", "wav", "cs", "tf", "rst",
];

fn has_ending(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(stem, ending)| {
        stem.bytes().any(|b| b.is_ascii_alphanumeric())
            && ENDINGS.contains(&ending.to_ascii_lowercase().as_str())
    })
}

fn is_path(core: &str, shape: TokenShape) -> bool {
    let is_path_char =
        |b: u8| b.is_ascii_alphanumeric() || b"/\\._-~+@$*:{}[]%=, ".contains(&b) || b >= 0x80;
    if core.len() < 3
        || !core.bytes().all(is_path_char)
        || !core.bytes().any(|b| b.is_ascii_alphabetic())
    {
        return false;
    }
    if !shape.has_slash {
        return has_ending(core) && !core.contains(['=', '{', '[', ',']);
    }
    let rooted = ["/", "./", "../", "~/", "$HOME/"].iter().any(|root| core.starts_with(root))
        || core.as_bytes().get(1..3).is_some_and(|drive| drive == b":\\");
    let parts = core.split(['/', '\\']).filter(|part| !part.is_empty());
    let words = parts.clone().filter(|part| part.bytes().any(|b| b.is_ascii_alphabetic())).count();
    let is_hidden =
        core.starts_with('.') && core[1..].starts_with(|c: char| c.is_ascii_alphabetic());
    has_ending(core)
        || is_hidden && words >= 2
        || rooted && words >= 1 && !core.starts_with("//")
        || words >= 3 && core.is_ascii()
}

fn is_identifier(token: &FactToken<'_>, shape: TokenShape) -> bool {
    let core = token.core;
    let bytes = core.as_bytes();
    if bytes.len() < 2 || !bytes.iter().any(u8::is_ascii_alphabetic) {
        return false;
    }
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    if shape.has_joint {
        if let Some(option) = core.strip_prefix("--") {
            return option.starts_with(|c: char| c.is_ascii_lowercase());
        }
        if let Some(at) = core.find('(') {
            let name = &core[..at];
            return !name.is_empty()
                && name.bytes().all(|b| word(&b) || b == b'.' || b == b':')
                && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        }
        let scoped = core.contains("::") && bytes.iter().all(|b| word(b) || b":<>&".contains(b));
        let snake = core.contains('_')
            && bytes.iter().all(|b| word(b) || *b == b'.')
            && bytes.windows(3).any(|three| three[1] == b'_' && word(&three[0]) && word(&three[2]));
        if scoped || snake {
            return true;
        }
    }
    if !bytes.iter().all(|b| word(b) || *b == b'.' && token.quoted) {
        return false;
    }
    token.quoted || is_camel(core)
}

/// Whether a word is in camel case like code: `windowChars`, `HttpServerConfig`, `ParseError`.
/// Two capitalized parts alone are a product's name as often as a type: GitHub, YouTube.
fn is_camel(word: &str) -> bool {
    let starts = word.match_indices(|c: char| c.is_ascii_uppercase()).map(|(at, _)| at);
    let humps = starts
        .filter(|at| *at > 0 && word.as_bytes()[at - 1].is_ascii_lowercase())
        .collect::<Vec<usize>>();
    let Some(first) = humps.first() else { return false };
    let is_mac_name = word.starts_with("Mc") && humps.len() == 1;
    let ends_in_type = ["Error", "Exception"].iter().any(|ending| word.ends_with(ending));
    let is_lower = word.starts_with(|c: char| c.is_ascii_lowercase());
    // `iCloud` and `macOS` are names, `fetchData` is not.
    let is_verb_first =
        is_lower && *first > 1 && word[first + 1..].starts_with(|c: char| c.is_ascii_lowercase());
    !is_mac_name && (is_verb_first || humps.len() > 1 && !is_lower || ends_in_type)
}

/// Whether a token is written as code: in backticks, as a call or with a scope.
pub(super) fn is_code(token: &FactToken<'_>) -> bool {
    token.quoted || token.core.contains("::") || token.core.contains('(')
}

/// Whether a word has a capital inside, which no sentence start explains: GitHub, iCloud.
pub(super) fn has_inner_capital(word: &str) -> bool {
    let mut chars = word.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_lowercase() && chars.peek().is_some_and(|next| next.is_uppercase()) {
            return true;
        }
    }
    false
}
