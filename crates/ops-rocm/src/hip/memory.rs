//! Owned device memory.

use std::ffi::c_void;
use std::sync::Arc;

use hip_sys::hip::hipMemcpyDeviceToDevice;

use super::allocation::Allocation;
use super::allocator::Block;
use super::capture_log::{self, Work};
use super::device::Device;
use super::error::{Error, Result};
use super::staging::{self, Download};
use super::stream::Stream;
use super::uses::{Purpose, Uses};

/// Why copies from the host cannot be recorded.
const WRITES: &str = "each replay would copy the bytes of the recording; write before a replay, to a tensor that the graph reads";
/// Why copies to the host cannot be recorded.
const READS: &str = "recorded work has not run; read after a replay";

/// Device memory. When the value is dropped, its bytes become available to the next buffer, after all work on
/// them so far.
///
/// On its home stream, for which it was allocated, use costs nothing extra. Work on another stream waits for
/// the last conflicting use of this memory elsewhere, and possibly for work enqueued there after that use:
/// see [`access`](Self::access).
#[derive(Debug)]
pub struct DeviceMemory {
    /// Shared with the graphs that use it.
    shared: Arc<Allocation>,
    bytes: usize,
}

impl DeviceMemory {
    /// Allocates uninitialised memory with the stream as its home.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]; an error left by an earlier `Drop`; errors from HIP.
    pub fn new(home: &Stream, bytes: usize) -> Result<DeviceMemory> {
        home.device().check()?;
        drop(home.lease("alloc")?);
        let recorded = home.is_recorded();
        if let Some(shared) = if recorded && bytes > 0 { capture_log::reuse(bytes) } else { None } {
            return Ok(DeviceMemory { shared, bytes });
        }
        let block = if bytes == 0 { None } else { Some(home.device().allocate(home.id(), bytes)?) };
        let after = block.as_ref().map_or(0, |block| block.after);
        let shared = Arc::new(Allocation::new(home, block, false, Uses::after(after)));
        if recorded {
            capture_log::note_made(&shared);
        }
        Ok(DeviceMemory { shared, bytes })
    }

    /// Memory that other code allocated and owns. When the value is dropped, its home stream waits for all
    /// its uses.
    ///
    /// # Safety
    ///
    /// `bytes` bytes at `address` are memory of the stream's device. They stay allocated, and no one else writes them, until
    /// the value is dropped and the work that used it is done.
    pub unsafe fn borrow_raw(home: &Stream, address: *mut c_void, bytes: usize) -> DeviceMemory {
        let block = (bytes > 0).then_some(Block { address: address as usize, bytes, after: 0 });
        // The other code may have enqueued work on it.
        let after = home.track().next_mark();
        DeviceMemory { shared: Arc::new(Allocation::new(home, block, true, Uses::after(after))), bytes }
    }

