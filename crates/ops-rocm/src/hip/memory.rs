//! Device memory that owns itself.

use crate::sync::Mutex;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use hip_sys::hip::hipMemcpyDeviceToDevice;

use super::allocator::Block;
use super::device::Device;
use super::error::{Error, Result};
use super::event::Event;
use super::staging::{self, Download};
use super::stream::Stream;

/// Bytes of device memory. They are freed for the next buffer when the value is dropped, after all work on them so far.
///
/// Work on the home stream, with which it was made, costs nothing extra. Work on another stream is ordered by events:
/// see [`access`](Self::access).
#[derive(Debug)]
pub struct DeviceMemory {
    /// `None` for no bytes, and once dropped.
    block: Option<Block>,
    bytes: usize,
    /// Other code owns it: this crate neither frees nor reuses it.
    borrowed: bool,
    home: Stream,
    /// The last uses on other streams that the home stream does not come after yet.
    uses: Mutex<Vec<Use>>,
    /// Whether there may be any. A caller that must come after a use has synchronised with it, and so sees this set.
    used_elsewhere: AtomicBool,
}

/// A use on a stream other than the home stream.
#[derive(Debug)]
struct Use {
    stream: u64,
    /// Behind it.
    event: Event,
    writes: bool,
}

/// What an [`access`](DeviceMemory::access) is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reading, which may go on while others read.
    Read,
    /// Writing, which comes after all reads and writes before it, and before all after it.
    Write,
}

impl DeviceMemory {
    /// Uninitialised memory. Its home is the stream.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`]; an error that an earlier `Drop` left; HIP's.
    pub fn new(home: &Stream, bytes: usize) -> Result<DeviceMemory> {
        home.device().check()?;
        drop(home.lease("alloc")?);
        let block = if bytes == 0 { None } else { Some(home.device().allocate(home.id(), bytes)?) };
        Ok(DeviceMemory {
            block,
            bytes,
            borrowed: false,
            home: home.clone(),
            uses: Mutex::default(),
            used_elsewhere: AtomicBool::new(false),
        })
    }

    /// Memory that other code made and keeps. When the value is dropped, its home stream comes after all uses of it.
    ///
    /// # Safety
    ///
    /// `bytes` bytes at `address` are memory of the stream's device. They stay allocated, and no one else writes them, until
    /// the value is dropped and the work that used it is done.
    pub unsafe fn borrow_raw(home: &Stream, address: *mut c_void, bytes: usize) -> DeviceMemory {
        let block = (bytes > 0).then_some(Block { address: address as usize, bytes });
        DeviceMemory {
            block,
            bytes,
            borrowed: true,
            home: home.clone(),
            uses: Mutex::default(),
            used_elsewhere: AtomicBool::new(false),
        }
    }

