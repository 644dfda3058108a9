//! SCROLL: an ordered, complete, verifiable change log that consumers pull.
//!
//! # The map
//!
//! | module | what it promises |
//! |---|---|
//! | [`change`] | the vocabulary, pure: names, numbers, lines, fingerprints, strict JSON |
//! | [`entity`] | the decisions of the write side, pure: commands, preconditions, declared types, idempotency |
//! | [`access`] | keys, scopes and logs, pure |
//! | [`feed`] | the read side without SQL and HTTP: pages, live streams, audits |
//! | [`store`] | the port to the database and its adapters; the only place that knows diesel |
//! | [`api`] | HTTP; the only place that knows actix |
//! | [`server`], [`tasks`] | puts the parts together and takes them down in order |
//! | [`jitter`] | times spread at random |
//! | [`cli`], [`config`], [`telemetry`], [`metrics`] | the command line, its settings, logs and figures |
//!
//! Arrows point one way: `api` → `feed`, `entity` → `change`; `store` → `entity`, `change`.
//!
//! # The way of one write
//!
//! A handler in [`api`] reads a request strictly into an [`entity::Submission`] and hands it to
//! [`store::Store::write`], which queues it for the one writer. The writer takes whatever waits, locks the
//! log, loads what the submissions need into an [`entity::Flight`], and passes each through
//! [`entity::decide`]: a pure function whose effects the next submission already sees. The lines are rendered
//! there. One transaction stores lines, entities, counts, fingerprints and remembered answers; only after the
//! commit does the head move and is anybody answered.
//!
//! # The way of one read
//!
//! [`feed::page::open`] fixes a page before its first byte: where it ends, whether it is dense, what its
//! checkpoint is. A producer task then takes its lines from [`feed::lines::Lines`] in short reads and fills
//! a bounded channel that the connection drains. The lines are the bytes that were rendered at commit.
//!
//! # The way of a live read
//!
//! A commit hands its changes to the [`feed::tail`] of its log, if anybody follows it, and moves the head. The
//! tail keeps the newest lines as shared bytes and wakes its followers. A [`feed::follow::Follower`] reads history
//! from the store until the tail covers its cursor and lives off the tail from there; the connection polls it
//! directly, so one that is idle is one parked future.

pub mod access;
pub mod api;
pub mod change;
pub mod cli;
pub mod config;
pub mod entity;
pub mod feed;
pub mod jitter;
pub mod metrics;
pub mod server;
pub mod store;
pub mod tasks;
pub mod telemetry;
