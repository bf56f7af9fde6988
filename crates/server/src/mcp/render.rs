//! Results as Markdown for a model: ids to expand, rounded scores, local times. Recorded text and
//! names go through [`fence`].

use std::fmt::Write as _;

use treering_core::{Conversation, Message, MessageIdx, Node, fence};
use treering_engine::{Context, Engine, TurnItem, WholeTurn};

use super::convert::TokenBudget;
use super::types::StatusResult;
use crate::local_time::{local, local_of};
use crate::service::{ContextSubject, ConversationList, ExpandedItem, Expansion, SearchAnswer};
use crate::views::{
    AmendView, ConversationView, ExpandView, ForgetView, FoundView, HitView, LineView, NodeView,
    NoteList, NoteView, UpdateView,
};

/// Maximum characters of a listing line; `expand` reads the rest.
const LINE_CHARS: usize = 400;
/// Maximum characters of a name in the last line of a context.
const NAME_CHARS: usize = 80;
/// Tokens for the last line of a context.
pub(super) const CONTEXT_FRAME_TOKENS: u32 = 70;

/// Stands for the text of a message that is left out.
const LEFT_OUT: &str = "left out: it was forgotten or is wrong";

/// The id of a message for the other tools.
fn message_id(slug: &str, idx: MessageIdx) -> String {
    format!("{slug}#{}", idx.0)
}

