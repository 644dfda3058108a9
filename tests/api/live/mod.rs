//! The live modes (PROTOCOL sections 3 to 5): long-poll, continuous, server-sent events.

mod caps;
mod clients;
mod continuous;
mod ends;
mod events;
mod long_poll;
mod many;
mod parameters;
mod proxies;
mod servers;
mod terminal;
