//! Parses the lines of streamed answers, including errors in mid-stream.

use serde_json::Value;
use treering_core::ProviderError;
use treering_core::text::preview;

/// The end marker that some providers send after the last chunk.
pub(crate) const DONE: &str = "[DONE]";

/// The data of a line: the payload of a server-sent event, or the whole line. `None` for
/// comments, event names and empty lines.
pub(crate) fn data(line: &str, is_event: bool) -> Option<&str> {
    let data = if is_event { line.strip_prefix("data:")? } else { line };
    Some(data.trim()).filter(|data| !data.is_empty())
}

/// Parses a chunk as JSON. A malformed chunk or an error object ends the stream.
pub(crate) fn json(data: &str) -> Result<Value, ProviderError> {
    let piece: Value = serde_json::from_str(data).map_err(|error| {
        ProviderError::transient(format!("malformed chunk in the stream: {error}"))
    })?;
    match piece.get("error") {
        None | Some(Value::Null) => Ok(piece),
        Some(error) => {
            let words = error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned);
            Err(ProviderError::transient(format!(
                "the provider reported an error: {}",
                preview(&words, 300)
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_data_counts() {
        assert_eq!(data("data: {\"a\":1}", true), Some("{\"a\":1}"));
        assert_eq!(data("data:[DONE]", true), Some(DONE));
        for line in ["", ": ping", "event: message_stop", "id: 7", "data: "] {
            assert_eq!(data(line, true), None, "{line}");
        }
        assert_eq!((data("{}", false), data(" ", false)), (Some("{}"), None));
    }

    #[test]
    fn errors_end_a_stream() {
        assert!(json("{\"a\":").unwrap_err().reason.contains("malformed"));
        let error =
            json(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#);
        assert!(error.unwrap_err().reason.contains("Overloaded"));
        assert!(json(r#"{"error":null,"choices":[]}"#).is_ok());
    }
}
