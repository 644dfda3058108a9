//! JSON Schema (draft 2020-12), compiled once: no network, no files, and a bound on everything that a
//! client's data can make it do.

use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use super::file::Faults;
use super::reason;
use crate::change::Json;

/// Most violations that are reported for one state.
pub(super) const MAX_VIOLATIONS: usize = 20;
/// Data with more values than this is told its first violation only: the validator collects all of them
/// before we can stop it, and a million of them would hold up the writer.
const MAX_VALUES_FOR_ALL: usize = 10_000;
/// Longest pointer, in bytes: member names have no limit of their own.
const MAX_POINTER_BYTES: usize = 512;
/// The only dialect.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// One rule that a state breaks, and where.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Violation {
    /// JSON Pointer (RFC 6901) into the data; empty for the whole. Where it would be longer than 512 bytes,
    /// it names the nearest enclosing value that is not.
    pub pointer: String,
    /// The rule in words; never values of the data.
    pub reason: String,
}

impl Violation {
    pub(super) fn at(pointer: impl Into<String>, reason: impl Into<String>) -> Violation {
        let mut pointer = pointer.into();
        while pointer.len() > MAX_POINTER_BYTES {
            // A slash only ever stands between two members: inside a name it is written ~1.
            pointer.truncate(pointer.rfind('/').unwrap_or(0));
        }
        Violation { pointer, reason: reason.into() }
    }
}

/// A compiled schema.
#[derive(Debug, Clone)]
pub(super) struct Schema(Validator);

impl Schema {
    /// Compiles `source`, which stands at `place` of the file. All faults that the meta-schema finds are
    /// reported; only when it finds none can there be one more, such as a `$ref` that leads nowhere.
    pub(super) fn compile(place: &str, source: &Json, faults: &mut Faults) -> Option<Schema> {
        let before = faults.0.len();
        check_frame(place, source, faults);
        let source = Value::from(source);
        for error in jsonschema::draft202012::meta::validator().iter_errors(&source) {
            report(place, &error, faults);
        }
        if faults.0.len() > before {
            return None;
        }
        let options = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .offline()
            .with_pattern_options(PatternOptions::regex());
        options.build(&source).map(Schema).map_err(|error| report(place, &error, faults)).ok()
    }

    /// All violations of `data`, up to the limit.
    pub(super) fn violations(&self, data: &Json) -> Vec<Violation> {
        let value = Value::from(data);
        if self.0.is_valid(&value) {
            return Vec::new();
        }
        let mut budget = MAX_VALUES_FOR_ALL;
        if has_more_values_than(data, &mut budget) {
            return self.0.validate(&value).err().map(|error| reason::violations(&error)).unwrap_or_default();
        }
        first_different(self.0.iter_errors(&value).flat_map(|error| reason::violations(&error)))
    }
}

/// The same rule may be reached on several ways; it is said once.
fn first_different(all: impl Iterator<Item = Violation>) -> Vec<Violation> {
    let mut different = Vec::new();
    for violation in all {
        if !different.contains(&violation) {
            different.push(violation);
        }
        if different.len() == MAX_VIOLATIONS {
            break;
        }
    }
    different
}

/// What the meta-schema leaves open and this product does not.
fn check_frame(place: &str, source: &Json, faults: &mut Faults) {
    let Some(members) = source.as_object() else {
        faults.at(place, format_args!("expected a schema that is an object, not {}", source.kind()));
        return;
    };
    if members.get("type").is_some_and(|kind| kind.as_str() != Some("object")) {
        faults.at(place, "/type: data is always an object; the type must be \"object\"");
    }
    if members.get("$schema").is_some_and(|dialect| dialect.as_str() != Some(DIALECT)) {
        faults.at(place, format_args!("/$schema: only {DIALECT} is understood"));
    }
}

fn report(place: &str, error: &ValidationError<'_>, faults: &mut Faults) {
    match error.instance_path().as_str() {
        "" => faults.at(place, error),
        within => faults.at(place, format_args!("{within}: {error}")),
    }
}

/// The values that the schema `source` lists (`enum`) for a member of the data.
pub(super) fn listed_values<'s>(source: &'s Json, member: &str) -> Option<&'s [Json]> {
    let properties = source.as_object()?.get("properties")?.as_object()?;
    match properties.get(member)?.as_object()?.get("enum")? {
        Json::Array(values) => Some(values),
        _ => None,
    }
}

