//! Modules and kernels.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr::{null_mut, without_provenance_mut};

use super::{Hip, Result, sys};

/// Modules. They are of the calling thread's current device.
impl Hip {
    /// Loads a code object.
    ///
    /// # Safety
    ///
    /// The image is a whole code object or bundle, and stays where it is until the module is unloaded.
    pub unsafe fn module_load_data(&self, image: *const c_void) -> Result<sys::hipModule_t> {
        let mut module = null_mut();
        // SAFETY: writes one handle; the rest is the caller's promise.
        self.check("hipModuleLoadData", unsafe { self.lib.hipModuleLoadData(&mut module, image) })?;
        Ok(module)
    }

    /// Unloads a module.
    ///
    /// # Safety
    ///
    /// The module is live, and none of its kernels is running or used afterwards.
    pub unsafe fn module_unload(&self, module: sys::hipModule_t) -> Result<()> {
        // SAFETY: the caller's promise.
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
        // SAFETY: writes one handle; the rest is the caller's promise.
        let status = unsafe { self.lib.hipModuleGetFunction(&mut function, module, name.as_ptr()) };
        self.check("hipModuleGetFunction", status)?;
        Ok(function)
    }

    /// A number that the compiler recorded of a kernel.
    ///
    /// # Safety
    ///
    /// The kernel's module is live and of the current device: HIP follows it there without a test.
    pub unsafe fn func_get_attribute(
        &self,
        function: sys::hipFunction_t,
        attribute: sys::hipFunction_attribute,
    ) -> Result<c_int> {
        let mut value = 0;
        // SAFETY: writes one int; the rest is the caller's promise.
        let status = unsafe { self.lib.hipFuncGetAttribute(&mut value, attribute, function) };
        self.check("hipFuncGetAttribute", status)?;
        Ok(value)
    }

    /// Enqueues a kernel, its arguments in one buffer.
    ///
    /// # Safety
    ///
    /// The kernel's module and the stream are live and of one device; the sizes are within the device's limits; the
    /// buffer holds the kernel's arguments, and the memory they point to is valid until the stream has come past it.
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
        // SAFETY: the list ends in its end mark and HIP copies the arguments before it returns; the rest is the caller's
        // promise.
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
