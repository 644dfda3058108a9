//! Who may do what, pure: keys, their scopes, the logs and resources they cover (PROTOCOL section 10).
//!
//! A key is 256 random bits behind the prefix `scroll_`. Only its SHA-256 is kept, so a look-up goes by
//! hash and never compares the secret itself.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::change::{Epoch, LogName, Resource, Seq, Timestamp};

/// The number of a log inside the store; never shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub i64);

/// A log, as administrators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Its number inside the store.
    pub id: LogId,
    /// Its name.
    pub name: LogName,
    /// The identity of its history.
    pub epoch: Epoch,
    /// Its newest seq.
    pub head: Seq,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What a key allows; none implies another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Read the log and the entities.
    Read,
    /// Write entities.
    Write,
    /// Make and revoke keys, read metrics; with a key for all logs, make logs.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Scope; 3] = [Scope::Read, Scope::Write, Scope::Admin];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Write => "write",
            Scope::Admin => "admin",
        }
    }

    /// From the word.
    pub fn parse(word: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == word)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which logs a key covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coverage {
    /// One.
    One(LogId, LogName),
    /// All, `*`: each request names its log.
    All,
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Coverage::One(_, name) => name.fmt(f),
            Coverage::All => f.write_str("*"),
        }
    }
}

/// A key as it is stored: everything but the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// What names it, for listing and revoking.
    pub id: String,
    /// The logs it covers.
    pub coverage: Coverage,
    /// What it allows.
    pub scopes: BTreeSet<Scope>,
    /// The resources it is limited to; `None` for all.
    pub resources: Option<Vec<Resource>>,
    /// What people call it.
    pub name: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl Key {
    /// True when it opens doors at this moment.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    /// True when it allows this.
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// True when it covers this resource.
    pub fn covers(&self, resource: &Resource) -> bool {
        self.resources.as_ref().is_none_or(|allowed| allowed.contains(resource))
    }
}

/// Longest name that people give a key, in characters.
const MAX_KEY_NAME: usize = 255;
/// The form of such a name in words.
pub const KEY_NAME_EXPECTED: &str = "a text of 1 to 255 characters without control characters";

/// True when people may call a key so. It is printed on terminals, where a control character is a command.
pub fn is_key_name(text: &str) -> bool {
    (1..=MAX_KEY_NAME).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

/// SHA-256 of a key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyHash(Vec<u8>);

impl KeyHash {
    /// The hash of a key as it came in a header.
    pub fn of(secret: &str) -> KeyHash {
        KeyHash(Sha256::digest(secret.as_bytes()).to_vec())
    }

    /// From the store.
    pub fn from_stored(bytes: Vec<u8>) -> KeyHash {
        KeyHash(bytes)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Compares without stopping early.
    pub fn is(&self, other: &KeyHash) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(..)")
    }
}

/// A new key's secret; shown once, never stored, never logged.
pub struct Secret(String);

impl Secret {
    /// 256 bits from the operating system.
    pub fn generate() -> Result<Secret, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Secret(format!("scroll_{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// The key in clear, for the one time it is shown.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What is stored of it.
    pub fn hash(&self) -> KeyHash {
        KeyHash::of(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A key that is asked for.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The log it shall cover, `None` for all.
    pub log: Option<LogName>,
    /// What it shall allow.
    pub scopes: BTreeSet<Scope>,
    /// The resources it is limited to.
    pub resources: Option<Vec<Resource>>,
    /// What people call it.
    pub name: Option<String>,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_random_and_never_printed() {
        let (one, two) = (Secret::generate().unwrap(), Secret::generate().unwrap());
        assert_eq!(one.reveal().len(), "scroll_".len() + 43);
        assert_ne!(one.reveal(), two.reveal());
        assert!(!format!("{one:?} {:?}", one.hash()).contains(one.reveal()));
    }

    #[test]
    fn names_of_keys_are_plain_text() {
        for good in ["x", "billing mirror", "ä😀", &"é".repeat(255)] {
            assert!(is_key_name(good), "{good:?}");
        }
        for bad in ["", "a\n", "\u{1b}[2J", "\0", "\u{7f}", "\u{9b}2J", &"x".repeat(256)] {
            assert!(!is_key_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_key_is_recognised_by_its_hash_whatever_the_length() {
        let secret = Secret::generate().unwrap();
        assert!(secret.hash().is(&KeyHash::of(secret.reveal())));
        let long = "x".repeat(100_000);
        for wrong in ["", "x", secret.reveal().split_at(49).0, &format!("{}x", secret.reveal()), &long] {
            assert!(!secret.hash().is(&KeyHash::of(wrong)));
        }
        assert!(!KeyHash::from_stored(vec![]).is(&secret.hash()));
    }
}
