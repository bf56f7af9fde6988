//! Credentials in addresses: `scheme://user:password@host`, `user:password@tcp(host)`.

use super::assignment::bounded;
use super::plausibility::{is_placeholder, is_random};
use super::{Find, Secret};

/// Finds the credentials in addresses.
pub(super) fn credentials(text: &str) -> Vec<Find> {
    let urls = text.match_indices("://").filter_map(|(at, sign)| url(text, at + sign.len()));
    let sources = text.match_indices("@tcp(").filter_map(|(at, _)| data_source(text, at));
    urls.chain(sources).collect()
}

/// The credential of the URL whose authority starts at `start`.
fn url(text: &str, start: usize) -> Option<Find> {
    let is_end = |c: char| c.is_whitespace() || "\"'<>`\\".contains(c);
    let url = bounded(&text[start..]).split(is_end).next().filter(|url| url.contains('@'))?;
    let authority = url.split(['/', '?', '#']).next()?;
    let Some((user, password)) = user_info(url, authority)?.split_once(':') else {
        let (token, _) = authority.split_once('@')?;
        let is_token = token.len() >= 16 && is_random(token, false);
        return is_token.then_some((start..start + token.len(), Secret::Token));
    };
    let from = start + user.len() + 1;
    let is_secret = !password.is_empty() && !is_placeholder(password);
    is_secret.then_some((from..from + password.len(), Secret::Password))
}

/// The part of a URL before its host. People write passwords with `/`, `?`, `#` and `@` as they
/// are, so the authority may end inside the password.
fn user_info<'a>(url: &'a str, authority: &str) -> Option<&'a str> {
    let (_, after_user) = authority.split_once(':').unwrap_or((authority, ""));
    let is_port = after_user.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(at) = authority.rfind('@') {
        return Some(&url[..at]);
    }
    let host = |at: usize| url[at + 1..].starts_with(|c: char| c.is_ascii_alphanumeric());
    let is_scope = |at: usize| url[..at].ends_with('/');
    let mut signs =
        url.match_indices('@').map(|(at, _)| at).filter(|at| host(*at) && !is_scope(*at));
    signs.next_back().filter(|_| !is_port).map(|at| &url[..at])
}

/// The password of a Go data source name, whose host starts at `at`.
fn data_source(text: &str, at: usize) -> Option<Find> {
    const MAX_LOGIN: usize = 128;
    let from = text.ceil_char_boundary(at.saturating_sub(MAX_LOGIN));
    let is_start = |c: char| c.is_whitespace() || "\"'`=\\".contains(c);
    let login = text[from..at].rsplit(is_start).next()?;
    let (_, password) = login.split_once(':')?;
    let is_secret = !password.is_empty() && !is_placeholder(password);
    is_secret.then_some((at - password.len()..at, Secret::Password))
}
