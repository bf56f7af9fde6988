//! JSON Schemas of tool arguments and results, from the same declarations as the OpenAPI
//! document.

use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// The self-contained schema of a type, with its references in `$defs`.
pub(super) fn schema_of<T: ToSchema>() -> Arc<JsonObject> {
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
        Value::Object(object) => Arc::new(object),
        _ => Arc::default(),
    }
}

/// The schema of arguments. Optional fields do not allow null, because some clients cannot handle
/// it.
pub(super) fn input_schema_of<T: ToSchema>() -> Arc<JsonObject> {
    let mut schema = schema_of::<T>();
    Arc::make_mut(&mut schema).values_mut().for_each(without_null);
    schema
}

/// Like [`input_schema_of`], with the additional argument `max_tokens`.
pub(super) fn sized_schema_of<T: ToSchema>(default: u32) -> Arc<JsonObject> {
    let mut schema = input_schema_of::<T>();
    let properties = Arc::make_mut(&mut schema).entry("properties").or_insert_with(|| json!({}));
    properties["max_tokens"] = json!({
        "type": "integer",
        "minimum": super::MIN_ANSWER_TOKENS,
        "maximum": super::MAX_ANSWER_TOKENS,
        "default": default,
        "description": "Maximum tokens in the result. Omitted items are counted; read them by id.",
    });
    schema
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