    /// The requested number of bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.shared.device()
    }

    /// The stream on which use costs nothing extra.
    pub fn home(&self) -> &Stream {
        &self.shared.home
    }

    /// Makes later work on `stream` wait for conflicting uses of this memory, and gives that work access to
    /// its address. When the result is dropped, later uses are ordered after everything enqueued in between:
    /// keep it until all of that is enqueued, and no longer.
    ///
    /// A stream waits once for a use on another stream. If no event is known after that use, one is recorded
    /// now, so the wait also covers what was enqueued on the other stream in between.
    ///
    /// Writing through a shared reference makes disjoint views of one buffer possible; the caller must ensure
    /// that two writes do not overlap, and is responsible for the launch itself.
    ///
    /// # Errors
    ///
    /// [`Error::OtherDevice`]; an error left by an earlier `Drop`; errors from HIP.
    #[inline]
    pub fn access<'m>(&'m self, stream: &'m Stream, purpose: Purpose) -> Result<Access<'m>> {
        let (owner, other) = (self.device(), stream.device());
        if owner.info().ordinal != other.info().ordinal {
            let (stream, owner) = (other.info().ordinal, owner.info().ordinal);
            return Err(Error::OtherDevice { call: "access", stream, owner });
        }
        owner.check()?;
        let recorded = stream.is_recorded();
        if recorded {
            capture_log::note_use(&self.shared, purpose)?;
        } else {
            self.shared.order(stream, purpose)?;
        }
        Ok(Access { memory: self, stream, purpose, recorded })
    }

    /// Enqueues a copy of host bytes to this offset. The host's bytes may be changed or freed when this
    /// returns.
    ///
    /// # Errors
    ///
    /// [`Error::Range`]; those of [`access`](Self::access).
    pub fn write(&mut self, stream: &Stream, offset: usize, bytes: &[u8]) -> Result<()> {
        self.write_part(stream, offset, bytes)
    }

    /// The same, for the holder of one of several disjoint views of the memory.
    pub(crate) fn write_part(&self, stream: &Stream, offset: usize, bytes: &[u8]) -> Result<()> {
        self.check_range("write", offset, bytes.len())?;
        if !bytes.is_empty() {
            stream.require_unrecorded("write", WRITES)?;
        }
        let access = self.access(stream, Purpose::Write)?;
        // SAFETY: the range is within the memory, which is freed only after the stream's work.
        let number = unsafe { staging::write(stream, access.at(offset), bytes) }?;
        access.end_before(number);
        Ok(())
    }

    /// Enqueues setting bytes to a value.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub fn fill(&mut self, stream: &Stream, offset: usize, bytes: usize, value: u8) -> Result<()> {
        self.check_range("fill", offset, bytes)?;
        let access = self.access(stream, Purpose::Write)?;
        if access.recorded {
            if bytes > 0 {
                capture_log::note(Work::Fill { to: access.at(offset), value, bytes }, None);
            }
            return Ok(());
        }
        // SAFETY: as for `write`.
        unsafe { staging::fill(stream, access.at(offset), value, bytes) }
    }

    /// Enqueues a copy from other memory of the device.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub fn copy_from(
        &mut self,
        stream: &Stream,
        offset: usize,
        from: &DeviceMemory,
        from_offset: usize,
        bytes: usize,
    ) -> Result<()> {
        self.check_range("copy_from", offset, bytes)?;
        from.check_range("copy_from", from_offset, bytes)?;
        let (to, from) = (self.access(stream, Purpose::Write)?, from.access(stream, Purpose::Read)?);
        if bytes == 0 {
            return Ok(());
        }
        if to.recorded {
            let work = Work::Copy { to: to.at(offset), from: from.at(from_offset), bytes };
            capture_log::note(work, None);
            return Ok(());
        }
        let (to, from) = (to.at(offset) as *mut c_void, from.at(from_offset) as *const c_void);
        let leased = stream.lease("copy_from")?;
        // SAFETY: both ranges are within their memories, which are freed only after the stream's work, and
        // belong to different buffers since one is borrowed for writing; the stream is leased.
        self.device()
            .enter(|hip| unsafe { hip.memcpy_async(to, from, bytes, hipMemcpyDeviceToDevice, leased.handle) })
    }

    /// Copies bytes to the host, and waits for them.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write), and errors of earlier work on the stream.
    pub fn read(&self, stream: &Stream, offset: usize, bytes: usize) -> Result<Vec<u8>> {
        // Checked first, so that an invalid range allocates nothing.
        self.check_range("read", offset, bytes)?;
        let mut into = vec![0; bytes];
        self.read_into(stream, offset, &mut into)?;
        Ok(into)
    }

    /// Copies bytes to the host, and waits for them.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn read_into(&self, stream: &Stream, offset: usize, into: &mut [u8]) -> Result<()> {
        self.check_range("read", offset, into.len())?;
        stream.require_unrecorded("read", READS)?;
        let access = self.access(stream, Purpose::Read)?;
        // SAFETY: the range is within the memory.
        unsafe { staging::read(stream, access.at(offset), into) }?;
        // The copy is complete.
        access.end_before(0);
        Ok(())
    }

    /// Enqueues a copy of bytes to the host, which can be waited for later.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub fn download(&self, stream: &Stream, offset: usize, bytes: usize) -> Result<Download> {
        self.check_range("download", offset, bytes)?;
        stream.require_unrecorded("download", READS)?;
        let access = self.access(stream, Purpose::Read)?;
        // SAFETY: the range is within the memory, which is freed only after the stream's work.
        let download = unsafe { Download::start(stream, access.at(offset), bytes) }?;
        access.end_before(download.number());
        Ok(download)
    }

    fn check_range(&self, call: &'static str, offset: usize, bytes: usize) -> Result<()> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(Error::Range { call, offset, bytes, len: self.bytes }),
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.shared.home.is_recorded() {
            capture_log::put(&self.shared);
        }
    }
}

/// Permission for work on a stream to use memory, with its address. See [`DeviceMemory::access`].
#[derive(Debug)]
pub struct Access<'m> {
    memory: &'m DeviceMemory,
    stream: &'m Stream,
    purpose: Purpose,
    /// The work that uses the memory is recorded: each replay notes the use.
    recorded: bool,
}

impl Access<'_> {
    /// The address on the device; null for no bytes. Only work enqueued on the stream while this value lives
    /// may use it.
    #[inline]
    pub fn address(&self) -> *mut c_void {
        self.at(0) as *mut c_void
    }

    /// The address of a byte inside the checked range.
    #[inline]
    fn at(&self, offset: usize) -> usize {
        self.memory.shared.address().wrapping_add(offset)
    }
}

impl Access<'_> {
    /// Ends the access, if the last work on the memory is known to come before a mark of the stream. A reader
    /// elsewhere then waits only for that mark.
    fn end_before(self, number: u64) {
        let Allocation { home, uses, .. } = &*self.memory.shared;
        if !self.recorded {
            uses.note(home, self.stream, self.purpose, number);
        }
        std::mem::forget(self);
    }
}

impl Drop for Access<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.recorded {
            self.memory.shared.note(self.stream, self.purpose);
        }
    }
}
