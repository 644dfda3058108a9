//! `/v1/admin`: logs and keys (PROTOCOL section 10).

mod form;
pub mod keys;
pub mod logs;
