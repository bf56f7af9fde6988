//! One hit for each turn: the messages and tool calls of a turn under the best of them.

use std::collections::HashSet;

use treering_core::lexicon::words;
use treering_core::{ConversationId, Question, Role, TurnNo};

use super::{Hit, HitItem};

/// The turn of a hit; `None` for a node.
fn turn_of(hit: &Hit) -> Option<(ConversationId, TurnNo)> {
    match &hit.item {
        HitItem::Message(message) => Some((hit.conversation, message.turn)),
        HitItem::ToolCall(call) => Some((hit.conversation, call.turn)),
        HitItem::Node(_) => None,
    }
}

/// The number of turns and nodes among the hits.
pub(super) fn count(hits: &[Hit]) -> usize {
    let turns: HashSet<_> = hits.iter().filter_map(turn_of).collect();
    turns.len() + hits.iter().filter(|hit| turn_of(hit).is_none()).count()
}

/// The first `limit` turns and nodes of ranked hits, and whether there are that many. A turn takes
/// the rank of its best hit; `same_turn` holds the others.
///
/// A message of the user with the words of a question is the question itself, captured before. It
/// never stands before its answer: another hit of its turn leads, and a turn without another hit
/// comes last.
pub(super) fn by_turn(hits: Vec<Hit>, question: &Question, limit: usize) -> (bool, Vec<Hit>) {
    let mut turns: Vec<Vec<(usize, Hit)>> = Vec::new();
    for (rank, hit) in hits.into_iter().enumerate() {
        let turn = turn_of(&hit);
        let is_same = |others: &&mut Vec<(usize, Hit)>| {
            turn.is_some() && others.first().is_some_and(|(_, other)| turn_of(other) == turn)
        };
        match turns.iter_mut().find(is_same) {
            Some(others) => others.push((rank, hit)),
            None => turns.push(vec![(rank, hit)]),
        }
    }
    let is_full = turns.len() >= limit;
    turns.truncate(limit);
    let mut led: Vec<(bool, usize, Hit)> = turns
        .into_iter()
        .map(|mut hits| {
            let leading = hits.iter().position(|(_, hit)| !is_echo(hit, question));
            let (rank, mut hit) = hits.remove(leading.unwrap_or(0));
            hit.same_turn = hits.into_iter().map(|(_, hit)| hit).collect();
            (leading.is_none(), rank, hit)
        })
        .collect();
    led.sort_by_key(|(is_echo, rank, _)| (*is_echo, *rank));
    (is_full, led.into_iter().map(|(.., hit)| hit).collect())
}

fn is_echo(hit: &Hit, question: &Question) -> bool {
    match &hit.item {
        HitItem::Message(message) => {
            question.is_question
                && message.body.role == Role::User
                && words(&message.body.text) == question.words
        }
        HitItem::ToolCall(_) | HitItem::Node(_) => false,
    }
}
