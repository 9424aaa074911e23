//! Where repacked weights are kept.

use crate::error::Error;
use crate::scratch::Line;

/// Memory for weights in another order, given by whoever knows how to get it: huge pages, or an error where there is none.
/// Its bytes begin on a cache line and stay where they are.
pub trait Memory: AsRef<[u8]> + AsMut<[u8]> + Send + Sync {}

impl<M: AsRef<[u8]> + AsMut<[u8]> + Send + Sync> Memory for M {}

/// `memory`, if it is fit for `bytes`.
pub(crate) fn fit(mut memory: Box<dyn Memory>, bytes: usize) -> Result<Box<dyn Memory>, Error> {
    let given = (*memory).as_mut();
    let (got, aligned) = (given.len(), given.as_ptr().cast::<Line>().is_aligned());
    match aligned && got >= bytes {
        true => Ok(memory),
        false => Err(Error::Memory { got, want: bytes }),
    }
}

/// Lines of a vector.
pub(crate) struct Lines(Vec<Line>);

impl Lines {
    /// Zeros, in whole lines.
    pub(crate) fn boxed(bytes: usize) -> Box<dyn Memory> {
        Box::new(Self(vec![Line::ZERO; bytes.div_ceil(64)]))
    }
}

impl AsRef<[u8]> for Lines {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl AsMut<[u8]> for Lines {
    fn as_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}
