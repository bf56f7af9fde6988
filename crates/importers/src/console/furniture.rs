//! Screen furniture of a console: what the program drew around the conversation, such as frames,
//! spinners, costs and key hints. It is not part of any message.

/// Why a line is not part of the conversation.
pub(super) const FRAME: &str = "lines of the terminal's frame";
pub(super) const COST: &str = "cost and token counters";
pub(super) const STATUS: &str = "status lines and tips";
pub(super) const EMPTY: &str = "empty outputs";

/// The reason to skip a whole line outside of tool results, if there is one.
pub(super) fn reason(line: &str) -> Option<&'static str> {
    let text = line.trim();
    let is_compaction = text.starts_with("===") && text.contains("Previous Conversation Compacted");
    let is_rule = text.starts_with("────") && text.ends_with("────");
    if is_compaction || is_rule || is_progress_bar(text) {
        return Some(FRAME);
    }
    // A spinner counts seconds, or ends with an ellipsis.
    let is_spinner = line.starts_with(['✻', '✽', '✳', '✢', '·', '✶', '∗'])
        && !line.starts_with("✻ Thinking")
        && (text.contains("esc to interrupt") || text.ends_with('…') || text.contains("… ("));
    let is_mode = text.starts_with(['⏵', '⏸']) && text.contains("shift+tab");
    let is_hint = text.starts_with("? for shortcuts")
        || text.starts_with("◯ IDE")
        || text.starts_with("✔ Loaded project memory")
        || text.starts_with("✔  Loaded project memory")
        || text.starts_with("Context left until auto-compact")
        || text.starts_with("Conversation successfully compacted")
        || text.ends_with("/upgrade to sign up");
    (is_spinner || is_mode || is_hint || text.starts_with('※')).then_some(STATUS)
}

/// Whether a line is part of the account of a session: its cost, duration and tokens.
pub(super) fn is_cost(text: &str) -> bool {
    let text = text.trim();
    let has = |label: &str| {
        text.strip_prefix(label).is_some_and(|rest| {
            rest.trim_start().starts_with(|c: char| c == '$' || c.is_ascii_digit())
        })
    };
    let counts_tokens = text.contains(" input, ") && text.contains(" output");
    ["Total cost:", "Total duration (API):", "Total duration (wall):", "Total code changes:"]
        .iter()
        .any(|label| has(label))
        || matches!(text, "Token usage by model:" | "Usage by model:")
        || counts_tokens && text.contains(" cache read")
        || without_cost(text).is_some_and(str::is_empty)
}

/// A line without the cost of a request at its right edge: `Cost: $0.0510 (6.2s)`.
pub(super) fn without_cost(line: &str) -> Option<&str> {
    let at = line.rfind("Cost: $")?;
    let (before, cost) = (&line[..at], line[at + 7..].trim_end());
    let amount = cost.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start();
    let is_time = |time: &str| time.bytes().all(|b| b.is_ascii_digit() || b" .smh".contains(&b));
    let is_timed = amount.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let is_apart = before.trim().is_empty() || before.ends_with("  ");
    (is_apart && (amount.is_empty() || is_timed.is_some_and(is_time))).then(|| before.trim_end())
}

/// A line without a key hint: `(ctrl+r to expand)`.
pub(super) fn without_hint(line: &str) -> Option<String> {
    let from = line.find("(ctrl+")?;
    let until = line[from..].find(')')? + from + 1;
    line[from..until]
        .contains(" to ")
        .then(|| format!("{}{}", line[..from].trim_end(), &line[until..]).trim_end().to_owned())
}

/// The position of a line in a box.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Boxed<'a> {
    Top,
    Bottom,
    Inside(&'a str),
    Outside,
}