/// A number with its noun.
pub(super) fn count(number: u32, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A text on one quoted line, below an entry of a list.
fn quoted_below(text: &str) -> String {
    format!("\n  > {}", fence::line(text, LINE_CHARS))
}

pub(super) fn search(answer: &SearchAnswer, engine: &Engine, max_tokens: u32) -> String {
    let hits = answer.hits.iter().map(hit);
    let (hits, left_out) = TokenBudget::new(engine, max_tokens).fill(hits);
    let mut text = match hits.is_empty() && left_out == 0 {
        true => "Nothing found. Try other words, fewer filters, or `sessions`.".to_owned(),
        false => hits.join("\n"),
    };
    if left_out > 0 {
        let _ = write!(text, "\n\n{left_out} more did not fit; raise max_tokens to see them.");
    }
    if let Some(reason) = &answer.words_only {
        let _ = write!(text, "\n\nSearched by words only: {}", fence::line(reason, LINE_CHARS));
    }
    text
}

/// The id of an item for `expand`, and its speaker.
fn item_of(slug: &str, item: &FoundView) -> (String, Option<String>) {
    match item {
        FoundView::Message { idx, role, author, .. } => {
            let speaker = fence::speaker(role, author.as_deref());
            (message_id(slug, MessageIdx(*idx)), Some(speaker))
        }
        FoundView::Call { call, after, .. } => {
            (message_id(slug, MessageIdx(*after)), Some(format!("tool {}", fence::name(call))))
        }
        FoundView::Node { node, .. } => (node.clone(), None),
    }
}

fn hit(hit: &HitView) -> String {
    let (id, speaker) = item_of(&hit.slug, &hit.item);
    let speaker = speaker.unwrap_or_else(|| format!("level {} of {}", hit.level, hit.slug));
    let (source, project) = (hit.source.as_deref(), hit.project.as_deref());
    let (source, project) = (source.map(fence::value), project.map(fence::value));
    let facts = [Some(speaker), Some(local_of(&hit.at)), source, project];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let weak = if hit.weak { " weak" } else { "" };
    let mut text = format!("- `{id}` {:.2}{weak} · {}", hit.score, facts.join(" · "));
    if let Some(later) = &hit.superseded_by {
        let _ = write!(text, " · superseded by `{}`", later.replace(" #", "#"));
    }
    text.push_str(&quoted_below(&hit.snippet));
    if !hit.same_turn.is_empty() {
        let others = hit.same_turn.iter().map(|other| {
            let (id, speaker) = item_of(&hit.slug, &other.item);
            format!("`{id}` {}", speaker.unwrap_or_default())
        });
        let _ = write!(text, "\n  same turn: {}", others.collect::<Vec<_>>().join(", "));
    }
    text
}

fn speaker(message: &Message) -> String {
    fence::speaker(message.body.role.as_str(), message.body.author.as_deref())
}

/// The context, and a line that names its subject and says what is missing.
pub(super) fn context(context: &Context, subject: &ContextSubject) -> String {
    let receipt = &context.receipt;
    let spans = receipt.left_out.iter().map(|span| span.until.saturating_sub(span.from));
    let left_out: u32 = spans.chain(receipt.sessions.iter().map(|session| session.omitted)).sum();
    let degraded = match receipt.gate.degraded {
        true => " Raw messages replace unfinished summaries.",
        false => "",
    };
    let name = fence::line(subject.name(), NAME_CHARS).replace('`', "'");
    format!(
        "{}\n\n`{name}`: {} of {} tokens, {left_out} messages left out.{degraded} `expand` a \
         message as `SLUG#N`.",
        context.markdown(),
        receipt.tokens,
        receipt.budget,
    )
}

pub(super) fn expand(expansion: Expansion, engine: &Engine, max_tokens: u32) -> String {
    let Expansion { conversation, item, around } = expansion;
    let budget = TokenBudget::new(engine, max_tokens);
    match item {
        ExpandedItem::Node(node) => expand_node(&conversation, &node, around, budget),
        ExpandedItem::Message(message, turns) => {
            expand_message(&conversation, &message, &turns, around, budget)
        }
        ExpandedItem::Conversation => expand_conversation(&conversation, around, budget),
    }
}

/// A conversation: its title and its topmost nodes.
fn expand_conversation(
    conversation: &Conversation,
    around: ExpandView,
    mut budget: TokenBudget<'_>,
) -> String {
    let title = conversation.title.as_deref().unwrap_or(&conversation.slug);
    let (start, end) = (local(conversation.started_at), local(conversation.last_activity));
    let title = fence::line(title, LINE_CHARS);
    let mut text = format!("`{}` · {start} to {end}\n> {title}", conversation.slug);
    let down = around.down.into_iter().map(|it| line(it, conversation)).collect();
    list(&mut text, "Topmost summaries", down, &mut budget);
    text
}

/// A node: its text, the nodes above it and its sources.
fn expand_node(
    conversation: &Conversation,
    node: &Node,
    around: ExpandView,
    mut budget: TokenBudget<'_>,
) -> String {
    let view = NodeView::of(conversation, node);
    let (start, end) = (local(node.range_start), local(node.range_end));
    let mut text =
        format!("`{}` level {} of {} · {start} to {end}\n", view.id, view.level, view.slug);
    push_cut(&mut text, &node.content.overview, &mut budget);
    if let Some(details) = details(&view).filter(|details| budget.take(details)) {
        let _ = write!(text, "\n\n{details}");
    }
    let up = around.up.into_iter().map(|it| line(it, conversation)).collect();
    list(&mut text, "Above", up, &mut budget);
    let down = around.down.into_iter().map(|it| line(it, conversation)).collect();
    list(&mut text, "Sources", down, &mut budget);
    text
}

/// Adds a text as a quotation, as much of it as the budget allows.
fn push_cut(text: &mut String, content: &str, budget: &mut TokenBudget<'_>) {
    let (content, is_cut) = budget.cut(&fence::quoted(content));
    text.push_str(&content);
    if is_cut {
        text.push_str("\n(cut; raise max_tokens to read the rest)");
    }
}

/// The non-empty lists of a node's content, one line each, without the overview.
fn details(node: &NodeView) -> Option<String> {
    let content = serde_json::to_value(&node.content).ok()?;
    let mut lines = Vec::new();
    for (name, value) in content.as_object()?.iter().filter(|(name, _)| *name != "overview") {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let items: Vec<String> = items
            .iter()
            .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
            .collect();
        if !items.is_empty() {
            let list = format!("{}: {}", name.replace('_', " "), items.join("; "));
            lines.push(fence::quoted(&list));
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn line(line: LineView, conversation: &Conversation) -> String {
    let id = match line.level {
        0 => format!("{}{}", conversation.slug, line.id),
        _ => line.id,
    };
    format!("- `{id}`{}", quoted_below(&line.text))
}

/// Adds lines under a heading, as many as the budget allows.
fn list(text: &mut String, heading: &str, lines: Vec<String>, budget: &mut TokenBudget<'_>) {
    if lines.is_empty() {
        return;
    }
    let (lines, left_out) = budget.fill(lines);
    let _ = write!(text, "\n\n{heading}:\n{}", lines.join("\n"));
    if left_out > 0 {
        let _ = write!(text, "\n({left_out} more did not fit)");
    }
}

/// A message: its text, the nodes above it and the rest of its turn.
fn expand_message(
    conversation: &Conversation,
    message: &Message,
    turns: &[WholeTurn],
    around: ExpandView,
    mut budget: TokenBudget<'_>,
) -> String {
    let (slug, idx) = (conversation.slug.as_str(), message.idx);
    let id = message_id(slug, idx);
    let mut text = format!("`{id}` {} · {}\n", speaker(message), local(message.body.at));
    match message.body.forgotten {
        true => text.push_str(LEFT_OUT),
        false => push_cut(&mut text, &message.body.text, &mut budget),
    }
    let up = around.up.into_iter().map(|it| line(it, conversation)).collect();
    list(&mut text, "Above", up, &mut budget);
    let others = turns.iter().flat_map(WholeTurn::items);
    let others = others.filter_map(|step| other_step(&step, slug, idx)).collect();
    list(&mut text, "Rest of the turn", others, &mut budget);
    let before = idx.0.checked_sub(1).map(|before| message_id(slug, MessageIdx(before)));
    let after =
        (idx.0 + 1 < conversation.totals.messages).then(|| message_id(slug, MessageIdx(idx.0 + 1)));
    let before = before.map(|id| format!("before `{id}`"));
    let after = after.map(|id| format!("after `{id}`"));
    let around: Vec<String> = [before, after].into_iter().flatten().collect();
    if !around.is_empty() {
        let _ = write!(text, "\n\n{}", around.join(", "));
    }
    text
}

/// A line for another message or a tool call of the turn of message `idx`.
fn other_step(step: &TurnItem<'_>, slug: &str, idx: MessageIdx) -> Option<String> {
    let (id, speaker, text) = match step {
        TurnItem::Message(message) if message.idx == idx => return None,
        TurnItem::Message(message) if message.body.forgotten => {
            let id = message_id(slug, message.idx);
            return Some(format!("- `{id}` {}, {LEFT_OUT}", speaker(message)));
        }
        TurnItem::Message(message) => (message.idx, speaker(message), message.body.text.clone()),
        TurnItem::ToolCall(call) => {
            let result = call.call.outcome.as_ref().map(|outcome| outcome.result.to_text());
            let args = call.call.args.to_text();
            let result = result.unwrap_or_default();
            let speaker = format!("tool {}", fence::name(&call.call.name));
            (idx, speaker, format!("{args} → {result}"))
        }
    };
    Some(format!("- `{}` {speaker}{}", message_id(slug, id), quoted_below(&text)))
}

pub(super) fn sessions(list: &ConversationList, engine: &Engine, max_tokens: u32) -> String {
    let lines = list.conversations.iter().map(session);
    let (lines, left) = TokenBudget::new(engine, max_tokens).fill(lines);
    let mut text = match lines.is_empty() && left == 0 {
        true => "No conversations.".to_owned(),
        false => lines.join("\n"),
    };
    if list.more || left > 0 {
        text.push_str("\n\nThere are more; raise limit and max_tokens, or filter.");
    }
    text
}

/// Notes as a list.
pub(super) fn notes(list: &NoteList, engine: &Engine, max_tokens: u32) -> String {
    let lines = list.notes.iter().map(note);
    let (lines, left) = TokenBudget::new(engine, max_tokens).fill(lines);
    let mut text = match lines.is_empty() && left == 0 {
        true => "No notes.".to_owned(),
        false => lines.join("\n"),
    };
    if left > 0 {
        let _ = write!(text, "\n\n{left} more did not fit; raise max_tokens to see them.");
    }
    text
}

fn note(it: &NoteView) -> String {
    let facts = [
        Some(local_of(&it.at)),
        it.author.as_deref().map(fence::name),
        it.pinned.then(|| "pinned".to_owned()),
        it.withdrawn.then(|| "withdrawn".to_owned()),
        it.project_path.as_deref().map(fence::value),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let text = fence::quoted(&it.text).replace('\n', "\n  ");
    format!("- `{}` {}\n  {text}", it.note, facts.join(" · "))
}

fn session(it: &ConversationView) -> String {
    let state = (it.state != "open").then(|| it.state.to_owned());
    let labels = it.labels.iter().map(|(name, value)| fence::value(&format!("{name}={value}")));
    let folder = it.project_path.as_deref().or(it.cwd.as_deref()).map(fence::value);
    let facts = [
        Some(format!("{}, {} tokens", count(it.turns, "turn"), it.tokens)),
        Some(local_of(&it.last_activity)),
        state,
        folder,
    ];
    let facts: Vec<String> = facts.into_iter().flatten().chain(labels).collect();
    let mut text = format!("- `{}` {}", it.slug, facts.join(" · "));
    if let Some(title) = &it.title {
        text.push_str(&quoted_below(title));
    }
    if let Some(last) = &it.last_message {
        text.push_str(&quoted_below(&format!("… {last}")));
    }
    text
}

pub(super) fn amend(view: &AmendView) -> String {
    let what = if view.wrong { "marked as wrong" } else { "edited" };
    let summaries = match (view.nodes.len(), view.rewrites) {
        (0, _) => String::new(),
        (_, true) => " The summaries that cover it are regenerated.".into(),
        (_, false) => " The summaries that cover it are stale; call `summaries_update`.".into(),
    };
    format!("`{}#{}` {what}.{summaries}", view.slug, view.idx)
}

pub(super) fn update(view: &UpdateView) -> String {
    let slug = &view.slug;
    if view.dry_run {
        let levels = view.jobs_by_level.iter().enumerate().filter(|(_, nodes)| **nodes > 0);
        let nodes: Vec<String> = levels
            .map(|(index, nodes)| format!("{} of level {}", count(*nodes, "node"), index + 1))
            .collect();
        if nodes.is_empty() {
            return format!("`{slug}`: nothing to write.");
        }
        let cost = match view.dollars {
            Some(dollars) if dollars > 0.0 => format!(", ${dollars:.4}"),
            Some(_) => ", at no cost".to_owned(),
            None => ", price unknown".to_owned(),
        };
        return format!(
            "`{slug}`: would write {}; {} tokens in, about {} out{cost}. Nothing was written.",
            nodes.join(", "),
            view.tokens_in,
            view.tokens_out
        );
    }
    let jobs = [(view.done, "done"), (view.left, "left"), (view.failed, "failed")]
        .map(|(jobs, state)| format!("{jobs} {state}"));
    let log = view.job.as_ref().map_or_else(String::new, |job| format!(" Log: logs://{job}."));
    format!("`{slug}`: jobs {}.{log}", jobs.join(", "))
}

pub(super) fn forget(view: &ForgetView) -> String {
    let erased = &view.erased;
    let what = [count(erased.messages, "message"), count(erased.tool_calls, "tool call")];
    let what = what.join(" and ");
    let conversations = count(view.conversations.len() as u32, "conversation");
    let Some(token) = &view.token else {
        return format!("Forgotten: {what} in {conversations}.");
    };
    let mut text = format!("Preview: {what} in {conversations} would be forgotten");
    let nodes: usize = view.conversations.iter().map(|it| it.rewritten.len()).sum();
    if nodes > 0 {
        let _ = write!(text, ", and {} regenerated", count(nodes as u32, "node"));
    }
    text.push_str(".\n");
    for sample in &view.samples {
        let (id, speaker) =
            (message_id(&sample.slug, MessageIdx(sample.idx)), fence::name(&sample.speaker));
        let _ = writeln!(text, "- `{id}` {speaker}{}", quoted_below(&sample.text));
    }
    let _ = write!(
        text,
        "Nothing is forgotten yet; to confirm, repeat the call with the token {token}."
    );
    text
}

pub(super) fn status(status: &StatusResult) -> String {
    let mut text = format!(
        "{}, {}, {} tokens.",
        count(status.conversations, "conversation"),
        count(status.turns, "turn"),
        status.tokens
    );
    if let Some(reason) = &status.writes_refused {
        let _ = write!(text, " Nothing can be stored now: {reason}");
    }
    if let Some(it) = &status.conversation {
        let (pending, failed) = (it.pending.len(), it.failed.len());
        let _ = write!(text, " `{}`: {pending} operations pending, {failed} failed.", it.slug);
    }
    text
}
