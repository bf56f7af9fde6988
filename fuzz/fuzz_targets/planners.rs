//! The planners of windows and groups: a partition of the messages, whatever comes.
#![no_main]

use libfuzzer_sys::arbitrary::{Arbitrary, Error, Unstructured};
use libfuzzer_sys::fuzz_target;
use treering_core::grouping::{Member, due, repacked};
use treering_core::windowing::{OpenWindow, WindowMessage};
use treering_core::{Assignment, MessageIdx, Policy, Preset, Role, Timestamp, TurnNo};

#[derive(Debug)]
struct Input {
    policy: Policy,
    messages: Vec<(Role, i32, String)>,
    members: Vec<Member>,
}

impl<'a> Arbitrary<'a> for Input {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self, Error> {
        let mut policy = Policy::from(*u.choose(&Preset::ALL)?);
        for _ in 0..u.int_in_range(0..=3)? {
            let names = [
                "window_chars",
                "wiggle",
                "min_flush_chars",
                "overlap_chars",
                "turns",
                "messages",
                "tokens",
                "flush_after",
                "group_chars",
                "min_children",
                "keep_recent_turns",
            ];
            let value: u16 = u.arbitrary()?;
            let assignment = format!("{}={value}", u.choose(&names)?);
            // Parameters that contradict each other are refused.
            if let Ok(next) = assignment.parse::<Assignment>().and_then(|it| policy.with(&[it])) {
                policy = next;
            }
        }
        let count = u.int_in_range(0..=60)?;
        let messages = (0..count).map(|_| {
            let text = "é "
                .repeat(usize::from(u.arbitrary::<u8>()?) * usize::from(u.arbitrary::<u8>()? % 8));
            Ok((*u.choose(&Role::ALL)?, u.arbitrary()?, text))
        });
        let messages = messages.collect::<Result<_, Error>>()?;
        let members = (0..u.int_in_range(0..=40)?).map(|_| {
            let (chars, tokens, messages) = (u.arbitrary()?, u.arbitrary()?, u.arbitrary()?);
            Ok(Member { chars, tokens, messages, raw_chars: u.arbitrary()? })
        });
        Ok(Self { policy, messages, members: members.collect::<Result<_, Error>>()? })
    }
}

fuzz_target!(|input: Input| {
    let Input { policy, messages, members } = input;
    let (mut window, mut at, mut turn) = (OpenWindow::default(), 0_i64, 0);
    let mut seals = Vec::new();
    for (idx, (role, seconds, text)) in messages.iter().enumerate() {
        at += i64::from(*seconds);
        turn += u32::from(*role == Role::User && idx > 0);
        let chars = treering_core::text::chars(text);
        let message = WindowMessage {
            idx: MessageIdx(idx as u32),
            turn: TurnNo(turn),
            role: *role,
            at: Timestamp::from_micros(at.saturating_mul(1_000_000)),
            chars,
            tokens: chars / 4,
            text,
            skip: 0,
        };
        seals.extend(window.push(&message, &policy.window));
        if seconds % 7 == 0 {
            seals.extend(window.end_turn(&policy.window));
        }
    }
    if policy.window.overlap_chars == 0 {
        for pair in seals.windows(2) {
            assert!(pair[0].until <= pair[1].from, "windows overlap: {pair:?}");
        }
    }
    for group in &policy.groups {
        if let Some((children, _)) = due(&members, group) {
            assert!(children <= members.len());
        }
        if let Some(sizes) = repacked(&members, group) {
            assert!(sizes.iter().sum::<usize>() <= members.len(), "{sizes:?}");
        }
    }
});
