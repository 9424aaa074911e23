//! The laws that hold for every backend, combinator and op, as seen by a user.
mod book;
mod combinators;
mod custom;
mod device;
mod documents;
mod everywhere;
mod facade;
mod front_page;
mod group;
mod model;
mod names;
mod packed;
mod printing;
mod properties;
mod rounding;
mod untyped;
