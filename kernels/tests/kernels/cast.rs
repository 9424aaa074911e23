//! cast: every pair of types on the values that go wrong, exactly.
use crate::data::{Buffer, Element, Layout, Random, check_untouched, pick, view};
use crate::host::{device, run};
use half::{bf16, f16};
use ops_kernels::{ElementType, cast};

/// f8e4m3 as its byte; bias 7, no infinity, 0x7f is NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
struct F8(u8);

impl Element for F8 {
    const DTYPE: ElementType = ElementType::F8E4M3;
    /// The nearest of all 256 values, ties to the even code, saturating.
    fn from_f64(x: f64) -> F8 {
        let sign = if x.is_sign_negative() { 0x80 } else { 0 };
        if x.is_nan() {
            return F8(sign | 0x7f);
        }
        let near = |code: &u8| (F8(*code).to_f64() - x.abs().min(448.0)).abs();
        let best = (0..0x7f).min_by(|a, b| near(a).total_cmp(&near(b)).then((a & 1).cmp(&(b & 1))));
        F8(sign | best.unwrap_or(0))
    }
    fn to_f64(self) -> f64 {
        let (e, m) = (i32::from(self.0 >> 3 & 15), f64::from(self.0 & 7));
        let magnitude = match self.0 & 0x7f {
            0x7f => f64::NAN,
            _ if e == 0 => m / 512.0,
            _ => (1.0 + m / 8.0) * 2f64.powi(e - 7),
        };
        if self.0 & 0x80 != 0 { -magnitude } else { magnitude }
    }
}

/// An element with an exact value: an integer, or a float (which f64 holds whatever its type).
#[derive(Clone, Copy)]
enum Exact {
    Int(i128),
    Float(f64),
}

trait Castable: Element {
    /// The value of this element.
    fn exact(self) -> Exact;
    /// What the contract makes of a value.
    fn cast(from: Exact) -> Self;
}

macro_rules! integers {
    ($($t:ty),*) => { $(
        impl Castable for $t {
            fn exact(self) -> Exact { Exact::Int(self as i128) }
            fn cast(from: Exact) -> $t {
                match from {
                    Exact::Int(i) => i as $t,   // wraps
                    Exact::Float(f) => f as $t, // truncates, saturates, NaN is 0
                }
            }
        }
    )* };
}
integers!(u8, i8, i16, i32, i64, u32);

macro_rules! floats {
    ($($t:ty),*) => { $(
        impl Castable for $t {
            fn exact(self) -> Exact { Exact::Float(self.to_f64()) }
            fn cast(from: Exact) -> $t {
                match from {
                    Exact::Int(i) => nearest_even(i),
                    Exact::Float(f) => <$t as Element>::from_f64(f),
                }
            }
        }
    )* };
}
floats!(f16, bf16, f32, f64, F8);

/// An integer in a float type, rounded once: f64 cannot hold every i64, so the candidates are compared
/// as integers.
fn nearest_even<T: Element>(i: i128) -> T {
    // Round to odd at 53 bits, then let the type round.
    let mut m = i.unsigned_abs();
    if m >> 53 != 0 {
        m = (m & !0x7ff) | if m & 0x7ff != 0 { 0x800 } else { 0 };
    }
    let near = if T::DTYPE == ElementType::F64 { i as f64 } else { m as f64 * i.signum() as f64 };
    T::from_f64(near)
}

fn sources<X: Castable>(pool: &[Exact]) -> Vec<X> {
    pool.iter().map(|&e| X::cast(e)).collect()
}

