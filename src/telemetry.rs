//! Logs, on stderr: for people by default, as JSON for machines. Never keys, bodies or entity data.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// What the web server tells about itself at `info` is noise beside our own line about the address.
const QUIET: &str = "actix_server=warn,actix_web=warn,actix_http=warn,mio=warn";

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One readable line.
    Human,
    /// One JSON object.
    Json,
}

impl LogFormat {
    /// From the word.
    pub fn parse(word: &str) -> Result<LogFormat, String> {
        match word {
            "human" => Ok(LogFormat::Human),
            "json" => Ok(LogFormat::Json),
            _ => Err(format!("{word:?} is no log format; expected human or json")),
        }
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            LogFormat::Human => "human",
            LogFormat::Json => "json",
        }
    }
}

/// Which log lines are written: a level, or directives like `info,scroll::store=debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLevel(String);

impl LogLevel {
    /// Checks the level.
    pub fn parse(text: &str) -> Result<LogLevel, String> {
        let expected = || format!("{text:?} is no log level; expected off, error, warn, info, debug or trace");
        let is_filter = !text.trim().is_empty() && EnvFilter::try_new(text).is_ok();
        // A lone unknown word would be taken for the name of a module.
        let is_known = text.contains(['=', ',']) || text.parse::<tracing_subscriber::filter::LevelFilter>().is_ok();
        if is_filter && is_known { Ok(LogLevel(text.to_owned())) } else { Err(expected()) }
    }

    /// The level as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn filter(&self) -> EnvFilter {
        let is_plain_info = self.0.eq_ignore_ascii_case("info");
        EnvFilter::new(if is_plain_info { format!("info,{QUIET}") } else { self.0.clone() })
    }
}

/// How and what to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// How a line looks.
    pub format: LogFormat,
    /// Which lines are written.
    pub level: LogLevel,
}

/// Begins to log. A second call changes nothing.
pub fn start(settings: &LogSettings) {
    let is_coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(settings.level.filter());
    let started = match settings.format {
        LogFormat::Human => lines.with_ansi(is_coloured).with_target(false).finish().try_init(),
        LogFormat::Json => lines.with_ansi(false).json().flatten_event(true).finish().try_init(),
    };
    // The only reason to fail is a logger that is there already, and then that one goes on.
    drop(started);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_directives_are_told_from_other_words() {
        for good in ["info", "DEBUG", "off", "info,scroll::store=debug", "scroll=trace"] {
            assert!(LogLevel::parse(good).is_ok(), "{good:?}");
        }
        for bad in ["", " ", "loud", "verbose", "scroll=loud"] {
            assert!(LogLevel::parse(bad).is_err(), "{bad:?}");
        }
    }
}
