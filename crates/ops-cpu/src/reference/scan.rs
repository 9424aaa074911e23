//! Running sums and products.
use super::{Reference, line, lines};
use crate::host::raw::{Raw, RawMut, on_num};
use crate::host::types::unknown_function;
use crate::{Host, Kernel};
use ops_core::ops::{Scan, ScanFn};
use ops_core::{Call, Num, Result, Scalar, Wide};

fn scan(f: ScanFn, x: Raw<'_>, mut y: RawMut<'_>, axis: usize) -> Result<()> {
    let start = match f {
        ScanFn::Sum => 0,
        ScanFn::Prod => 1,
        other => return Err(unknown_function(other.name())),
    };
    let (lx, ly) = (x.layout, y.layout);
    for (px, py) in lines(&lx, axis).zip(lines(&ly, axis)) {
        let (from, to) = (line(&lx, axis, px), line(&ly, axis, py));
        if x.dtype.is_float() {
            let mut joined = f64::from(start);
            let results = x.gather(from).into_iter().map(|v| {
                joined = if f == ScanFn::Sum { joined + v } else { joined * v };
                joined
            });
            y.scatter(to, results);
        } else {
            on_num!(x.dtype, T => {
                // Computed in the type itself, whose arithmetic wraps.
                let mut joined = T::from_wide(Wide::Int(start.into()));
                for (from, to) in from.zip(to) {
                    let v = T::from_wide(x.wide(from));
                    joined = if f == ScanFn::Sum { joined.add(v) } else { joined.mul(v) };
                    y.set_wide(to, joined.to_wide());
                }
            }, else unreachable!("only numbers are summed"));
        }
    }
    Ok(())
}

impl<T: Num> Kernel<Scan<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Scan<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let x = Raw::of(&a.x);
        scan(op.function(), x, RawMut::of(&mut a.y), x.layout.shape().axis(op.axis)?)
    }
}
