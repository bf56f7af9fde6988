//! Grouping: decides which adjacent nodes of a level form one node of the level above. Every
//! level follows the same rule, and a group seals once.

use serde::{Deserialize, Serialize};

use crate::policy::GroupPolicy;

/// A node as grouping sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Characters of the overview.
    pub chars: u32,
    /// Tokens of the overview.
    pub tokens: u32,
    /// Messages covered.
    pub messages: u32,
    /// Characters of the covered messages.
    pub raw_chars: u64,
}

/// Why a group sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupReason {
    /// Its children reached the target size.
    Full,
    /// The next child would not have fitted.
    NextDoesNotFit,
    /// It reached the limit of children.
    Children,
    /// Its children reached the limit of tokens.
    Tokens,
    /// It reached the limit of covered messages.
    Messages,
    /// Its children reached the limit of characters.
    Chars,
    /// The covered messages exceeded the limit of characters.
    RawChars,
    /// A caller asked for it.
    Requested,
}

impl GroupReason {
    /// The reason as text.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::NextDoesNotFit => "the next child does not fit",
            Self::Children => "number of children",
            Self::Tokens => "number of tokens",
            Self::Messages => "number of messages",
            Self::Chars => "number of characters",
            Self::RawChars => "length of the history",
            Self::Requested => "on request",
        }
    }
}

/// The first group that is due among ungrouped nodes: its number of children and the reason.
/// The last node always stays ungrouped, for context.
#[must_use]
pub fn due(ungrouped: &[Member], policy: &GroupPolicy) -> Option<(usize, GroupReason)> {
    let (_, candidates) = ungrouped.split_last()?;
    let min_children_count = policy.min_children.max(2) as usize;
    let (mut chars, mut tokens, mut messages, mut raw_chars) = (0_u64, 0_u64, 0_u64, 0_u64);
    for (index, member) in candidates.iter().enumerate() {
        let children = index + 1;
        let overflows = policy.group_chars.is_some_and(|size| {
            let max_chars = f64::from(size) * f64::from(1.0 + policy.wiggle);
            (chars + u64::from(member.chars)) as f64 > max_chars
        });
        if overflows && index >= min_children_count {
            return Some((index, GroupReason::NextDoesNotFit));
        }
        chars += u64::from(member.chars);
        tokens += u64::from(member.tokens);
        messages += u64::from(member.messages);
        raw_chars = raw_chars.saturating_add(member.raw_chars);
        if children < min_children_count {
            continue;
        }
        let is_reached =
            |limit: Option<u32>, is: u64| limit.is_some_and(|limit| is >= u64::from(limit));
        let reason = match () {
            () if is_reached(policy.group_chars, chars) => GroupReason::Full,
            () if is_reached(policy.children, children as u64) => GroupReason::Children,
            () if is_reached(policy.tokens, tokens) => GroupReason::Tokens,
            () if is_reached(policy.messages, messages) => GroupReason::Messages,
            () if is_reached(policy.chars, chars) => GroupReason::Chars,
            () if policy.raw_chars.is_some_and(|limit| raw_chars > u64::from(limit)) => {
                GroupReason::RawChars
            }
            () => continue,
        };
        return Some((children, reason));
    }
    None
}

/// Every group that is due among nodes in time order: the position of its first child, the number
/// of its children, and the reason.
#[must_use]
pub fn all_due(nodes: &[Member], policy: &GroupPolicy) -> Vec<(usize, usize, GroupReason)> {
    let (mut groups, mut first) = (Vec::new(), 0);
    while let Some((children, reason)) = due(&nodes[first..], policy) {
        groups.push((first, children, reason));
        first += children;
    }
    groups
}

