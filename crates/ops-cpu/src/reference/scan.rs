//! Running sums.
use super::{Reference, line, lines};
use crate::host::raw::{Raw, RawMut, on_num};
use crate::{Host, Kernel};
use ops_core::ops::CumSum;
use ops_core::{Call, Num, Result, Scalar, Wide};

fn cumsum(x: Raw<'_>, mut y: RawMut<'_>, axis: usize) {
    let (lx, ly) = (x.layout, y.layout);
    for (px, py) in lines(&lx, axis).zip(lines(&ly, axis)) {
        let (from, to) = (line(&lx, axis, px), line(&ly, axis, py));
        if x.dtype.is_float() {
            let mut sum = 0.0;
            let sums = x.gather(from).into_iter().map(|v| {
                sum += v;
                sum
            });
            y.scatter(to, sums);
        } else {
            on_num!(x.dtype, T => {
                // Computed in the type itself, whose arithmetic wraps.
                let mut sum = T::from_wide(Wide::Int(0));
                for (from, to) in from.zip(to) {
                    sum = Num::add(sum, T::from_wide(x.wide(from)));
                    y.set_wide(to, sum.to_wide());
                }
            }, else unreachable!("only numbers are summed"));
        }
    }
}

impl<T: Num> Kernel<CumSum<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, CumSum<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let x = Raw::of(&a.x);
        cumsum(x, RawMut::of(&mut a.y), x.layout.shape().axis(op.axis)?);
        Ok(())
    }
}
