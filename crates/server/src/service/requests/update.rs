//! The request to update a tree. It takes the arguments of `summaries.update` by their own names,
//! in camelCase or snake_case, and every policy parameter as an override.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use treering_core::{Assignment, PARAMETERS, parameter_aliases, snake_case, text};
use treering_engine::{Update, UpdateLimits, UpdateStrategy};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::{MAX_NAME_CHARS, RequestLimits, check_lengths, check_range, level_of_number};
use crate::service::ServiceError;

/// The fields that are not policy parameters.
const FIELDS: [&str; 12] = [
    "slug",
    "conversation",
    "id",
    "key",
    "strategy",
    "full",
    "level",
    "concurrency",
    "batch_delay_ms",
    "dry_run",
    "wait",
    "with",
];

/// Parameters of a tree update.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct UpdateRequest {
    /// Slug, key, id or id prefix; default: the latest conversation.
    pub conversation: Option<String>,
    /// Rebuild the tree from the messages, instead of only missing, changed or failed nodes.
    pub full: bool,
    /// Only this level; with `full`, this level and those above.
    pub level: Option<u8>,
    /// Maximum number of jobs of this update that run at once.
    pub concurrency: Option<u16>,
    /// The pause after each job of this update, in milliseconds.
    pub batch_delay_ms: Option<u64>,
    /// Policy overrides, for this update only.
    pub with: Vec<Assignment>,
    /// Estimate only; write nothing.
    pub dry_run: bool,
    /// Wait for every level, instead of for level 1.
    pub wait: bool,
}

impl UpdateRequest {
    /// Reads the fields of a JSON object.
    fn of_fields(fields: Map<String, Value>) -> Result<Self, String> {
        let mut request = Self::default();
        for (name, value) in fields {
            if !value.is_null() {
                request.set(&name, &value)?;
            }
        }
        Ok(request)
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let expected = |kind: &str| format!("{name}: expected {kind}, found {value}");
        let number = || value.as_u64().ok_or_else(|| expected("a whole number"));
        let flag = || value.as_bool().ok_or_else(|| expected("true or false"));
        let text = || value.as_str().ok_or_else(|| expected("a text"));
        match snake_case(name).as_str() {
            "slug" | "conversation" | "id" | "key" => {
                let reference = text()?.to_owned();
                match self.conversation.replace(reference.clone()) {
                    Some(other) if other != reference => {
                        return Err(format!("{name} names {reference:?}, another field {other:?}"));
                    }
                    _ => {}
                }
            }
            "strategy" => {
                self.full = match text()? {
                    "full" => true,
                    "incremental" => self.full,
                    other => {
                        return Err(format!(
                            "strategy {other:?}: expected incremental or full; to choose how \
                             summaries are written, set strategy@2"
                        ));
                    }
                };
            }
            "full" => self.full |= flag()?,
            "dry_run" => self.dry_run = flag()?,
            "wait" => self.wait = flag()?,
            "level" => self.level = Some(number()?.try_into().map_err(|_| expected("a level"))?),
            "concurrency" => {
                let jobs = number()?.try_into().ok().filter(|jobs| *jobs > 0);
                self.concurrency = Some(jobs.ok_or_else(|| expected("a number from 1 to 65535"))?);
            }
            "batch_delay_ms" => self.batch_delay_ms = Some(number()?),
            "with" => {
                let list = value.as_array().ok_or_else(|| expected("a list of NAME=VALUE"))?;
                for item in list {
                    let text = item.as_str().ok_or_else(|| expected("a list of NAME=VALUE"))?;
                    self.with.push(text.parse().map_err(|error| format!("with: {error}"))?);
                }
            }
            _ => self.with.push(override_of(name, value)?),
        }
        Ok(())
    }

    /// Validates the request and builds the engine's update.
    pub fn update(&self) -> Result<Update, ServiceError> {
        let strategy = if self.full { UpdateStrategy::Full } else { UpdateStrategy::Incremental };
        let level = self.level.map(level_of_number).transpose()?;
        let pace =
            UpdateLimits { concurrency: self.concurrency, batch_delay_ms: self.batch_delay_ms };
        Ok(Update { strategy, level, policy: self.with.clone(), pace })
    }
}

/// The override that a field sets, or an error that names the field that was probably meant.
fn override_of(name: &str, value: &Value) -> Result<Assignment, String> {
    let snake = snake_case(name);
    let parameter = snake.split('@').next().unwrap_or_default();
    let parameters = || PARAMETERS.iter().map(|(parameter, _)| *parameter).chain(["preset"]);
    let aliases = || parameter_aliases().map(|(alias, _)| alias);
    if !parameters().chain(aliases()).any(|known| known == parameter) {
        let known = FIELDS.into_iter().chain(parameters()).chain(aliases());
        let similarity = |known: &str| strsim::normalized_damerau_levenshtein(parameter, known);
        let nearest = known.max_by(|one, other| similarity(one).total_cmp(&similarity(other)));
        let suggestions: Vec<&str> =
            nearest.into_iter().filter(|known| similarity(known) > 0.6).collect();
        return Err(format!("unknown field `{name}`{}", text::did_you_mean(&suggestions)));
    }
    let value = match value {
        Value::String(text) => Cow::Borrowed(text.as_str()),
        other => Cow::Owned(other.to_string()),
    };
    format!("{name}={value}").parse().map_err(|error: treering_core::Invalid| error.to_string())
}

