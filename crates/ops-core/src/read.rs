//! Copies of tensors in host memory.
use crate::backend::host_vec;
use crate::{AnyRef, AnyTensor, Backend, Element, Result, Space, Tensor, TensorRef};

impl<S: Space, T: Element> Tensor<S, T> {
    /// The elements in row-major order, on the host.
    ///
    /// # Errors
    /// The transfer fails.
    pub fn to_vec<B: Backend<Space = S>>(&self, backend: &B) -> Result<Vec<T>> {
        self.as_ref().to_vec(backend)
    }
}

impl<S: Space, T: Element> TensorRef<'_, S, T> {
    /// The elements in row-major order, on the host.
    ///
    /// # Errors
    /// The transfer fails.
    pub fn to_vec<B: Backend<Space = S>>(self, backend: &B) -> Result<Vec<T>> {
        let layout = self.layout();
        let extent = layout.extent();
        let raw = backend.read_vec(self.data(), extent.start, extent.len())?;
        if layout.is_contiguous() {
            return Ok(raw);
        }
        Ok(layout.positions().map(|p| raw[p - extent.start]).collect())
    }
}

impl<S: Space> AnyTensor<S> {
    /// The elements in row-major order, as bytes on the host.
    ///
    /// # Errors
    /// The transfer fails.
    pub fn to_vec<B: Backend<Space = S>>(&self, backend: &B) -> Result<Vec<u8>> {
        self.as_ref().to_vec(backend)
    }
}

impl<S: Space> AnyRef<'_, S> {
    /// The elements in row-major order, as bytes on the host.
    ///
    /// # Errors
    /// The transfer fails.
    pub fn to_vec<B: Backend<Space = S>>(self, backend: &B) -> Result<Vec<u8>> {
        let (layout, size) = (self.layout(), self.dtype().size());
        let extent = layout.extent();
        if let Some(packing) = self.packing() {
            let packed = backend.read_vec(self.bytes(), 0, S::len(self.bytes()))?;
            let mut plain = host_vec(layout.len().saturating_mul(size))?;
            packing.unpack(self.dtype(), layout.dims(), &packed, &mut plain)?;
            return Ok(plain);
        }
        let raw = backend.read_vec(self.bytes(), extent.start * size, extent.len() * size)?;
        if layout.is_contiguous() {
            return Ok(raw);
        }
        let elements =
            layout.positions().flat_map(|p| raw[(p - extent.start) * size..][..size].iter().copied());
        Ok(elements.collect())
    }
}
