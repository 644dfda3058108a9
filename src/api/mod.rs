//! The HTTP face: the only place that knows actix. One file per resource; `extract` reads requests,
//! `middleware` names, guards and logs them, `problem` refuses.

pub mod extract;
pub mod problem;
