//! Comparisons.
use crate::data::{Buffer, Element, Layout, Random, check_untouched, pick, view};
use crate::host::{WAVES, device, run};
use half::{bf16, f16};
use ops_kernels::compare;
use std::cmp::Ordering;

fn holds(op: &str, order: Option<Ordering>) -> bool {
    match op {
        "eq" => order == Some(Ordering::Equal),
        "ne" => order != Some(Ordering::Equal),
        "lt" => order == Some(Ordering::Less),
        "le" => order.is_some_and(Ordering::is_le),
        "gt" => order == Some(Ordering::Greater),
        _ => order.is_some_and(Ordering::is_ge),
    }
}

/// Every comparison of a few values, so that many are equal, over contiguous, padded, misaligned and broadcast operands.
fn comparisons<T: Element + PartialOrd>(values: &[T]) {
    let mut random = Random::new(5);
    let dims = [5, 3, 40];
    let layouts = [
        [(); 3].map(|()| Layout::contiguous(&[1025])),
        [Layout::padded(&dims, 8), Layout::contiguous(&dims), Layout::padded(&dims, 16)],
        [Layout::scattered(&dims), Layout::padded(&dims, 1), Layout::scattered(&dims)],
        [Layout::new(&dims, vec![0, 0, 1]), Layout::new(&dims, vec![3, 1, 0]), Layout::contiguous(&dims)],
        [(); 3].map(|()| Layout::contiguous(&[3, 0, 2])),
    ];
    for op in ["eq", "ne", "lt", "le", "gt", "ge"] {
        for (case, [a_layout, b_layout, y_layout]) in layouts.iter().enumerate() {
            let mut some = |l: &Layout| {
                let values = (0..l.len).map(|_| values[random.below(values.len() as u64) as usize]);
                Buffer::new(&values.collect::<Vec<T>>(), case % 3)
            };
            let (a, b) = (some(a_layout), some(b_layout));
            for wave in WAVES {
                let y = Buffer::filled(77u8, y_layout.len, 4 * (case % 2));
                let views = [view(&a, a_layout), view(&b, b_layout), view(&y, y_layout)];
                let (launch, args) =
                    compare::prepare(op, &a_layout.dims, views, &device(wave)).expect("a kernel");
                run(wave, &launch, &args);
                let pairs = pick(&a, a_layout).into_iter().zip(pick(&b, b_layout));
                let want: Vec<u8> = pairs.map(|(a, b)| u8::from(holds(op, a.partial_cmp(&b)))).collect();
                assert_eq!(pick(&y, y_layout), want, "{op} {} {:?}", T::DTYPE, a_layout.dims);
                check_untouched(&y, y_layout, 77);
            }
        }
    }
}

fn floats<T: Element + PartialOrd>() {
    let numbers = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 2.5];
    comparisons(&numbers.map(T::from_f64));
}

#[test]
fn comparisons_of_floats_follow_ieee_754() {
    floats::<f16>();
    floats::<bf16>();
    floats::<f32>();
    floats::<f64>();
}

#[test]
fn comparisons_of_integers_are_those_of_their_type() {
    comparisons(&[0u8, 1, 127, 128, 255]);
    comparisons(&[0i8, 1, -1, i8::MIN, i8::MAX]);
    comparisons(&[0i16, 1, -1, i16::MIN, i16::MAX]);
    comparisons(&[0u32, 1, u32::MAX, 1 << 31]);
    comparisons(&[0i32, 1, -1, i32::MIN, i32::MAX]);
    comparisons(&[0i64, 1, -1, i64::MIN, i64::MAX, 1 << 53, (1 << 53) + 1]);
}
