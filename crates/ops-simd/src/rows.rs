//! Operations over rows: the last dimension, contiguous. Each function takes whole rows, one or many.

mod driver;
pub(crate) mod fold;
mod norm;
mod online;
mod reduce;
mod rope;
mod softmax;

pub use norm::{add_rms_norm, layer_norm, rms_norm};
pub use online::{Running, online_softmax};
pub use reduce::{Moments, max, moments, sum, sum_of_squares};
pub use rope::{Pairs, rope, rope_in_place};
pub use softmax::{log_softmax, softmax};
