//! HIP's functions, each returning a `Result`: thin wrappers without policy.

use std::ffi::{CStr, c_int};

use hip_sys::hip as sys;
use hip_sys::{LoadError, MissingSymbol, Search};

mod graph;
mod memory;
mod module;
mod queue;

/// The status of a HIP function that failed, or a function that the library lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HipError {
    /// The function returned a status other than success.
    #[error("{call} failed with {name} ({code})")]
    Status {
        /// The function.
        call: &'static str,
        /// The status.
        code: sys::hipError_t,
        /// The status's name in HIP's header.
        name: &'static str,
    },
    /// The library lacks the function.
    #[error(transparent)]
    Missing(#[from] MissingSymbol),
}

impl HipError {
    /// The status, if the function was called at all.
    pub fn code(&self) -> Option<sys::hipError_t> {
        match self {
            HipError::Status { code, .. } => Some(*code),
            HipError::Missing(_) => None,
        }
    }

    /// The function.
    pub fn call(&self) -> &'static str {
        match self {
            HipError::Status { call, .. } => call,
            HipError::Missing(missing) => missing.symbol,
        }
    }
}

type Result<T> = std::result::Result<T, HipError>;

/// The HIP runtime.
#[derive(Clone, Debug)]
pub struct Hip {
    lib: sys::Lib,
}

impl Hip {
    /// Opens the runtime that [`hip_sys::hip::load`] finds.
    ///
    /// # Errors
    ///
    /// [`LoadError`] when there is none.
    pub fn load() -> std::result::Result<Hip, LoadError> {
        sys::load().map(Hip::from)
    }

    /// Opens the runtime found by a search.
    ///
    /// # Errors
    ///
    /// [`LoadError`] when there is none.
    pub fn load_from(search: &Search) -> std::result::Result<Hip, LoadError> {
        sys::load_from(search).map(Hip::from)
    }

    /// The open library.
    pub fn lib(&self) -> &sys::Lib {
        &self.lib
    }

    /// Turns a status into a result. HIP also keeps the thread's last failure, where other libraries would
    /// mistake it for their own, so it is cleared here.
    fn check(
        &self,
        call: &'static str,
        status: std::result::Result<sys::hipError_t, MissingSymbol>,
    ) -> Result<()> {
        let code = status?;
        if code == sys::hipSuccess {
            return Ok(());
        }
        // SAFETY: takes no argument. It returns the error at hand.
        let _ = unsafe { self.lib.hipGetLastError() };
        Err(HipError::Status {
            call,
            code,
            name: sys::status_name(code).unwrap_or("a status unknown to this program"),
        })
    }
}

impl From<sys::Lib> for Hip {
    fn from(lib: sys::Lib) -> Hip {
        Hip { lib }
    }
}

/// Devices.
impl Hip {
    /// The number of devices.
    pub fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: writes one int.
        self.check("hipGetDeviceCount", unsafe { self.lib.hipGetDeviceCount(&mut count) })?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// The calling thread's current device.
    pub fn current_device(&self) -> Result<c_int> {
        let mut device = 0;
        // SAFETY: writes one int.
        self.check("hipGetDevice", unsafe { self.lib.hipGetDevice(&mut device) })?;
        Ok(device)
    }

    /// Makes a device the calling thread's current one.
    pub fn set_device(&self, device: c_int) -> Result<()> {
        // SAFETY: takes a number, and refuses it if there is no such device.
        self.check("hipSetDevice", unsafe { self.lib.hipSetDevice(device) })
    }

    /// A device's properties.
    pub fn device_properties(&self, device: c_int) -> Result<Box<sys::hipDeviceProp_tR0600>> {
        let mut properties = Box::<sys::hipDeviceProp_tR0600>::new_uninit();
        // SAFETY: the structure holds numbers, characters and pointers: zeros are a value of it.
        unsafe { properties.as_mut_ptr().write_bytes(0, 1) };
        // SAFETY: writes one structure.
        let status = unsafe { self.lib.hipGetDevicePropertiesR0600(properties.as_mut_ptr(), device) };
        self.check("hipGetDevicePropertiesR0600", status)?;
        // SAFETY: zeroed above.
        Ok(unsafe { properties.assume_init() })
    }

    /// An attribute of a device.
    pub fn attribute(&self, attribute: sys::hipDeviceAttribute_t, device: c_int) -> Result<c_int> {
        let mut value = 0;
        // SAFETY: writes one int.
        let status = unsafe { self.lib.hipDeviceGetAttribute(&mut value, attribute, device) };
        self.check("hipDeviceGetAttribute", status)?;
        Ok(value)
    }

    /// A device's place on the PCI bus, such as `0000:0b:00.0`.
    pub fn pci_bus_id(&self, device: c_int) -> Result<String> {
        let mut text = [0; 64];
        // SAFETY: writes at most the given number of characters, which is less than the array's length.
        let status =
            unsafe { self.lib.hipDeviceGetPCIBusId(text.as_mut_ptr(), text.len() as c_int - 1, device) };
        self.check("hipDeviceGetPCIBusId", status)?;
        // SAFETY: the last character is the original zero.
        Ok(unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned())
    }

    /// Waits for all work of the current device.
    pub fn device_synchronize(&self) -> Result<()> {
        // SAFETY: takes no argument.
        self.check("hipDeviceSynchronize", unsafe { self.lib.hipDeviceSynchronize() })
    }

    /// Free and total bytes of the current device.
    pub fn mem_info(&self) -> Result<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two sizes.
        self.check("hipMemGetInfo", unsafe { self.lib.hipMemGetInfo(&mut free, &mut total) })?;
        Ok((free, total))
    }
}
