//! Slugs: the human-readable names of conversations.

use crate::redact::redact;

/// Derives a slug from a title: lower-case words joined by `-`, with letters of any script, at
/// most 48 characters cut at a word. Empty if the title has no letter or digit.
#[must_use]
pub fn slug_of(title: &str) -> String {
    const LONGEST: usize = 48;
    let mut slug = String::new();
    let mut length = 0;
    for word in title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let word = fold(word);
        let size = word.chars().count();
        if length == 0 {
            slug.extend(word.chars().take(LONGEST));
            length = size.min(LONGEST);
        } else if length + 1 + size <= LONGEST {
            slug.push('-');
            slug.push_str(&word);
            length += 1 + size;
        } else {
            break;
        }
    }
    slug
}

/// Returns the text if it is already a slug, otherwise derives one. A slug may be longer than a
/// derived one, because it may end with a number or an id.
#[must_use]
pub fn as_slug(text: &str) -> String {
    const LONGEST: usize = 64;
    let is_slug = text.split('-').all(|word| !word.is_empty() && fold(word) == word);
    if is_slug && text.chars().count() <= LONGEST { text.to_owned() } else { slug_of(text) }
}

/// Suggests at most three similar slugs: those that start like the given text or, if there are
/// none, those that contain all its words.
#[must_use]
pub fn suggest_slugs<'a>(input: &str, slugs: &[&'a str]) -> Vec<&'a str> {
    let input = slug_of(input);
    if input.is_empty() {
        return Vec::new();
    }
    let has_all =
        |slug: &str| input.split('-').all(|word| slug.split('-').any(|other| other == word));
    let select = |fits: &dyn Fn(&str) -> bool| -> Vec<&'a str> {
        slugs.iter().copied().filter(|slug| fits(slug)).take(3).collect()
    };
    let begin = select(&|slug| slug.starts_with(&input));
    if begin.is_empty() { select(&has_all) } else { begin }
}

/// Derives a title from the first user message. Titles are listed everywhere, so secrets are
/// masked.
#[must_use]
pub fn title_of(first_message: &str) -> Option<String> {
    let line = first_message
        .lines()
        .map(str::trim)
        .find(|line| line.chars().any(char::is_alphanumeric))?;
    let line = redact(line.trim_start_matches(['#', '>', '*', '-', ' '])).0;
    Some(crate::text::preview(&line, 72))
}

/// Lower case, without the accents of Latin letters, so that slugs are easy to type.
fn fold(word: &str) -> String {
    let mut folded = String::with_capacity(word.len());
    for c in word.chars().flat_map(char::to_lowercase) {
        match c {
            'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' => folded.push('a'),
            'ç' => folded.push('c'),
            'è' | 'é' | 'ê' | 'ë' => folded.push('e'),
            'ì' | 'í' | 'î' | 'ï' => folded.push('i'),
            'ñ' => folded.push('n'),
            'ò' | 'ó' | 'ô' | 'õ' | 'ö' | 'ø' => folded.push('o'),
            'ù' | 'ú' | 'û' | 'ü' => folded.push('u'),
            'ý' | 'ÿ' => folded.push('y'),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'ß' => folded.push_str("ss"),
            other if other.is_alphanumeric() => folded.push(other),
            _ => {}
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_a_slug_suggests_the_slugs_that_contain_it() {
        let slugs = [
            "which-port-does-staging-use",
            "staging-ports",
            "staging-keys",
            "staging",
            "staging-tide",
        ];
        let check = |input: &str, expected: &[&str]| {
            assert_eq!(suggest_slugs(input, &slugs), expected, "{input}");
        };
        check("which-port", &["which-port-does-staging-use"]);
        check("Which port", &["which-port-does-staging-use"]);
        check("sta", &["staging-ports", "staging-keys", "staging"]);
        check("use-staging", &["which-port-does-staging-use"]);
        check("ports-staging", &["staging-ports"]);
        check("port-use-production", &[]);
        check("", &[]);
        check("…", &[]);
    }

    #[test]
    fn slugs_are_easy_to_type() {
        let check = |title: &str, slug: &str| assert_eq!(slug_of(title), slug);
        check("Tidewatch: tides & berths", "tidewatch-tides-berths");
        check("Où en est le œuvre d'été ?", "ou-en-est-le-oeuvre-d-ete");
        check("修复登录", "修复登录");
        check("?!…", "");
        check(&"a".repeat(80), &"a".repeat(48));
        check(
            "one two three four five six seven eight nine ten eleven",
            "one-two-three-four-five-six-seven-eight-nine-ten",
        );
    }

    #[test]
    fn slugs_stay_as_they_are() {
        let long = format!("{}-10", "a".repeat(48));
        for slug in ["x", "x-2", "修复登录-2", "untitled-00c0ffee", &long] {
            assert_eq!(as_slug(slug), slug);
        }
        assert_eq!(as_slug("Tide Watch"), "tide-watch");
        assert_eq!(as_slug("-x--2"), "x-2");
        assert_eq!(as_slug(&"a".repeat(80)), "a".repeat(48));
    }

    #[test]
    fn titles_come_from_the_first_line_with_words() {
        assert_eq!(title_of("\n---\n## Fix the *login*\nplease").unwrap(), "Fix the *login*");
        assert_eq!(title_of("  \n!!"), None);
    }
}
