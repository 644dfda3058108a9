//! SCROLL: an ordered, complete, verifiable change log that consumers pull.

pub mod access;
pub mod api;
pub mod change;
pub mod cli;
pub mod config;
pub mod entity;
pub mod feed;
pub mod metrics;
pub mod server;
pub mod store;
pub mod tasks;
pub mod telemetry;
