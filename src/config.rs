//! Settings in their final form: checked once, at the edge, all faults at the same time.
//!
//! The command line hands raw text over ([`crate::cli`]); what comes out of here can be used without
//! another look. A fault says which setting it is about, what was expected, and repeats the value only
//! where it cannot hold a secret.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::entity::types::Catalog;
use crate::store::postgres::redacted;
use crate::store::{PostgresSettings, is_postgres};

/// Where the log is kept when nobody says otherwise.
pub const DEFAULT_DATABASE_URL: &str = "sqlite:scroll.db";

/// Everything that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq, Default, thiserror::Error)]
pub struct SettingFaults(Vec<String>);

impl fmt::Display for SettingFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl SettingFaults {
    /// A single fault of a setting.
    pub fn one(setting: &str, what: impl fmt::Display) -> SettingFaults {
        SettingFaults(vec![format!("{setting}: {what}")])
    }

    /// Each of them, one sentence.
    pub fn each(&self) -> &[String] {
        &self.0
    }

    /// Takes the value, or keeps what is wrong with it and goes on.
    pub fn keep<T>(&mut self, parsed: Result<T, SettingFaults>) -> Option<T> {
        parsed.map_err(|faults| self.0.extend(faults.0)).ok()
    }

    /// As [`SettingFaults::keep`], for a value that says itself what is wrong with it.
    pub fn keep_as<T, E: fmt::Display>(&mut self, setting: &str, parsed: Result<T, E>) -> Option<T> {
        self.keep(parsed.map_err(|what| SettingFaults::one(setting, what)))
    }
}

/// The database: `sqlite:PATH` or `postgres://…`.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// Reads the URL. Messages do not repeat it: the URL of another engine may hold a password.
    pub fn parse(text: &str) -> Result<DatabaseUrl, String> {
        if is_postgres(text) {
            return Ok(DatabaseUrl(text.to_owned()));
        }
        let Some(path) = text.strip_prefix("sqlite:") else {
            return Err("expected sqlite:PATH, for example sqlite:scroll.db or sqlite:/var/lib/scroll/scroll.db, \
                        or postgres://USER@HOST/DATABASE"
                .into());
        };
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.contains(":memory:") || path.starts_with("file:") {
            return Err("a log must survive a power cut, so it needs a plain file: sqlite:PATH".into());
        }
        if path.is_empty() || path.contains('\0') {
            return Err("the path is missing: write sqlite:PATH, for example sqlite:scroll.db".into());
        }
        Ok(DatabaseUrl(text.to_owned()))
    }

    /// The URL as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True when this is where commands look by themselves.
    pub fn is_default(&self) -> bool {
        self.0 == DEFAULT_DATABASE_URL
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

/// Without its password.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_postgres(&self.0) { f.write_str(&redacted(&self.0)) } else { f.write_str(&self.0) }
    }
}

/// The database, and how to work with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// Where it is.
    pub url: DatabaseUrl,
    /// What only PostgreSQL asks for.
    pub postgres: PostgresSettings,
}

/// The declared resource types, and where they come from.
#[derive(Debug, Clone)]
pub struct Types {
    /// The types.
    pub catalog: Catalog,
    /// The file, `None` for the built-in example.
    pub file: Option<PathBuf>,
}

impl Types {
    /// Reads the file, or takes the built-in example; every fault of the file is reported.
    pub fn load(file: Option<&Path>, is_strict: bool) -> Result<Types, SettingFaults> {
        let catalog = match file {
            None => Catalog::builtin(),
            Some(path) => read_types(path)?,
        };
        Ok(Types { catalog: catalog.strict(is_strict), file: file.map(Path::to_path_buf) })
    }
}

fn read_types(path: &Path) -> Result<Catalog, SettingFaults> {
    let named = |what: &dyn fmt::Display| format!("--types {}: {what}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| SettingFaults(vec![named(&error)]))?;
    Catalog::from_toml(&text).map_err(|faults| SettingFaults(faults.0.iter().map(|fault| named(fault)).collect()))
}

/// Reads an address and a port.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("{text:?} is no address; expected an IP address and a port, like 127.0.0.1:8080 or [::1]:8080")
    })
}

/// Reads a whole number between two bounds; `unit` is for the message.
pub fn parse_number(text: &str, bounds: std::ops::RangeInclusive<usize>, unit: &str) -> Result<usize, String> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if is_plain && bounds.contains(&number) => Ok(number),
        _ => Err(format!("{text:?} is not a number of {unit} from {} to {}", bounds.start(), bounds.end())),
    }
}

