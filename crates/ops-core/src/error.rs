//! The error type of the workspace. Callers branch on [`Error::Unsupported`]; they never need to match on its text.
use crate::{DType, Determinism, Layout, Shape};
use about::named;
use std::sync::Arc;

mod about;

pub(crate) use about::About;
pub use about::OfCall;

/// The result type of this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Why a backend or a provider declines an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// No kernel for this element type.
    #[error("no kernel for {operand} in {dtype}")]
    DType {
        /// Which operand.
        operand: &'static str,
        /// Its type.
        dtype: DType,
    },
    /// The operand is strided, but the kernel needs its rows to be contiguous.
    #[error("operand {0} must be contiguous in its last axis")]
    Stride(&'static str),
    /// The operand is in a packing that this backend's kernels cannot read.
    #[error("operand {operand} is packed in the order {packing}, which this backend does not read")]
    Packed {
        /// Which operand.
        operand: &'static str,
        /// The packing's name.
        packing: &'static str,
    },
    /// A size exceeds what the kernel supports.
    #[error("{what} = {got}, limit {max}")]
    Limit {
        /// What is too large.
        what: &'static str,
        /// Its size.
        got: usize,
        /// The largest supported size.
        max: usize,
    },
    /// The user's policy forbids it.
    #[error("disabled by policy")]
    Policy,
    /// The guaranteed level of determinism is below the requested one.
    #[error("determinism {wanted} or higher was requested; the best available is {available}")]
    Determinism {
        /// The requested level.
        wanted: Determinism,
        /// The highest level available for this call.
        available: Determinism,
    },
    /// There is no kernel at all.
    #[error("not implemented by this backend")]
    Missing,
    /// Any other reason, in words.
    #[error("{0}")]
    Because(String),
}

