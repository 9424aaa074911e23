//! MIOpen's descriptors, each of which lives as long as one call.
use crate::vendor::{Failure, MiOpenLibrary, check};
use miopen_sys::{self as sys, Lib, miopenDataType_t};
use std::ptr::null_mut;

/// A packed tensor's type and extents.
pub(super) struct Tensor<'l> {
    lib: &'l Lib,
    pub(super) raw: sys::miopenTensorDescriptor_t,
}

impl<'l> Tensor<'l> {
    pub(super) fn packed<const RANK: usize>(
        lib: &'l Lib,
        dtype: miopenDataType_t,
        dims: [usize; RANK],
    ) -> Result<Self, Failure> {
        let mut strides = [1usize; RANK];
        for axis in (1..RANK).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(dims[axis]);
        }
        let mut raw = null_mut();
        // SAFETY: writes one descriptor.
        let created = unsafe { lib.miopenCreateTensorDescriptor(&mut raw) };
        check::<MiOpenLibrary>(lib, "miopenCreateTensorDescriptor", created)?;
        let tensor = Tensor { lib, raw };
        // SAFETY: the descriptor is live; the arrays have as many extents and strides as are read.
        let set = unsafe {
            lib.miopenSetTensorDescriptorV2(raw, dtype, RANK as i32, dims.as_ptr(), strides.as_ptr())
        };
        check::<MiOpenLibrary>(lib, "miopenSetTensorDescriptorV2", set)?;
        Ok(tensor)
    }
}

impl Drop for Tensor<'_> {
    fn drop(&mut self) {
        // SAFETY: the descriptor is live, and not used again.
        let destroyed = unsafe { self.lib.miopenDestroyTensorDescriptor(self.raw) };
        if let Err(Failure { call, status, .. }) =
            check::<MiOpenLibrary>(self.lib, "miopenDestroyTensorDescriptor", destroyed)
        {
            tracing::warn!("{call} failed with {status}");
        }
    }
}

/// An activation function.
pub(super) struct Activation<'l> {
    lib: &'l Lib,
    pub(super) raw: sys::miopenActivationDescriptor_t,
}

impl<'l> Activation<'l> {
    /// Sets the function's factors, if it has any, to 1.
    pub(super) fn new(lib: &'l Lib, mode: sys::miopenActivationMode_t) -> Result<Self, Failure> {
        let mut raw = null_mut();
        // SAFETY: writes one descriptor.
        let created = unsafe { lib.miopenCreateActivationDescriptor(&mut raw) };
        check::<MiOpenLibrary>(lib, "miopenCreateActivationDescriptor", created)?;
        let activation = Activation { lib, raw };
        // SAFETY: the descriptor is live.
        let set = unsafe { lib.miopenSetActivationDescriptor(raw, mode, 1.0, 1.0, 1.0) };
        check::<MiOpenLibrary>(lib, "miopenSetActivationDescriptor", set)?;
        Ok(activation)
    }
}

impl Drop for Activation<'_> {
    fn drop(&mut self) {
        // SAFETY: the descriptor is live, and not used again.
        let destroyed = unsafe { self.lib.miopenDestroyActivationDescriptor(self.raw) };
        if let Err(Failure { call, status, .. }) =
            check::<MiOpenLibrary>(self.lib, "miopenDestroyActivationDescriptor", destroyed)
        {
            tracing::warn!("{call} failed with {status}");
        }
    }
}

/// A pooling.
pub(super) struct Pooling<'l> {
    lib: &'l Lib,
    pub(super) raw: sys::miopenPoolingDescriptor_t,
}

impl<'l> Pooling<'l> {
    /// With the window, padding and stride along rows and columns.
    pub(super) fn new(
        lib: &'l Lib,
        mode: sys::miopenPoolingMode_t,
        [window, padding, stride]: [[i32; 2]; 3],
    ) -> Result<Self, Failure> {
        let mut raw = null_mut();
        // SAFETY: writes one descriptor.
        let created = unsafe { lib.miopenCreatePoolingDescriptor(&mut raw) };
        check::<MiOpenLibrary>(lib, "miopenCreatePoolingDescriptor", created)?;
        let pooling = Pooling { lib, raw };
        // SAFETY: the descriptor is live.
        let set = unsafe {
            lib.miopenSet2dPoolingDescriptor(
                raw, mode, window[0], window[1], padding[0], padding[1], stride[0], stride[1],
            )
        };
        check::<MiOpenLibrary>(lib, "miopenSet2dPoolingDescriptor", set)?;
        Ok(pooling)
    }
}

impl Drop for Pooling<'_> {
    fn drop(&mut self) {
        // SAFETY: the descriptor is live, and not used again.
        let destroyed = unsafe { self.lib.miopenDestroyPoolingDescriptor(self.raw) };
        if let Err(Failure { call, status, .. }) =
            check::<MiOpenLibrary>(self.lib, "miopenDestroyPoolingDescriptor", destroyed)
        {
            tracing::warn!("{call} failed with {status}");
        }
    }
}