/// Splits the children of a sealed group that outgrew its target size by more than half.
/// Returns the number of children of each new group, in order; `None` if the group is not too
/// large or has too few children for two groups.
#[must_use]
pub fn repacked(children: &[Member], policy: &GroupPolicy) -> Option<Vec<usize>> {
    let size = u64::from(policy.group_chars?);
    let chars =
        |members: &[Member]| members.iter().map(|child| u64::from(child.chars)).sum::<u64>();
    if chars(children) <= size + size / 2 {
        return None;
    }
    let min_children_count = policy.min_children.max(2) as usize;
    let max_chars = (size as f64 * f64::from(1.0 + policy.wiggle)) as u64;
    let mut groups = Vec::new();
    let mut rest = children;
    while !rest.is_empty() {
        let mut take = min_children_count.min(rest.len());
        while take < rest.len() && chars(&rest[..=take]) <= max_chars {
            take += 1;
        }
        // Leave enough children for another group.
        if rest.len() - take < min_children_count {
            let fewer = rest.len() - min_children_count.min(rest.len());
            take =
                if fewer >= min_children_count && take < rest.len() { fewer } else { rest.len() };
        }
        groups.push(take);
        rest = &rest[take..];
    }
    (groups.len() > 1).then_some(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Policy, Preset};

    /// Found by the fuzz target `planners`.
    #[test]
    fn the_largest_sizes_do_not_overflow() {
        let member = || Member { chars: 1, tokens: 1, messages: 1, raw_chars: u64::MAX };
        let policy = Policy::from(Preset::Window);
        assert_eq!(due(&[member(), member(), member(), member()], &policy.groups[0]), None);
    }

    fn members(chars: &[u32]) -> Vec<Member> {
        chars
            .iter()
            .map(|&chars| Member {
                chars,
                tokens: chars / 4,
                messages: 10,
                raw_chars: chars.into(),
            })
            .collect()
    }

    #[test]
    fn groups_take_what_fits_and_leave_the_last_out() {
        let policy = Policy::from(Preset::Window).groups.remove(0);
        for (chars, expected) in [
            (&[][..], None),
            (&[9000, 9000], None),
            (&[5000, 5000, 1], Some((2, GroupReason::Full))),
            (&[5000, 4000, 1], None),
            (&[5000, 4000, 2500, 1], Some((3, GroupReason::Full))),
            (&[5000, 4000, 4000, 1], Some((2, GroupReason::NextDoesNotFit))),
            (&[9000, 9000, 1], Some((2, GroupReason::Full))),
            (&[3000, 3000, 3000, 3000, 3000], Some((4, GroupReason::Full))),
        ] {
            assert_eq!(due(&members(chars), &policy), expected, "{chars:?}");
        }
    }

    #[test]
    fn other_triggers_count_children_tokens_messages_and_history() {
        let triggers = Policy::from(Preset::Triggers);
        assert_eq!(due(&members(&[40; 6]), &triggers.groups[0]), Some((5, GroupReason::Children)));
        assert_eq!(due(&members(&[9000; 3]), &triggers.groups[0]), Some((2, GroupReason::Tokens)));
        assert_eq!(due(&members(&[40; 4]), &triggers.groups[1]), Some((3, GroupReason::Children)));
        let per_turn = Policy::from(Preset::PerTurn).groups.remove(0);
        assert_eq!(due(&members(&[2500, 2500, 1, 1]), &per_turn), None);
        assert_eq!(due(&members(&[1250; 5]), &per_turn), None);
        assert_eq!(due(&members(&[1251; 5]), &per_turn), Some((4, GroupReason::RawChars)));
    }

    #[test]
    fn a_group_is_packed_again_only_when_it_is_far_too_large() {
        let policy = Policy::from(Preset::Window).groups.remove(0);
        assert_eq!(repacked(&members(&[5000, 5000, 5000]), &policy), None);
        assert_eq!(
            repacked(&members(&[5000, 5001, 5000]), &policy),
            None,
            "too few for two groups"
        );
        assert_eq!(repacked(&members(&[4000, 4000, 4000, 4000]), &policy), Some(vec![2, 2]));
        assert_eq!(
            repacked(&members(&[3000, 3000, 3000, 3000, 3000, 3000, 3000]), &policy),
            Some(vec![4, 3])
        );
        assert_eq!(repacked(&members(&[20_000, 1, 1, 1]), &policy), Some(vec![2, 2]));
    }
}
