//! Where repacked weights are kept.

use crate::error::Error;
use crate::scratch::Line;

/// `bytes`, if they begin on a cache line and are at least `want`.
fn fit(bytes: &[u8], want: usize) -> Result<(), Error> {
    match want == 0 || (bytes.as_ptr().cast::<Line>().is_aligned() && bytes.len() >= want) {
        true => Ok(()),
        false => Err(Error::Memory { got: bytes.len(), want }),
    }
}

/// The first `want` bytes, to be packed into.
pub(crate) fn room(bytes: &mut [u8], want: usize) -> Result<&mut [u8], Error> {
    fit(bytes, want)?;
    Ok(&mut bytes[..want])
}

/// Memory of repacked weights: of their own, or lent by whoever knows how to get huge pages.
pub(crate) enum Held<'m> {
    Own(Vec<Line>),
    Lent(&'m [u8]),
}

impl<'m> Held<'m> {
    /// Zeros, in whole lines.
    pub(crate) fn zeros(bytes: usize) -> Self {
        Held::Own(vec![Line::ZERO; bytes.div_ceil(64)])
    }
    /// Memory of at least `want` bytes that begins on a cache line.
    pub(crate) fn lent(bytes: &'m [u8], want: usize) -> Result<Self, Error> {
        fit(bytes, want)?;
        Ok(Held::Lent(&bytes[..want]))
    }
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Held::Own(lines) => bytemuck::cast_slice(lines),
            Held::Lent(bytes) => bytes,
        }
    }
    /// At least `want` bytes of its own, new ones if there are fewer.
    pub(crate) fn own(&mut self, want: usize) -> &mut [u8] {
        if !matches!(self, Held::Own(lines) if lines.len() * 64 >= want) {
            *self = Self::zeros(want);
        }
        match self {
            Held::Own(lines) => &mut bytemuck::cast_slice_mut(lines)[..want],
            Held::Lent(_) => unreachable!("it was made to own its memory"),
        }
    }
}
