//! What every store promises, each rule written once and run on every engine.
//!
//! A rule is an `async fn(Bed)`; the list at the end of each file makes its tests. A further engine adds a
//! line to `on_every_engine!` and one to `Engine`.

mod access;
mod batches;
mod closing;
mod conditions;
mod grouping;
mod idempotency;
mod lines;
mod numbering;
mod opening;
mod outbox;
mod postgres;
mod references;
mod scans;
mod sqlite;
mod writes;
