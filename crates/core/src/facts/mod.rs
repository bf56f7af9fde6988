//! The verifiable facts of a text: paths, URLs, identifiers, numbers, dates and names.
//! Detection is by shape alone, in one pass; it never interprets a fact.

mod dates;
mod names;
mod numbers;
mod shapes;
mod tokens;

use std::collections::{HashMap, HashSet};

use crate::node::NodeContent;
use crate::prompt;
use crate::relative_dates::with_absolute_dates;
use crate::summary_request::Passage;
use dates::Date;
use names::Names;
use tokens::{FactToken, tokens};

/// The verifiable facts of a text. Each list is in order of first mention, as written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// File names and paths.
    pub paths: Vec<String>,
    /// URLs.
    pub urls: Vec<String>,
    /// Code identifiers: functions, types, variables, constants, options.
    pub identifiers: Vec<String>,
    /// Numbers, with their units if they have any.
    pub numbers: Vec<String>,
    /// Dates, months of a year, and times of day.
    pub dates: Vec<String>,
    /// Relative dates; kept, but not checked.
    pub relative_dates: Vec<String>,
    /// Names of people, places and products; acronyms.
    pub names: Vec<String>,
    keys: HashMap<String, u32>,
    parsed_dates: Vec<Date>,
    days: Vec<Date>,
    vocabulary: Vec<u64>,
    /// Words with an inner capital that occur in code.
    code_words: HashSet<String>,
}

/// The list that a fact belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FactKind {
    Path,
    Url,
    Identifier,
    Number,
    Relative,
    Name,
}

