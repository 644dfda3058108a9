//! Random histories: whatever is written, in whichever order, by however many, with restarts between, the
//! log is dense, its fold is the entities, and every page and count is what a look at every line gives.
//!
//! A failing history is printed shrunk; it then becomes a test with a name in [`named`].

mod histories;
mod named;
