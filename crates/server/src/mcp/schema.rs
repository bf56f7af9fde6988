//! JSON Schemas of tool arguments and results, from the same declarations as the OpenAPI
//! document.

use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// A JSON Schema.
pub(super) struct ToolSchema(JsonObject);

/// The self-contained schema of a type, with its references in `$defs`.
pub(super) fn schema_of<T: ToSchema>() -> ToolSchema {
    let mut schemas = Vec::new();
    T::schemas(&mut schemas);
    let mut schema = serde_json::to_value(T::schema()).unwrap_or_default();
    let defs: JsonObject = schemas
        .into_iter()
        .filter_map(|(name, schema)| serde_json::to_value(schema).ok().map(|schema| (name, schema)))
        .collect();
    if !defs.is_empty() {
        schema["$defs"] = Value::Object(defs);
    }
    localise(&mut schema);
    match schema {
        Value::Object(object) => ToolSchema(object),
        _ => ToolSchema(JsonObject::default()),
    }
}

impl ToolSchema {
    /// Removes null from the types of optional fields, because some clients cannot handle it.
    pub(super) fn without_null(mut self) -> Self {
        self.0.values_mut().for_each(without_null);
        self
    }

    /// Adds the argument `max_tokens`.
    pub(super) fn with_max_tokens(mut self, default: u32) -> Self {
        let properties = self.0.entry("properties").or_insert_with(|| json!({}));
        properties["max_tokens"] = json!({
            "type": "integer",
            "minimum": super::MIN_ANSWER_TOKENS,
            "maximum": super::MAX_ANSWER_TOKENS,
            "default": default,
            "description":
                "Maximum tokens in the result. Omitted items are counted; read them by id.",
        });
        self
    }

    /// Removes fields, and the definitions that only they use.
    pub(super) fn without_fields(mut self, names: &[&str]) -> Self {
        if let Some(Value::Object(properties)) = self.0.get_mut("properties") {
            properties.retain(|name, _| !names.contains(&name.as_str()));
        }
        let text = serde_json::to_string(&self.0).unwrap_or_default();
        if let Some(Value::Object(defs)) = self.0.get_mut("$defs") {
            defs.retain(|name, _| text.contains(&format!("\"#/$defs/{name}\"")));
        }
        self
    }

    pub(super) fn into_object(self) -> Arc<JsonObject> {
        Arc::new(self.0)
    }
}

fn without_null(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".into(), only);
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("oneOf") {
                choices.retain(|choice| choice["type"] != "null");
                if let [Value::Object(only)] = choices.as_mut_slice() {
                    let only = std::mem::take(only);
                    object.remove("oneOf");
                    object.extend(only);
                }
            }
            object.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}

/// Rewrites OpenAPI references to `$defs`, and removes number formats that JSON Schema does not
/// define.
fn localise(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            if let Some(Value::String(reference)) = object.get_mut("$ref")
                && let Some(name) = reference.strip_prefix("#/components/schemas/")
            {
                *reference = format!("#/$defs/{name}");
            }
            object.values_mut().for_each(localise);
        }
        Value::Array(items) => items.iter_mut().for_each(localise),
        _ => {}
    }
}
