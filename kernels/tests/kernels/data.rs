//! Test data: elements, guarded and misaligned buffers, strided views, and the tolerance rule.
use half::{bf16, f16};
use ops_kernels::{ElementType, OperandView};
use std::cell::UnsafeCell;

/// An element that tests can make from and compare as f64.
pub(crate) trait Element: Copy + PartialEq + std::fmt::Debug + Default + 'static {
    const DTYPE: ElementType;
    fn from_f64(x: f64) -> Self;
    fn to_f64(self) -> f64;
}

/// An f64 as f32 with its last bit set where inexact, so that a half rounds it once. (`half`'s own
/// conversions from f64 drop the low bits first, and miss near ties.)
fn to_f32_odd(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    if back == x || x.is_nan() || near.to_bits() & 1 != 0 {
        return near;
    }
    f32::from_bits(if back.abs() > x.abs() { near.to_bits() - 1 } else { near.to_bits() + 1 })
}

macro_rules! element {
    ($($t:ty, $d:ident, $from:expr, $to:expr;)*) => { $(
        impl Element for $t {
            const DTYPE: ElementType = ElementType::$d;
            fn from_f64(x: f64) -> Self { let f: fn(f64) -> $t = $from; f(x) }
            fn to_f64(self) -> f64 { let f: fn($t) -> f64 = $to; f(self) }
        }
    )* };
}
element! {
    f16, F16, |x| f16::from_f32(to_f32_odd(x)), f16::to_f64;
    bf16, Bf16, |x| bf16::from_f32(to_f32_odd(x)), bf16::to_f64;
    f32, F32, |x| x as f32, f64::from;
    f64, F64, |x| x, |x| x;
    u8, U8, |x| x as u8, f64::from;
    i8, I8, |x| x as i8, f64::from;
    i16, I16, |x| x as i16, f64::from;
    i32, I32, |x| x as i32, f64::from;
    u32, U32, |x| x as u32, f64::from;
    i64, I64, |x| x as i64, |x| x as f64;
}

/// Numbers that do not repeat and are the same on every run.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// Uniform in [-1, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
    /// Near normal, deviation about 1.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..4).map(|_| self.unit()).sum::<f64>() * 0.866
    }
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }
}

/// Elements the kernel must not touch lie before and after the payload.
const GUARD: usize = 8;
const GUARD_BYTE: u8 = 0xa5;

/// A buffer with guards round it, its payload `offset` elements past a 16-byte boundary.
pub(crate) struct Buffer<T> {
    memory: Vec<UnsafeCell<u128>>, // kernels write through the address

    start: usize,
    len: usize,
    of: std::marker::PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    pub(crate) fn new(values: &[T], offset: usize) -> Buffer<T> {
        let size = size_of::<T>();
        let bytes = (values.len() + offset + 2 * GUARD + 16) * size;
        let fill = u128::from_ne_bytes([GUARD_BYTE; 16]);
        let memory = (0..bytes.div_ceil(16)).map(|_| UnsafeCell::new(fill)).collect();
        // 16 elements in front are a whole number of 16-byte units.
        let mut out = Buffer { memory, start: 16 + offset, len: values.len(), of: std::marker::PhantomData };
        out.slice_mut().copy_from_slice(values);
        out
    }
    pub(crate) fn filled(value: T, len: usize, offset: usize) -> Buffer<T> {
        Buffer::new(&vec![value; len], offset)
    }
    /// The address a kernel is given.
    pub(crate) fn address(&self) -> u64 {
        self.memory.as_ptr() as u64 + (self.start * size_of::<T>()) as u64
    }
    pub(crate) fn slice(&self) -> &[T] {
        // SAFETY: `new` made room for start + len elements, and every bit pattern of an element is valid.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast::<T>().add(self.start), self.len) }
    }
    pub(crate) fn slice_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `slice`.
        unsafe {
            std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast::<T>().add(self.start), self.len)
        }
    }
    /// Fails when anything outside the payload has changed.
    pub(crate) fn check_guards(&self) {
        let size = size_of::<T>();
        // SAFETY: no kernel runs any more, and the units are plain integers.
        let bytes: Vec<u8> = self.memory.iter().flat_map(|w| unsafe { *w.get() }.to_ne_bytes()).collect();
        let outside = bytes[..self.start * size].iter().chain(&bytes[(self.start + self.len) * size..]);
        assert!(outside.into_iter().all(|&b| b == GUARD_BYTE), "wrote outside its output");
    }
}

/// A shape with strides over a buffer; `len` elements of storage.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) dims: Vec<u64>,
    pub(crate) strides: Vec<i64>,
    pub(crate) len: usize,
}

