//! Compiled kernels and their launch.

use std::ffi::CString;
use std::sync::Arc;

use hip_sys::hip::{HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES};
use hip_sys::hip::{hipFunction_t, hipModule_t};

use super::allocator::Exhaustion;
use super::capture_log::{self, Work};
use super::device::Device;
use super::error::{Error, Result};
use super::stream::Stream;

/// A compiled code object, complete, and aligned as the loader requires.
#[derive(Clone)]
pub struct CodeObject {
    words: Box<[u128]>,
    bytes: usize,
}

impl CodeObject {
    /// Copies a code object made by a compiler for AMD GPUs, from any source.
    ///
    /// # Safety
    ///
    /// The bytes are the compiler's complete, unchanged output: HIP does not get their length and trusts their
    /// contents. A file that could be damaged needs a checksum.
    pub unsafe fn from_bytes(bytes: &[u8]) -> CodeObject {
        let word =
            |chunk: &[u8]| u128::from_ne_bytes(std::array::from_fn(|i| chunk.get(i).copied().unwrap_or(0)));
        CodeObject { words: bytes.chunks(16).map(word).collect(), bytes: bytes.len() }
    }

    /// The bytes, as written by the compiler.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_ne_bytes()).take(self.bytes).collect()
    }
}

impl std::fmt::Debug for CodeObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CodeObject of {} bytes", self.bytes)
    }
}

/// A code object on a device. Clones refer to the same module.
#[derive(Clone, Debug)]
pub struct Module {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    device: Device,
    handle: hipModule_t,
    /// HIP may still read it.
    _code: CodeObject,
}

