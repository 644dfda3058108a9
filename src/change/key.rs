//! Names: of a log, of a resource type, of an entity, of what happened to it.
//!
//! Each is checked once, where it enters (PROTOCOL sections 2 and 10); inside there are no raw strings.

use std::fmt;
use std::sync::Arc;

/// A name that does not have the form it must have; `expected` says the form in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
pub struct InvalidName {
    /// The form in words, ready for a problem document.
    pub expected: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $expected:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// The form in words.
            pub const EXPECTED: &'static str = $expected;

            /// Checks the form.
            pub fn parse(text: &str) -> Result<$type, InvalidName> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) {
                    Ok($type(text.into()))
                } else {
                    Err(InvalidName { expected: $expected })
                }
            }

            /// The name itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// Longest resource, verb or log name, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Longest entity id, in bytes of UTF-8.
const MAX_ID_BYTES: usize = 255;

fn is_lower_name(text: &str) -> bool {
    text.len() <= MAX_NAME_BYTES
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.' | b'-'))
}

name!(
    /// A resource type: `subscription`.
    Resource,
    "a resource name: a lower-case letter, then up to 63 of a-z, 0-9, _, . and -",
    is_lower_name
);

name!(
    /// What happened, for people: `created`, `updated`, `deleted`, or the name that an action declares.
    Verb,
    "a change type: a lower-case letter, then up to 63 of a-z, 0-9, _, . and -",
    is_lower_name
);

name!(
    /// The id of an entity within its resource, compared byte by byte.
    EntityId,
    "an id: 1 to 255 bytes of UTF-8 without control characters",
    |text| !text.is_empty() && text.len() <= MAX_ID_BYTES && !text.chars().any(char::is_control)
);

name!(
    /// The name of a log, that is of an account.
    LogName,
    "a log name: a letter or digit, then up to 63 of A-Z, a-z, 0-9, _, . and -",
    |text| {
        text.len() <= MAX_NAME_BYTES
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
    }
);

impl Verb {
    /// The verb of a first line.
    pub fn created() -> Verb {
        Verb("created".into())
    }

    /// The verb of a replaced or merged state.
    pub fn updated() -> Verb {
        Verb("updated".into())
    }

    /// The verb of a plain tombstone.
    pub fn deleted() -> Verb {
        Verb("deleted".into())
    }
}

/// What names an entity in a log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityKey {
    /// Its type.
    pub resource: Resource,
    /// Its id within the type.
    pub id: EntityId,
}

impl fmt::Display for EntityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.resource, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_names_follow_the_protocol() {
        for good in ["a", "subscription", "a.b-c_d9", &"a".repeat(64)] {
            assert!(Resource::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "9a", "_a", "a b", "ä", "a/b", "a\n", &"a".repeat(65)] {
            assert!(Resource::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn ids_are_any_utf8_without_control_characters() {
        for good in ["a/b", "a%2Fb", "..", ".", "a b", "a+b", "ä", "kund/å€ 😀", "\u{2028}", &"x".repeat(255)] {
            assert!(EntityId::parse(good).is_ok(), "{good:?}");
        }
        for bad in ["", "a\0", "a\n", "\u{7f}", "\u{85}", "\u{9f}", &"x".repeat(256), &"é".repeat(128)] {
            assert!(EntityId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
