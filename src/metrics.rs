//! What the people who run it look at: one registry in Prometheus form, every instrument named here.

use prometheus::proto::{Metric, MetricFamily};
use prometheus::{
    Encoder, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

/// Batch sizes worth telling apart; the largest flight is 256 submissions by default.
const BATCH_BUCKETS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
/// Commit times in seconds: from a fast disk's flush to a stall that somebody should look at.
const COMMIT_BUCKETS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0];

/// Every instrument of the server.
pub struct Metrics {
    registry: Registry,
    /// Submissions answered, by `result`: `accepted`, `refused`, `replayed`, `failed`.
    pub writes: IntCounterVec,
    /// Changes committed.
    pub changes: IntCounter,
    /// Submissions in one commit.
    pub batch_size: Histogram,
    /// Seconds from the begin of a write transaction to the end of its commit.
    pub commit_seconds: Histogram,
    /// Submissions that wait for the writer.
    pub queue_depth: IntGauge,
    /// Lines handed to feed responses.
    pub lines_sent: IntCounter,
    /// Body bytes handed to feed responses, before compression.
    pub bytes_sent: IntCounter,
    /// Feed responses whose body is not finished.
    pub open_responses: IntGauge,
    /// Open live streams and waiting long-polls, by `mode`.
    pub streams: IntGaugeVec,
    /// Live streams that have ended, by `mode` and `reason`: the words of PROTOCOL section 5, `left` for a client
    /// that went away, `failed`, and for long-polls `answered`.
    pub streams_ended: IntCounterVec,
    /// Lines handed to live streams, by `mode`.
    pub stream_lines: IntCounterVec,
    /// The newest committed seq, by `log`.
    pub head: IntGaugeVec,
    /// Requests answered, by `method` and `status`.
    pub requests: IntCounterVec,
    /// Background tasks that run, by `task`.
    pub tasks: IntGaugeVec,
    /// Open connections to PostgreSQL, by `pool`: `read`, `write`.
    pub database_connections: IntGaugeVec,
    /// Requests that wait for a connection, by `pool`.
    pub database_waiting: IntGaugeVec,
    /// Requests that found no free connection and had to wait, by `pool`.
    pub database_waits: IntCounterVec,
    /// Write transactions that were begun again, by `reason`: `conflict`, `connection`.
    pub database_retries: IntCounterVec,
    /// How often the connection that tells heads between servers was opened again.
    pub listen_reconnects: IntCounter,
    /// 1 while reads go to a standby.
    pub standby_usable: IntGauge,
    /// Reads that the primary answered although there is a URL for reads.
    pub standby_fallbacks: IntCounter,
    /// Logs that got a new epoch because the database went back, or may have.
    pub epochs_changed: IntCounter,
    /// Rows of the outbox that this server has seen and not drained, by `log`; at most one page of them.
    pub outbox_waiting: IntGaugeVec,
    /// How long the oldest of them waits, by `log`.
    pub outbox_oldest: GaugeVec,
    /// Rows of the outbox that were carried out.
    pub outbox_drained: IntCounter,
    /// Rows of the outbox that could not become a change.
    pub outbox_refused: IntCounter,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics(..)")
    }
}

