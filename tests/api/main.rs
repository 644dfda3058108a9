//! One binary with every test that speaks HTTP: the real server on a real socket, and the real program
//! where a process matters.
//!
//! Expectations are computed here, from the bytes on the wire: nothing is checked against what it was
//! made with. Every answer of every test is held against openapi.yaml by the client.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "a test stops loudly"
)]

mod access;
mod bootstrap;
mod corpus;
mod crash;
mod failover;
mod faults;

mod history;
mod live;
mod openapi;
mod operation;
mod pages;
mod parameters;
mod pooler;
mod readers;
mod restarts;
mod standby;
mod support;
mod tls;
mod wire;
mod writes;
