//! Strict parsing (RFC 8259, nothing more): duplicate keys, lone surrogates, invalid UTF-8, a byte-order
//! mark, trailing text and too deep nesting are refused, each with its place.

use indexmap::IndexMap;
use indexmap::map::Entry;
use struson::reader::{
    JsonReader, JsonReaderPosition, JsonStreamReader, JsonSyntaxError, ReaderError, ReaderSettings, SyntaxErrorKind,
    ValueType,
};

use super::{Json, MAX_DEPTH};

/// Why a body is not JSON, in words for the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

/// Parses one JSON document that fills `bytes`.
pub fn parse(bytes: &[u8]) -> Result<Json, Malformed> {
    parse_with_depth(bytes, MAX_DEPTH)
}

/// As [`parse`], with another depth limit; for envelopes whose inner values have the usual one, which is
/// therefore the one that a refusal names.
pub fn parse_with_depth(bytes: &[u8], max_depth: u32) -> Result<Json, Malformed> {
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        return Err(Malformed("the body starts with a byte-order mark; send plain UTF-8".into()));
    }
    let settings = ReaderSettings {
        allow_comments: false,
        allow_trailing_comma: false,
        allow_multiple_top_level: false,
        track_path: false,
        max_nesting_depth: Some(max_depth),
        restrict_number_values: false,
    };
    let mut reader = JsonStreamReader::new_custom(bytes, settings);
    let value = read_value(&mut reader)?;
    reader.consume_trailing_whitespace().map_err(in_words)?;
    Ok(value)
}

type Reader<'a> = JsonStreamReader<&'a [u8]>;

fn read_value(reader: &mut Reader<'_>) -> Result<Json, Malformed> {
    match reader.peek().map_err(in_words)? {
        ValueType::Null => reader.next_null().map(|()| Json::Null).map_err(in_words),
        ValueType::Boolean => reader.next_bool().map(Json::Bool).map_err(in_words),
        ValueType::Number => reader.next_number_as_str().map(|digits| Json::Number(digits.into())).map_err(in_words),
        ValueType::String => reader.next_string().map(Json::String).map_err(in_words),
        ValueType::Array => read_array(reader),
        ValueType::Object => read_object(reader),
    }
}

fn read_array(reader: &mut Reader<'_>) -> Result<Json, Malformed> {
    let mut items = Vec::new();
    reader.begin_array().map_err(in_words)?;
    while reader.has_next().map_err(in_words)? {
        items.push(read_value(reader)?);
    }
    reader.end_array().map_err(in_words)?;
    Ok(Json::Array(items))
}

fn read_object(reader: &mut Reader<'_>) -> Result<Json, Malformed> {
    let mut members = IndexMap::new();
    reader.begin_object().map_err(in_words)?;
    while reader.has_next().map_err(in_words)? {
        let name = reader.next_name_owned().map_err(in_words)?;
        match members.entry(name) {
            Entry::Occupied(twice) => {
                return Err(Malformed(format!("the key {:?} stands twice in one object", shortened(twice.key()))));
            }
            Entry::Vacant(entry) => {
                entry.insert(read_value(reader)?);
            }
        }
    }
    reader.end_object().map_err(in_words)?;
    Ok(Json::Object(members))
}

/// Longest piece of a client's text that a message repeats, in characters.
const MAX_QUOTED: usize = 64;

fn shortened(text: &str) -> String {
    text.chars().take(MAX_QUOTED).collect()
}

fn in_words(error: ReaderError) -> Malformed {
    match error {
        ReaderError::SyntaxError(JsonSyntaxError { kind, location }) => {
            Malformed(format!("{}{}", reason(&kind), place(&location)))
        }
        ReaderError::MaxNestingDepthExceeded { location, .. } => {
            Malformed(format!("nested deeper than {MAX_DEPTH} levels{}", place(&location)))
        }
        ReaderError::IoError { location, .. } => Malformed(format!("not valid UTF-8{}", place(&location))),
        _ => Malformed("not valid JSON".into()),
    }
}

fn place(location: &JsonReaderPosition) -> String {
    match &location.line_pos {
        Some(at) => format!(" at line {}, column {}", at.line + 1, at.column + 1),
        None => String::new(),
    }
}

