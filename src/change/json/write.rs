//! The compact form: no white space, digits as written, and no character that any line reader takes for
//! the end of a line.

use std::fmt::{self, Write};

use super::Json;

/// Writes a JSON string. Quote, backslash, control characters (U+0000–U+001F, U+007F–U+009F), U+2028 and
/// U+2029 are escaped (PROTOCOL section 2); everything else goes out as UTF-8.
pub fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut plain_from = 0;
    for (at, character) in text.char_indices() {
        if !needs_escape(character) {
            continue;
        }
        out.push_str(text.get(plain_from..at).unwrap_or_default());
        push_escape(out, character);
        plain_from = at + character.len_utf8();
    }
    out.push_str(text.get(plain_from..).unwrap_or_default());
    out.push('"');
}

fn needs_escape(character: char) -> bool {
    matches!(character, '"' | '\\' | '\u{2028}' | '\u{2029}') || character.is_control()
}

fn push_escape(out: &mut String, character: char) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{8}' => out.push_str("\\b"),
        '\t' => out.push_str("\\t"),
        '\n' => out.push_str("\\n"),
        '\u{c}' => out.push_str("\\f"),
        '\r' => out.push_str("\\r"),
        other => {
            // Every escaped character is in the basic plane, and writing into a String cannot fail.
            let _ = write!(out, "\\u{:04x}", u32::from(other));
        }
    }
}

impl Json {
    /// Appends the compact form.
    pub fn write_to(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(true) => out.push_str("true"),
            Json::Bool(false) => out.push_str("false"),
            Json::Number(digits) => out.push_str(digits),
            Json::String(text) => write_string(out, text),
            Json::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write_to(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (index, (name, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_string(out, name);
                    out.push(':');
                    value.write_to(out);
                }
                out.push('}');
            }
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write_to(&mut text);
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    fn compact(text: &str) -> String {
        parse(text.as_bytes()).unwrap().to_string()
    }

    #[test]
    fn digits_order_and_text_come_back_as_they_went_in() {
        for text in [
            r#"{"b":1,"a":2}"#,
            r#"{"n":1.0,"m":1e2,"big":12345678901234567890.12345,"z":-0,"e":1E+5,"huge":1e400}"#,
            r#"{"s":"é😀/<>&","t":true,"f":false,"n":null,"a":[],"o":{}}"#,
        ] {
            assert_eq!(compact(text), text);
        }
        assert_eq!(compact(" { \"a\" : [ 1 , 2 ] } \n"), r#"{"a":[1,2]}"#);
        assert_eq!(compact(r#"{"s":"\/\u00e9\u0041"}"#), r#"{"s":"/éA"}"#);
    }

    #[test]
    fn what_line_readers_split_on_is_escaped() {
        let text = "{\"k\u{2028}\":\"\u{2029}\u{85}\u{7f}\u{9f}\"}";
        assert_eq!(compact(text), r#"{"k\u2028":"\u2029\u0085\u007f\u009f"}"#);
        assert_eq!(compact(r#""\u0000\b\t\n\f\r\u001f\u000b""#), r#""\u0000\b\t\n\f\r\u001f\u000b""#);
        assert_eq!(parse(compact(text).as_bytes()), parse(text.as_bytes()));
    }
}
