//! SCROLL: an ordered, complete, verifiable change log that consumers pull.

pub mod change;
pub mod entity;
