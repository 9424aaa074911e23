//! Operations over rows, that is, over the contiguous last dimension. Each function takes one or more whole rows.

mod columns;
mod driver;
pub(crate) mod fold;
mod norm;
mod online;
mod reduce;
mod rope;
mod softmax;

pub use columns::{Columns, arg_columns, fold_columns};
pub use norm::{add_rms_norm, group_norm, l2_norm, layer_norm, rms_norm};
pub use online::{Running, online_softmax};
pub use reduce::{Moments, arg, find, max, min, moments, sum, sum_of_squares};
pub use rope::{Pairs, rope, rope_in_place};
pub use softmax::{log_softmax, softmax};