/// Why an op, a file or a model failed. Messages say what is known of: the op, the operand, what it got and what it wanted.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing ran and no output was written; a fallback may take over.
    #[error("{op} is not supported on {backend}: {reason}")]
    Unsupported {
        /// The op.
        op: &'static str,
        /// The backend that declined.
        backend: &'static str,
        /// Why.
        reason: Reason,
    },
    /// An operand's shape violates the op's rule. All backends report this alike.
    #[error("{op}: {operand} has shape {got}, expected {want}")]
    Shape {
        /// The op.
        op: &'static str,
        /// Which operand.
        operand: &'static str,
        /// Its layout.
        got: Box<Layout>,
        /// What the rule requires.
        want: String,
    },
    /// An operand's element type violates the op's rule. All backends report this alike.
    #[error("{op}: {operand} is of {got}, expected {want}")]
    DType {
        /// The op.
        op: &'static str,
        /// Which operand.
        operand: &'static str,
        /// Its element type.
        got: DType,
        /// The types that the op accepts.
        want: &'static str,
    },
    /// An operand is missing, or was given to an op that does not have it.
    #[error("{op}: {operand} is {got}, expected {want}")]
    Operand {
        /// The op.
        op: &'static str,
        /// Which operand.
        operand: &'static str,
        /// What was given.
        got: String,
        /// What the op accepts.
        want: String,
    },
    /// An option of the op is out of its range.
    #[error("{op}: {param} is {got}, expected {want}")]
    Param {
        /// The op.
        op: &'static str,
        /// Which option.
        param: &'static str,
        /// Its value.
        got: String,
        /// The range.
        want: String,
    },
    /// A view extends beyond its buffer.
    #[error("{op}: the view {layout} of {operand} reaches beyond its buffer of {len} elements")]
    OutOfBounds {
        /// The op, or the constructor.
        op: &'static str,
        /// Which operand.
        operand: &'static str,
        /// The view.
        layout: Box<Layout>,
        /// The buffer's length in elements.
        len: usize,
    },
    /// Bytes are misaligned for the element type.
    #[error("{operand}: the memory is not aligned for elements of {dtype}, {} bytes", dtype.align())]
    Align {
        /// The operand or view.
        operand: &'static str,
        /// The element type.
        dtype: DType,
    },
    /// A view for writing refers to some element twice.
    #[error(
        "{op}: output {operand} with view {layout} overlaps itself; write to a view without repeated elements"
    )]
    Overlap {
        /// The op.
        op: &'static str,
        /// Which output.
        operand: &'static str,
        /// The view.
        layout: Box<Layout>,
    },
    /// A view cannot be made.
    #[error("{}cannot {view} {layout}: {why}", named(.of))]
    View {
        /// The op and the operand that the view was for, if it was made for one.
        of: Option<OfCall>,
        /// Which view.
        view: &'static str,
        /// The layout that it was to be made from.
        layout: Box<Layout>,
        /// Why not.
        why: String,
    },
    /// Two shapes do not broadcast together.
    #[error(
        "{}shapes {from} and {to} do not broadcast: extents must be equal or 1, aligned at the last axis", named(.of)
    )]
    Broadcast {
        /// The op and the operand, if it was for one.
        of: Option<OfCall>,
        /// One shape.
        from: Box<Shape>,
        /// The other.
        to: Box<Shape>,
    },
    /// The axis does not exist.
    #[error("{}axis {axis} does not exist in a tensor of rank {rank}", named(.of))]
    Axis {
        /// The op and the operand, if it was for one.
        of: Option<OfCall>,
        /// The requested axis.
        axis: isize,
        /// The number of axes.
        rank: usize,
    },
    /// A layout has too many axes.
    #[error("rank {got} exceeds the largest rank of {max}")]
    Rank {
        /// The number of axes asked for.
        got: usize,
        /// The largest number of axes.
        max: usize,
    },
    /// A tensor has more elements than the address space can hold.
    #[error("a tensor of shape {dims:?} has more elements than memory can hold")]
    TooLarge {
        /// The extents asked for.
        dims: Box<[usize]>,
    },
    /// Strides lead outside the address space.
    #[error("bad strides for shape {shape}: {why}")]
    Strides {
        /// The extents.
        shape: Box<Shape>,
        /// What is wrong.
        why: &'static str,
    },
    /// The number of elements does not match the extents.
    #[error("{got} elements were given for a tensor of shape {shape}, which has {}", shape.len())]
    Count {
        /// Elements given.
        got: usize,
        /// The shape.
        shape: Box<Shape>,
    },
    /// A transfer reaches outside its buffer.
    #[error("{call}: elements {start}..{start}+{count} lie outside a buffer of {len}")]
    Range {
        /// `read` or `write`.
        call: &'static str,
        /// The first element.
        start: usize,
        /// The number of elements.
        count: usize,
        /// The buffer's length in elements.
        len: usize,
    },
    /// An index operand holds an index out of range.
    #[error("{op}: {operand} holds {index} at position {position}, {}", outside(*.index, *.bound))]
    Index {
        /// The op.
        op: &'static str,
        /// The index operand.
        operand: &'static str,
        /// Its position in the operand, in row-major order.
        position: usize,
        /// The value found.
        index: i64,
        /// One past the largest valid value.
        bound: usize,
    },
    /// An allocation failed.
    #[error("out of memory on {backend}: {bytes} bytes wanted{}", hint(.detail))]
    OutOfMemory {
        /// The backend whose memory is exhausted.
        backend: &'static str,
        /// The number of bytes requested.
        bytes: usize,
        /// What else is known: free and total memory, and what uses the rest.
        detail: String,
    },
    /// A paged cache has too few free blocks. Nothing changed; the caller may drop or truncate a sequence and try again.
    #[error(
        "cache is full: {wanted} more blocks needed, {free} of {count} free; drop or truncate a sequence"
    )]
    OutOfBlocks {
        /// The number of blocks needed.
        wanted: usize,
        /// The number of free blocks.
        free: usize,
        /// The total number of blocks.
        count: usize,
    },
    /// Recurrent layers have no memory for further texts. Nothing changed; the caller may drop or truncate a sequence and try again.
    #[error(
        "no memory for recurrent layers: {wanted} more texts, {free} of {count} free; drop a sequence, or allocate pages for more texts"
    )]
    OutOfMemories {
        /// The number of texts that need one.
        wanted: usize,
        /// The number of free memories.
        free: usize,
        /// The total number of memories.
        count: usize,
    },
    /// A library or driver call failed.
    #[error("{call} failed on {backend}: {status}")]
    Device {
        /// The backend that made the call.
        backend: &'static str,
        /// Which call.
        call: &'static str,
        /// What it returned, and what to do about it.
        status: String,
    },
    /// The machine has no device for this backend, or lacks the software for it. A program may go on with another backend.
    #[error("{call} failed on {backend}: {why}")]
    NoDevice {
        /// The backend.
        backend: &'static str,
        /// What was attempted.
        call: &'static str,
        /// What is missing, and what to do about it.
        why: String,
    },
    /// A collective failed, on every rank of the [`Group`](crate::group::Group). The group cannot be used any more.
    #[error("{op}: rank {rank} of {size} {why}. The group is over: make a new one")]
    Group {
        /// The collective.
        op: &'static str,
        /// The rank that was at fault, or first noticed it.
        rank: usize,
        /// The number of ranks.
        size: usize,
        /// What happened, and what to do about it.
        why: String,
    },
    /// A tensor belongs to the other side of an [`Either`](crate::Either).
    #[error(
        "{call}: a tensor belongs to the other backend; tensors of the two sides of an Either do not mix"
    )]
    WrongSide {
        /// The call that was attempted.
        call: &'static str,
    },
    /// An error of a crate above the ops: a file cannot be read, or a model not run. `downcast_ref` on it gives that crate's own type,
    /// such as `gguf::Error` and `models::Error` of `rocm-ops`.
    #[error(transparent)]
    Other(Arc<dyn core::error::Error + Send + Sync>),
    /// The result of a checked op differs from the reference.
    #[error(
        "{op}: output {output} differs from the reference at {index:?}: got {got}, reference {want} \
         (nmse {nmse:.3e}, limit {limit:.3e})"
    )]
    Mismatch {
        /// The op.
        op: &'static str,
        /// Which output.
        output: &'static str,
        /// The index of the first bad element.
        index: Box<[usize]>,
        /// Its value.
        got: String,
        /// The reference's value.
        want: String,
        /// Error over the whole output; 0 if the comparison is exact.
        nmse: f64,
        /// The limit of the error.
        limit: f64,
    },
}