impl Metrics {
    /// All instruments, registered and zero.
    pub fn new() -> Result<Metrics, prometheus::Error> {
        let registry = Registry::new();
        let metrics = Metrics {
            writes: IntCounterVec::new(
                Opts::new("scroll_writes_total", "Submissions answered, by result"),
                &["result"],
            )?,
            changes: IntCounter::new("scroll_changes_total", "Changes committed")?,
            batch_size: Histogram::with_opts(
                HistogramOpts::new("scroll_batch_size", "Submissions in one commit").buckets(BATCH_BUCKETS.to_vec()),
            )?,
            commit_seconds: Histogram::with_opts(
                HistogramOpts::new("scroll_commit_seconds", "Seconds that one write transaction took")
                    .buckets(COMMIT_BUCKETS.to_vec()),
            )?,
            queue_depth: IntGauge::new("scroll_queue_depth", "Submissions that wait for the writer")?,
            lines_sent: IntCounter::new("scroll_lines_sent_total", "Lines handed to feed responses")?,
            bytes_sent: IntCounter::new(
                "scroll_bytes_sent_total",
                "Body bytes handed to feed responses, before compression",
            )?,
            open_responses: IntGauge::new("scroll_open_responses", "Feed responses whose body is not finished")?,
            streams: IntGaugeVec::new(
                Opts::new("scroll_streams", "Open live streams and waiting long-polls, by mode"),
                &["mode"],
            )?,
            streams_ended: IntCounterVec::new(
                Opts::new("scroll_streams_ended_total", "Live streams that have ended, by mode and reason"),
                &["mode", "reason"],
            )?,
            stream_lines: IntCounterVec::new(
                Opts::new("scroll_stream_lines_total", "Lines handed to live streams, by mode"),
                &["mode"],
            )?,
            head: IntGaugeVec::new(Opts::new("scroll_head", "Newest committed seq, by log"), &["log"])?,
            requests: IntCounterVec::new(
                Opts::new("scroll_requests_total", "Requests answered, by method and status"),
                &["method", "status"],
            )?,
            tasks: IntGaugeVec::new(Opts::new("scroll_tasks", "Background tasks that run, by task"), &["task"])?,
            database_connections: IntGaugeVec::new(
                Opts::new("scroll_database_connections", "Open connections to PostgreSQL, by pool"),
                &["pool"],
            )?,
            database_waiting: IntGaugeVec::new(
                Opts::new("scroll_database_waiting", "Requests that wait for a connection, by pool"),
                &["pool"],
            )?,
            database_waits: IntCounterVec::new(
                Opts::new("scroll_database_waits_total", "Requests that had to wait for a connection, by pool"),
                &["pool"],
            )?,
            database_retries: IntCounterVec::new(
                Opts::new("scroll_database_retries_total", "Write transactions begun again, by reason"),
                &["reason"],
            )?,
            listen_reconnects: IntCounter::new(
                "scroll_listen_reconnects_total",
                "Reconnects of the connection that tells heads between servers",
            )?,
            standby_usable: IntGauge::new("scroll_standby_usable", "1 while reads go to a standby")?,
            standby_fallbacks: IntCounter::new(
                "scroll_standby_fallbacks_total",
                "Reads that the primary answered although there is a URL for reads",
            )?,
            epochs_changed: IntCounter::new(
                "scroll_epochs_changed_total",
                "Logs that got a new epoch because the database went back, or may have",
            )?,
            outbox_waiting: IntGaugeVec::new(
                Opts::new("scroll_outbox_waiting", "Rows of the outbox seen and not drained, by log"),
                &["log"],
            )?,
            outbox_oldest: GaugeVec::new(
                Opts::new("scroll_outbox_oldest_seconds", "How long the oldest of them waits, by log"),
                &["log"],
            )?,
            outbox_drained: IntCounter::new("scroll_outbox_drained_total", "Rows of the outbox carried out")?,
            outbox_refused: IntCounter::new("scroll_outbox_refused_total", "Rows of the outbox set aside")?,
            registry,
        };
        metrics.register()?;
        Ok(metrics)
    }

    fn register(&self) -> Result<(), prometheus::Error> {
        let registry = &self.registry;
        registry.register(Box::new(self.writes.clone()))?;
        registry.register(Box::new(self.changes.clone()))?;
        registry.register(Box::new(self.batch_size.clone()))?;
        registry.register(Box::new(self.commit_seconds.clone()))?;
        registry.register(Box::new(self.queue_depth.clone()))?;
        registry.register(Box::new(self.lines_sent.clone()))?;
        registry.register(Box::new(self.bytes_sent.clone()))?;
        registry.register(Box::new(self.open_responses.clone()))?;
        registry.register(Box::new(self.streams.clone()))?;
        registry.register(Box::new(self.streams_ended.clone()))?;
        registry.register(Box::new(self.stream_lines.clone()))?;
        registry.register(Box::new(self.head.clone()))?;
        registry.register(Box::new(self.requests.clone()))?;
        registry.register(Box::new(self.tasks.clone()))?;
        registry.register(Box::new(self.database_connections.clone()))?;
        registry.register(Box::new(self.database_waiting.clone()))?;
        registry.register(Box::new(self.database_waits.clone()))?;
        registry.register(Box::new(self.database_retries.clone()))?;
        registry.register(Box::new(self.listen_reconnects.clone()))?;
        registry.register(Box::new(self.standby_usable.clone()))?;
        registry.register(Box::new(self.standby_fallbacks.clone()))?;
        registry.register(Box::new(self.epochs_changed.clone()))?;
        registry.register(Box::new(self.outbox_waiting.clone()))?;
        registry.register(Box::new(self.outbox_oldest.clone()))?;
        registry.register(Box::new(self.outbox_drained.clone()))?;
        registry.register(Box::new(self.outbox_refused.clone()))
    }

    /// The text that a scraper reads.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        encode(&self.registry.gather())
    }

    /// The part of it that one account may see: the series of its own log. Sums over all logs would tell
    /// how much the others write.
    pub fn render_for(&self, log: &str) -> Result<String, prometheus::Error> {
        let is_own =
            |metric: &Metric| metric.get_label().iter().any(|label| label.name() == "log" && label.value() == log);
        let mut families = self.registry.gather();
        for family in &mut families {
            family.mut_metric().retain(is_own);
        }
        families.retain(|family| !family.get_metric().is_empty());
        encode(&families)
    }
}

fn encode(families: &[MetricFamily]) -> Result<String, prometheus::Error> {
    let mut text = Vec::new();
    TextEncoder::new().encode(families, &mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_sees_the_series_of_its_own_log_only() {
        let metrics = Metrics::new().unwrap();
        metrics.head.with_label_values(&["mine"]).set(7);
        metrics.head.with_label_values(&["theirs"]).set(9);
        metrics.changes.inc_by(16);
        let all = metrics.render().unwrap();
        assert!(all.contains("theirs") && all.contains("scroll_changes_total 16"));
        let own = metrics.render_for("mine").unwrap();
        assert!(own.contains("scroll_head{log=\"mine\"} 7"), "{own}");
        assert!(!own.contains("theirs") && !own.contains("scroll_changes_total"), "{own}");
    }
}
