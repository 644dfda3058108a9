//! The read side: what a consumer is answered, without SQL and without HTTP.
//!
//! A page is fixed before its first byte: [`page::open`] reads where the log stands, decides how far the
//! page reaches, and so knows every header. [`lines::Lines`] then hands the lines over in short reads, each
//! finished however slow the consumer is. Lines travel as the bytes that were rendered at commit.
//!
//! [`wait`] holds a page back until it has a line. [`follow`] goes on for ever: history from the store, then
//! what [`tail`] has in memory for everybody.

pub mod audit;
mod error;
pub mod follow;
pub mod form;
mod lagging;
pub mod lines;
pub mod page;
pub mod tail;
pub mod wait;

pub use error::FeedError;
pub use form::End;
pub use page::{Checkpoint, Page, PageRequest, Since};
