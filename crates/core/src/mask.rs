//! Masks the secrets of what is returned: messages, tool calls and nodes. Detection is that of
//! [`redact`].

use crate::json::Json;
use crate::message::{Message, MessageVersion};
use crate::node::NodeContent;
use crate::redact::redact;
use crate::tool::NewToolCall;

impl Message {
    /// Masks the secrets of the text, the parts and the correction. Returns whether there were any.
    pub fn mask(&mut self) -> bool {
        let mut is_masked = false;
        self.body.for_each_content(|text, parts| {
            is_masked |= mask_text(text) | parts.is_some_and(mask_json);
        });
        if is_masked {
            self.chars = crate::text::chars(&self.body.text);
        }
        is_masked
    }
}

impl MessageVersion {
    /// Whether one of its texts has a secret.
    #[must_use]
    pub fn has_secret(&self) -> bool {
        let correction = self.correction.as_ref().and_then(|it| it.text.as_deref());
        let texts = [Some(self.text.as_str()), self.parts.as_ref().map(Json::as_str), correction];
        texts.into_iter().flatten().any(|text| !redact(text).1.is_empty())
    }
}

impl NewToolCall {
    /// Masks the secrets of the arguments and the result. Returns whether there were any.
    pub fn mask(&mut self) -> bool {
        let of_result = self.outcome.as_mut().is_some_and(|it| mask_json(&mut it.result));
        mask_json(&mut self.args) | of_result
    }
}

impl NodeContent {
    /// Replaces each text for which `replace` returns a new one.
    pub fn replace_texts(&mut self, replace: impl Fn(&str) -> Option<String>) {
        let lists = [
            &mut self.files_mentioned,
            &mut self.key_findings,
            &mut self.decisions,
            &mut self.action_items,
            &mut self.unresolved,
            &mut self.topics,
            &mut self.entities,
            &mut self.identifiers,
            &mut self.urls,
            &mut self.dates,
            &mut self.numbers,
            &mut self.tags,
        ];
        let entries = lists.into_iter().flatten();
        let tools = self.tools_used.iter_mut().map(|tool| &mut tool.name);
        for text in entries.chain(tools).chain([&mut self.overview]) {
            if let Some(new) = replace(text) {
                *text = new;
            }
        }
    }

    /// Masks the secrets of all texts.
    pub fn mask(&mut self) {
        self.replace_texts(|text| {
            let (masked, found) = redact(text);
            (!found.is_empty()).then(|| masked.into_owned())
        });
    }
}

fn mask_text(text: &mut String) -> bool {
    let (masked, found) = redact(text);
    if found.is_empty() {
        return false;
    }
    *text = masked.into_owned();
    true
}

fn mask_json(json: &mut Json) -> bool {
    let (masked, found) = redact(json.as_str());
    if found.is_empty() {
        return false;
    }
    // Masking can remove a quote from JSON inside a string.
    *json = Json::new(&masked).unwrap_or_else(|_| Json::string(&masked));
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    const KEY: &str = "sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8x";

    #[test]
    fn secrets_of_json_are_masked_and_it_stays_json() {
        for (json, is_masked) in [
            (format!(r#"{{"api_key":"{KEY}","n":1.0}}"#), true),
            (format!(r#""{{\"api_key\":\"{KEY}\"}}""#), true),
            (r#"{"n":1.0}"#.to_owned(), false),
        ] {
            let mut call = NewToolCall {
                name: "x".into(),
                args: Json::new(&json).unwrap(),
                ..NewToolCall::placeholder(Timestamp::from_micros(0))
            };
            assert_eq!(call.mask(), is_masked, "{json}");
            assert!(!call.args.as_str().contains(KEY), "{}", call.args);
            assert!(is_masked || call.args.as_str() == json);
            assert!(Json::new(call.args.as_str()).is_ok());
        }
    }

    #[test]
    fn every_text_of_a_node_is_masked() {
        let mut content = NodeContent {
            overview: format!("The key is {KEY}."),
            key_findings: vec![format!("{KEY} works"), "nothing".into()],
            ..NodeContent::default()
        };
        content.mask();
        assert!(!serde_json::to_string(&content).unwrap().contains(KEY), "{content:?}");
        assert_eq!(content.key_findings[1], "nothing");
    }
}
