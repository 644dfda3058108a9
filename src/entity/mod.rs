//! The write side's decisions, pure: what a command may do to a state.

pub mod types;