/// Counts `left` down and stops as soon as there is nothing left.
fn has_more_values_than(data: &Json, left: &mut usize) -> bool {
    let Some(fewer) = left.checked_sub(1) else {
        return true;
    };
    *left = fewer;
    match data {
        Json::Array(items) => items.iter().any(|item| has_more_values_than(item, left)),
        Json::Object(members) => members.values().any(|member| has_more_values_than(member, left)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::json::{parse, parse_with_depth};

    fn schema(text: &str) -> Schema {
        let mut faults = Faults::default();
        let schema = Schema::compile("here", &parse(text.as_bytes()).unwrap(), &mut faults);
        schema.unwrap_or_else(|| panic!("{faults}"))
    }

    fn violations(rules: &str, data: &str) -> Vec<(String, String)> {
        let violations = schema(rules).violations(&parse(data.as_bytes()).unwrap());
        violations.into_iter().map(|violation| (violation.pointer, violation.reason)).collect()
    }

    #[test]
    fn pointers_escape_what_pointers_escape() {
        let rules = r#"{"properties":{"a/b":{"properties":{"~c":{"items":{"type":"string"}}}}},"required":["x"]}"#;
        let found = violations(rules, r#"{"a/b":{"~c":["y",1]}}"#);
        let pointers: Vec<_> = found.iter().map(|(pointer, _)| pointer.as_str()).collect();
        assert_eq!(pointers, ["", "/a~1b/~0c/1"]);
        let closed = r#"{"properties":{"a":{"properties":{"b":true},"additionalProperties":false}}}"#;
        let found = violations(closed, r#"{"a":{"x/y~":1,"z":2}}"#);
        assert_eq!(found[0], ("/a/x~1y~0".into(), "the schema does not allow this member".into()));
        assert_eq!(found[1].0, "/a/z");
    }

    #[test]
    fn a_rule_that_is_reached_twice_is_said_once() {
        let rules = r#"{"allOf":[{"required":["a"]},{"required":["a"]},{"required":["b"]}]}"#;
        let reasons: Vec<_> = violations(rules, "{}").into_iter().map(|(_, reason)| reason).collect();
        assert_eq!(reasons, ["the member \"a\" is required", "the member \"b\" is required"]);
    }

    #[test]
    fn long_pointers_end_at_an_enclosing_value() {
        let data = format!(r#"{{"a":{{"{}":{{"b":1}}}}}}"#, "k".repeat(100_000));
        let rules = r#"{"properties":{"a":{"additionalProperties":{"properties":{"b":{"type":"string"}}}}}}"#;
        assert_eq!(violations(rules, &data), [("/a".into(), "must be a string".into())]);
    }

    #[test]
    fn reasons_name_the_rule_and_never_the_data() {
        let long = "s3cret".repeat(50);
        let secret = format!("\"{long}\"");
        for (rules, data, reason) in [
            (r#"{"type":["integer","null"]}"#, secret.as_str(), "must be null or an integer"),
            (r#"{"enum":["a",1]}"#, &secret, "must be one of \"a\", 1"),
            (r#"{"const":{"a":1}}"#, &secret, "must be {\"a\":1}"),
            (r#"{"pattern":"^a$"}"#, &secret, "must match the pattern ^a$"),
            (r#"{"maxLength":3}"#, &secret, "must have at most 3 characters"),
            (r#"{"anyOf":[{"type":"null"},{"const":1}]}"#, &secret, "matches none of the alternatives (anyOf)"),
            (r#"{"oneOf":[true,true]}"#, &secret, "matches more than one of the alternatives (oneOf)"),
            (r#"{"oneOf":[false,false]}"#, &secret, "matches none of the alternatives (oneOf)"),
            (r#"{"not":{"type":"string"}}"#, &secret, "matches what the schema excludes (not)"),
            (r#"false"#, &secret, "the schema does not allow this value"),
            (r#"{"minimum":5}"#, "4", "must be at least 5"),
            (r#"{"exclusiveMaximum":5}"#, "5", "must be less than 5"),
            (r#"{"multipleOf":0.01}"#, "0.001", "must be a multiple of 0.01"),
            (r#"{"minItems":2}"#, "[1]", "must have at least 2 items"),
            (r#"{"uniqueItems":true}"#, "[1,1.0]", "an item stands twice"),
            (r#"{"contains":{"const":1}}"#, "[2]", "too few or too many items match the rule contains"),
            (r#"{"items":false,"prefixItems":[true]}"#, "[1,2]", "the schema does not allow this value"),
            (r#"{"prefixItems":[true],"unevaluatedItems":false}"#, "[1,2]", "has more items than the schema allows"),
            (r#"{"maxProperties":0}"#, &format!("{{{secret}:1}}"), "must have at most 0 members"),
            (r#"{"dependentRequired":{"a":["b"]}}"#, r#"{"a":1}"#, "the member \"b\" is required"),
            (
                r#"{"propertyNames":{"maxLength":2}}"#,
                &format!("{{{secret}:1}}"),
                "the name of a member is not allowed: must have at most 2 characters",
            ),
        ] {
            let rules = format!(r#"{{"properties":{{"x":{rules}}}}}"#);
            let found = violations(&rules, &format!(r#"{{"x":{data}}}"#));
            assert!(found.iter().any(|(_, words)| words == reason), "{rules}: {found:?}");
            assert!(found.iter().all(|(_, words)| !words.contains("s3cret")), "{found:?}");
        }
        let many: Vec<_> = (0..1_000).map(|n| n.to_string()).collect();
        let rules = format!(r#"{{"properties":{{"x":{{"enum":[{}]}}}}}}"#, many.join(","));
        assert!(violations(&rules, r#"{"x":-1}"#)[0].1.chars().count() < 250);
    }

    #[test]
    fn digits_beyond_a_double_are_compared_exactly() {
        for (rule, fine, bad) in [
            ("\"maximum\":9007199254740992", "9007199254740992", "9007199254740993"),
            ("\"maximum\":9007199254740993", "9007199254740993", "9007199254740994"),
            (
                "\"minimum\":123456789012345678901234567890",
                "123456789012345678901234567890",
                "123456789012345678901234567889",
            ),
            ("\"const\":9007199254740993", "9007199254740993", "9007199254740992"),
            ("\"enum\":[18446744073709551617]", "18446744073709551617", "18446744073709551616"),
            ("\"maximum\":0.1", "0.1", "0.10000000000000000000000001"),
            ("\"multipleOf\":9007199254740993", "18014398509481986", "18014398509481985"),
            ("\"multipleOf\":0.01", "99999999999999999999.99", "99999999999999999999.999"),
            ("\"type\":\"integer\"", "123456789012345678901234567890.0", "123456789012345678901234567890.5"),
            ("\"type\":\"integer\"", "1e400", "1e-400"),
            ("\"exclusiveMinimum\":0", "1e-400", "0e400"),
            ("\"maximum\":1e400", "1e400", "1e401"),
        ] {
            let rules = format!(r#"{{"properties":{{"n":{{{rule}}}}}}}"#);
            assert_eq!(violations(&rules, &format!(r#"{{"n":{fine}}}"#)), [], "{rule} {fine}");
            assert_eq!(violations(&rules, &format!(r#"{{"n":{bad}}}"#)).len(), 1, "{rule} {bad}");
        }
    }

    #[test]
    fn numbers_of_any_size_are_answered_at_once() {
        let rules = r#"{"properties":{"n":{"type":["integer","number"],"multipleOf":0.01,"maximum":7,"minimum":1,
            "enum":[5,1e999999999]},"l":{"uniqueItems":true,"contains":{"const":3.5}}}}"#;
        let digits = "7".repeat(100_000);
        for number in ["1e999999999", "-1e-999999999", "1e99999999999999999999", "0e99999999999999999999", &digits] {
            let _ = violations(rules, &format!(r#"{{"n":{number},"l":[{number},{number}]}}"#));
        }
    }

    #[test]
    fn schemas_that_refer_to_themselves_end() {
        let tree = schema(
            r##"{"$defs":{"t":{"type":"object","additionalProperties":{"$ref":"#/$defs/t"}}},"$ref":"#/$defs/t"}"##,
        );
        let deep = format!("{}{}", r#"{"a":"#.repeat(127) + "{}", "}".repeat(127));
        assert_eq!(tree.violations(&parse_with_depth(deep.as_bytes(), 128).unwrap()), []);
        let wrong = deep.replace("{}", "1");
        assert_eq!(tree.violations(&parse_with_depth(wrong.as_bytes(), 128).unwrap()).len(), 1);
        for endless in [
            r##"{"$ref":"#"}"##,
            r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##,
        ] {
            let _ = violations(endless, "{}");
        }
    }

    #[test]
    fn patterns_take_linear_time_and_formats_only_annotate() {
        let rules = r#"{"properties":{"x":{"pattern":"^(a+)+$","format":"email"}}}"#;
        let data = format!(r#"{{"x":"{}!"}}"#, "a".repeat(100_000));
        assert_eq!(violations(rules, &data).len(), 1);
        assert_eq!(violations(rules, r#"{"x":"aaa"}"#), []);
    }

    #[test]
    fn names_that_are_private_to_a_library_are_ordinary_members() {
        let rules = r#"{"properties":{"x":{"type":"object"}}}"#;
        assert_eq!(violations(rules, r#"{"x":{"$serde_json::private::Number":"1"}}"#), []);
    }
}
