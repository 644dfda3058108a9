//! The bridge to `serde_json::Value`, for JSON Schema only.

use serde_json::{Map, Number, Value};

use super::Json;

impl From<&Json> for Value {
    /// Member by member, never through text, so that no member name has a private meaning.
    fn from(json: &Json) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(digits) => Value::Number(Number::from_string_unchecked(digits.to_string())),
            Json::String(text) => Value::String(text.clone()),
            Json::Array(items) => Value::Array(items.iter().map(Value::from).collect()),
            Json::Object(members) => {
                let members = members.iter().map(|(name, value)| (name.clone(), Value::from(value)));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }
}

impl From<&Value> for Json {
    /// The other way, for values that a configuration file sets.
    fn from(value: &Value) -> Json {
        match value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Number(number) => Json::Number(number.to_string().into()),
            Value::String(text) => Json::String(text.clone()),
            Value::Array(items) => Json::Array(items.iter().map(Json::from).collect()),
            Value::Object(members) => {
                Json::Object(members.iter().map(|(name, value)| (name.clone(), Json::from(value))).collect())
            }
        }
    }
}