/// Programs that read, compute and print can return one error.
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::other(error)
    }
}

/// What is wrong with an index: it is out of range, or in range but too small for the rows that depend on it.
fn outside(index: i64, bound: usize) -> String {
    match usize::try_from(index) {
        Ok(index) if index < bound => "too small for its rows".into(),
        _ => format!("outside 0..{bound}"),
    }
}

fn hint(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(" ({detail})") }
}

impl Error {
    /// Makes an [`Error::Shape`].
    pub fn shape(op: &'static str, operand: &'static str, got: &Layout, want: impl Into<String>) -> Self {
        Error::Shape { op, operand, got: Box::new(*got), want: want.into() }
    }
    /// Makes an [`Error::Broadcast`].
    pub fn broadcast(from: &Shape, to: &Shape) -> Self {
        Error::Broadcast { of: None, from: Box::new(*from), to: Box::new(*to) }
    }
    /// Makes an [`Error::Count`].
    pub fn count(got: usize, shape: Shape) -> Self {
        Error::Count { got, shape: Box::new(shape) }
    }
    /// Makes an [`Error::Other`].
    pub fn other(error: impl core::error::Error + Send + Sync + 'static) -> Self {
        Error::Other(Arc::new(error))
    }
    /// Makes an [`Error::Param`].
    pub fn param(op: &'static str, param: &'static str, got: impl ToString, want: impl Into<String>) -> Self {
        Error::Param { op, param, got: got.to_string(), want: want.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_small_enough_to_return_everywhere() {
        assert!(size_of::<Error>() <= 112, "{}", size_of::<Error>());
    }
}
