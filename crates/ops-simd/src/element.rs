//! Element types: f32, f16 and bf16, all computed in f32.

use half::{bf16, f16};

use crate::simd::{Simd, bf16_bits, f16_bits, portable};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}

/// A float that kernels read and write. Arithmetic is in f32.
pub trait Element:
    sealed::Sealed + bytemuck::Pod + Default + PartialEq + std::fmt::Debug + Send + Sync
{
    /// `f32`, `f16` or `bf16`.
    const NAME: &'static str;
    /// Significand bits, including the leading one: 24, 11 or 8.
    const DIGITS: u32;

    /// The slice with its element type as a value.
    fn view(x: &[Self]) -> View<'_>;
    /// The mutable slice with its element type as a value.
    fn view_mut(x: &mut [Self]) -> ViewMut<'_>;
    /// Inputs and outputs of this type, with the type as a value.
    fn typed_operands<'a, const N: usize, const M: usize>(
        x: [&'a [Self]; N],
        y: [&'a mut [Self]; M],
    ) -> TypedOperands<'a, N, M>;
    /// Converts to f32, exactly.
    fn to_f32(self) -> f32;
    /// Converts from f32, to nearest, ties to even.
    fn from_f32(x: f32) -> Self;

    /// Loads the first lanes of `src`. Panics if there are fewer than [`Simd::LANES`].
    fn load<S: Simd>(s: S, src: &[Self]) -> S::F;
    /// Stores to the first lanes of `dst`. Panics if there are fewer than [`Simd::LANES`].
    fn store<S: Simd>(s: S, dst: &mut [Self], v: S::F);
    /// Loads two vectors from the start of `src`, in an implementation-defined lane order.
    /// Panics if there are fewer than twice [`Simd::LANES`] elements.
    #[inline(always)]
    fn load_two<S: Simd>(s: S, src: &[Self]) -> [S::F; 2] {
        [Self::load(s, src), Self::load(s, &src[S::LANES..])]
    }
    /// Stores two vectors in the lane order of [`Element::load_two`].
    #[inline(always)]
    fn store_two<S: Simd>(s: S, dst: &mut [Self], v: [S::F; 2]) {
        Self::store(s, dst, v[0]);
        Self::store(s, &mut dst[S::LANES..], v[1]);
    }
    /// Like [`Element::store_two`], for values that are already approximate: ties may round either way. A NaN must come from
    /// arithmetic on numbers of this type.
    #[inline(always)]
    fn store_two_approx<S: Simd>(s: S, dst: &mut [Self], v: [S::F; 2]) {
        Self::store_two(s, dst, v);
    }
    /// Loads the elements of even and of odd index from the start of `src`. Panics if there are fewer than twice
    /// [`Simd::LANES`].
    #[inline(always)]
    fn load_deinterleaved<S: Simd>(s: S, src: &[Self]) -> (S::F, S::F) {
        s.deinterleave(Self::load(s, src), Self::load(s, &src[S::LANES..]))
    }
    /// The inverse of [`Element::load_deinterleaved`].
    #[inline(always)]
    fn store_interleaved<S: Simd>(s: S, dst: &mut [Self], even: S::F, odd: S::F) {
        let (low, high) = s.interleave(even, odd);
        Self::store(s, dst, low);
        Self::store(s, &mut dst[S::LANES..], high);
    }
    /// Like [`Element::store_interleaved`], for approximate values, as in [`Element::store_two_approx`].
    #[inline(always)]
    fn store_interleaved_approx<S: Simd>(s: S, dst: &mut [Self], even: S::F, odd: S::F) {
        Self::store_interleaved(s, dst, even, odd);
    }
    /// Rounds a vector as [`Element::store_two_approx`] does, or to a value that [`Element::store`] rounds to the same
    /// result.
    #[inline(always)]
    fn round_approx<S: Simd>(_s: S, v: S::F) -> S::F {
        v
    }
    /// `src` in the first lanes and `fill`, rounded to this type, in the rest.
    fn load_partial<S: Simd>(s: S, src: &[Self], fill: f32) -> S::F;
    /// Stores as many of the first lanes of `v` as `dst` has elements.
    fn store_partial<S: Simd>(s: S, dst: &mut [Self], v: S::F);
    /// [`Element::load`] from a pointer.
    ///
    /// # Safety
    /// `src` must be readable for [`Simd::LANES`] elements, at any alignment.
    unsafe fn load_ptr<S: Simd>(s: S, src: *const Self) -> S::F;
}

/// A slice whose element type is a value.
#[derive(Clone, Copy, Debug)]
pub enum View<'a> {
    /// f32
    F32(&'a [f32]),
    /// f16
    F16(&'a [f16]),
    /// bf16
    Bf16(&'a [bf16]),
}

/// A mutable slice whose element type is a value.
#[derive(Debug)]
pub enum ViewMut<'a> {
    /// f32
    F32(&'a mut [f32]),
    /// f16
    F16(&'a mut [f16]),
    /// bf16
    Bf16(&'a mut [bf16]),
}

/// Inputs and outputs of one element type.
#[derive(Debug)]
pub enum TypedOperands<'a, const N: usize, const M: usize> {
    /// f32
    F32([&'a [f32]; N], [&'a mut [f32]; M]),
    /// f16
    F16([&'a [f16]; N], [&'a mut [f16]; M]),
    /// bf16
    Bf16([&'a [bf16]; N], [&'a mut [bf16]; M]),
}

impl View<'_> {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::F32(x) => x.len(),
            Self::F16(x) => x.len(),
            Self::Bf16(x) => x.len(),
        }
    }

    /// Elements `start..end`.
    pub(crate) fn slice(self, start: usize, end: usize) -> Self {
        match self {
            Self::F32(x) => Self::F32(&x[start..end]),
            Self::F16(x) => Self::F16(&x[start..end]),
            Self::Bf16(x) => Self::Bf16(&x[start..end]),
        }
    }
}

impl ViewMut<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::F32(x) => x.len(),
            Self::F16(x) => x.len(),
            Self::Bf16(x) => x.len(),
        }
    }

    /// Elements `start..end`.
    pub(crate) fn slice_mut(&mut self, start: usize, end: usize) -> ViewMut<'_> {
        match self {
            Self::F32(x) => ViewMut::F32(&mut x[start..end]),
            Self::F16(x) => ViewMut::F16(&mut x[start..end]),
            Self::Bf16(x) => ViewMut::Bf16(&mut x[start..end]),
        }
    }
}

