//! The laws that hold for every backend, combinator and op, from a user's side.
mod combinators;
mod custom;
mod device;
mod everywhere;
mod model;
mod packed;
mod properties;
mod untyped;
