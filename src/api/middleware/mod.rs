//! Around every request: the frame names it, renders its problems, survives its panics and logs it; the
//! gate asks for a key and turns away what is too long.

pub mod access_log;
mod cors;
mod frame;
mod gate;

pub use cors::Cors;
pub use frame::frame;
pub use gate::gate;
