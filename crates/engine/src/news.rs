//! News: what has come into the store since somebody last looked, whichever process brought it. Reads
//! only; who is told, and how, is the caller's.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use treering_core::commit::{LogEvent, LogLine};
use treering_core::{ConversationId, Invalid, Message, MessageIdx, Node, ThreadName, TurnNo};

use crate::error::Result;
use crate::memory::Memory;

/// How much is read at once.
const PORTION: usize = 256;
/// How often the store is asked what other processes have brought.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How far somebody has followed what comes in. Written as three numbers with dots between, so that
/// it can be handed out and taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    messages: u64,
    nodes: u64,
    log: u64,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.messages, self.nodes, self.log)
    }
}

impl FromStr for Mark {
    type Err = Invalid;

    fn from_str(text: &str) -> std::result::Result<Self, Invalid> {
        let numbers: Option<Vec<u64>> = text.split('.').map(|number| number.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[messages, nodes, log])
                if [messages, nodes, log].iter().all(|it| *it <= i64::MAX as u64) =>
            {
                Ok(Self { messages, nodes, log })
            }
            _ => Err(Invalid::new(format!("mark {text:?}"), "expected three numbers, like 12.3.40")),
        }
    }
}

/// One thing that came in.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// Messages of a turn were stored.
    Turn {
        /// The conversation.
        conversation: ConversationId,
        /// The turn.
        turn: TurnNo,
        /// Its thread.
        thread: ThreadName,
        /// The positions of the messages.
        messages: Vec<MessageIdx>,
    },
    /// A window or group was sealed: the job that writes its node was planned.
    Sealed(ConversationId, LogLine),
    /// A node was written, or written anew.
    Node(ConversationId, Box<Node>),
    /// A job failed, and is tried again or was given up.
    Failed(ConversationId, LogLine),
}

impl Memory {
    /// The mark after everything that is there now.
    pub fn news_mark(&self) -> Result<Mark> {
        let (reader, tenant) = (self.store().reader()?, self.tenant());
        Ok(Mark {
            messages: reader.arrivals(tenant, 0, 0)?.through,
            nodes: reader.node_arrivals(tenant, 0, 0)?.through,
            log: reader.log_arrivals(tenant, 0, 0)?.through,
        })
    }

    /// What came in after a mark, and the mark after it: turns first, then what was sealed, then nodes,
    /// then failures. Where there is much it comes in portions.
    pub fn news(&self, mark: Mark) -> Result<(Vec<News>, Mark)> {
        let (reader, tenant) = (self.store().reader()?, self.tenant());
        let messages = reader.arrivals(tenant, mark.messages, PORTION)?;
        let nodes = reader.node_arrivals(tenant, mark.nodes, PORTION)?;
        let log = reader.log_arrivals(tenant, mark.log, PORTION)?;
        let now = Mark { messages: messages.through, nodes: nodes.through, log: log.through };
        let mut news = turns(messages.items);
        let mut failed = Vec::new();
        for (_, id, line) in log.items {
            match line.event {
                LogEvent::Fail | LogEvent::Dead => failed.push(News::Failed(id, line)),
                _ if line.is_sealing() => news.push(News::Sealed(id, line)),
                _ => {}
            }
        }
        news.extend(nodes.items.into_iter().map(|(_, id, node)| News::Node(id, Box::new(node))));
        news.extend(failed);
        Ok((news, now))
    }

    /// The same, but waits until something came, at most for `patience`.
    pub fn await_news(&self, mark: Mark, patience: Duration) -> Result<(Vec<News>, Mark)> {
        let (started, mut seen) = (Instant::now(), mark);
        loop {
            let signal = self.signal().mark();
            let (news, now) = self.news(seen)?;
            let waited = started.elapsed();
            if !news.is_empty() || waited >= patience {
                return Ok((news, now));
            }
            // Lines that are no news were read nevertheless.
            seen = now;
            self.signal().wait(signal, LOOK_AGAIN.min(patience.saturating_sub(waited)));
        }
    }
}

/// The turns that messages belong to, one item for messages that follow each other.
fn turns(messages: Vec<(u64, ConversationId, Message)>) -> Vec<News> {
    let mut news: Vec<News> = Vec::new();
    for (_, id, message) in messages {
        if let Some(News::Turn { conversation, turn, messages, .. }) = news.last_mut()
            && (*conversation, *turn) == (id, message.turn)
        {
            messages.push(message.idx);
            continue;
        }
        news.push(News::Turn {
            conversation: id,
            turn: message.turn,
            thread: message.thread,
            messages: vec![message.idx],
        });
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_can_be_handed_out_and_taken_back() {
        let mark = Mark { messages: 812, nodes: 0, log: 1290 };
        assert_eq!(mark.to_string(), "812.0.1290");
        assert_eq!(mark.to_string().parse::<Mark>().unwrap(), mark);
        for other in ["", "1.2", "1.2.3.4", "1.2.x", "-1.2.3", "1.2.18446744073709551615"] {
            assert!(other.parse::<Mark>().unwrap_err().to_string().contains("three numbers"), "{other}");
        }
    }
}