fn pool() -> Vec<Exact> {
    let mut random = Random::new(31);
    let mut out: Vec<Exact> = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        0.999,
        1.5,
        2.5,
        -2.5,
        127.5,
        128.0,
        -128.5,
        -129.0,
        255.5,
        256.0,
        32767.9,
        -32769.0,
        65504.0,
        65519.9,
        65520.0,
        2147483647.0,
        2147483648.0,
        -2147483649.0,
        4294967295.5,
        4294967296.0,
        9.3e18,
        -9.3e18,
        1.8446744073709552e19,
        447.9,
        448.0,
        464.0,
        480.0,
        1e-3,
        0.0009765625,
        0.00146484375,
        5.9e-8,
        2.9e-8,
        3e-8,
        1e-40,
        1e-45,
        7e-46,
        3.4028235e38,
        3.4028236e38,
        1e39,
        1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        // Halfway cases that rounding twice, by way of f32, gets wrong.
        1.0 + 1.0 / 2048.0 + 1e-12,
        1.0 + 1.0 / 256.0 + 1e-12,
        1.0 + 1.0 / 256.0 - 1e-12,
        1.0625 + 1e-12,
        5.960464477539063e-8 * 1.5 - 1e-18,
    ]
    .into_iter()
    .map(Exact::Float)
    .collect();
    let ints =
        [i64::MAX, i64::MIN, i64::MAX - 511, (1 << 53) + 1, (1 << 24) + 1, 16777215, 65519, 65520, 257, 511];
    // Near ties of bf16 and f32 that f32 and f64 cannot hold.
    let ties = [(0x8080 << 40) + 1, (0x8080 << 40) - 1, (0x0100_0001 << 30) + 1, (0x1_0000_0080 << 20) + 1];
    out.extend(
        ints.into_iter().chain(ties).flat_map(|i| [Exact::Int(i128::from(i)), Exact::Int(-i128::from(i))]),
    );
    out.extend((0..200).map(|_| Exact::Float(random.unit() * 10f64.powi(random.below(24) as i32 - 9))));
    out.extend((0..60).map(|_| Exact::Int(i128::from(random.bits() as i64 >> random.below(63)))));
    out
}

fn pair<X: Castable, Y: Castable>(pool: &[Exact]) {
    let values = sources::<X>(pool);
    let n = values.len() as u64 / 8 * 8;
    let dims = [n / 8, 8];
    for (x_layout, y_layout) in [
        (Layout::contiguous(&dims), Layout::contiguous(&dims)),
        (Layout::contiguous(&dims), Layout::scattered(&dims)),
    ] {
        let x = Buffer::new(&values[..n as usize], 0);
        let untouched = Y::from_f64(77.0);
        let y = Buffer::filled(untouched, y_layout.len, 0);
        let prepared = cast::prepare(&dims, view(&x, &x_layout), view(&y, &y_layout), &device(32));
        let (launch, args) = prepared.expect("a kernel");
        run(32, &launch, &args);
        for (from, got) in values.iter().zip(pick(&y, &y_layout)) {
            let want = Y::cast(from.exact());
            let both_nan = want.to_f64().is_nan() && got.to_f64().is_nan();
            assert!(
                got == want || both_nan,
                "{} {from:?} to {}: got {got:?}, want {want:?}",
                X::DTYPE,
                Y::DTYPE
            );
        }
        check_untouched(&y, &y_layout, untouched);
    }
}

fn from_type<X: Castable>() {
    let pool = pool();
    pair::<X, u8>(&pool);
    pair::<X, i8>(&pool);
    pair::<X, i16>(&pool);
    pair::<X, i32>(&pool);
    pair::<X, i64>(&pool);
    pair::<X, u32>(&pool);
    pair::<X, f16>(&pool);
    pair::<X, bf16>(&pool);
    pair::<X, f32>(&pool);
    pair::<X, f64>(&pool);
    pair::<X, F8>(&pool);
}

#[test]
fn every_pair() {
    from_type::<u8>();
    from_type::<i8>();
    from_type::<i16>();
    from_type::<i32>();
    from_type::<i64>();
    from_type::<u32>();
    from_type::<f16>();
    from_type::<bf16>();
    from_type::<f32>();
    from_type::<f64>();
    from_type::<F8>();
}
