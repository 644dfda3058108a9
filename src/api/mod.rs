//! The HTTP face: the only place that knows actix. One file per resource; `extract` reads requests,
//! `middleware` names, guards and logs them, `problem` refuses.
//!
//! A request passes the frame (request id, problems, log), the gate (key, sizes), the [`routes`] (404, 405)
//! and reaches a handler, which asks its extractors in the order in which refusals are said: 403, 406, 400.

pub mod admin;
mod answer;
mod app;
pub mod batch;
pub mod body;
pub mod changes;
pub mod connection;
pub mod docs;
pub mod entities;
pub mod extract;
pub mod health;
mod keyring;
pub mod log;
pub mod metrics;
pub mod middleware;
mod min_head;
pub mod problem;
pub mod problems;
pub mod routes;
mod running;
mod streams;
mod writes;

pub use app::{App, Limits};
pub use min_head::wait_until_head;
pub use streams::StreamTimes;