impl Element for f32 {
    const NAME: &'static str = "f32";
    const DIGITS: u32 = 24;

    #[inline(always)]
    fn view(x: &[Self]) -> View<'_> {
        View::F32(x)
    }
    #[inline(always)]
    fn view_mut(x: &mut [Self]) -> ViewMut<'_> {
        ViewMut::F32(x)
    }
    #[inline(always)]
    fn typed_operands<'a, const N: usize, const M: usize>(
        x: [&'a [Self]; N],
        y: [&'a mut [Self]; M],
    ) -> TypedOperands<'a, N, M> {
        TypedOperands::F32(x, y)
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        x
    }
    #[inline(always)]
    fn load<S: Simd>(s: S, src: &[Self]) -> S::F {
        s.load(src)
    }
    #[inline(always)]
    fn store<S: Simd>(s: S, dst: &mut [Self], v: S::F) {
        s.store(dst, v);
    }
    #[inline(always)]
    fn load_partial<S: Simd>(s: S, src: &[Self], fill: f32) -> S::F {
        s.load_partial(src, fill)
    }
    #[inline(always)]
    fn store_partial<S: Simd>(s: S, dst: &mut [Self], v: S::F) {
        s.store_partial(dst, v);
    }
    #[inline(always)]
    unsafe fn load_ptr<S: Simd>(s: S, src: *const Self) -> S::F {
        // SAFETY: the caller upholds the same contract.
        unsafe { s.load_ptr(src) }
    }
}

impl Element for f16 {
    const NAME: &'static str = "f16";
    const DIGITS: u32 = 11;

    #[inline(always)]
    fn view(x: &[Self]) -> View<'_> {
        View::F16(x)
    }
    #[inline(always)]
    fn view_mut(x: &mut [Self]) -> ViewMut<'_> {
        ViewMut::F16(x)
    }
    #[inline(always)]
    fn typed_operands<'a, const N: usize, const M: usize>(
        x: [&'a [Self]; N],
        y: [&'a mut [Self]; M],
    ) -> TypedOperands<'a, N, M> {
        TypedOperands::F16(x, y)
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        portable::f16_bits_to_f32(self.to_bits())
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        Self::from_bits(portable::f32_to_f16_bits(x))
    }
    #[inline(always)]
    fn load<S: Simd>(s: S, src: &[Self]) -> S::F {
        s.f16_to_f32(s.load_half(f16_bits(src)))
    }
    #[inline(always)]
    fn store<S: Simd>(s: S, dst: &mut [Self], v: S::F) {
        s.store_half(bytemuck::cast_slice_mut(dst), s.f32_to_f16(v));
    }
    #[inline(always)]
    fn load_partial<S: Simd>(s: S, src: &[Self], fill: f32) -> S::F {
        s.f16_to_f32(s.load_half_partial(f16_bits(src), portable::f32_to_f16_bits(fill)))
    }
    #[inline(always)]
    fn store_partial<S: Simd>(s: S, dst: &mut [Self], v: S::F) {
        s.store_half_partial(bytemuck::cast_slice_mut(dst), s.f32_to_f16(v));
    }
    #[inline(always)]
    unsafe fn load_ptr<S: Simd>(s: S, src: *const Self) -> S::F {
        // SAFETY: an f16 is a u16 in memory; the caller upholds the same contract.
        s.f16_to_f32(unsafe { s.load_half_ptr(src.cast()) })
    }
}