impl Facts {
    /// The facts of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut facts = Self::default();
        facts.read(text);
        facts.finish()
    }

    /// The facts of passages of a summary request.
    #[must_use]
    pub fn of_passages<'a>(passages: impl IntoIterator<Item = &'a Passage>) -> Self {
        let mut facts = Self::default();
        for passage in passages {
            match passage {
                Passage::Message(message) => {
                    facts.add_word(message.role.as_str());
                    if let Some(author) = &message.author {
                        facts.add_name(author);
                    }
                    facts.add_day(&message.at.to_minute());
                    facts.read(&with_absolute_dates(&message.text, message.at));
                }
                Passage::Tool(tool) => {
                    facts.add_word(&tool.name);
                    facts.read(&unquoted(&tool.args));
                    facts.read(&unquoted(&tool.result));
                }
                Passage::Node(child) => {
                    facts.add_day(&child.range_start.to_minute());
                    facts.add_day(&child.range_end.to_minute());
                    facts.read_content(&child.content);
                }
            }
        }
        facts.finish()
    }

    /// The facts of a node's text and lists.
    #[must_use]
    pub fn of_content(content: &NodeContent) -> Self {
        let mut facts = Self::default();
        facts.read_content(content);
        facts.finish()
    }

    /// The number of facts to check.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.lists().iter().map(|list| list.len()).sum()
    }

    /// How often a fact is mentioned, in any spelling.
    #[must_use]
    pub fn mentions(&self, fact: &str) -> u32 {
        let count = self.keys.get(&key(fact)).or_else(|| self.keys.get(&numbers::key(fact)));
        count.copied().unwrap_or(0)
    }

    /// Splits the facts of another text into those that this text contains and those that it
    /// does not.
    #[must_use]
    pub fn partition_known<'a>(&self, other: &'a Self) -> (Vec<&'a str>, Vec<&'a str>) {
        let mut known = Vec::new();
        let mut unknown = Vec::new();
        let mut put = |fact: &'a String, is_known: bool| {
            if is_known { known.push(fact.as_str()) } else { unknown.push(fact.as_str()) }
        };
        for path in &other.paths {
            put(path, self.has_path(path));
        }
        for fact in other.urls.iter().chain(&other.identifiers) {
            put(fact, self.keys.contains_key(&key(fact)) || self.has_words(fact));
        }
        for number in &other.numbers {
            put(number, self.has_number(number));
        }
        for (date, parsed) in other.dates.iter().zip(&other.parsed_dates) {
            put(
                date,
                self.parsed_dates
                    .iter()
                    .chain(&self.days)
                    .any(|known_date| parsed.is_part_of(known_date)),
            );
        }
        for name in &other.names {
            put(name, self.has_words(name));
        }
        (known, unknown)
    }

    /// The lists that are checked.
    fn lists(&self) -> [&Vec<String>; 6] {
        [&self.paths, &self.urls, &self.identifiers, &self.numbers, &self.dates, &self.names]
    }

    fn has_path(&self, path: &str) -> bool {
        let wanted_key = key(path);
        self.keys.contains_key(&wanted_key)
            || self.has_words(path)
                && self.paths.iter().any(|known| key(known).ends_with(&wanted_key))
            || self.has_words(path) && !wanted_key.contains('/')
    }

    fn has_number(&self, number: &str) -> bool {
        self.keys.contains_key(&numbers::key(number))
            || numbers::value(number)
                .is_some_and(|value| self.has_hash(tokens::hash(&format!("#{value}"))))
            || (!number.starts_with(|c: char| c.is_ascii_digit()) && self.has_words(number))
    }

    fn has_words(&self, text: &str) -> bool {
        tokens::runs(text).all(|run| self.has_hash(tokens::hash(run)))
    }

    fn has_hash(&self, hash: u64) -> bool {
        self.vocabulary.binary_search(&hash).is_ok()
    }

    fn read_content(&mut self, content: &NodeContent) {
        self.read(&prompt::without_headings(&content.overview));
        let lists = [
            &content.files_mentioned,
            &content.key_findings,
            &content.decisions,
            &content.action_items,
            &content.unresolved,
            &content.topics,
            &content.entities,
            &content.identifiers,
            &content.urls,
            &content.dates,
            &content.numbers,
        ];
        for list in lists {
            list.iter().for_each(|item| self.read(item));
        }
        content.tools_used.iter().for_each(|tool| self.add_word(&tool.name));
    }

    fn read(&mut self, text: &str) {
        for run in tokens::runs(text) {
            self.vocabulary.push(tokens::hash(run));
        }
        let tokens: Vec<FactToken<'_>> = tokens(text).collect();
        let in_code = tokens.iter().filter(|token| shapes::is_code(token));
        let words = in_code.flat_map(|token| tokens::runs(token.core));
        self.code_words
            .extend(words.filter(|word| shapes::has_inner_capital(word)).map(str::to_owned));
        let mut names = Names::of(text);
        let mut at = 0;
        while at < tokens.len() {
            at += self.take(&tokens[at..], &mut names);
        }
        for name in names.finish() {
            self.add(FactKind::Name, name, key(name));
        }
    }

    /// Reads the fact at the start of the tokens and returns the number of tokens it takes.
    fn take<'a>(&mut self, tokens: &[FactToken<'a>], names: &mut Names<'a>) -> usize {
        let Some(token) = tokens.first() else { return 1 };
        if token.is_cut || token.core.is_empty() {
            names.end();
            return 1;
        }
        let shape = token.shape();
        if shape.has_digit || shape.may_be_date {
            if let Some((token_count, date)) = dates::read(tokens) {
                names.end();
                self.add_date(&span(&tokens[..token_count]), date);
                return token_count;
            }
            if shape.has_digit
                && let Some(token_count) = numbers::read(tokens)
            {
                names.end();
                self.add_number(&span(&tokens[..token_count]));
                return token_count;
            }
        }
        if let Some(token_count) = dates::read_relative(tokens) {
            let written = span(&tokens[..token_count]);
            self.add(FactKind::Relative, &written, key(&written));
        }
        match shapes::class(token, shape) {
            Some((class, fact)) => {
                names.end();
                self.add(class, fact, key(fact));
            }
            None if self.code_words.contains(token.core) => {
                names.end();
                self.add(FactKind::Identifier, token.core, key(token.core));
            }
            None => names.take(token),
        }
        1
    }

    fn add(&mut self, class: FactKind, fact: &str, key: String) {
        if fact.is_empty() {
            return;
        }
        let mentions = self.keys.entry(key).or_default();
        *mentions += 1;
        if *mentions > 1 {
            return;
        }
        let list = match class {
            FactKind::Path => &mut self.paths,
            FactKind::Url => &mut self.urls,
            FactKind::Identifier => &mut self.identifiers,
            FactKind::Number => &mut self.numbers,
            FactKind::Relative => &mut self.relative_dates,
            FactKind::Name => &mut self.names,
        };
        list.push(fact.to_owned());
    }

    fn add_number(&mut self, written: &str) {
        if let Some(value) = numbers::value(written) {
            self.vocabulary.push(tokens::hash(&format!("#{value}")));
        }
        self.add(FactKind::Number, written, numbers::key(written));
    }

    fn add_date(&mut self, written: &str, date: Date) {
        if !self.parsed_dates.contains(&date) {
            self.dates.push(written.to_owned());
            self.parsed_dates.push(date);
        }
        for number in written.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty()) {
            self.vocabulary.push(tokens::hash(&format!("#{}", number.trim_start_matches('0'))));
        }
    }

    /// Adds a name from a reliable source, such as a speaker's name.
    fn add_name(&mut self, name: &str) {
        self.add_word(name);
        self.add(FactKind::Name, name.trim(), key(name));
    }

    fn add_word(&mut self, word: &str) {
        self.vocabulary.extend(tokens::runs(word).map(tokens::hash));
    }

    /// Adds the day of a passage, which a summary may mention even if the text does not.
    fn add_day(&mut self, minute: &str) {
        if let Some((_, date)) = dates::read(&tokens(minute).collect::<Vec<_>>())
            && !self.days.contains(&date)
        {
            self.days.push(date);
        }
    }

    fn finish(mut self) -> Self {
        self.vocabulary.sort_unstable();
        self.vocabulary.dedup();
        self
    }
}

/// Whether a text says when something happens: it has a date, a time or a relative date.
#[must_use]
pub fn has_date(text: &str) -> bool {
    let tokens: Vec<FactToken<'_>> = tokens(text).collect();
    let is_date = |at: usize| {
        dates::read(&tokens[at..]).is_some() || dates::read_relative(&tokens[at..]).is_some()
    };
    (0..tokens.len()).any(is_date)
}

/// The normalized form, equal for different spellings of the same fact.
#[must_use]
pub fn key(fact: &str) -> String {
    let trimmed = fact.trim().trim_start_matches("./").trim_end_matches("()").trim_end_matches('/');
    trimmed.to_lowercase()
}

/// JSON text without its punctuation, so that its strings are separate words.
fn unquoted(json: &str) -> String {
    let unescaped = json.replace("\\n", " ").replace("\\t", " ").replace("\\\"", " ");
    unescaped.replace(['"', '{', '}', '[', ']', ','], " ")
}

/// The text of adjacent tokens.
fn span(tokens: &[FactToken<'_>]) -> String {
    tokens.iter().map(|token| token.core).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