    /// The number of bytes that were asked for.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.home.device()
    }

    /// The stream on which use costs nothing extra.
    pub fn home(&self) -> &Stream {
        &self.home
    }

    /// Makes later work on `stream` wait for conflicting uses of this memory, and lends the address to that work. When the
    /// result is dropped, later uses are ordered after what was enqueued in between: keep it until all of it is enqueued,
    /// and no longer.
    ///
    /// Writing through a shared reference is what makes disjoint views of one buffer possible; that two writes do not
    /// overlap is the caller's to see to, as it is for the launch itself.
    ///
    /// # Errors
    ///
    /// [`Error::OtherDevice`]; an error that an earlier `Drop` left; HIP's.
    #[inline]
    pub fn access<'m>(&'m self, stream: &'m Stream, purpose: Purpose) -> Result<Access<'m>> {
        let (owner, other) = (self.device(), stream.device());
        if owner.info().ordinal != other.info().ordinal {
            let (stream, owner) = (other.info().ordinal, owner.info().ordinal);
            return Err(Error::OtherDevice { call: "access", stream, owner });
        }
        owner.check()?;
        if *stream == self.home && !self.used_elsewhere.load(Ordering::Acquire) {
            return Ok(Access { memory: self, stream, purpose });
        }
        self.order(stream, purpose)?;
        Ok(Access { memory: self, stream, purpose })
    }

    /// Makes later work on `stream` wait for conflicting uses elsewhere.
    fn order(&self, stream: &Stream, purpose: Purpose) -> Result<()> {
        let mut uses = self.uses.lock();
        let matters = |earlier: &Use| earlier.writes || purpose == Purpose::Write;
        if *stream != self.home {
            match self.home.record() {
                Ok(event) => stream.wait(&event)?,
                // The home stream's work is over.
                Err(Error::LoanEnded { .. }) => self.home.loan().wait_for_end(),
                Err(error) => return Err(error),
            }
        }
        for earlier in uses.iter().filter(|earlier| matters(earlier) && earlier.stream != stream.id()) {
            stream.wait(&earlier.event)?;
        }
        if *stream == self.home {
            uses.retain(|earlier| !matters(earlier));
            self.used_elsewhere.store(!uses.is_empty(), Ordering::Release);
        }
        Ok(())
    }

    /// Enqueues a copy of host bytes to this place. The host's bytes may be changed or freed when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::Range`]; those of [`access`](Self::access).
    pub fn write(&mut self, stream: &Stream, offset: usize, bytes: &[u8]) -> Result<()> {
        self.write_part(stream, offset, bytes)
    }

    /// The same for the holder of one of several disjoint views of the memory.
    pub(crate) fn write_part(&self, stream: &Stream, offset: usize, bytes: &[u8]) -> Result<()> {
        self.check_range("write", offset, bytes.len())?;
        let access = self.access(stream, Purpose::Write)?;
        // SAFETY: the range is within the memory, which is freed behind the stream's work.
        unsafe { staging::write(stream, access.at(offset), bytes) }
    }

    /// Enqueues setting bytes to a value.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub fn fill(&mut self, stream: &Stream, offset: usize, bytes: usize, value: u8) -> Result<()> {
        self.check_range("fill", offset, bytes)?;
        let access = self.access(stream, Purpose::Write)?;
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
        let (to, from) = (to.at(offset) as *mut c_void, from.at(from_offset) as *const c_void);
        let leased = stream.lease("copy_from")?;
        // SAFETY: both ranges are within their memory, which is freed behind the stream's work, and they are of two
        // buffers since one is borrowed for writing; the stream is leased.
        self.device()
            .enter(|hip| unsafe { hip.memcpy_async(to, from, bytes, hipMemcpyDeviceToDevice, leased.handle) })
    }

    /// Copies bytes to the host, and waits for them.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write), and those of work that the stream ran before.
    pub fn read(&self, stream: &Stream, offset: usize, bytes: usize) -> Result<Vec<u8>> {
        // Checked first, so that a bad range allocates nothing.
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
        let access = self.access(stream, Purpose::Read)?;
        // SAFETY: the range is within the memory.
        unsafe { staging::read(stream, access.at(offset), into) }
    }

    /// Enqueues a copy of bytes to the host, to be waited for later.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub fn download(&self, stream: &Stream, offset: usize, bytes: usize) -> Result<Download> {
        self.check_range("download", offset, bytes)?;
        let access = self.access(stream, Purpose::Read)?;
        // SAFETY: the range is within the memory, which is freed behind the stream's work.
        unsafe { Download::start(stream, access.at(offset), bytes) }
    }

    fn check_range(&self, call: &'static str, offset: usize, bytes: usize) -> Result<()> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(Error::Range { call, offset, bytes, len: self.bytes }),
        }
    }

    /// Makes later work on the home stream wait for all uses on other streams.
    fn join(&self) -> Result<()> {
        for earlier in self.uses.lock().drain(..) {
            // If the stream cannot wait, the host does.
            match self.home.wait(&earlier.event) {
                Ok(()) => {}
                Err(Error::LoanEnded { .. }) => earlier.event.synchronize()?,
                Err(error) => return earlier.event.synchronize().and(Err(error)),
            }
        }
        Ok(())
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let Some(block) = self.block.take() else { return };
        let joined = self.join();
        if self.borrowed {
            return joined.err().into_iter().for_each(|error| self.device().defer(error));
        }
        match joined {
            Ok(()) => self.device().release(self.home.id(), block),
            Err(error) => {
                self.device().quarantine(block);
                self.device().defer(error);
            }
        }
    }
}

/// Permission for work on a stream to use memory, with its address. See [`DeviceMemory::access`].
#[derive(Debug)]
pub struct Access<'m> {
    memory: &'m DeviceMemory,
    stream: &'m Stream,
    purpose: Purpose,
}

impl Access<'_> {
    /// The address on the device; null for no bytes. Only work that is given to the stream while this value lives may
    /// follow it.
    #[inline]
    pub fn address(&self) -> *mut c_void {
        self.at(0) as *mut c_void
    }

    /// The address of a byte that the range was checked for.
    #[inline]
    fn at(&self, offset: usize) -> usize {
        self.memory.block.as_ref().map_or(0, |block| block.address.wrapping_add(offset))
    }
}

impl Drop for Access<'_> {
    #[inline]
    fn drop(&mut self) {
        if *self.stream != self.memory.home {
            self.record();
        }
    }
}

impl Access<'_> {
    /// Leaves an event behind a use on another stream than the home stream.
    fn record(&self) {
        let mut uses = self.memory.uses.lock();
        let earlier =
            uses.iter().position(|earlier| earlier.stream == self.stream.id()).map(|at| uses.swap_remove(at));
        let writes = self.purpose == Purpose::Write || earlier.is_some_and(|earlier| earlier.writes);
        match self.stream.record() {
            Ok(event) => {
                uses.push(Use { stream: self.stream.id(), event, writes });
                self.memory.used_elsewhere.store(true, Ordering::Release);
            }
            // The stream's work is over.
            Err(Error::LoanEnded { .. }) => self.stream.loan().wait_for_end(),
            Err(error) => {
                // Without an event, later uses are in order only if the work is over.
                let waited = self.stream.wait_idle();
                self.memory.device().defer(waited.err().unwrap_or(error));
            }
        }
    }
}
