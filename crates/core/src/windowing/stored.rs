//! The serialized form of an open window, and that of earlier versions.

use serde::{Deserialize, Serialize};

use super::{MessageRun, OpenWindow};
use crate::ids::{MessageIdx, TurnNo};
use crate::node::TextPosition;

/// The serialized form. A compact array, because it is written with every message.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum StoredWindow {
    /// Start, finished exchanges, exchange in progress, turn in progress, flags.
    Current(Option<(u32, u32)>, Vec<MessageRun>, Option<MessageRun>, Option<u32>, u8),
    /// Start, answered messages, unanswered messages, whether a long silence occurred.
    Outdated(Option<(u32, u32)>, Vec<MessageRun>, Option<MessageRun>, u8),
}

const ANSWERED: u8 = 1;
const SILENT: u8 = 2;
const OUTDATED: u8 = 4;

impl From<StoredWindow> for OpenWindow {
    fn from(stored: StoredWindow) -> Self {
        let (from, finished, current, turn, flags) = match stored {
            StoredWindow::Current(from, finished, current, turn, flags) => {
                (from, finished, current, turn, flags)
            }
            StoredWindow::Outdated(from, answered, waiting, _) => {
                // An empty window holds nothing that would have to be folded again.
                let flags = if from.is_some() { OUTDATED } else { 0 };
                (from, answered, waiting, None, flags)
            }
        };
        Self {
            from: from.map(|(idx, offset)| TextPosition { idx: MessageIdx(idx), offset }),
            finished,
            current,
            turn: turn.map(TurnNo),
            answered: flags & ANSWERED != 0,
            silent: flags & SILENT != 0,
            outdated: flags & OUTDATED != 0,
        }
    }
}

impl From<OpenWindow> for StoredWindow {
    fn from(it: OpenWindow) -> Self {
        let flag = |is: bool, bit: u8| if is { bit } else { 0 };
        let flags =
            flag(it.answered, ANSWERED) | flag(it.silent, SILENT) | flag(it.outdated, OUTDATED);
        let from = it.from.map(|from| (from.idx.0, from.offset));
        Self::Current(from, it.finished, it.current, it.turn.map(|turn| turn.0), flags)
    }
}
