//! Cleaning: a sentence of a message as one plain line.

use treering_core::sentence::SegmentKind;

use super::cues;

/// Puts a sentence on one line, removes emphasis, links and empty openers, and rejoins detached
/// apostrophes.
pub(super) fn clean(text: &str, kind: SegmentKind) -> String {
    let unlinked = if kind == SegmentKind::Code || !text.contains("](") {
        None
    } else {
        Some(without_links(text))
    };
    let text = unlinked.as_deref().unwrap_or(text);
    let mut line = String::with_capacity(text.len().min(4096));
    for word in text.split_whitespace() {
        let word = if kind == SegmentKind::Code { word } else { word.trim_matches('*') };
        if word.is_empty() {
            continue;
        }
        let joins = line.ends_with([' ', '\u{200b}']) || line.is_empty();
        let ends = line.ends_with('\'') && line.len() > 1 && line[..line.len() - 1].ends_with(' ');
        if ends
            && matches!(
                word.to_ascii_lowercase().trim_end_matches(['.', ',', '!', '?']),
                "t" | "s" | "m" | "ve" | "re" | "ll" | "d"
            )
        {
            line.truncate(line.len() - 2);
            line.push('\'');
            line.push_str(&word.to_ascii_lowercase());
            continue;
        }
        if !joins {
            line.push(' ');
        }
        line.extend(word.chars().filter(|c| !c.is_control()));
    }
    if kind == SegmentKind::Code {
        return line;
    }
    let bare = cues::without_opener(&line);
    let mut chars = bare.chars();
    match chars.next() {
        Some(first) if bare.len() < line.len() && first.is_lowercase() => {
            first.to_uppercase().chain(chars).collect()
        }
        _ if bare.len() < line.len() => bare.to_owned(),
        _ => line,
    }
}

/// Replaces Markdown links by their text.
fn without_links(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(middle) = rest.find("](") {
        let open = rest[..middle].rfind('[');
        let close = rest[middle..].find(')');
        let (Some(open), Some(close)) = (open, close) else { break };
        plain.push_str(rest[..open].trim_end_matches('!'));
        plain.push_str(&rest[open + 1..middle]);
        rest = &rest[middle + close + 1..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_cleaned_lightly() {
        for (text, expected) in [
            ("Well,  I  **sold**\nit all.", "I sold it all."),
            ("I ' Ve not, I haven ' t had it.", "I've not, I haven't had it."),
            ("say 'yes' now", "say 'yes' now"),
            ("See [the plan](https://a.b/c) and ![x](y.png).", "See the plan and x."),
        ] {
            assert_eq!(clean(text, SegmentKind::Prose), expected);
        }
        assert_eq!(clean("a  **b**\nc", SegmentKind::Code), "a **b** c");
    }
}
