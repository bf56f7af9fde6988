//! Properties of windows under random conversations and policies: they form a partition, hold
//! whole turns, respect the sizes, and do not depend on batching.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use treering_core::capture::opens_turn;
use treering_core::windowing::{OpenWindow, SealReason, SealedWindow, WindowMessage};
use treering_core::{
    MessageIdx, Policy, Preset, Role, SealPolicy, Timestamp, TurnNo, WindowPolicy,
};

#[derive(Debug, Clone)]
struct SampleMessage {
    role: Role,
    text: String,
    minutes: i64,
}

fn sample_message() -> impl Strategy<Value = SampleMessage> {
    let role = prop_oneof![3 => Just(Role::User), 4 => Just(Role::Assistant), 1 => Just(Role::System), 1 => Just(Role::Tool)];
    let text = prop_oneof![
        6 => "[a-zé ]{0,120}",
        2 => "[a-z漢\n]{100,500}",
        1 => Just("👩‍👩‍👧‍👦 e\u{301}x ".repeat(90)),
        1 => Just("x".repeat(2500)),
        1 => Just(String::new()),
    ];
    (role, text, prop_oneof![5 => 0..3_i64, 1 => 25..200_i64, 1 => -30..0_i64, 1 => 2000..5000_i64])
        .prop_map(|(role, text, minutes)| SampleMessage { role, text, minutes })
}

fn policy() -> impl Strategy<Value = WindowPolicy> {
    let preset = prop::sample::select(Preset::ALL.to_vec());
    let limits =
        (proptest::option::of(200_u32..900), 0.0_f32..0.5, 0_u32..200, any::<bool>(), 0_usize..3);
    let others =
        (proptest::option::of(1_u32..9), proptest::option::of(3_u32..7), 0_u32..3, 0_u32..3);
    (preset, limits, others).prop_map(|(preset, limits, (messages, turns, min_turns, keep))| {
        let (size, wiggle, min_flush_chars, ensure_assistant, seal) = limits;
        let mut policy = Policy::from(preset).window;
        if let Some(size) = size {
            policy = WindowPolicy { window_chars: Some(size), wiggle, min_flush_chars, ..policy };
        }
        policy.ensure_assistant = ensure_assistant;
        policy.seal_policy = [SealPolicy::Chars, SealPolicy::Time, SealPolicy::Hybrid][seal];
        policy.messages = messages.or(policy.messages);
        policy.turns = turns.or(policy.turns);
        (policy.min_turns, policy.keep_recent_turns) = (min_turns, keep);
        policy
    })
}

fn conversation(length: usize) -> impl Strategy<Value = Vec<SampleMessage>> {
    proptest::collection::vec(sample_message(), 0..length)
}

/// The messages with their positions, turns and times, as capture assigns them.
fn pieces(conversation: &[SampleMessage]) -> Vec<WindowMessage<'_>> {
    let (mut turn, mut answered, mut at, mut ended_at) = (0, false, 0, None);
    let mut messages = Vec::new();
    for (idx, message) in conversation.iter().enumerate() {
        at += message.minutes * 60_000_000;
        let now = Timestamp::from_micros(at);
        if ended_at.is_some_and(|ended| opens_turn(answered, ended, Some(message.role), now)) {
            (turn, answered, ended_at) = (turn + 1, false, None);
        }
        answered |= message.role == Role::Assistant && !message.text.is_empty();
        ended_at = Some(ended_at.map_or(now, |ended| now.max(ended)));
        let chars = treering_core::text::chars(&message.text);
        messages.push(WindowMessage {
            idx: MessageIdx(idx as u32),
            turn: TurnNo(turn),
            role: message.role,
            at: now,
            chars,
            tokens: chars / 4,
            text: &message.text,
            skip: 0,
        });
    }
    messages
}