fn reason(kind: &SyntaxErrorKind) -> &'static str {
    match kind {
        SyntaxErrorKind::CommentsNotEnabled
        | SyntaxErrorKind::IncompleteComment
        | SyntaxErrorKind::BlockCommentNotClosed => "JSON has no comments; one stands",
        SyntaxErrorKind::InvalidLiteral | SyntaxErrorKind::TrailingDataAfterLiteral => {
            "only true, false and null are literals; another word stands"
        }
        SyntaxErrorKind::TrailingCommaNotEnabled => "a comma with nothing after it",
        SyntaxErrorKind::UnexpectedComma => "an unexpected comma",
        SyntaxErrorKind::MissingComma => "a comma is missing",
        SyntaxErrorKind::UnexpectedColon => "an unexpected colon",
        SyntaxErrorKind::MissingColon => "a colon is missing",
        SyntaxErrorKind::UnexpectedClosingBracket => "an unexpected closing bracket",
        SyntaxErrorKind::MalformedNumber | SyntaxErrorKind::TrailingDataAfterNumber => "a malformed number",
        SyntaxErrorKind::ExpectingMemberNameOrObjectEnd => "a member name in double quotes is due",
        SyntaxErrorKind::NotEscapedControlCharacter => "a control character must be escaped in a string",
        SyntaxErrorKind::UnknownEscapeSequence | SyntaxErrorKind::MalformedEscapeSequence => {
            "a malformed escape sequence"
        }
        SyntaxErrorKind::UnpairedSurrogatePairEscapeSequence => "half of a surrogate pair",
        SyntaxErrorKind::IncompleteDocument => "the JSON document ends too early",
        SyntaxErrorKind::TrailingData => "text stands after the JSON document",
        _ => "not valid JSON",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().0
    }

    #[test]
    fn only_json_is_accepted() {
        for bad in [
            "",
            "   ",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "{a:1}",
            "{'a':1}",
            "{\"a\":01}",
            "{\"a\":+1}",
            "{\"a\":.5}",
            "{\"a\":1.}",
            "{\"a\":0x1}",
            "{\"a\":1_000}",
            "{\"a\":NaN}",
            "{\"a\":Infinity}",
            "{\"a\":-Infinity}",
            "{\"a\":True}",
            "{\"a\":\"\t\"}",
            "{\"a\":\"\n\"}",
            "{\"a\":\"\0\"}",
            "{\"a\":\"\\x\"}",
            "{\"a\":\"\\u12\"}",
            "{} {}",
            "{}\n{}",
            "{}x",
            "{\"a\":1//c\n}",
            "{/*c*/}",
            "\u{feff}{}",
            "{\"a\" 1}",
            "{\"a\":1 \"b\":2}",
            "[1 2]",
            "tru",
            "nullx",
            "1x",
            "]",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(parse(b"{\"a\":\"\xff\"}").is_err());
        assert!(parse(b"{\"a\":\"\xed\xa0\x80\"}").is_err());
    }

    #[test]
    fn lone_surrogates_are_refused_and_pairs_are_one_character() {
        for bad in [r#""\ud800""#, r#""\udc00""#, r#""\ud800x""#, r#""\ud800\u0041""#, r#""\ud800\ud800""#] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(parse(br#""\ud83d\ude00""#), Ok(Json::String("😀".into())));
    }

    #[test]
    fn a_key_that_stands_twice_is_named_even_when_it_is_escaped() {
        assert!(refusal(r#"{"status":1,"status":1}"#).contains("\"status\""));
        assert!(refusal(r#"{"a":{"b":1,"\u0062":2}}"#).contains("\"b\""));
        assert!(refusal(r#"[{"a":1,"a":1}]"#).contains("twice"));
    }

    #[test]
    fn depth_is_counted_from_the_top_value() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert_eq!(parse(nested(128).as_bytes()).unwrap().depth(), 128);
        assert!(refusal(&nested(129)).contains("128"));
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
        // A scalar is a level of its own: 127 brackets around a number are 128 levels.
        assert!(parse(format!("{}1{}", "[".repeat(127), "]".repeat(127)).as_bytes()).is_ok());
    }

    #[test]
    fn private_names_of_a_library_are_ordinary_names() {
        for text in [
            r#"{"$serde_json::private::Number":"1"}"#,
            r#"{"$serde_json::private::RawValue":"{}"}"#,
            r#"{"$__toml_private_datetime":"x"}"#,
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap().to_string(), text);
        }
    }
}
