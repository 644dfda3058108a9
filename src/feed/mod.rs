//! The read side: what a consumer is answered, without SQL and without HTTP.
//!
//! A page is fixed before its first byte: [`page::open`] reads where the log stands, decides how far the
//! page reaches, and so knows every header. [`lines::Lines`] then hands the lines over in short reads, each
//! finished however slow the consumer is. Lines travel as the bytes that were rendered at commit.

pub mod audit;
mod error;
mod lagging;
pub mod lines;
pub mod page;

pub use error::FeedError;
pub use page::{Checkpoint, Page, PageRequest, Since};