/// Reads yes or no; an empty text counts as no, as environments often have it.
pub fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" | "" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// Reads the origin of a web page, as a browser sends it.
pub fn parse_origin(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_origin = host.is_some_and(|host| {
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic() && !b"/?#@*\\\"'<>".contains(&b))
    });
    if is_origin {
        return Ok(text.to_ascii_lowercase());
    }
    Err(format!("{text:?} is no origin; expected scheme, host and port only, like https://app.example.com"))
}

/// Longest duration that is accepted: a hundred years, in seconds.
const MAX_DURATION_SECONDS: u64 = 100 * 365 * 24 * 3600;

/// Reads a duration: a whole number and `s`, `m`, `h` or `d`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("{text:?} is no duration; expected a whole number and a unit: 90s, 45m, 12h or 30d");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(expected());
    }
    let unit: u64 = match text.strip_prefix(digits) {
        Some("s") => 1,
        Some("m") => 60,
        Some("h") => 3600,
        Some("d") => 24 * 3600,
        _ => return Err(expected()),
    };
    let seconds = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    match seconds {
        Some(0) => Err(format!("{text:?} is no time at all; expected at least 1s")),
        Some(seconds) if seconds <= MAX_DURATION_SECONDS => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("{text:?} is longer than a hundred years")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        for (text, seconds) in [("90s", 90), ("45m", 2700), ("12h", 43_200), ("30d", 2_592_000), ("1s", 1)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in [
            "",
            "30",
            "d",
            "-1d",
            "+1d",
            "1.5h",
            "30 d",
            "30D",
            "1w",
            "30days",
            "0s",
            "36501d",
            "99999999999999999999d",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_database_url_names_a_durable_file() {
        for good in ["sqlite:scroll.db", "sqlite:/var/lib/scroll.db", "sqlite:///var/lib/scroll.db", "sqlite:a b.db"] {
            assert_eq!(DatabaseUrl::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "scroll.db", "sqlite:", "sqlite://", "sqlite::memory:", "sqlite:file:x?mode=memory"] {
            assert!(DatabaseUrl::parse(bad).is_err(), "{bad:?}");
        }
        let postgres = DatabaseUrl::parse("postgres://scroll:hunter2@db/scroll").unwrap();
        assert_eq!(postgres.to_string(), "postgres://scroll@db/scroll");
        assert!(!DatabaseUrl::parse("mysql://scroll:hunter2@db/x").unwrap_err().contains("hunter2"));
    }

    #[test]
    fn origins_are_what_a_browser_sends() {
        for good in ["https://app.example.com", "http://localhost:3000", "http://[::1]:3000"] {
            assert_eq!(parse_origin(good).as_deref(), Ok(good));
        }
        for bad in ["", "*", "app.example.com", "https://", "https://a.example/", "https://*.a.example", "ftp://a"] {
            assert!(parse_origin(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn numbers_have_bounds_and_say_them() {
        assert_eq!(parse_number("256", 1..=4096, "writes"), Ok(256));
        for bad in ["", "0", "4097", "-1", "+1", "1.0", "1_000", " 1", "99999999999999999999999"] {
            let said = parse_number(bad, 1..=4096, "writes").unwrap_err();
            assert!(said.contains("writes from 1 to 4096"), "{said}");
        }
    }

    #[test]
    fn a_switch_is_never_guessed() {
        for (text, switch) in [("true", true), ("1", true), ("false", false), ("0", false), ("", false)] {
            assert_eq!(parse_switch(text), Ok(switch), "{text:?}");
        }
        for bad in ["True", "yes", "on", "off", "no", "ture", " true", "2", "f"] {
            assert!(parse_switch(bad).unwrap_err().contains("true nor false"), "{bad:?}");
        }
    }

    #[test]
    fn every_fault_of_a_types_file_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("types.toml");
        std::fs::write(&file, "[resource.A]\n[resource.b]\nprefx = 1\n").unwrap();
        let faults = Types::load(Some(&file), false).unwrap_err();
        assert!(faults.each().len() >= 2, "{faults}");
        assert!(faults.each().iter().all(|fault| fault.starts_with("--types ") && fault.contains("types.toml: ")));
        let missing = Types::load(Some(&folder.path().join("none.toml")), false).unwrap_err();
        assert!(missing.to_string().contains("none.toml"), "{missing}");
    }
}
