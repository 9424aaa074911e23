//! Modules and kernels.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr::{null_mut, without_provenance_mut};

use super::{Hip, Result, sys};

/// Modules. They belong to the calling thread's current device.
impl Hip {
    /// Loads a code object.
    ///
    /// # Safety
    ///
    /// The image is a complete code object or bundle, and stays in place until the module is unloaded.
    pub unsafe fn module_load_data(&self, image: *const c_void) -> Result<sys::hipModule_t> {
        let mut module = null_mut();
        // SAFETY: writes one handle; the rest is guaranteed by the caller.
        self.check("hipModuleLoadData", unsafe { self.lib.hipModuleLoadData(&mut module, image) })?;
        Ok(module)
    }

    /// Unloads a module.
    ///
    /// # Safety
    ///
    /// The module is live, and none of its kernels is running or used afterwards.
    pub unsafe fn module_unload(&self, module: sys::hipModule_t) -> Result<()> {
        // SAFETY: guaranteed by the caller.
        self.check("hipModuleUnload", unsafe { self.lib.hipModuleUnload(module) })
    }

    /// A kernel of a module.
    ///
    /// # Safety
    ///
    /// The module is live.
    pub unsafe fn module_get_function(
        &self,
        module: sys::hipModule_t,
        name: &CStr,
    ) -> Result<sys::hipFunction_t> {
        let mut function = null_mut();
        // SAFETY: writes one handle; the rest is guaranteed by the caller.
        let status = unsafe { self.lib.hipModuleGetFunction(&mut function, module, name.as_ptr()) };
        self.check("hipModuleGetFunction", status)?;
        Ok(function)
    }

    /// An attribute that the compiler recorded for a kernel.
    ///
    /// # Safety
    ///
    /// The kernel's module is live and belongs to the current device: HIP looks it up there without a check.
    pub unsafe fn func_get_attribute(
        &self,
        function: sys::hipFunction_t,
        attribute: sys::hipFunction_attribute,
    ) -> Result<c_int> {
        let mut value = 0;
        // SAFETY: writes one int; the rest is guaranteed by the caller.
        let status = unsafe { self.lib.hipFuncGetAttribute(&mut value, attribute, function) };
        self.check("hipFuncGetAttribute", status)?;
        Ok(value)
    }

    /// Enqueues a kernel, with its arguments in one buffer.
    ///
    /// # Safety
    ///
    /// The kernel's module and the stream are live and belong to one device; the sizes are within the
    /// device's limits; the buffer holds the kernel's arguments, and the memory they point to is valid until
    /// the stream has passed the launch.
    pub unsafe fn module_launch_kernel(
        &self,
        function: sys::hipFunction_t,
        grid: [c_uint; 3],
        block: [c_uint; 3],
        shared_bytes: c_uint,
        stream: sys::hipStream_t,
        args: &[u8],
    ) -> Result<()> {
        // HIP_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE and _END, which bindgen cannot express.
        const POINTER: *mut c_void = without_provenance_mut(1);
        const SIZE: *mut c_void = without_provenance_mut(2);
        const END: *mut c_void = without_provenance_mut(3);
        let mut bytes = args.len();
        let mut extra =
            [POINTER, args.as_ptr().cast_mut().cast(), SIZE, std::ptr::from_mut(&mut bytes).cast(), END];
        // SAFETY: the list ends with its end mark, and HIP copies the arguments before it returns; the rest
        // is guaranteed by the caller.
        let status = unsafe {
            self.lib.hipModuleLaunchKernel(
                function,
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                shared_bytes,
                stream,
                null_mut(),
                extra.as_mut_ptr(),
            )
        };
        self.check("hipModuleLaunchKernel", status)
    }
}