/// Removes the frame of a box from a line. Trees (`├──`) and tables are not boxes.
pub(super) fn unboxed(line: &str, in_box: bool) -> Boxed<'_> {
    let text = line.trim();
    let is_edge = |text: &str| text.chars().all(|c| "─╮╯".contains(c) || c == '\u{fffd}');
    if text.strip_prefix('╭').is_some_and(is_edge) {
        return Boxed::Top;
    }
    if text.strip_prefix('╰').is_some_and(is_edge) {
        return Boxed::Bottom;
    }
    match text.strip_prefix('│').filter(|rest| in_box || rest.ends_with('│')) {
        Some(rest) => {
            let inner = rest.strip_suffix('│').unwrap_or(rest).trim_end();
            Boxed::Inside(inner.strip_prefix([' ', '\u{a0}']).unwrap_or(inner))
        }
        None => Boxed::Outside,
    }
}

/// Whether a line is the prompt of a shell, or the command that starts the program.
pub(super) fn is_shell(line: &str) -> bool {
    let text = line.trim_end();
    let is_prompt = |mark: char| {
        text.split_once(mark).is_some_and(|(host, _)| {
            host.contains('@') && host.ends_with(' ') && host.split_whitespace().count() <= 3
        })
    };
    let mut words = text.split_whitespace();
    is_prompt('%')
        || is_prompt('$')
        || words.next() == Some("claude") && words.next().is_none_or(|word| word.starts_with('-'))
}

fn is_progress_bar(text: &str) -> bool {
    let is_block = |c: char| "█▓▒░▌▏▎▍▋▊▉".contains(c);
    let is_count = |c: char| c.is_ascii_digit() || c.is_whitespace() || "%[]|/.:".contains(c);
    text.chars().filter(|c| is_block(*c)).nth(2).is_some()
        && text.chars().all(|c| is_block(c) || is_count(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_screen_have_a_reason() {
        for (line, expected) in [
            ("· Mulling… (3s · ↑ 1.2k tokens · esc to interrupt)", Some(STATUS)),
            ("  ⏵⏵ auto-accept edits on (shift+tab to cycle)      ◯ IDE connected", Some(STATUS)),
            ("  ? for shortcuts", Some(STATUS)),
            ("==== Previous Conversation Compacted ====", Some(FRAME)),
            ("  ███████░░░ 70%", Some(FRAME)),
            ("────── Ctrl+E to show 4 previous messages ──────", Some(FRAME)),
            ("· a point of a list", None),
            ("  70% of the gauges", None),
        ] {
            assert_eq!(reason(line), expected, "{line}");
        }
    }

    #[test]
    fn costs_are_distinguished_from_prose() {
        assert!(is_cost("  Total cost:            $0.12"));
        assert!(is_cost(
            "claude-sonnet:  695 input, 5.0k output, 524.5k cache read, 0 cache write"
        ));
        assert!(is_cost("     Cost: $0.0510 (6.2s)"));
        assert!(!is_cost("Total cost: too much, he said"));
        assert_eq!(without_cost("Done:     Cost: $0.0510 (1m 6.2s)"), Some("Done:"));
        assert_eq!(without_cost("The pump has a Cost: $12 (new)"), None);
        assert_eq!(without_hint("… +7 lines (ctrl+r to see all)"), Some("… +7 lines".to_owned()));
        assert_eq!(without_hint("press (ctrl+c)"), None);
    }

    #[test]
    fn shell_prompts_are_distinguished_from_prose() {
        assert!(is_shell("ana@quay kite-log % claude"));
        assert!(is_shell("claude --continue"));
        assert!(!is_shell("claude was right about the pump"));
        assert!(!is_shell("the pump costs 5 $ or so"));
    }

    #[test]
    fn boxes_are_distinguished_from_trees() {
        assert_eq!(unboxed("  ╭────╮", false), Boxed::Top);
        assert_eq!(unboxed("  ╰────╯", true), Boxed::Bottom);
        assert_eq!(unboxed("  │ Plan   │", false), Boxed::Inside("Plan"));
        assert_eq!(unboxed("  │ cut at the edge", true), Boxed::Inside("cut at the edge"));
        assert_eq!(unboxed("  │   ├── pump.rs", false), Boxed::Outside);
        assert_eq!(unboxed("  ╰─▶ the pump failed", false), Boxed::Outside);
    }
}
