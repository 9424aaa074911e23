//! rope, rope_thd and rope_i, out of place and in place.
use crate::data::{Buffer, Element, Layout, Random, assert_close, check_untouched, pick, view};
use crate::host::{WAVES, device, run};
use half::{bf16, f16};
use ops_kernels::OperandView;
use ops_kernels::rope::{self, Rope};

/// x is [b, h, t, d], or [b, t, h, d] with `thd`; tables [b or 1, t', d / 2] with t' = start + t + 2.
struct Case {
    dims: [u64; 4],
    thd: bool,
    batched: bool,
    start: u64,
}

impl Case {
    /// The time dimension's number.
    fn time(&self) -> usize {
        if self.thd { 1 } else { 2 }
    }

    /// Strides of a table over x's dimensions, the last halved.
    fn table_strides(&self) -> Vec<i64> {
        let half = self.dims[3] as i64 / 2;
        let mut strides = vec![0; 4];
        strides[3] = 1;
        strides[self.time()] = half;
        if self.batched {
            strides[0] = half * self.table_rows() as i64;
        }
        strides
    }

    fn table_rows(&self) -> u64 {
        self.start + self.dims[self.time()] + 2
    }
}

fn cases<T: Element, C: Element>() {
    let mut random = Random::new(21);
    for neighbours in [false, true] {
        for (dims, thd, batched, start) in [
            ([2, 3, 5, 64], false, false, 0),
            ([2, 3, 5, 64], false, true, 3),
            ([1, 4, 7, 128], true, false, 11),
            ([2, 5, 3, 34], true, true, 1),
            ([1, 1, 1, 6], false, false, 2),
            ([1, 2, 3, 2], false, false, 0),
            ([2, 0, 3, 8], false, false, 0),
        ] {
            let case = Case { dims, thd, batched, start };
            let half = dims[3] as usize / 2;
            let table = (if batched { dims[0] } else { 1 } * case.table_rows()) as usize * half;
            let mut make = |n: usize, offset| {
                Buffer::new(&(0..n).map(|_| C::from_f64(random.unit())).collect::<Vec<_>>(), offset)
            };
            let (cos, sin) = (make(table, 0), make(table, 0));
            let strides = case.table_strides();
            let at_start = start as usize * half;
            let table_view = |b: &Buffer<C>| OperandView {
                data: b.address() + (at_start * size_of::<C>()) as u64,
                strides: &strides,
                dtype: C::DTYPE,
            };
            let halved: Vec<u64> = dims[..3].iter().copied().chain([half as u64]).collect();
            let offsets = Layout::new(&halved, strides.clone()).offsets();
            for (i, [x_layout, y_layout]) in [
                [(); 2].map(|()| Layout::contiguous(&dims)),
                [Layout::padded(&dims, 8), Layout::padded(&dims, 3)],
                [Layout::scattered(&dims), Layout::contiguous(&dims)],
            ]
            .into_iter()
            .enumerate()
            {
                let x: Vec<T> = (0..x_layout.len).map(|_| T::from_f64(random.normal())).collect();
                let x = Buffer::new(&x, if i == 1 { 2 } else { 0 });
                let xs: Vec<f64> = pick(&x, &x_layout).iter().map(|v| v.to_f64()).collect();
                let mut want = vec![0.0; xs.len()];
                for (p, &offset) in offsets.iter().enumerate() {
                    let (row, k) = (p / half * 2 * half, p % half);
                    let (a, b) =
                        if neighbours { (row + 2 * k, row + 2 * k + 1) } else { (row + k, row + k + half) };
                    let c = cos.slice()[at_start + offset].to_f64();
                    let s = sin.slice()[at_start + offset].to_f64();
                    want[a] = xs[a] * c - xs[b] * s;
                    want[b] = xs[a] * s + xs[b] * c;
                }
                for wave in WAVES {
                    let untouched = T::from_f64(77.0);
                    let y = Buffer::filled(untouched, y_layout.len, 0);
                    let x_view = view(&x, &x_layout);
                    let mut call = Rope {
                        x: x_view,
                        y: view(&y, &y_layout),
                        cos: table_view(&cos),
                        sin: table_view(&sin),
                    };
                    let prepare = if neighbours { rope::neighbours } else { rope::halves };
                    let (launch, args) = prepare(&dims, &call, &device(wave)).expect("a kernel");
                    run(wave, &launch, &args);
                    let what = format!("rope {dims:?} neighbours {neighbours} thd {thd}");
                    assert_close(&what, &pick(&y, &y_layout), &want, false, 2.0);
                    check_untouched(&y, &y_layout, untouched);
                    if wave == 64 {
                        call.y = x_view;
                        let (launch, args) = prepare(&dims, &call, &device(wave)).expect("a kernel");
                        run(wave, &launch, &args);
                        assert_close(&format!("{what} in place"), &pick(&x, &x_layout), &want, false, 2.0);
                    }
                }
            }
        }
    }
}

#[test]
fn halves_and_neighbours() {
    cases::<f16, f16>();
    cases::<f16, f32>();
    cases::<bf16, bf16>();
    cases::<bf16, f32>();
    cases::<f32, f32>();
    cases::<f64, f64>();
}
