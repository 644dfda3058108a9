//! The whole server on a database of its own, spoken to over a plain socket: what only HTTP shows.

mod limited;
mod pages;
mod sizes;
mod wire;
