//! MCP over standard input and output, with an answer to messages that are too large.

use std::io;

use rmcp::model::ErrorCode;
use rmcp::transport::async_rw::DEFAULT_MAX_LINE_LENGTH;
use rmcp::{ErrorData, ServerHandler, ServiceExt as _};
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};

/// The method of the placeholder request for an oversized message. The transport drops such a
/// message; this request, with its id, gets an error as the answer.
const TOO_LARGE: &str = "treering/message_too_large";
/// The largest message, its line break included.
const MAX_MESSAGE: usize = DEFAULT_MAX_LINE_LENGTH;
/// The bytes at either end of a large message in which its id is looked for.
const END_BYTES: usize = 512;

/// Serves one client over stdin and stdout until it disconnects.
pub async fn serve_stdio(server: impl ServerHandler) -> Result<(), String> {
    let (stdin, messages) = tokio::io::duplex(64 << 10);
    tokio::spawn(async move {
        let copied = copy_messages(BufReader::new(tokio::io::stdin()), stdin, MAX_MESSAGE).await;
        if let Err(error) = copied {
            tracing::debug!(%error, "standard input ended");
        }
    });
    let running = server.serve((messages, tokio::io::stdout())).await;
    let running = running.map_err(|error| format!("the MCP handshake failed: {error}"))?;
    running.waiting().await.map(drop).map_err(|error| format!("the MCP session failed: {error}"))
}

/// The error for a method that is not part of MCP.
pub(super) fn refusal_of(method: &str) -> ErrorData {
    match method {
        TOO_LARGE => {
            let mib = MAX_MESSAGE >> 20;
            let message = format!("the message is larger than {mib} MiB; send it in smaller parts");
            ErrorData::invalid_request(message, None)
        }
        _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method.to_owned(), None),
    }
}

/// Copies messages, one on each line. Replaces those that are too large.
async fn copy_messages(
    mut from: impl AsyncBufRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    max_bytes: usize,
) -> io::Result<()> {
    let mut line = Vec::new();
    let mut is_large = false;
    loop {
        let available = from.fill_buf().await?;
        if available.is_empty() {
            return to.write_all(&line).await;
        }
        let end = available.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let part = &available[..end.unwrap_or(available.len())];
        line.extend_from_slice(part);
        let used = part.len();
        from.consume(used);
        if line.len() > max_bytes {
            is_large = true;
            // Only the ends of a large message are kept.
            line.drain(END_BYTES..line.len() - END_BYTES);
        }
        if end.is_some() {
            let message = if is_large { placeholder(&line) } else { std::mem::take(&mut line) };
            to.write_all(&message).await?;
            line.clear();
            is_large = false;
        }
    }
}

/// Placeholder request for an oversized message, given its first and last bytes. Without an id,
/// the transport refuses the request.
fn placeholder(ends: &[u8]) -> Vec<u8> {
    let head = String::from_utf8_lossy(&ends[..END_BYTES.min(ends.len())]);
    let tail = String::from_utf8_lossy(&ends[ends.len().saturating_sub(END_BYTES)..]);
    let mut request = serde_json::json!({ "jsonrpc": "2.0" });
    if let Some(id) = id_at_start(&head).or_else(|| id_at_end(&tail)) {
        request = serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": TOO_LARGE });
    }
    format!("{request}\n").into_bytes()
}

/// The id among the first members of a message: before it the object is complete.
fn id_at_start(head: &str) -> Option<Value> {
    let (before, after) = head.split_once("\"id\"")?;
    let is_member = serde_json::from_str::<Value>(&format!("{before}\"id\":0}}")).is_ok();
    is_member.then(|| first_value(after)).flatten().map(|(id, _)| id)
}

/// The id among the last members of a message: after it the object is complete.
fn id_at_end(tail: &str) -> Option<Value> {
    let (_, after) = tail.rsplit_once("\"id\"")?;
    let (id, rest) = first_value(after)?;
    serde_json::from_str::<Value>(&format!("{{\"id\":0{rest}")).is_ok().then_some(id)
}

/// The number or string after a colon, and what follows it.
fn first_value(text: &str) -> Option<(Value, &str)> {
    let text = text.trim_start().strip_prefix(':')?;
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    let rest = &text[values.byte_offset()..];
    (value.is_number() || value.is_string()).then_some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(input: &str) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut output = Vec::new();
        let small = BufReader::with_capacity(100, input.as_bytes());
        runtime.block_on(copy_messages(small, &mut output, 2000)).unwrap();
        String::from_utf8(output).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn large_messages_are_replaced_by_a_request_with_their_id() {
        let text = "x".repeat(5000);
        let large = [
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\",\"params\":{{\"t\":\"{text}\"}}}}"
            ),
            format!(
                "{{\"method\":\"m\",\"params\":{{\"id\":1,\"t\":\"{text}\"}},\"id\":\"a\",\"jsonrpc\":\"2.0\"}}"
            ),
            format!("{{\"method\":\"m\",\"params\":{{\"t\":\"{text}\",\"id\":1}}}}"),
        ];
        let lines = copied(&format!("one\n{}\n{}\ntwo\n{}\nthree", large[0], large[1], large[2]));
        assert_eq!((&lines[0][..], &lines[3][..], &lines[5][..]), ("one", "two", "three"));
        let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].clone();
        assert_eq!((id(&lines[1]), id(&lines[2])), (7.into(), "a".into()));
        assert_eq!(lines[4], "{\"jsonrpc\":\"2.0\"}", "a notification has no id");
    }
}
