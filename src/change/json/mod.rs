//! JSON values that come back as they went in: digits as written, members in their order.
//!
//! `serde_json` cannot carry this alone: with arbitrary precision it gives one member name a private
//! meaning, so an object that happens to use that name would change silently. Here the tokenizer is a
//! library and the value is ours.

mod merge;
mod parse;
mod pointer;
mod schema;
mod write;

use indexmap::IndexMap;

pub use parse::{Malformed, parse, parse_with_depth};
pub use pointer::Pointer;
pub use write::write_string;

/// Deepest nesting that is accepted; the top value is level 1 (PROTOCOL section 9).
pub const MAX_DEPTH: u32 = 128;

/// A JSON value. Two values are equal as JSON values: member order is ignored, numbers compare by
/// their digits as written, strings by code points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// The digits as they were written.
    Number(Box<str>),
    /// A string of Unicode scalar values.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object, members in the order they were written.
    Object(IndexMap<String, Json>),
}

impl Json {
    /// The members, when this is an object.
    pub fn as_object(&self) -> Option<&IndexMap<String, Json>> {
        match self {
            Json::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The text, when this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// The kind in words, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Number(_) => "a number",
            Json::String(_) => "a string",
            Json::Array(_) => "an array",
            Json::Object(_) => "an object",
        }
    }

    /// How many levels the value has; a scalar has one.
    pub fn depth(&self) -> u32 {
        let below = match self {
            Json::Array(items) => items.iter().map(Json::depth).max(),
            Json::Object(members) => members.values().map(Json::depth).max(),
            _ => None,
        };
        below.unwrap_or(0) + 1
    }
}
