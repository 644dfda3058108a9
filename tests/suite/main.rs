//! One binary with every test that needs a database: the contract of the store on each engine, and
//! random histories.
//!
//! The expectations are computed here, from the bytes of the lines, by code of their own: nothing is
//! checked against what it was made with.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "a test stops loudly"
)]

mod followed;
mod properties;
mod served;
mod store_contract;
mod support;
