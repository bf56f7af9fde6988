//! The outline of a tree: one line for each node, job and open window, from oldest to newest.

use std::fmt;

use treering_core::{
    ConversationState, Coverage, Job, JobKind, Node, TextPosition, ThreadName, Window,
};

use crate::tree::TreeView;

/// One line of an outline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineLine {
    /// The tree-drawing prefix.
    pub prefix: String,
    /// Its level; 0 for an open window.
    pub level: u8,
    /// The id of the node, or of the job that will write it.
    pub id: String,
    /// A description of its coverage.
    pub covers: String,
    /// Number of turns it covers, if known.
    pub turns: u32,
    /// Characters of its source, if known.
    pub source_chars: u64,
    /// Characters of its own text.
    pub chars: u64,
    /// Its state.
    pub state: &'static str,
    /// Why it was sealed.
    pub sealed_because: &'static str,
}

impl OutlineLine {
    /// How much shorter it is than its source, in percent.
    #[must_use]
    pub fn removed_percent(&self) -> Option<i64> {
        let ratio = self.chars as f64 / self.source_chars as f64;
        (self.source_chars > 0 && self.level > 0).then(|| ((1.0 - ratio) * 100.0).round() as i64)
    }
}

impl fmt::Display for OutlineLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            prefix, level, covers, turns, source_chars, chars, state, sealed_because, ..
        } = self;
        match *level {
            0 => write!(f, "{prefix}open window: {covers}, {chars} chars"),
            level if *chars == 0 => {
                write!(f, "{prefix}level {level}: {covers}, {state} ({sealed_because})")
            }
            level => write!(
                f,
                "{prefix}level {level}: {covers}, {turns} turns, {source_chars} → {chars} chars, {state} ({sealed_because})"
            ),
        }
    }
}

impl TreeView {
    /// The tree as lines, oldest branch first, with children below their node.
    #[must_use]
    pub fn outline(&self) -> Vec<OutlineLine> {
        let mut lines = Vec::new();
        let mut roots: Vec<&Node> = self.nodes.iter().filter(|node| !node.superseded).collect();
        roots.sort_by_key(|node| (node.range_end, node.source.from, node.level()));
        for root in roots {
            self.push_node(root, "", "", &mut lines);
        }
        lines.extend(self.jobs.iter().filter_map(|job| self.job_line(job)));
        for (thread, window) in self.conversation.threads.iter().zip(&self.growth().windows) {
            let (Some(from), Some(holds)) = (window.from(), window.holds()) else { continue };
            // The open window extends to the end of the thread, which its latest turn records.
            let end = thread.last_turn.as_ref().map_or(from.idx, |turn| turn.until);
            let until = TextPosition { idx: end, offset: 0 };
            lines.push(OutlineLine {
                prefix: String::new(),
                level: 0,
                id: String::new(),
                covers: span(&Window { thread: thread.name.clone(), from, until }),
                turns: holds.turns,
                source_chars: holds.chars.into(),
                chars: holds.chars.into(),
                state: "open",
                sealed_because: "",
            });
        }
        lines
    }

    fn push_node(
        &self,
        node: &Node,
        prefix: &str,
        child_prefix: &str,
        lines: &mut Vec<OutlineLine>,
    ) {
        let covers = match &node.spec.covers {
            Coverage::Messages(window) => span(window),
            Coverage::Nodes(children) if node.source.until == 0 => {
                format!("{} nodes over sessions", children.len())
            }
            Coverage::Nodes(children) => {
                format!(
                    "{} nodes over messages {}–{}",
                    children.len(),
                    node.source.from,
                    node.source.until - 1
                )
            }
            Coverage::Whole(children) => whole(children.len()),
            Coverage::Sessions(sessions) => format!("{} sessions", sessions.len()),
        };
        let state = match node.dirty {
            true => "dirty",
            false => node.state(self.conversation.state == ConversationState::Open).as_str(),
        };
        lines.push(OutlineLine {
            prefix: prefix.to_owned(),
            level: node.level().number(),
            id: node.id.to_string(),
            covers,
            turns: node.source.turns,
            source_chars: node.source.chars,
            chars: node.chars.into(),
            state,
            sealed_because: node.spec.cause.as_str(),
        });
        let mut children: Vec<&Node> = self
            .nodes
            .iter()
            .filter(|child| match node.spec.is_top() {
                true => child.parent.is_none() && !child.spec.is_top(),
                false => {
                    child.level().above() == node.level() && child.parent == Some(node.ordinal())
                }
            })
            .collect();
        children.sort_by_key(|child| (child.range_end, child.source.from, child.ordinal()));
        for (index, child) in children.iter().enumerate() {
            let last = index + 1 == children.len();
            let (branch, continuation) =
                if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.push_node(
                child,
                &format!("{child_prefix}{branch}"),
                &format!("{child_prefix}{continuation}"),
                lines,
            );
        }
    }

    /// A job whose node does not exist yet. A regeneration is shown with its node.
    fn job_line(&self, job: &Job) -> Option<OutlineLine> {
        let JobKind::Summarize(task) = &job.kind else { return None };
        let written = |node: &Node| node.level() == task.level && node.ordinal() == task.ordinal;
        if self.nodes.iter().any(written) {
            return None;
        }
        let covers = match &task.covers {
            Coverage::Messages(window) => span(window),
            Coverage::Nodes(children) => format!("{} nodes", children.len()),
            Coverage::Whole(children) => whole(children.len()),
            Coverage::Sessions(sessions) => format!("{} sessions", sessions.len()),
        };
        Some(OutlineLine {
            prefix: String::new(),
            level: task.level.number(),
            id: job.id.short(),
            covers,
            turns: 0,
            source_chars: 0,
            chars: 0,
            state: job.state.as_str(),
            sealed_because: task.cause.as_str(),
        })
    }
}

fn whole(roots: usize) -> String {
    match roots {
        1 => "the whole conversation, 1 node".to_owned(),
        roots => format!("the whole conversation, {roots} nodes"),
    }
}

fn span(window: &Window) -> String {
    let main = Window { thread: ThreadName::main(), ..window.clone() };
    match window.thread.is_main() {
        true => format!("messages {main}"),
        false => format!("messages {main} of {}", window.thread),
    }
}
