//! Who computes what: the lists, best first, and the providers.
pub(crate) mod hip;
mod lists;
pub(crate) mod miopen;
mod policy;
pub(crate) mod rocblas;

pub use lists::providers_of;
