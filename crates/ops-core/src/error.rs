//! One error type. [`Error::Unsupported`] is a value that callers branch on, never a text to match.
use crate::{DType, Layout, Shape};

/// The result of everything in this crate.
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
    /// The operand is strided where the kernel needs it in one piece.
    #[error("operand {0} must be contiguous in its last axis")]
    Stride(&'static str),
    /// The operand is in an order that this backend's kernels do not read.
    #[error("operand {operand} is packed in the order {packing}, which this backend does not read")]
    Packed {
        /// Which operand.
        operand: &'static str,
        /// The order's name.
        packing: &'static str,
    },
    /// A size beyond what the kernel was written for.
    #[error("{what} = {got}, limit {max}")]
    Limit {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        got: usize,
        /// The largest size that runs.
        max: usize,
    },
    /// The user's policy forbids it.
    #[error("disabled by policy")]
    Policy,
    /// There is no kernel at all.
    #[error("not implemented by this backend")]
    Missing,
    /// Anything else, in words.
    #[error("{0}")]
    Because(String),
}

/// What can go wrong. Messages name the op, the operand, what was got, what was wanted.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing ran and no output was touched; a fallback may take over.
    #[error("{op} is not supported on {backend}: {reason}")]
    Unsupported {
        /// The op.
        op: &'static str,
        /// Who declined.
        backend: &'static str,
        /// Why.
        reason: Reason,
    },
    /// An operand's shape breaks the op's rule; the same on every backend.
    #[error("{op}: {operand} has shape {got}, expected {want}")]
    Shape {
        /// The op.
        op: &'static str,
        /// Which operand.
        operand: &'static str,
        /// Its layout.
        got: Box<Layout>,
        /// What the rule asks for.
        want: String,
    },
    /// An operand's element type breaks the op's rule; the same on every backend.
    #[error("{op}: {operand} is of {got}, expected {want}")]
    DType {
        /// The op.
        op: &'static str,
        /// Which operand.
        operand: &'static str,
        /// Its element type.
        got: DType,
        /// The types that the op takes.
        want: &'static str,
    },
    /// An operand is missing, or given where there is none.
    #[error("{op}: {operand} is {got}, expected {want}")]
    Operand {
        /// The op.
        op: &'static str,
        /// Which operand.
        operand: &'static str,
        /// What was given.
        got: String,
        /// What the op takes.
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
    /// A view reaches outside its buffer.
    #[error("{op}: the view {layout} of {operand} reaches beyond its buffer of {len} elements")]
    OutOfBounds {
        /// The op, or the constructor.
        op: &'static str,
        /// Which operand.
        operand: &'static str,
        /// The view.
        layout: Box<Layout>,
        /// The buffer's length.
        len: usize,
    },
    /// Bytes do not start where an element of the type may start.
    #[error("{operand}: the memory is not aligned for elements of {dtype}, {} bytes", dtype.align())]
    Align {
        /// What was to be made.
        operand: &'static str,
        /// The element type.
        dtype: DType,
    },
    /// A view to be written names some element twice.
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
    #[error("cannot {view} {layout}: {why}")]
    View {
        /// Which view.
        view: &'static str,
        /// What it was to be made of.
        layout: Box<Layout>,
        /// Why not.
        why: String,
    },
    /// Two shapes do not broadcast together.
    #[error("shapes {from} and {to} do not broadcast: extents must be equal or 1, aligned at the last axis")]
    Broadcast {
        /// One shape.
        from: Box<Shape>,
        /// The other.
        to: Box<Shape>,
    },
    /// No such axis.
    #[error("axis {axis} does not exist in a tensor of rank {rank}")]
    Axis {
        /// The axis asked for.
        axis: isize,
        /// How many there are.
        rank: usize,
    },
    /// More axes than a layout holds.
    #[error("rank {got} exceeds the largest rank of {max}")]
    Rank {
        /// Axes asked for.
        got: usize,
        /// Axes possible.
        max: usize,
    },
    /// More elements than the address space holds.
    #[error("a tensor of shape {dims:?} has more elements than memory can hold")]
    TooLarge {
        /// The extents asked for.
        dims: Box<[usize]>,
    },
    /// Strides that lead outside the address space.
    #[error("bad strides for shape {shape}: {why}")]
    Strides {
        /// The extents.
        shape: Box<Shape>,
        /// What is wrong.
        why: &'static str,
    },
    /// Data and extents disagree.
    #[error("{got} elements were given for a tensor of shape {shape}, which has {}", shape.len())]
    Count {
        /// Elements given.
        got: usize,
        /// The shape.
        shape: Box<Shape>,
    },
    /// A transfer outside its buffer.
    #[error("{call}: elements {start}..{start}+{count} lie outside a buffer of {len}")]
    Range {
        /// `read` or `write`.
        call: &'static str,
        /// First element.
        start: usize,
        /// How many.
        count: usize,
        /// The buffer's length.
        len: usize,
    },
    /// An index operand points outside.
    #[error("{op}: {operand} holds {index} at position {position}, outside 0..{bound}")]
    Index {
        /// The op.
        op: &'static str,
        /// The index operand.
        operand: &'static str,
        /// Where in it, counted in row-major order.
        position: usize,
        /// The value found.
        index: i64,
        /// One past the largest valid value.
        bound: usize,
    },
    /// The allocator has no room.
    #[error("out of memory on {backend}: {bytes} bytes wanted{}", hint(.detail))]
    OutOfMemory {
        /// Whose memory.
        backend: &'static str,
        /// How much was wanted.
        bytes: usize,
        /// What is known beside (free and total, what holds the rest).
        detail: String,
    },
    /// A library or driver call failed.
    #[error("{call} failed on {backend}: {status}")]
    Device {
        /// Whose call.
        backend: &'static str,
        /// Which call.
        call: &'static str,
        /// What it answered, and what to do about it.
        status: String,
    },
    /// A tensor belongs to the other side of an [`Either`](crate::Either).
    #[error(
        "{call}: a tensor belongs to the other backend; tensors of the two sides of an Either do not mix"
    )]
    WrongSide {
        /// What was attempted.
        call: &'static str,
    },
    /// A checked op gave another result than the reference.
    #[error(
        "{op}: output {output} differs from the reference at {index:?}: got {got}, reference {want} \
         (nmse {nmse:.3e}, limit {limit:.3e})"
    )]
    Mismatch {
        /// The op.
        op: &'static str,
        /// Which output.
        output: &'static str,
        /// The first bad element.
        index: Vec<usize>,
        /// Its value.
        got: String,
        /// The reference's value.
        want: String,
        /// Error over the whole output; 0 where a single element decides.
        nmse: f64,
        /// What was allowed.
        limit: f64,
    },
}

fn hint(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(" ({detail})") }
}

impl Error {
    /// [`Error::Shape`] with less to write.
    pub fn shape(op: &'static str, operand: &'static str, got: &Layout, want: impl Into<String>) -> Self {
        Error::Shape { op, operand, got: Box::new(*got), want: want.into() }
    }
    /// [`Error::Broadcast`] with less to write.
    pub fn broadcast(from: &Shape, to: &Shape) -> Self {
        Error::Broadcast { from: Box::new(*from), to: Box::new(*to) }
    }
    /// [`Error::Count`] with less to write.
    pub fn count(got: usize, shape: Shape) -> Self {
        Error::Count { got, shape: Box::new(shape) }
    }
    /// [`Error::Param`] with less to write.
    pub fn param(op: &'static str, param: &'static str, got: impl ToString, want: impl Into<String>) -> Self {
        Error::Param { op, param, got: got.to_string(), want: want.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_small_enough_to_return_everywhere() {
        assert!(size_of::<Error>() <= 120, "{}", size_of::<Error>());
    }
}
