//! A broken rule in words for the client. The words come from the schema, never from the data: problem
//! documents are stored for replays, and an erasure must not miss anything there.

use std::fmt::Display;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

use super::schema::{MAX_VIOLATIONS, Violation};
use crate::change::json::Pointer;

/// Longest piece of a schema that a reason repeats, in characters.
const MAX_QUOTED: usize = 200;

/// The violations that one error of the validator stands for: undeclared members are named one by one, by
/// their pointers, everything else is one.
pub(super) fn violations(error: &ValidationError<'_>) -> Vec<Violation> {
    let place = error.instance_path().as_str();
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let one = |name: &String| {
                Violation::at(format!("{place}{}", Pointer::to_member(name)), "the schema does not allow this member")
            };
            unexpected.iter().take(MAX_VIOLATIONS).map(one).collect()
        }
        kind => vec![Violation::at(place, in_words(kind))],
    }
}

fn in_words(kind: &ValidationErrorKind) -> String {
    use ValidationErrorKind as Kind;
    match kind {
        Kind::Type { kind } => format!("must be {}", types_in_words(kind)),
        Kind::Required { property } => format!("the member {} is required", quoted(property)),
        Kind::Enum { options } => format!("must be one of {}", listed(options)),
        Kind::Constant { expected_value } => format!("must be {}", quoted(expected_value)),
        Kind::Pattern { pattern } => format!("must match the pattern {}", quoted(pattern)),
        Kind::Format { format } => format!("must have the format {}", quoted(format)),
        Kind::FalseSchema => "the schema does not allow this value".into(),
        Kind::UniqueItems => "an item stands twice".into(),
        Kind::Contains => "too few or too many items match the rule contains".into(),
        Kind::AdditionalItems { .. } | Kind::UnevaluatedItems { .. } => "has more items than the schema allows".into(),
        Kind::AnyOf { .. } => "matches none of the alternatives (anyOf)".into(),
        Kind::OneOfNotValid { .. } => "matches none of the alternatives (oneOf)".into(),
        Kind::OneOfMultipleValid { .. } => "matches more than one of the alternatives (oneOf)".into(),
        Kind::Not { .. } => "matches what the schema excludes (not)".into(),
        Kind::PropertyNames { error } => format!("the name of a member is not allowed: {}", in_words(error.kind())),
        limit => limit_in_words(limit).unwrap_or_else(|| format!("breaks the rule {}", quoted(limit.keyword()))),
    }
}

fn limit_in_words(kind: &ValidationErrorKind) -> Option<String> {
    use ValidationErrorKind as Kind;
    Some(match kind {
        Kind::Minimum { limit } => format!("must be at least {}", quoted(limit)),
        Kind::Maximum { limit } => format!("must be at most {}", quoted(limit)),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {}", quoted(limit)),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {}", quoted(limit)),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {}", quoted(multiple_of)),
        Kind::MinLength { limit } => format!("must have at least {limit} characters"),
        Kind::MaxLength { limit } => format!("must have at most {limit} characters"),
        Kind::MinItems { limit } => format!("must have at least {limit} items"),
        Kind::MaxItems { limit } => format!("must have at most {limit} items"),
        Kind::MinProperties { limit } => format!("must have at least {limit} members"),
        Kind::MaxProperties { limit } => format!("must have at most {limit} members"),
        _ => return None,
    })
}

fn types_in_words(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => type_in_words(*one).to_owned(),
        TypeKind::Multiple(several) => several.iter().map(type_in_words).collect::<Vec<_>>().join(" or "),
    }
}

fn type_in_words(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Null => "null",
        JsonType::Boolean => "a boolean",
        JsonType::Integer => "an integer",
        JsonType::Number => "a number",
        JsonType::String => "a string",
        JsonType::Array => "an array",
        JsonType::Object => "an object",
    }
}

fn listed(options: &Value) -> String {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    quoted(options.iter().map(Value::to_string).collect::<Vec<_>>().join(", "))
}

fn quoted(rule: impl Display) -> String {
    let text = rule.to_string();
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