impl Layout {
    pub(crate) fn contiguous(dims: &[u64]) -> Layout {
        Layout::padded(dims, 0)
    }
    /// Rows of the last dimension lie `gap` elements further apart than they need to.
    pub(crate) fn padded(dims: &[u64], gap: i64) -> Layout {
        let mut strides = vec![0; dims.len()];
        let mut step = 1;
        for d in (0..dims.len()).rev() {
            strides[d] = step;
            step *= dims[d] as i64;
            if d + 1 == dims.len() && dims.len() > 1 {
                step += gap;
            }
        }
        Layout::new(dims, strides)
    }
    /// The dimensions lie in memory in reverse order, and every element is followed by a gap.
    pub(crate) fn scattered(dims: &[u64]) -> Layout {
        let mut step = 2;
        let mut strides = Vec::new();
        for &d in dims {
            strides.push(step);
            step = step * d as i64 + 1;
        }
        Layout::new(dims, strides)
    }
    pub(crate) fn new(dims: &[u64], strides: Vec<i64>) -> Layout {
        let last: i64 = dims.iter().zip(&strides).map(|(&d, s)| (d as i64 - 1).max(0) * s).sum();
        let empty = dims.contains(&0);
        Layout { dims: dims.to_vec(), strides, len: if empty { 0 } else { last as usize + 1 } }
    }
    /// The storage offset of every element, in order.
    pub(crate) fn offsets(&self) -> Vec<usize> {
        let count: u64 = self.dims.iter().product();
        (0..count)
            .map(|mut i| {
                let mut offset = 0;
                for (d, s) in self.dims.iter().zip(&self.strides).rev() {
                    offset += (i % d) as i64 * s;
                    i /= d;
                }
                offset as usize
            })
            .collect()
    }
}

/// Normalised mean squared error as the op contract has it; infinite where NaNs or infinities differ.
pub(crate) fn nmse<T: Element>(got: &[T], want: &[f64]) -> f64 {
    let (mut error, mut power, mut n) = (0.0, 0.0, 0);
    for (&g, &w) in got.iter().zip(want) {
        let (g, rounded) = (g.to_f64(), T::from_f64(w).to_f64());
        if rounded.is_nan() || rounded.is_infinite() {
            if !(g.is_nan() && rounded.is_nan() || g == rounded) {
                return f64::INFINITY;
            }
            continue;
        }
        if !g.is_finite() {
            return f64::INFINITY;
        }
        error += (g - w) * (g - w);
        power += w * w;
        n += 1;
    }
    if power > 0.0 { error / power } else { error / f64::from(n.max(1)) }
}

/// Checks `got` against the f64 result: nmse <= base + r * nmse of the result rounded to T.
#[track_caller]
pub(crate) fn assert_close<T: Element>(what: &str, got: &[T], want: &[f64], long_sum: bool, r: f64) {
    assert_eq!(got.len(), want.len());
    let base = match (T::DTYPE, long_sum) {
        (ElementType::F64, false) => 1e-22,
        (ElementType::F64, true) => 1e-20,
        (_, false) => 1e-11,
        (_, true) => 1e-10,
    };
    let rounded: Vec<T> = want.iter().map(|&w| T::from_f64(w)).collect();
    let limit = base + r * nmse(&rounded, want);
    let is = nmse(got, want);
    if is <= limit {
        return;
    }
    let worst = (0..got.len())
        .map(|i| (i, (got[i].to_f64() - want[i]).abs()))
        .max_by(|a, b| a.1.partial_cmp(&b.1).unwrap_or(std::cmp::Ordering::Greater));
    let at = worst.map_or(0, |w| w.0);
    panic!(
        "{what} {}: nmse {is:e} over {limit:e}; at {at}: got {:?}, want {:?}",
        T::DTYPE,
        got[at],
        want[at]
    );
}

/// Checks exact equality, NaN equal to NaN and -0 to 0.
#[track_caller]
pub(crate) fn assert_exact<T: Element>(what: &str, got: &[T], want: &[T]) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let both_nan = g.to_f64().is_nan() && w.to_f64().is_nan();
        assert!(g == w || both_nan, "{what} {}: at {i}: got {g:?}, want {w:?}", T::DTYPE);
    }
}

/// A view of a buffer.
pub(crate) fn view<'a, T: Element>(buffer: &Buffer<T>, layout: &'a Layout) -> OperandView<'a> {
    OperandView { data: buffer.address(), strides: &layout.strides, dtype: T::DTYPE }
}

/// The elements of a view, in order.
pub(crate) fn pick<T: Element>(buffer: &Buffer<T>, layout: &Layout) -> Vec<T> {
    layout.offsets().iter().map(|&o| buffer.slice()[o]).collect()
}

/// Checks that only the elements of the view were written.
#[track_caller]
pub(crate) fn check_untouched<T: Element>(y: &Buffer<T>, layout: &Layout, untouched: T) {
    y.check_guards();
    let mut reached = vec![false; layout.len];
    layout.offsets().iter().for_each(|&o| reached[o] = true);
    let gaps = y.slice().iter().zip(reached).filter(|(_, r)| !r);
    assert!(gaps.into_iter().all(|(&v, _)| v == untouched), "wrote between the elements of its view");
}
