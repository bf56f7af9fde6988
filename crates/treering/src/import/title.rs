//! Titles that distinguish conversations, for sources that have none.

use std::path::Path;

use treering_core::{Entry, EntryKind, Role, title_of};

/// The title of a conversation whose first message is not a request, such as a greeting or a
/// command: the first request, or else the name of the file. `None` if the first message will do.
pub(super) fn title(entries: &[Entry], path: &Path) -> Option<String> {
    let mut texts = entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::Message(message) if message.role == Role::User => Some(message.text.as_str()),
        _ => None,
    });
    let has_request = |text: &&str| first_line(text).is_some_and(is_request);
    let first = texts.find(|text| first_line(text).is_some())?;
    if has_request(&first) {
        return None;
    }
    // In the same form as any title from a message, by which forgetting recognizes it.
    texts.find(has_request).and_then(title_of).or_else(|| name_of(path))
}

/// The first line with a letter or digit.
fn first_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| line.chars().any(char::is_alphanumeric))
}

/// Whether a line says what a conversation is about: it is more than one short word, and neither a
/// command nor a cost line.
fn is_request(line: &str) -> bool {
    let letters = line.chars().filter(|c| c.is_alphanumeric()).count();
    let is_long = line.split_whitespace().nth(1).is_some() || letters > 8;
    is_long && !line.starts_with('/') && !line.starts_with("Total cost")
}

/// The name of a file, unless it is an id.
fn name_of(path: &Path) -> Option<String> {
    let name = path.file_stem()?.to_string_lossy().into_owned();
    let is_word = |word: &str| word.chars().count() > 2 && word.chars().all(char::is_alphabetic);
    let is_hex = |word: &str| word.chars().all(|c| c.is_ascii_hexdigit());
    let mut words = name.split(|c: char| !c.is_alphanumeric());
    words.any(|word| is_word(word) && !is_hex(word)).then_some(name)
}

#[cfg(test)]
mod tests {
    use treering_core::{NewMessage, Timestamp};

    use super::*;

    #[test]
    fn titles_tell_conversations_apart() {
        let titled = |texts: &[&str], path: &str| {
            let message = |text: &&str| {
                let at = Timestamp::from_micros(0);
                EntryKind::Message(NewMessage::new(Role::User, *text, at)).into()
            };
            title(&texts.iter().map(message).collect::<Vec<Entry>>(), Path::new(path))
        };
        assert_eq!(titled(&["Fix the pump"], "x.md"), None);
        assert_eq!(titled(&["hi", "Fix the pump"], "x.md").as_deref(), Some("Fix the pump"));
        assert_eq!(titled(&["/clear", "Continue"], "pump-plan.md").as_deref(), Some("pump-plan"));
        assert_eq!(titled(&["Total cost: $0.12", "Fix it"], "x.md").as_deref(), Some("Fix it"));
        assert_eq!(titled(&["hi"], "0a1b2c3d-dead-beef.jsonl"), None);
        assert_eq!(titled(&[], "pump-plan.md"), None);
    }
}
