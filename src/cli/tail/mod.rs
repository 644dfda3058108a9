//! `scroll tail URL`: follows a log in the terminal, of whatever server, and comes back by itself.
//!
//! It goes on from the last whole line, so that nothing is shown twice and nothing is left out. What passes
//! by itself (a restart, a proxy that lets go) is said and waited for; what does not (a key, a cursor) ends it.

mod backoff;
mod reading;
mod shown;

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;

use self::backoff::Backoff;
use self::reading::{Arrived, Ended, Query, Reading};
use self::shown::Style;
use super::{CliError, terminal};
use crate::config::SettingFaults;

/// Settings of a tail, as they are written.
#[derive(Debug, Args)]
pub struct TailArgs {
    /// Where the server is, like `https://log.example.com` or `http://127.0.0.1:8080`
    #[arg(value_name = "URL")]
    url: String,
    /// An access key with the scope read; better in the environment, where no list of processes shows it
    #[arg(long, env = "SCROLL_KEY", hide_env_values = true, value_name = "KEY")]
    key: String,
    /// The log, for a key of all logs
    #[arg(long, value_name = "NAME")]
    log: Option<String>,
    /// Begin after this seq; `now` shows only what comes
    #[arg(long, default_value = "now", value_name = "SEQ")]
    since: String,
    /// Only these resources; repeat it, or separate by commas
    #[arg(long = "resource", value_delimiter = ',', value_name = "NAME")]
    resources: Vec<String>,
    /// Only these entities of one resource; repeat it
    #[arg(long = "id", value_name = "ID")]
    ids: Vec<String>,
    /// End after so many lines
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
    /// Lines as they are, for other programs
    #[arg(long)]
    json: bool,
}

/// A tail that is ready to run.
pub struct Tail {
    query: Query,
    style: Style,
    backoff: Backoff,
}

impl TailArgs {
    /// Checks every setting. What the server judges is left to it.
    pub fn configure(self) -> Result<Tail, SettingFaults> {
        let is_url =
            ["http://", "https://"].iter().any(|scheme| self.url.len() > scheme.len() && self.url.starts_with(scheme));
        if !is_url {
            return Err(SettingFaults::one(
                "URL",
                format!("{:?} is no URL of a server, like http://127.0.0.1:8080", self.url),
            ));
        }
        if self.key.is_empty() || !self.key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SettingFaults::one("--key", "is no key"));
        }
        if self.limit == Some(0) {
            return Err(SettingFaults::one("--limit", "must be at least 1"));
        }
        let style = match self.json {
            true => Style::AsItIs,
            false if std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() => Style::Coloured,
            false => Style::Plain,
        };
        let query = Query {
            server: self.url.trim_end_matches('/').to_owned(),
            key: self.key,
            log: self.log,
            since: self.since,
            epoch: None,
            resources: self.resources,
            ids: self.ids,
            left: self.limit,
        };
        Ok(Tail { query, style, backoff: Backoff::default() })
    }
}

impl Tail {
    /// Shows lines until there is a reason to stop.
    pub async fn run(mut self) -> Result<(), CliError> {
        loop {
            // Reading blocks, so it has a thread of its own.
            let reading = tokio::task::spawn_blocking(move || {
                let ended = self.once();
                (self, ended)
            });
            let (tail, ended) =
                reading.await.map_err(|error| CliError::CouldNot(format!("the reading thread is gone: {error}")))?;
            self = tail;
            match ended? {
                Ended::Done => return Ok(()),
                Ended::Refused(words) => return Err(CliError::Refused(words)),
                Ended::Passing { why, at_least } => self.pause(&why, at_least).await,
            }
        }
    }

    async fn pause(&mut self, why: &str, at_least: Duration) {
        let pause = self.backoff.next(at_least);
        let (since, seconds) = (&self.query.since, pause.as_secs_f64());
        terminal::remark(&format!("scroll: {why}; going on after {since} in {seconds:.1} s"));
        tokio::time::sleep(pause).await;
    }

    /// Shows what one answer brings, and moves the place to go on from with every whole line.
    fn once(&mut self) -> Result<Ended, CliError> {
        let mut reading = match Reading::begin(&self.query) {
            Ok(reading) => reading,
            Err(ended) => return Ok(ended),
        };
        reading.place(&mut self.query);
        loop {
            match reading.next() {
                Arrived::SignOfLife => {}
                Arrived::Bookmark(seq) => self.query.since = seq.to_string(),
                Arrived::Change { seq, line } => {
                    self.backoff.succeeded();
                    if !self.style.show(&line)? {
                        return Ok(Ended::Done);
                    }
                    self.query.since = seq.to_string();
                    self.query.left = self.query.left.map(|left| left.saturating_sub(1));
                }
                Arrived::End(_) if self.query.left == Some(0) => return Ok(Ended::Done),
                Arrived::End(ended) => return Ok(ended),
            }
        }
    }
}
