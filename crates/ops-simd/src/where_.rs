//! Elementwise selection between two operands.

use crate::error::{Error, same_len};
use crate::isa::Isa;
use crate::simd::{Simd, VectorFn};

/// y\[i\] = yes\[i\] where cond\[i\] is not 0, otherwise no\[i\]. Accepts any type; elements of 1, 2, 4 and 8 bytes are
/// vectorised.
///
/// # Errors
/// [`Error::Length`] when the lengths differ.
pub fn choose<T: bytemuck::Pod>(
    isa: Isa,
    cond: &[u8],
    yes: &[T],
    no: &[T],
    y: &mut [T],
) -> Result<(), Error> {
    same_len("cond", cond.len(), y.len())?;
    same_len("yes", yes.len(), y.len())?;
    same_len("no", no.len(), y.len())?;
    if !matches!(size_of::<T>(), 1 | 2 | 4 | 8) {
        for (i, y) in y.iter_mut().enumerate() {
            *y = if cond[i] != 0 { yes[i] } else { no[i] };
        }
        return Ok(());
    }
    let (yes, no, y) = (bytemuck::cast_slice(yes), bytemuck::cast_slice(no), bytemuck::cast_slice_mut(y));
    bits(isa, cond, yes, no, y, size_of::<T>());
    Ok(())
}

// Not generic, so that the kernels are compiled in this crate.
fn bits(isa: Isa, cond: &[u8], yes: &[u8], no: &[u8], y: &mut [u8], size: usize) {
    match size {
        2 => isa.run(Choose {
            cond,
            yes: yes.as_chunks::<2>().0,
            no: no.as_chunks().0,
            y: y.as_chunks_mut().0,
        }),
        4 => isa.run(Choose {
            cond,
            yes: yes.as_chunks::<4>().0,
            no: no.as_chunks().0,
            y: y.as_chunks_mut().0,
        }),
        8 => isa.run(Choose {
            cond,
            yes: yes.as_chunks::<8>().0,
            no: no.as_chunks().0,
            y: y.as_chunks_mut().0,
        }),
        _ => isa.run(Choose {
            cond,
            yes: yes.as_chunks::<1>().0,
            no: no.as_chunks().0,
            y: y.as_chunks_mut().0,
        }),
    }
}

/// An element as raw bits.
trait Bits: Copy {
    /// `yes` if `cond` is not 0, otherwise `no`. It has no branch, so that the compiler vectorises a loop over it.
    fn blend(cond: u8, yes: Self, no: Self) -> Self;
}

impl Bits for [u8; 1] {
    #[inline(always)]
    fn blend(cond: u8, yes: Self, no: Self) -> Self {
        let mask = u8::from(cond != 0).wrapping_neg();
        [no[0] ^ ((yes[0] ^ no[0]) & mask)]
    }
}
impl Bits for [u8; 2] {
    #[inline(always)]
    fn blend(cond: u8, yes: Self, no: Self) -> Self {
        let (yes, no, mask) =
            (u16::from_ne_bytes(yes), u16::from_ne_bytes(no), u16::from(cond != 0).wrapping_neg());
        (no ^ ((yes ^ no) & mask)).to_ne_bytes()
    }
}
impl Bits for [u8; 4] {
    #[inline(always)]
    fn blend(cond: u8, yes: Self, no: Self) -> Self {
        let (yes, no, mask) =
            (u32::from_ne_bytes(yes), u32::from_ne_bytes(no), u32::from(cond != 0).wrapping_neg());
        (no ^ ((yes ^ no) & mask)).to_ne_bytes()
    }
}
impl Bits for [u8; 8] {
    #[inline(always)]
    fn blend(cond: u8, yes: Self, no: Self) -> Self {
        let (yes, no, mask) =
            (u64::from_ne_bytes(yes), u64::from_ne_bytes(no), u64::from(cond != 0).wrapping_neg());
        (no ^ ((yes ^ no) & mask)).to_ne_bytes()
    }
}

/// Elements as raw bits. The compiler vectorises the loop for the instruction set that it is inlined into.
struct Choose<'a, const N: usize> {
    cond: &'a [u8],
    yes: &'a [[u8; N]],
    no: &'a [[u8; N]],
    y: &'a mut [[u8; N]],
}

impl<const N: usize> VectorFn for Choose<'_, N>
where
    [u8; N]: Bits,
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let n = self.y.len();
        let (cond, yes, no) = (&self.cond[..n], &self.yes[..n], &self.no[..n]);
        for i in 0..n {
            self.y[i] = Bits::blend(cond[i], yes[i], no[i]);
        }
    }
}
