//! Sizes and layouts in which every elementwise function is tested.
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{LENGTHS, Suite};

const SHAPES: [&[usize]; 6] = [&[], &[3, 65], &[2, 3, 129], &[0], &[3, 0], &[2, 1, 3, 2, 2, 5]];

/// Runs a function of one operand; `draft` gets the extents, and the layouts of the operand and the result.
pub(super) fn of_one_operand(
    s: &mut Suite<'_>,
    draft: impl Fn(&[usize], (Placement, Placement)) -> CaseBuilder,
) {
    let plain = (Placement::Plain, Placement::Plain);
    for n in LENGTHS {
        s.run(draft(&[n], plain));
    }
    for dims in SHAPES {
        s.run(draft(dims, plain));
    }
    for x in IN {
        s.run(draft(&[3, 4, 33], (x, Placement::Plain)));
    }
    for y in OUT {
        s.run(draft(&[3, 4, 33], (Placement::Transposed, y)));
    }
}

/// Runs a function of two operands; `draft` gets the extents, and the layouts of the operands and the result.
pub(super) fn of_two_operands(s: &mut Suite<'_>, draft: impl Fn(&[usize], [Placement; 3]) -> CaseBuilder) {
    let plain = [Placement::Plain; 3];
    for n in LENGTHS {
        s.run(draft(&[n], plain));
    }
    for dims in SHAPES {
        s.run(draft(dims, plain));
    }
    for how in IN {
        s.run(draft(&[3, 4, 33], [how, Placement::Plain, Placement::Plain]));
        s.run(draft(&[3, 4, 33], [Placement::Plain, how, Placement::Plain]));
    }
    for how in OUT {
        s.run(draft(&[3, 4, 33], [Placement::Plain, Placement::Plain, how]));
    }
    s.run(draft(&[3, 4, 33], [Placement::Transposed, Placement::Repeated, Placement::Strided]));
}
