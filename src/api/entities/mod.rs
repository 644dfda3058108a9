//! `/v1/entities`: the current state, and the writes that change it.

mod list;
mod read;
mod write;

pub use list::list;
pub use read::read;
pub use write::{act, create, delete, new_id, patch, put};
