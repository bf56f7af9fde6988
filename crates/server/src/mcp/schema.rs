//! JSON Schemas of tool arguments, from the same declarations as the OpenAPI document, but short: a
//! model reads them with every request.

use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// Some fields of a request, each with a description for a model. A request takes its other fields
/// too, and refuses those that it does not know.
pub(super) fn arguments<T: ToSchema>(fields: &[(&str, &str)]) -> Arc<JsonObject> {
    let schema = serde_json::to_value(T::schema()).unwrap_or_default();
    let mut definitions = Vec::new();
    T::schemas(&mut definitions);
    let definition = |name: &str| {
        let found = definitions.iter().find(|(of, _)| of == name);
        found.and_then(|(_, schema)| serde_json::to_value(schema).ok())
    };
    let mut properties = JsonObject::new();
    for (name, description) in fields {
        let mut property = match schema["properties"].get(*name) {
            Some(property) => compact(property, &definition),
            // `max_tokens` is of the tool, and of no request.
            None => json!({ "type": "integer" }),
        };
        property["description"] = (*description).into();
        properties.insert((*name).to_owned(), property);
    }
    let is_listed = |name: &&Value| name.as_str().is_some_and(|it| properties.contains_key(it));
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let required: Vec<Value> = required.iter().filter(is_listed).cloned().collect();
    let mut arguments = JsonObject::new();
    arguments.insert("type".into(), "object".into());
    arguments.insert("properties".into(), Value::Object(properties));
    if !required.is_empty() {
        arguments.insert("required".into(), required.into());
    }
    Arc::new(arguments)
}

/// The type of a property, without limits and defaults. Optional fields are not nullable, because
/// some clients cannot handle it.
fn compact(property: &Value, definition: &dyn Fn(&str) -> Option<Value>) -> Value {
    let choices = property["oneOf"].as_array().or_else(|| property["allOf"].as_array());
    let choice = choices.and_then(|all| all.iter().find(|choice| choice["type"] != "null"));
    let property = choice.unwrap_or(property);
    let name = property["$ref"].as_str().and_then(|it| it.rsplit('/').next());
    if let Some(found) = name.and_then(definition) {
        return compact(&found, definition);
    }
    let kind = match &property["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null").cloned(),
        kind => Some(kind.clone()),
    };
    let mut short = json!({ "type": kind.unwrap_or_else(|| "object".into()) });
    if let Some(values) = property.get("enum") {
        short["enum"] = values.clone();
    }
    if short["type"] == "array" {
        short["items"] = compact(&property["items"], definition);
    }
    short
}
