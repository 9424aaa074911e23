//! Comparisons and functions of truth values: `y = 1` where a relation of `a` and `b` holds, otherwise 0. Stride 0 broadcasts.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::{Device, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, elementwise};

const BLOCK: u32 = 256;

arguments! {
    /// Arguments of every relation.
    pub struct CompareArgs {
        /// Shape of all operands, from [`crate::elementwise`].
        pub shape: Shape,
        /// The operand on the left of the relation.
        pub a: StridedPointer,
        /// The operand on the right.
        pub b: StridedPointer,
        /// The output, u8.
        pub y: StridedPointer,
        /// 1 to write the negation of the relation, otherwise 0.
        pub negated: u64,
    }
}

/// The relations that have kernels, with their names in the source.
const RELATIONS: [(&str, &str); 6] =
    [("eq", "Equal"), ("lt", "Less"), ("le", "LessOrEqual"), ("and", "And"), ("or", "Or"), ("xor", "Xor")];

pub(crate) fn declare(table: &mut Table) {
    let mut compare = table.of::<CompareArgs>(Family::Compare, BLOCK);
    for (relation, function) in RELATIONS {
        for t in ElementType::PLAIN {
            compare.add_variant("compare", relation, &[t], "compare", &[function], 0);
        }
    }
}

/// Prepares `y = a op b` for `eq`, `ne`, `lt`, `le`, `gt`, `ge`, `logical_and`, `logical_or` or `logical_xor`, and `logical_not` of
/// `a`, for which `b` is `a` too. All views have the shape `dims`; `y` is u8.
pub fn prepare(
    op: &str,
    dims: &[u64],
    [a, b, y]: [OperandView<'_>; 3],
    device: &Device,
) -> Result<(Launch, CompareArgs), Refused> {
    let (relation, a, b) = match op {
        "ne" => ("eq", a, b),
        "gt" => ("lt", b, a),
        "ge" => ("le", b, a),
        "logical_and" => ("and", a, b),
        "logical_or" | "logical_not" => ("or", a, b),
        "logical_xor" => ("xor", a, b),
        relation => (relation, a, b),
    };
    let instance = need("compare", relation, &[a.dtype])?;
    let (shape, [a, b, y]) = elementwise(dims, [a, b, y])?;
    let negated = u64::from(matches!(op, "ne" | "logical_not"));
    Ok((Launch::elementwise(instance, &shape, device), CompareArgs { shape, a, b, y, negated }))
}
