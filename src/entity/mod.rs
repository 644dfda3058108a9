//! The write side, pure: what a command asks for, whether it is allowed, and which lines it makes.
//!
//! A store loads a [`Flight`] under the lock of a log, passes every waiting [`Submission`] through it, and
//! writes down what [`Flight::finish`] hands over, all in one transaction. Nothing here knows a database
//! or HTTP, so every rule has plain unit tests. What a decision needs to know and the flight has not yet
//! learned comes back as [`Needs`]; the store loads it under the same lock and asks again. Loading ahead
//! ([`Flight::foresee`]) is therefore only a matter of speed, never of correctness.

mod cascade;
mod command;
mod decide;
mod flight;
pub mod idempotency;
pub mod precondition;
mod record;
mod refusal;
mod state;
pub mod types;

pub use cascade::{MAX_CASCADE, MAX_GENERATIONS};
pub use command::{Answer, Bounds, Command, IdempotentRequest, Operation, Outcome, Record, Submission, Work};
pub use decide::{After, Decision, Effect, decide};
pub use flight::{Flight, Writes};
pub use idempotency::{Remembered, RequestKey};
pub use precondition::Preconditions;
pub use refusal::{Refusal, Refused};
pub use state::{Facts, Link, Live, Needs, State, Undecided, links};

#[cfg(test)]
mod tests;