impl Element for bf16 {
    const NAME: &'static str = "bf16";
    const DIGITS: u32 = 8;

    #[inline(always)]
    fn view(x: &[Self]) -> View<'_> {
        View::Bf16(x)
    }
    #[inline(always)]
    fn view_mut(x: &mut [Self]) -> ViewMut<'_> {
        ViewMut::Bf16(x)
    }
    #[inline(always)]
    fn typed_operands<'a, const N: usize, const M: usize>(
        x: [&'a [Self]; N],
        y: [&'a mut [Self]; M],
    ) -> TypedOperands<'a, N, M> {
        TypedOperands::Bf16(x, y)
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        Self::from_bits(portable::f32_to_bf16_bits(x))
    }
    #[inline(always)]
    fn load<S: Simd>(s: S, src: &[Self]) -> S::F {
        s.bf16_to_f32(s.load_half(bf16_bits(src)))
    }
    #[inline(always)]
    fn store<S: Simd>(s: S, dst: &mut [Self], v: S::F) {
        s.store_half(bytemuck::cast_slice_mut(dst), s.f32_to_bf16(v));
    }
    #[inline(always)]
    fn load_two<S: Simd>(s: S, src: &[Self]) -> [S::F; 2] {
        s.load_two_bf16(bf16_bits(src))
    }
    #[inline(always)]
    fn store_two<S: Simd>(s: S, dst: &mut [Self], v: [S::F; 2]) {
        s.store_two_bf16(bytemuck::cast_slice_mut(dst), v);
    }
    #[inline(always)]
    fn store_two_approx<S: Simd>(s: S, dst: &mut [Self], v: [S::F; 2]) {
        s.store_two_approx_bf16(bytemuck::cast_slice_mut(dst), v);
    }
    #[inline(always)]
    fn load_deinterleaved<S: Simd>(s: S, src: &[Self]) -> (S::F, S::F) {
        if S::TWO_DEINTERLEAVED {
            let [even, odd] = s.load_two_bf16(bf16_bits(src));
            return (even, odd);
        }
        s.deinterleave(Self::load(s, src), Self::load(s, &src[S::LANES..]))
    }
    #[inline(always)]
    fn store_interleaved<S: Simd>(s: S, dst: &mut [Self], even: S::F, odd: S::F) {
        if S::TWO_DEINTERLEAVED {
            return s.store_two_bf16(bytemuck::cast_slice_mut(dst), [even, odd]);
        }
        let (low, high) = s.interleave(even, odd);
        Self::store(s, dst, low);
        Self::store(s, &mut dst[S::LANES..], high);
    }
    #[inline(always)]
    fn store_interleaved_approx<S: Simd>(s: S, dst: &mut [Self], even: S::F, odd: S::F) {
        if S::TWO_DEINTERLEAVED {
            return s.store_two_approx_bf16(bytemuck::cast_slice_mut(dst), [even, odd]);
        }
        Self::store_interleaved(s, dst, even, odd);
    }
    #[inline(always)]
    fn round_approx<S: Simd>(s: S, v: S::F) -> S::F {
        s.round_approx_bf16(v)
    }
    #[inline(always)]
    fn load_partial<S: Simd>(s: S, src: &[Self], fill: f32) -> S::F {
        s.bf16_to_f32(s.load_half_partial(bf16_bits(src), portable::f32_to_bf16_bits(fill)))
    }
    #[inline(always)]
    fn store_partial<S: Simd>(s: S, dst: &mut [Self], v: S::F) {
        s.store_half_partial(bytemuck::cast_slice_mut(dst), s.f32_to_bf16(v));
    }
    #[inline(always)]
    unsafe fn load_ptr<S: Simd>(s: S, src: *const Self) -> S::F {
        // SAFETY: a bf16 is a u16 in memory; the caller upholds the same contract.
        s.bf16_to_f32(unsafe { s.load_half_ptr(src.cast()) })
    }
}