fn fold(pieces: &[WindowMessage<'_>], policy: &WindowPolicy) -> (Vec<SealedWindow>, OpenWindow) {
    let mut window = OpenWindow::default();
    let seals = pieces.iter().flat_map(|piece| window.push(piece, policy)).collect();
    (seals, window)
}

fn chars_of(pieces: &[WindowMessage<'_>], seal: &SealedWindow) -> u32 {
    let part = |piece: &WindowMessage<'_>| {
        let from = if piece.idx == seal.from.idx { seal.from.offset } else { 0 };
        let until = if piece.idx == seal.until.idx { seal.until.offset } else { piece.chars };
        if piece.idx < seal.from.idx || piece.idx > seal.until.idx { 0 } else { until - from }
    };
    pieces.iter().map(part).sum()
}

fn answers(piece: &WindowMessage<'_>) -> bool {
    piece.role == Role::Assistant && piece.chars > 0
}

/// The totals of a turn and of the unanswered turns that stay with it.
#[derive(Debug, Default)]
struct ExchangeSize {
    chars: u32,
    tokens: u32,
    messages: u32,
}

impl ExchangeSize {
    /// Computed from the messages alone, independently of the fold.
    fn is_larger_than_a_window(&self, policy: &WindowPolicy) -> bool {
        let exceeds =
            |limit: Option<u32>, is: u32| limit.is_some_and(|limit| is > policy.upper_bound(limit));
        let over_a_limit = exceeds(policy.messages, self.messages)
            || exceeds(policy.tokens, self.tokens)
            || exceeds(policy.chars, self.chars);
        exceeds(policy.window_chars, self.chars) || (over_a_limit && !policy.has_bounds())
    }
}

fn exchange_of(pieces: &[WindowMessage<'_>], turn: TurnNo, policy: &WindowPolicy) -> ExchangeSize {
    let first = first_turn_of_exchange(pieces, turn, policy);
    let answered = |piece: &&WindowMessage<'_>| piece.turn >= turn && answers(piece);
    let last = match policy.ensure_assistant {
        true => pieces.iter().find(answered).map_or(u32::MAX, |piece| piece.turn.0),
        false => turn.0,
    };
    let mut size = ExchangeSize::default();
    for piece in pieces.iter().filter(|piece| (first..=last).contains(&piece.turn.0)) {
        size.chars += piece.chars;
        size.tokens += piece.tokens;
        size.messages += 1;
    }
    size
}

fn first_turn_of_exchange(
    pieces: &[WindowMessage<'_>],
    turn: TurnNo,
    policy: &WindowPolicy,
) -> u32 {
    let joins = |no: u32| {
        policy.ensure_assistant && !pieces.iter().any(|it| it.turn.0 == no && answers(it))
    };
    (0..turn.0).rev().take_while(|no| joins(*no)).last().unwrap_or(turn.0)
}

/// The characters of the last exchange that the window ends with.
fn last_exchange_in(
    pieces: &[WindowMessage<'_>],
    seal: &SealedWindow,
    policy: &WindowPolicy,
) -> u32 {
    let last = &pieces[seal.until.idx.0 as usize - usize::from(seal.until.offset == 0)];
    let first = first_turn_of_exchange(pieces, last.turn, policy);
    let start = pieces.iter().position(|piece| piece.turn.0 >= first).unwrap();
    pieces[start..seal.until.idx.0 as usize].iter().map(|piece| piece.chars).sum()
}

fn last_message_in(pieces: &[WindowMessage<'_>], seal: &SealedWindow) -> u32 {
    pieces[seal.until.idx.0 as usize - 1].chars
}

trait Bounds {
    fn has_bounds(&self) -> bool;
}

impl Bounds for WindowPolicy {
    /// Whether the sizes of windows have bounds; the last row of the table lists the exceptions.
    fn has_bounds(&self) -> bool {
        self.window_chars.is_some()
            && self.seal_policy != SealPolicy::Time
            && self.keep_recent_turns == 0
            && self.min_turns <= 1
    }
}

#[test]
fn a_window_of_an_older_version_is_folded_again() {
    let old = "[[3,0],[[[2,1,10,2,1,1,5,0],[0,0]]],[[1,1,4,1,2,2,6,0],[0,0]],0]";
    let window: OpenWindow = serde_json::from_str(old).unwrap();
    assert!(window.is_outdated());
    assert_eq!(window.holds().unwrap().chars, 14);
    let stored = serde_json::to_string(&window).unwrap();
    let again: OpenWindow = serde_json::from_str(&stored).unwrap();
    assert!(again.is_outdated(), "until its messages are read again");
    let empty: OpenWindow = serde_json::from_str("[null,[],null,0]").unwrap();
    assert_eq!(empty, OpenWindow::default());
}

#[test]
fn every_turn_is_one_window_of_per_turn() {
    let policy = Policy::from(Preset::PerTurn).window;
    let mut messages = Vec::new();
    for answers in [1, 20, 3] {
        messages.push((Role::User, 9000));
        messages.extend(std::iter::repeat_n((Role::Assistant, 500), answers));
    }
    let messages: Vec<_> = messages
        .into_iter()
        .map(|(role, chars)| SampleMessage { role, text: "x".repeat(chars), minutes: 1 })
        .collect();
    let (mut seals, mut open) = fold(&pieces(&messages), &policy);
    seals.extend(open.end_turn(&policy));
    assert_eq!(seals.iter().map(|seal| seal.message_run.messages).collect::<Vec<_>>(), [2, 21, 4]);
    assert_eq!(open.holds(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn windows_partition_the_thread(conversation in conversation(60), policy in policy()) {
        let pieces = pieces(&conversation);
        let (seals, open) = fold(&pieces, &policy);
        let seal_ends: Vec<_> = seals.iter().map(|seal| seal.until).collect();
        let starts: Vec<_> = seals.iter().map(|seal| seal.from).chain(open.from()).collect();
        if !pieces.is_empty() {
            prop_assert_eq!((starts[0].idx.0, starts[0].offset), (0, 0));
        }
        // Each window starts where the previous one ended.
        for (end, start) in seal_ends.iter().zip(&starts[1.min(starts.len())..]) {
            prop_assert_eq!(end, start);
        }
        let sealed: u32 = seals.iter().map(|seal| seal.message_run.chars).sum();
        let left = open.holds().map_or(0, |holds| holds.chars);
        prop_assert_eq!(sealed + left, pieces.iter().map(|piece| piece.chars).sum::<u32>());
        for seal in &seals {
            prop_assert_eq!(seal.message_run.chars, chars_of(&pieces, seal));
        }
    }

    #[test]
    fn no_turn_is_split(conversation in conversation(60), policy in policy()) {
        let pieces = pieces(&conversation);
        for seal in fold(&pieces, &policy).0 {
            let end = seal.until.idx.0 as usize;
            let cuts = seal.until.offset > 0
                || pieces.get(end).is_some_and(|next| next.turn == pieces[end - 1].turn);
            let last = &pieces[end - usize::from(seal.until.offset == 0)];
            match seal.reason {
                SealReason::Unanswered => prop_assert!(!policy.has_bounds()),
                SealReason::Divided | SealReason::Oversized => {
                    let size = exchange_of(&pieces, last.turn, &policy);
                    prop_assert!(size.is_larger_than_a_window(&policy), "{seal:?} {size:?}");
                }
                _ => {
                    prop_assert!(!cuts, "{:?}", seal);
                    let answered = pieces.iter().any(|it| it.turn == last.turn && answers(it));
                    prop_assert!(answered || !policy.ensure_assistant, "{:?}", seal);
                }
            }
        }
    }

    #[test]
    fn sizes_follow_the_table(conversation in conversation(60), policy in policy()) {
        let Some(size) = policy.window_chars.filter(|_| policy.has_bounds()) else { return Ok(()) };
        let (lower_bound, upper_bound) = (policy.lower_bound(size), policy.upper_bound(size));
        let pieces = pieces(&conversation);
        let seals = fold(&pieces, &policy).0;
        for seal in &seals {
            let chars = seal.message_run.chars;
            let last_exchange = last_exchange_in(&pieces, seal, &policy);
            match seal.reason {
                SealReason::Full => prop_assert!(chars >= size, "{:?}", seal),
                SealReason::NextDoesNotFit | SealReason::Divided => {
                    prop_assert!(chars >= lower_bound, "{:?} below {}", seal, lower_bound);
                }
                SealReason::Silence => prop_assert!(chars >= policy.min_flush_chars),
                _ => {}
            }
            match seal.reason {
                // A slice may end up to a tenth earlier, at the end of a word, or before a
                // cluster of several characters.
                SealReason::Oversized => {
                    prop_assert!(chars <= size && chars + size / 10 + 12 >= size, "{:?}", seal);
                }
                SealReason::Divided => {
                    let last = last_message_in(&pieces, seal).max(last_exchange).min(chars);
                    prop_assert!(chars <= upper_bound || chars - last < lower_bound, "{:?}", seal);
                }
                _ => prop_assert!(
                    chars <= upper_bound || chars - last_exchange.min(chars) < lower_bound,
                    "{:?} of {}, {} in the last exchange", seal, size, last_exchange
                ),
            }
            prop_assert!(chars <= lower_bound + upper_bound, "{:?}", seal);
            prop_assert!(seal.message_run.turns >= 1);
        }
    }

    #[test]
    fn an_end_mark_changes_nothing(
        conversation in conversation(60),
        policy in policy(),
        is_marked in proptest::collection::vec(any::<bool>(), 60),
    ) {
        let pieces = pieces(&conversation);
        let (mut expected, mut unmarked) = fold(&pieces, &policy);
        expected.extend(unmarked.end_turn(&policy));
        let (mut window, mut seals) = (OpenWindow::default(), Vec::new());
        for (index, piece) in pieces.iter().enumerate() {
            seals.extend(window.push(piece, &policy));
            let ends_turn = pieces.get(index + 1).is_none_or(|next| next.turn != piece.turn);
            if ends_turn && (is_marked[index] || index + 1 == pieces.len()) {
                seals.extend(window.end_turn(&policy));
                prop_assert_eq!(window.end_turn(&policy), None, "a second mark changes nothing");
            }
        }
        prop_assert_eq!(expected, seals);
        prop_assert_eq!(unmarked, window);
    }

    #[test]
    fn a_stored_window_continues_unchanged(conversation in conversation(40), policy in policy()) {
        let pieces = pieces(&conversation);
        let (seals_at_once, open) = fold(&pieces, &policy);
        let mut window = OpenWindow::default();
        let mut parts = Vec::new();
        for piece in &pieces {
            parts.extend(window.push(piece, &policy));
            let stored = serde_json::to_string(&window).unwrap();
            window = serde_json::from_str(&stored).unwrap();
        }
        prop_assert_eq!(seals_at_once, parts);
        prop_assert_eq!(open, window);
    }

    #[test]
    fn slices_never_split_a_grapheme_cluster(times in 1_usize..60) {
        let text = "👩‍👩‍👧‍👦e\u{301}".repeat(times * 20);
        let messages = [SampleMessage { role: Role::User, text: text.clone(), minutes: 0 }];
        let policy = WindowPolicy { window_chars: Some(200), ..Policy::default().window };
        for seal in fold(&pieces(&messages), &policy).0 {
            let from = seal.from.offset as usize;
            let slice: String = text.chars().skip(from).take(seal.message_run.chars as usize).collect();
            prop_assert!(slice.starts_with('👩') || slice.starts_with('e'), "{slice:?}");
            prop_assert!(slice.ends_with('👦') || slice.ends_with('\u{301}'), "{slice:?}");
        }
    }
}
