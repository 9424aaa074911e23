//! Powers, and functions with parameters.
use crate::data::{Buffer, Element, Layout, Random, assert_close, assert_exact, check_untouched, pick, view};
use crate::host::{WAVES, device, run};
use half::{bf16, f16};
use ops_kernels::{binary, parametric};

/// Runs `y = op(x)` over contiguous, padded, misaligned and broadcast operands and hands the elements to `check`.
fn cases<T: Element>(
    op: &str,
    parameters: [u64; 2],
    mut value: impl FnMut(&mut Random) -> T,
    check: impl Fn(&[T], &[T]),
) {
    let mut random = Random::new(3);
    let dims = [5, 3, 40];
    for (case, [x_layout, y_layout]) in [
        [(); 2].map(|()| Layout::contiguous(&[1025])),
        [Layout::padded(&dims, 8), Layout::padded(&dims, 16)],
        [Layout::scattered(&dims), Layout::padded(&dims, 3)],
        [Layout::new(&dims, vec![0, 0, 1]), Layout::contiguous(&dims)],
        [(); 2].map(|()| Layout::contiguous(&[3, 0, 2])),
    ]
    .iter()
    .enumerate()
    {
        let values: Vec<T> = (0..x_layout.len).map(|_| value(&mut random)).collect();
        let x = Buffer::new(&values, case % 3);
        for wave in WAVES {
            let untouched = T::from_f64(77.0);
            let y = Buffer::filled(untouched, y_layout.len, 2 * (case % 2));
            let views = [view(&x, x_layout), view(&y, y_layout)];
            let (launch, args) =
                parametric::prepare(op, &x_layout.dims, views, parameters, &device(wave)).expect("a kernel");
            run(wave, &launch, &args);
            check(&pick(&x, x_layout), &pick(&y, y_layout));
            check_untouched(&y, y_layout, untouched);
        }
    }
}

fn tricky(random: &mut Random) -> f64 {
    let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0, -1.0, 0.5, -1e-4];
    match random.below(40) {
        i if i < special.len() as u64 => special[i as usize],
        _ => random.normal() * 2.0,
    }
}

fn floats<T: Element>() {
    for exponent in [2.0f64, -1.0, 3.0, 0.0, 0.5, -2.4, f64::INFINITY, f64::NAN] {
        let check = |x: &[T], y: &[T]| {
            let want: Vec<f64> = x.iter().map(|x| x.to_f64().powf(exponent)).collect();
            assert_close(&format!("powf {exponent}"), y, &want, false, 2.0);
        };
        cases("powf", [exponent.to_bits(), 0], |r| T::from_f64(tricky(r)), check);
    }
    for alpha in [1.0f64, 1.5, -0.5] {
        let check = |x: &[T], y: &[T]| {
            let elu = |x: f64| if x > 0.0 { x } else { alpha * x.exp_m1() };
            let want: Vec<f64> = x.iter().map(|x| elu(x.to_f64())).collect();
            assert_close("elu", y, &want, false, 2.0);
        };
        cases("elu", [alpha.to_bits(), 0], |r| T::from_f64(tricky(r)), check);
    }
    let check = |x: &[T], y: &[T]| {
        let clamp = |x: f64| if x.is_nan() { x } else { x.clamp(-0.5, 1.25) };
        assert_exact("clamp", y, &x.iter().map(|x| T::from_f64(clamp(x.to_f64()))).collect::<Vec<T>>());
    };
    cases("clamp", [-0.5f64, 1.25].map(f64::to_bits), |r| T::from_f64(tricky(r)), check);
}

#[test]
fn functions_of_floats() {
    floats::<f16>();
    floats::<bf16>();
    floats::<f32>();
    floats::<f64>();
}

/// Small differences of large exponents.
#[test]
fn powers_of_numbers_near_one_keep_their_digits() {
    let check = |x: &[f32], y: &[f32]| {
        let want: Vec<f64> = x.iter().map(|x| f64::from(*x).powf(80_000.0)).collect();
        assert_close("powf", y, &want, false, 2.0);
    };
    let near = |r: &mut Random| 1.0 + 1e-4 * r.unit() as f32;
    cases("powf", [80_000f64.to_bits(), 0], near, check);
}

macro_rules! integers {
    ($($T:ty),+) => {$({
        let value = |r: &mut Random| if r.below(4) == 0 { <$T>::MIN } else { r.bits() as $T };
        let check = |x: &[$T], y: &[$T]| {
            assert_exact("clamp", y, &x.iter().map(|x| (*x).clamp(3, 50)).collect::<Vec<$T>>());
        };
        cases("clamp", [3, 50], value, check);
        powers(&[0, 1, 2, 3, 5, 7, <$T>::MAX, <$T>::MIN, <$T>::MIN + 1], |a: $T, b: $T| {
            // A negative exponent gives a truncated quotient.
            let whole = i128::from(b);
            if whole < 0 {
                return match i128::from(a) {
                    1 => 1,
                    -1 if whole % 2 == 0 => 1,
                    -1 => a,
                    _ => 0,
                };
            }
            a.wrapping_pow(b as u32)
        });
    })+};
}

/// Every pair of these values to `check`, with their powers.
fn pairs<T: Element>(values: &[T], check: impl Fn(&[T], &[T], &[T])) {
    let n = values.len();
    let a = Buffer::new(&(0..n * n).map(|k| values[k / n]).collect::<Vec<T>>(), 1);
    let b = Buffer::new(&(0..n * n).map(|k| values[k % n]).collect::<Vec<T>>(), 0);
    let y = Buffer::filled(T::from_f64(77.0), n * n, 0);
    let layout = Layout::contiguous(&[(n * n) as u64]);
    let views = [view(&a, &layout), view(&b, &layout), view(&y, &layout)];
    let (launch, args) = binary::prepare("pow", &layout.dims, views, &device(32)).expect("a kernel");
    run(32, &launch, &args);
    check(a.slice(), b.slice(), y.slice());
}

fn powers<T: Element>(values: &[T], want: impl Fn(T, T) -> T) {
    pairs(values, |a, b, y| {
        let want: Vec<T> = a.iter().zip(b).map(|(a, b)| want(*a, *b)).collect();
        assert_exact("pow", y, &want);
    });
}

#[test]
fn clamps_and_powers_of_integers() {
    integers!(u8, i8, i16, u32, i32);
}

#[test]
fn powers_of_two_tensors() {
    fn case<T: Element>() {
        let values = [
            0.0,
            -0.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1.0,
            -1.0,
            0.5,
            2.0,
            -2.0,
            3.0,
            -3.0,
            2.5,
        ];
        pairs(&values.map(T::from_f64), |a, b, y| {
            let want: Vec<f64> = a.iter().zip(b).map(|(a, b)| a.to_f64().powf(b.to_f64())).collect();
            assert_close("pow", y, &want, false, 2.0);
        });
    }
    case::<f32>();
    case::<f64>();
}