impl<'de> Deserialize<'de> for UpdateRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of_fields(Map::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl RequestLimits for UpdateRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([("conversation", self.conversation.as_ref(), MAX_NAME_CHARS)])?;
        check_range("the number of overrides", self.with.len(), 0, 50)
    }
}

impl PartialSchema for UpdateRequest {
    fn schema() -> RefOr<Schema> {
        let number = |default: u32, description: &str| json!({ "type": "integer", "minimum": 0, "default": default, "description": description });
        let mut schema = json!({
            "type": "object",
            "description": "Also takes any policy parameter, such as `strategy@2` or `min_turns`.",
            "additionalProperties": true,
            "properties": {
                "slug": { "type": "string", "maxLength": MAX_NAME_CHARS,
                    "description": "Slug, key or id; default: the latest conversation." },
                "strategy": { "type": "string", "enum": ["incremental", "full"],
                    "default": "incremental",
                    "description": "What is missing or outdated, or everything." },
                "level": { "type": "integer", "minimum": 1, "maximum": 8,
                    "description": "Only this level; with full, also those above." },
                "windowChars": number(6000, "Characters of a window."),
                "minFlushChars": number(3000, "Least characters that a silence seals."),
                "overlapChars": number(0, "Overlap of windows."),
                "groupChars": number(10_000, "Characters of a group."),
                "wiggle": { "type": "number", "default": 0.2, "description": "Tolerance of sizes." },
                "ratioOnly": { "type": "boolean", "default": true,
                    "description": "Lengths as fractions, not sentences." },
                "concurrency": number(3, "Jobs at once."),
                "batchDelayMs": number(1500, "Pause after a job."),
                "sealPolicy": { "type": "string", "enum": ["time", "chars", "hybrid"],
                    "description": "What seals a window." },
                "flushAfterMs": number(1_200_000, "Silence that seals a window."),
                "dryRun": { "type": "boolean", "description": "Estimate only; write nothing." },
                "wait": { "type": "boolean",
                    "description": "Wait for every level, instead of for level 1." },
            },
        });
        // Like a field that is left out, `null` chooses the default.
        for property in schema["properties"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            property["type"] = json!([property["type"], "null"]);
            if let Some(values) = property.get_mut("enum").and_then(Value::as_array_mut) {
                values.push(Value::Null);
            }
        }
        serde_json::from_value(schema).map_or_else(|_| RefOr::T(Schema::default()), RefOr::T)
    }
}

impl ToSchema for UpdateRequest {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: Value) -> Result<UpdateRequest, String> {
        serde_json::from_value(fields).map_err(|error| error.to_string())
    }

    #[test]
    fn every_argument_of_the_signature_is_taken_in_both_spellings() {
        let camel = json!({
            "slug": "conv-26", "strategy": "full", "level": 2, "windowChars": 4000,
            "minFlushChars": 1000, "overlapChars": 200, "groupChars": 8000, "wiggle": 0.1,
            "concurrency": 2, "batchDelayMs": 10, "sealPolicy": "time", "flushAfterMs": 60000,
            "dryRun": true, "strategy@2": "chronological",
        });
        let snake: Map<String, Value> = camel
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (snake_case(name), value.clone()))
            .collect();
        let request = parse(camel).unwrap();
        assert_eq!(request, parse(Value::Object(snake)).unwrap());
        assert_eq!(request.conversation.as_deref(), Some("conv-26"));
        assert!(request.full && request.dry_run && !request.wait);
        assert_eq!((request.concurrency, request.batch_delay_ms), (Some(2), Some(10)));
        let with: Vec<String> = request.with.iter().map(ToString::to_string).collect();
        assert_eq!(with.len(), 8);
        assert!(with.contains(&"flush_after=60000 ms".to_owned()), "{with:?}");
    }

    #[test]
    fn a_wrong_argument_is_refused_by_name() {
        for (fields, words) in [
            (json!({ "windowChar": 1 }), ["windowChar", "window_chars"]),
            (json!({ "strategy": "thematic" }), ["thematic", "strategy@2"]),
            (json!({ "slug": "a", "id": "b" }), ["\"a\"", "\"b\""]),
            (json!({ "concurrency": 0 }), ["concurrency", "from 1"]),
            (json!({ "windowChars": "wide" }), ["window_chars", "wide"]),
        ] {
            let error = parse(fields.clone()).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{fields}: {error}");
        }
        assert!(parse(json!({ "slug": "a", "key": "a", "level": null })).is_ok());
    }
}