// SAFETY: HIP's functions take a module's handle from any thread; the pointer is never followed here.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Module {
    /// Loads a code object.
    ///
    /// # Errors
    ///
    /// [`Error::Module`] if it is not for this device's architecture; [`Error::Hip`] if the device is full; an error left
    /// by an earlier `Drop`.
    pub fn load(device: &Device, code: CodeObject) -> Result<Module> {
        device.check()?;
        // SAFETY: the type guarantees a complete code object, and the module keeps it alive.
        let loaded = device.with_room(|hip| unsafe { hip.module_load_data(code.words.as_ptr().cast()) });
        let handle = loaded.map_err(|source| match source.is_exhaustion() {
            true => Error::Hip(source),
            false => Error::Module { gfx: device.info().gfx.to_string(), source },
        })?;
        Ok(Module { inner: Arc::new(Inner { device: device.clone(), handle, _code: code }) })
    }

    /// A kernel of the module.
    ///
    /// # Errors
    ///
    /// [`Error::NoKernel`] if it has none of this name; errors from HIP.
    pub fn function(&self, name: &str) -> Result<Function> {
        let device = &self.inner.device;
        let no_kernel = |error| match error {
            Error::Hip(source) => Error::NoKernel { kernel: name.to_string(), source },
            other => other,
        };
        let problem = || "the name contains a zero byte".to_string();
        let text =
            CString::new(name).map_err(|_| Error::Launch { kernel: name.to_string(), problem: problem() })?;
        // SAFETY: the module lives as long as `self`.
        let handle = device
            .enter(|hip| unsafe { hip.module_get_function(self.inner.handle, &text) })
            .map_err(no_kernel)?;
        // AMD's runtime answers for the current device, without checking that the kernel is loaded there.
        let attribute = |attribute| -> Result<u32> {
            // SAFETY: as above.
            let value = device.enter(|hip| unsafe { hip.func_get_attribute(handle, attribute) })?;
            Ok(u32::try_from(value).unwrap_or(0))
        };
        Ok(Function {
            module: self.clone(),
            handle,
            name: name.into(),
            max_threads: attribute(HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            static_lds: attribute(HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A kernel of the module may still be running; HIP does not say that unloading waits for it.
        let unloaded = self.device.wait_all().and_then(|()| {
            // SAFETY: nothing refers to the module any more, and the device is idle.
            self.device.enter(|hip| unsafe { hip.module_unload(self.handle) })
        });
        if let Err(error) = unloaded {
            self.device.defer(error);
        }
    }
}

/// A kernel, which keeps its module alive.
#[derive(Clone, Debug)]
pub struct Function {
    module: Module,
    handle: hipFunction_t,
    name: Arc<str>,
    max_threads: u32,
    static_lds: u32,
}

// SAFETY: HIP's functions take a kernel's handle from any thread; the pointer is never followed here.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// Sizes in the directions x, y and z.
pub type Dim = [u32; 3];

/// The sizes of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks in each direction.
    pub grid: Dim,
    /// Threads of a block in each direction.
    pub block: Dim,
    /// Bytes of LDS beyond what the kernel declares.
    pub dynamic_lds: u32,
}

impl Launch {
    /// One-dimensional grid and blocks.
    pub fn line(blocks: u32, threads: u32) -> Launch {
        Launch { grid: [blocks, 1, 1], block: [threads, 1, 1], dynamic_lds: 0 }
    }
}

/// The argument of a kernel: one structure, identical in Rust and in the kernel's source.
///
/// # Safety
///
/// The type is `#[repr(C)]`, consists of numbers and addresses without padding, and matches, field by field,
/// the structure of the kernels that it is passed to.
pub unsafe trait KernelArgs: Copy + 'static {}

impl Function {
    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of LDS that the kernel declares.
    pub fn static_lds(&self) -> u32 {
        self.static_lds
    }

    /// Enqueues the kernel, or records it. All launches of this crate go through here, except those of a
    /// graph.
    ///
    /// # Errors
    ///
    /// [`Error::Launch`] if the sizes are beyond the device's or the kernel's limits; [`Error::OtherDevice`]; an error left
    /// by an earlier `Drop`; errors from HIP.
    ///
    /// # Safety
    ///
    /// `A` is the kernel's argument structure. With these sizes and arguments the kernel stays within the
    /// memory that the arguments point to. An [`Access`](super::Access) makes that memory available to the
    /// stream until this has returned, for writing where the kernel writes.
    pub unsafe fn launch<A: KernelArgs>(&self, stream: &Stream, launch: Launch, args: &A) -> Result<()> {
        // SAFETY: the structure has no padding, as its trait guarantees, so all its bytes are initialised.
        let args =
            unsafe { std::slice::from_raw_parts(std::ptr::from_ref(args).cast::<u8>(), size_of::<A>()) };
        // SAFETY: guaranteed by the caller.
        unsafe { self.launch_bytes(stream, launch, args) }
    }

    /// [`launch`](Self::launch) with the bytes of the argument structure.
    ///
    /// # Errors
    ///
    /// Those of [`launch`](Self::launch).
    ///
    /// # Safety
    ///
    /// As for [`launch`](Self::launch), of the structure with these bytes.
    pub(crate) unsafe fn launch_bytes(&self, stream: &Stream, launch: Launch, args: &[u8]) -> Result<()> {
        let device = &self.module.inner.device;
        let (owner, other) = (device.info().ordinal, stream.device().info().ordinal);
        if owner != other {
            return Err(Error::OtherDevice { call: "launch", stream: other, owner });
        }
        device.check()?;
        if let Some(problem) = self.problem(device, launch) {
            return Err(Error::Launch { kernel: self.name.to_string(), problem });
        }
        if stream.is_recorded() {
            let Launch { grid, block, dynamic_lds } = launch;
            let work = Work::Launch { function: self.handle, grid, block, dynamic_lds, args: args.into() };
            capture_log::note(work, Some(self.module.inner.clone()));
            return Ok(());
        }
        let leased = stream.lease("launch")?;
        // SAFETY: the module is live, the stream is leased, both belong to one device, and the sizes are
        // possible; the rest is guaranteed by the caller.
        let launched = device.with_room(|hip| unsafe {
            let Launch { grid, block, dynamic_lds } = launch;
            hip.module_launch_kernel(self.handle, grid, block, dynamic_lds, leased.handle, args)
        });
        Ok(launched?)
    }

    /// Why these sizes cannot be launched, if they cannot.
    fn problem(&self, device: &Device, launch: Launch) -> Option<String> {
        let info = device.info();
        // A kernel compiled for fewer threads than the device allows says so; zero means unknown.
        let allowed =
            [info.max_block_threads, self.max_threads].into_iter().filter(|&n| n > 0).min().unwrap_or(1024);
        let lds = u64::from(launch.dynamic_lds) + u64::from(self.static_lds);
        size_problem(launch, allowed, info.max_grid).or_else(|| {
            (lds > u64::from(info.lds_bytes))
                .then(|| format!("{lds} bytes of LDS, but a block has only {}", info.lds_bytes))
        })
    }
}

fn size_problem(launch: Launch, max_threads: u32, max_grid: Dim) -> Option<String> {
    let Launch { grid, block, .. } = launch;
    if grid.contains(&0) || block.contains(&0) {
        return Some(format!("a size is zero: grid {grid:?}, block {block:?}"));
    }
    let threads = block.iter().try_fold(1u32, |product, &n| product.checked_mul(n));
    if threads.is_none_or(|threads| threads > max_threads) {
        return Some(format!("a block of {block:?} threads, but the maximum is {max_threads}"));
    }
    for axis in 0..3 {
        // HIP counts the threads of a direction in 32 bits.
        let threads = u64::from(grid[axis]) * u64::from(block[axis]);
        if grid[axis] > max_grid[axis] || threads > u64::from(u32::MAX) {
            return Some(format!(
                "a grid of {grid:?} blocks of {block:?} threads, but the maximum is {max_grid:?} blocks and 2^32 - 1 \
                                 threads in a direction"
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Dim = [i32::MAX as u32, 65536, 65536];

    #[test]
    fn impossible_sizes_are_told_with_their_limit() {
        let launch = |grid, block| size_problem(Launch { grid, block, dynamic_lds: 0 }, 1024, GRID);
        assert_eq!(launch([8, 1, 1], [256, 4, 1]), None);
        assert!(launch([0, 1, 1], [256, 1, 1]).unwrap().contains("zero"));
        assert!(launch([1, 1, 1], [256, 5, 1]).unwrap().contains("the maximum is 1024"));
        assert!(launch([1, 1, 1], [65536, 65536, 2]).unwrap().contains("1024"));
        assert!(launch([1, 65537, 1], [1, 1, 1]).unwrap().contains("65536"));
        assert!(launch([1 << 24, 1, 1], [256, 1, 1]).unwrap().contains("2^32"));
        assert_eq!(launch([(1 << 24) - 1, 1, 1], [256, 1, 1]), None);
    }

    #[test]
    fn a_code_object_keeps_its_bytes() {
        let bytes: Vec<u8> = (0..100).collect();
        // SAFETY: it is never loaded.
        let code = unsafe { CodeObject::from_bytes(&bytes) };
        assert_eq!(code.to_bytes(), bytes);
    }
}
