//! JSON merge patch (RFC 7396).

use indexmap::IndexMap;

use super::Json;

impl Json {
    /// This value with `patch` merged into it: members set to `null` go, objects merge, everything else
    /// replaces. Members that stay keep their place; new ones come last.
    #[must_use]
    pub fn merged(self, patch: &Json) -> Json {
        let Json::Object(changes) = patch else {
            return patch.clone();
        };
        let mut members = match self {
            Json::Object(members) => members,
            _ => IndexMap::new(),
        };
        for (name, change) in changes {
            if *change == Json::Null {
                members.shift_remove(name);
                continue;
            }
            // Replaced in place, so that the order of the other members stays.
            let slot = members.entry(name.clone()).or_insert(Json::Null);
            let before = std::mem::replace(slot, Json::Null);
            *slot = before.merged(change);
        }
        Json::Object(members)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn appendix_a_of_the_rfc() {
        for (target, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, r#"null"#, r#"null"#),
            (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            (r#"[1,2]"#, r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            let merged = parse(target.as_bytes()).unwrap().merged(&parse(patch.as_bytes()).unwrap());
            assert_eq!(merged.to_string(), result, "{target} + {patch}");
        }
    }

    #[test]
    fn members_keep_their_place() {
        let target = parse(br#"{"a":1,"b":2,"c":3}"#).unwrap();
        let patch = parse(br#"{"b":9,"a":null,"d":4}"#).unwrap();
        assert_eq!(target.merged(&patch).to_string(), r#"{"b":9,"c":3,"d":4}"#);
    }
}
