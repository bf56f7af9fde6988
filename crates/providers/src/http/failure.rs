//! Failures of a call, and the errors they become.

use std::io::ErrorKind;
use std::time::SystemTime;

use serde_json::Value;
use treering_core::text::preview;
use treering_core::{ProviderError, RetryAdvice};

use super::retry_after;

/// Maximum length of a provider's message in an error, in characters.
const WORDS: usize = 300;

/// The cause of a failed call.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The environment variable with the key is not set.
    NoKey(String),
    /// There was no answer, or the connection broke.
    Transport(ureq::Error),
    /// The provider returned an error status.
    Status { status: u16, text: String, retry_after_ms: Option<u64>, request_id: String },
    /// The answer is malformed.
    Broken(String),
}

impl CallFailure {
    /// Whether the request was sent but the answer timed out. The provider may have processed
    /// it.
    pub(super) const fn is_read_timeout(&self) -> bool {
        use ureq::Timeout::{Connect, Resolve};
        matches!(self, Self::Transport(ureq::Error::Timeout(stage)) if !matches!(stage, Resolve | Connect))
    }

    /// The error for the caller.
    pub(super) fn to_error(&self) -> ProviderError {
        match self {
            Self::NoKey(variable) => ProviderError::permanent(format!(
                "the environment variable {variable} contains no API key; set it, then run `treering update`"
            )),
            Self::Transport(error) => of_transport(error),
            Self::Broken(reason) => ProviderError::transient(reason),
            Self::Status { status, text, retry_after_ms, request_id } => {
                let (words, retry_after) =
                    (words(text), retry_after_ms.or_else(|| retry_delay(text)));
                let advice = advice(*status, &words, retry_after);
                ProviderError::new(format!("{status}: {words} (request {request_id})"), advice)
            }
        }
    }
}

/// Whether a retry can help after this status.
fn advice(status: u16, words: &str, retry_after_ms: Option<u64>) -> RetryAdvice {
    // Waiting does not restore an exhausted quota.
    if status == 429 && words.contains("insufficient_quota") {
        return RetryAdvice::GiveUp;
    }
    match (status, retry_after_ms) {
        (429 | 503 | 529, Some(wait)) => RetryAdvice::RetryAfter(wait),
        (408 | 409 | 425 | 429 | 500.., _) => RetryAdvice::Retry,
        _ => RetryAdvice::GiveUp,
    }
}

fn of_transport(error: &ureq::Error) -> ProviderError {
    match error {
        ureq::Error::Timeout(stage) => {
            ProviderError::transient(format!("the request timed out ({stage})"))
        }
        ureq::Error::HostNotFound => ProviderError::transient("host not found"),
        ureq::Error::Io(error) => {
            ProviderError::transient(format!("the connection broke: {error}"))
        }
        ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::InvalidProxyUrl => {
            ProviderError::permanent(format!("the URL or proxy is invalid: {error}"))
        }
        ureq::Error::BodyExceedsLimit(_) => ProviderError::permanent("the answer is too large"),
        // An invalid certificate stays invalid.
        ureq::Error::Rustls(error) => ProviderError::permanent(format!("TLS failed: {error}")),
        ureq::Error::Tls(error) => ProviderError::permanent(format!("TLS failed: {error}")),
        other => ProviderError::transient(preview(&other.to_string(), WORDS)),
    }
}

/// Whether the connection broke before an answer arrived, so that an immediate retry makes
/// sense.
pub(super) fn is_broken_connection(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(error) => matches!(
            error.kind(),
            ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::ConnectionRefused
                | ErrorKind::BrokenPipe
                | ErrorKind::UnexpectedEof
        ),
        ureq::Error::ConnectionFailed => true,
        _ => false,
    }
}

/// The provider's error message, found in the places where providers put it and shortened.
fn words(text: &str) -> String {
    let Ok(body) = serde_json::from_str::<Value>(text) else { return preview(text.trim(), WORDS) };
    let body = unwrapped(&body);
    let error = body.get("error").unwrap_or(body);
    let message = error
        .as_str()
        .or_else(|| error.get("message")?.as_str())
        .or_else(|| body.get("message")?.as_str());
    let kind = ["code", "type", "status"].iter().find_map(|name| error.get(name)?.as_str());
    let message =
        message.map_or_else(|| preview(text.trim(), WORDS), |message| preview(message, WORDS));
    kind.map_or_else(|| message.clone(), |kind| format!("{message} [{kind}]"))
}

/// Unwraps the list in which Google puts an error when it streams.
fn unwrapped(body: &Value) -> &Value {
    body.get(0).unwrap_or(body)
}

/// The retry delay in the details of Google's errors.
fn retry_delay(text: &str) -> Option<u64> {
    let body: Value = serde_json::from_str(text).ok()?;
    let details = unwrapped(&body).get("error")?.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    retry_after::millis(delay, SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, text: &str, retry_after_ms: Option<u64>) -> ProviderError {
        CallFailure::Status { status, text: text.into(), retry_after_ms, request_id: "r1".into() }
            .to_error()
    }

    #[test]
    fn a_status_gives_its_advice() {
        assert_eq!(check(429, "{}", Some(7000)).advice, RetryAdvice::RetryAfter(7000));
        assert_eq!(check(429, "{}", None).advice, RetryAdvice::Retry);
        assert_eq!(check(503, "", Some(1)).advice, RetryAdvice::RetryAfter(1));
        for status in [500, 502, 503, 504, 529, 408] {
            assert_eq!(check(status, "", None).advice, RetryAdvice::Retry, "{status}");
        }
        for status in [301, 400, 401, 403, 404, 413, 422] {
            assert_eq!(check(status, "", Some(9)).advice, RetryAdvice::GiveUp, "{status}");
        }
        let broke =
            r#"{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}"#;
        assert_eq!(check(429, broke, None).advice, RetryAdvice::GiveUp);
    }

    #[test]
    fn the_words_of_providers_are_found() {
        let check = |text: &str, words: &str| assert_eq!(super::words(text), words);
        check(
            r#"{"error":{"message":"bad","type":"invalid_request_error"}}"#,
            "bad [invalid_request_error]",
        );
        check(
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "Overloaded [overloaded_error]",
        );
        check(
            r#"[{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}]"#,
            "API key not valid [INVALID_ARGUMENT]",
        );
        check(r#"{"error":"model 'x' not found"}"#, "model 'x' not found");
        check("<html>Bad Gateway</html>", "<html>Bad Gateway</html>");
        assert!(super::words(&"x".repeat(5000)).chars().count() <= WORDS + 1);
    }

    #[test]
    fn google_says_when_in_its_details() {
        let text = r#"{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED","details":[
            {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}"#;
        for text in [text.to_owned(), format!("[{text}]")] {
            assert_eq!(check(429, &text, None).advice, RetryAdvice::RetryAfter(34_000));
        }
    }
}
