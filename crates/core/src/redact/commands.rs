//! Passwords on command lines: `curl -u ana:…`, `sshpass -p …`, `mysql -p…`.

use std::ops::Range;

use super::assignment::bounded;
use super::plausibility::is_placeholder;
use super::{Find, Secret};

/// The form of a flag's value.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// `-u user:password`
    Login,
    /// `-p password`
    Apart,
    /// `-ppassword`
    Attached,
}

/// Programs with their flags for passwords.
const FLAGS: &[(&str, &str, Form)] = &[
    ("curl", "-u", Form::Login),
    ("curl", "--user", Form::Login),
    ("curl", "-U", Form::Login),
    ("curl", "--proxy-user", Form::Login),
    ("http", "-a", Form::Login),
    ("https", "-a", Form::Login),
    ("login", "-p", Form::Apart), // docker login, podman login
    ("sshpass", "-p", Form::Apart),
    ("sshpass", "-p", Form::Attached),
    ("redis-cli", "-a", Form::Apart),
    ("ldapsearch", "-w", Form::Apart),
    ("mongosh", "-p", Form::Apart),
    ("mysql", "-p", Form::Attached),
    ("mysqldump", "-p", Form::Attached),
    ("mysqladmin", "-p", Form::Attached),
    ("mariadb", "-p", Form::Attached),
    ("openssl", "pass:", Form::Attached),
];

/// Finds the passwords on command lines.
pub(super) fn passwords(text: &str) -> Vec<Find> {
    let mut findings = Vec::new();
    let mut program = None;
    let mut flag: Option<Form> = None;
    let mut at = 0;
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let bare = word.trim_matches(['"', '\'', '`', '\\', '(']);
        // Spaces and line continuations may stand between a flag and its value.
        let is_gap = word.is_empty() || word == "\\";
        if let Some(form) = flag.take_if(|_| !is_gap) {
            findings.extend(password(text, at, form));
        } else if let Some((known, ..)) = FLAGS.iter().find(|(known, ..)| *known == bare) {
            program = Some(*known);
        } else if let Some(program) = program.filter(|_| !is_gap) {
            flag = next_flag(program, bare);
            findings.extend(attached(program, word, at));
        }
        let ends_line = piece.ends_with('\n') && !word.ends_with('\\');
        if ends_line || word.ends_with([';', '|']) || word == "&&" {
            (program, flag) = (None, None);
        }
        at += piece.len();
    }
    findings
}

/// The form of the next word, if this word is a flag.
fn next_flag(program: &str, word: &str) -> Option<Form> {
    let is_flag = |(known, flag, form): &&(&str, &str, Form)| {
        *known == program && *flag == word && *form != Form::Attached
    };
    FLAGS.iter().find(is_flag).map(|(.., form)| *form)
}

/// The password in the same word as its flag.
fn attached(program: &str, word: &str, at: usize) -> Option<Find> {
    FLAGS.iter().filter(|(known, ..)| *known == program).find_map(|(_, flag, form)| {
        let rest = word.strip_prefix(flag)?;
        let value = rest.strip_prefix('=').unwrap_or(rest);
        let start = at + word.len() - value.len();
        match form {
            Form::Attached => secret(value, start..start + value.len()),
            Form::Login => login(value, start),
            Form::Apart => None,
        }
    })
}

/// The password at the start of a flag's value.
fn password(text: &str, at: usize, form: Form) -> Option<Find> {
    let rest = bounded(&text[at..]);
    let value = rest.trim_start_matches('\\');
    let quote = value.chars().next().filter(|c| "\"'".contains(*c));
    let value = value.trim_start_matches(['"', '\'']);
    let start = at + rest.len() - value.len();
    let is_end = |c: char| match quote {
        Some(quote) => c == quote || c == '\\' || c == '\n',
        None => c.is_whitespace() || "\"'\\`;|".contains(c),
    };
    let value = &value[..value.find(is_end).unwrap_or(value.len())];
    match form {
        Form::Login => login(value, start),
        _ => secret(value, start..start + value.len()),
    }
}

/// The password of `user:password`.
fn login(value: &str, start: usize) -> Option<Find> {
    let (user, password) = value.split_once(':')?;
    let from = start + user.len() + 1;
    secret(password, from..from + password.len())
}

fn secret(value: &str, span: Range<usize>) -> Option<Find> {
    let value = value.trim_matches(['"', '\'', '`', '\\']);
    let is_secret = value.len() >= 3 && !is_placeholder(value);
    is_secret.then_some((span, Secret::Password))
}
