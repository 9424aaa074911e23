//! The reasons why a problem has no launch.
use crate::ElementType;
use std::fmt;

/// Why a problem has no launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no kernel for this op and these types.
    NoKernel {
        /// The requested op.
        op: String,
        /// The requested element types.
        types: Vec<ElementType>,
    },
    /// The number of dimensions is unsupported: too many after merging, too few, or not one stride per dimension.
    Rank(usize),
    /// The number of elements does not fit 63 bits.
    Size,
    /// A size exceeds what the kernel supports.
    Limit {
        /// What is limited.
        what: &'static str,
        /// The requested size.
        got: u64,
        /// The largest supported size.
        max: u64,
    },
    /// Another reason.
    Because(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NoKernel { op, types } => {
                let names: Vec<_> = types.iter().map(|t| t.name()).collect();
                write!(f, "no kernel of {op} for {}", names.join(", "))
            }
            Refused::Rank(n) => write!(f, "{n} dimensions cannot be walked"),
            Refused::Size => write!(f, "more than 2^63 elements"),
            Refused::Limit { what, got, max } => write!(f, "{what} is {got}, at most {max}"),
            Refused::Because(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Refused {}
