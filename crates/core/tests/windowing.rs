//! Properties of windows under random conversations and policies: they form a partition, keep
//! question and answer together, respect the sizes, and do not depend on batching.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
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
    let role =
        prop_oneof![3 => Just(Role::User), 4 => Just(Role::Assistant), 1 => Just(Role::System)];
    let text = prop_oneof![
        6 => "[a-zé ]{0,120}",
        2 => "[a-z漢\n]{100,500}",
        1 => Just("👩‍👩‍👧‍👦 e\u{301}x ".repeat(90)),
        1 => Just("x".repeat(2500)),
        1 => Just(String::new()),
    ];
    (role, text, prop_oneof![5 => 0..3_i64, 1 => 25..200_i64, 1 => -30..0_i64])
        .prop_map(|(role, text, minutes)| SampleMessage { role, text, minutes })
}

fn policy() -> impl Strategy<Value = WindowPolicy> {
    let preset = prop::sample::select(Preset::ALL.to_vec());
    let limits =
        (proptest::option::of(200_u32..900), 0.0_f32..0.5, 0_u32..200, any::<bool>(), 0_usize..3);
    let others =
        (proptest::option::of(1_u32..9), proptest::option::of(3_u32..7), 0_u32..3, 0_u32..3);
    (preset, limits, others).prop_map(|(preset, limits, (messages, turns, min_turns, keep))| {
        let (size, wiggle, least, ensure_assistant, seal) = limits;
        let mut policy = Policy::from(preset).window;
        if let Some(size) = size {
            policy =
                WindowPolicy { window_chars: Some(size), wiggle, min_flush_chars: least, ..policy };
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
    let (mut turn, mut answered, mut at) = (0, false, 0);
    let mut made = Vec::new();
    for (idx, message) in conversation.iter().enumerate() {
        if message.role == Role::User && answered {
            (turn, answered) = (turn + 1, false);
        }
        answered |= message.role == Role::Assistant && !message.text.is_empty();
        at += message.minutes * 60_000_000;
        let chars = treering_core::text::chars(&message.text);
        made.push(WindowMessage {
            idx: MessageIdx(idx as u32),
            turn: TurnNo(turn),
            role: message.role,
            at: Timestamp::from_micros(at),
            chars,
            tokens: chars / 4,
            text: &message.text,
            skip: 0,
        });
    }
    made
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn windows_partition_the_thread(conversation in conversation(60), policy in policy()) {
        let pieces = pieces(&conversation);
        let (seals, open) = fold(&pieces, &policy);
        let ends: Vec<_> = seals.iter().map(|seal| seal.until).collect();
        let starts: Vec<_> = seals.iter().map(|seal| seal.from).chain(open.from()).collect();
        if !pieces.is_empty() {
            prop_assert_eq!((starts[0].idx.0, starts[0].offset), (0, 0));
        }
        // Each window starts where the previous one ended.
        for (end, start) in ends.iter().zip(&starts[1.min(starts.len())..]) {
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
        let (seals, _) = fold(&pieces, &policy);
        for seal in seals.iter().filter(|_| policy.ensure_assistant) {
            let may_cut = matches!(seal.reason, SealReason::Oversized | SealReason::Unanswered);
            let last = &pieces[seal.until.idx.0 as usize - usize::from(seal.until.offset == 0)];
            prop_assert!(may_cut || (seal.until.offset == 0 && answers(last)), "{:?}", seal);
        }
    }

    #[test]
    fn sizes_stay_within_the_wiggle(conversation in conversation(60), policy in policy()) {
        let by_size = policy.seal_policy != SealPolicy::Time;
        let (Some(size), true) = (policy.window_chars, by_size) else { return Ok(()) };
        if policy.keep_recent_turns > 0 || policy.min_turns > 0 {
            return Ok(());
        }
        let pieces = pieces(&conversation);
        for seal in fold(&pieces, &policy).0 {
            // The characters before the last question and answer of this window.
            let (mut all, mut before_last) = (0, 0);
            let inside = pieces.iter().filter(|piece| (seal.from.idx..seal.until.idx).contains(&piece.idx));
            let mut inside = inside.peekable();
            while let Some(piece) = inside.next() {
                all += piece.chars - if piece.idx == seal.from.idx { seal.from.offset } else { 0 };
                if answers(piece) && inside.peek().is_some() {
                    before_last = all;
                }
            }
            let within = seal.message_run.chars <= policy.most(size);
            let one_turn = before_last < policy.min_flush_chars.max(1);
            let unanswered = seal.reason == SealReason::Unanswered;
            prop_assert!(within || one_turn || unanswered, "{seal:?} of {size}, {before_last} before the last turn");
            if seal.reason == SealReason::Full {
                prop_assert!(seal.message_run.chars >= size);
            }
            prop_assert!(seal.message_run.turns >= 1);
        }
    }

    #[test]
    fn a_stored_window_continues_unchanged(conversation in conversation(40), policy in policy()) {
        let pieces = pieces(&conversation);
        let (whole, open) = fold(&pieces, &policy);
        let mut window = OpenWindow::default();
        let mut parts = Vec::new();
        for piece in &pieces {
            parts.extend(window.push(piece, &policy));
            let stored = serde_json::to_string(&window).unwrap();
            window = serde_json::from_str(&stored).unwrap();
        }
        prop_assert_eq!(whole, parts);
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
