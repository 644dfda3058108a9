//! The figures of PostgreSQL: a cluster of the figure's own that flushes for real, the same HTTP clients,
//! and what people would do without SCROLL beside it.

mod cluster;
mod naive;
pub mod reads;
mod side;
pub mod snapshot;
pub mod writes;
