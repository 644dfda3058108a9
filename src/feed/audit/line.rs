//! Is a stored line what PROTOCOL section 2 promises, and does it agree with its columns?

use indexmap::IndexMap;

use crate::change::json::{MAX_DEPTH, parse_with_depth};
use crate::change::{Change, Json, Verb};

/// The members of a line, in their order.
const MEMBERS: [&str; 6] = ["seq", "resource", "id", "type", "deleted", "data"];

/// The `data` of a line, or what is wrong with the line. Messages never carry the data itself.
pub fn data_of(change: &Change) -> Result<Json, String> {
    let text = change.line.as_str();
    // The line is one level around its data.
    let parsed = parse_with_depth(text.as_bytes(), MAX_DEPTH + 1).map_err(|malformed| malformed.to_string())?;
    if parsed.to_string() != text {
        return Err("not in the compact form that this server writes".into());
    }
    let Json::Object(mut members) = parsed else {
        return Err(format!("{} instead of an object", parsed.kind()));
    };
    if !members.keys().eq(MEMBERS) {
        let names: Vec<_> = members.keys().map(String::as_str).collect();
        return Err(format!("has the members {}, should have {}", names.join(", "), MEMBERS.join(", ")));
    }
    check_columns(change, &members)?;
    let data = members.swap_remove("data").unwrap_or(Json::Null);
    match data {
        Json::Object(_) => Ok(data),
        Json::Null if change.deleted => Ok(data),
        _ => Err(format!("data is {} instead of an object", data.kind())),
    }
}

fn check_columns(change: &Change, members: &IndexMap<String, Json>) -> Result<(), String> {
    let expected = [
        ("seq", Json::Number(change.seq.to_string().into())),
        ("resource", Json::String(change.key.resource.to_string())),
        ("id", Json::String(change.key.id.to_string())),
        ("deleted", Json::Bool(change.deleted)),
    ];
    for (name, column) in expected {
        let said = members.get(name).unwrap_or(&Json::Null);
        if *said != column {
            return Err(format!("{name} is {said}, but its column says {column}"));
        }
    }
    let verb = members.get("type").and_then(Json::as_str).unwrap_or_default();
    Verb::parse(verb).map(drop).map_err(|invalid| format!("type: {invalid}"))
}
