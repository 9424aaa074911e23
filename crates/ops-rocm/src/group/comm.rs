//! RCCL's communicators. Only this file calls RCCL.
use crate::error::failed;
use crate::hip::{Device, Stream};
use crate::sync::Mutex;
use crate::{Error, Result};
use hip_sys::MissingSymbol;
use hip_sys::hip::hipStream_t;
use rccl_sys::{self as sys, Lib, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t};
use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::ptr::null_mut;

/// One rank's communicator. Only one thread at a time uses it.
pub(super) struct Comm {
    lib: Lib,
    device: Device,
    /// `None` once it is aborted or destroyed.
    raw: Mutex<Option<Raw>>,
}

struct Raw(ncclComm_t);

// SAFETY: RCCL takes a communicator from any thread, as long as only one uses it at a time, which the lock ensures. The pointer is
// never followed here.
unsafe impl Send for Raw {}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a communicator of device {}", self.device.info().ordinal)
    }
}

/// The status of a communicator that still works, since NCCL 2.14; the bound header is older.
const IN_PROGRESS: ncclResult_t = 7;

type Status = std::result::Result<ncclResult_t, MissingSymbol>;

impl Comm {
    /// A communicator for each device, in rank order.
    pub(super) fn open(lib: &Lib, devices: &[Device]) -> Result<Vec<Comm>> {
        let ordinals: Vec<c_int> = devices.iter().map(|device| device.info().ordinal as c_int).collect();
        let mut raw = vec![null_mut(); devices.len()];
        let count =
            c_int::try_from(devices.len()).map_err(|_| failed("ncclCommInitAll", "too many devices"))?;
        // SAFETY: both pointers are to `count` elements.
        let made = unsafe { lib.ncclCommInitAll(raw.as_mut_ptr(), count, ordinals.as_ptr()) };
        check(lib, "ncclCommInitAll", made)?;
        let comm = |(raw, device): (ncclComm_t, &Device)| Comm {
            lib: lib.clone(),
            device: device.clone(),
            raw: Mutex::new(Some(Raw(raw))),
        };
        Ok(raw.into_iter().zip(devices).map(comm).collect())
    }

    /// Sums or maxima over the ranks: all elements, or this rank's part.
    pub(super) fn reduce(
        &self,
        stream: &Stream,
        scatters: bool,
        from: usize,
        to: usize,
        (count, dtype, op): (usize, ncclDataType_t, ncclRedOp_t),
    ) -> Result<()> {
        let (from, to) = (from as *const c_void, to as *mut c_void);
        let call = if scatters { "ncclReduceScatter" } else { "ncclAllReduce" };
        self.call(call, stream, |lib, comm, stream| {
            // SAFETY: as for `all_gather`: the caller holds the access to both areas, which were checked to have the sizes of the call.
            unsafe {
                match scatters {
                    true => lib.ncclReduceScatter(from, to, count, dtype, op, comm, stream),
                    false => lib.ncclAllReduce(from, to, count, dtype, op, comm, stream),
                }
            }
        })
    }

    /// Gathers `bytes` bytes of each rank.
    pub(super) fn all_gather(&self, stream: &Stream, from: usize, to: usize, bytes: usize) -> Result<()> {
        let (from, to) = (from as *const c_void, to as *mut c_void);
        self.call("ncclAllGather", stream, |lib, comm, stream| {
            // SAFETY: the caller holds the access to both areas, which were checked to have the sizes of the call; the communicator and
            // the stream are live and of one device, which is current.
            unsafe { lib.ncclAllGather(from, to, bytes, sys::ncclUint8, comm, stream) }
        })
    }

    /// Replaces bytes by those of rank `root`.
    pub(super) fn broadcast(&self, stream: &Stream, at: usize, bytes: usize, root: usize) -> Result<()> {
        let at = at as *mut c_void;
        self.call("ncclBroadcast", stream, |lib, comm, stream| {
            // SAFETY: as for `all_gather`.
            unsafe { lib.ncclBroadcast(at, at, bytes, sys::ncclUint8, root as c_int, comm, stream) }
        })
    }

    pub(super) fn send(&self, stream: &Stream, from: usize, bytes: usize, to: usize) -> Result<()> {
        let from = from as *const c_void;
        self.call("ncclSend", stream, |lib, comm, stream| {
            // SAFETY: as for `all_gather`.
            unsafe { lib.ncclSend(from, bytes, sys::ncclUint8, to as c_int, comm, stream) }
        })
    }

    pub(super) fn recv(&self, stream: &Stream, to: usize, bytes: usize, from: usize) -> Result<()> {
        let to = to as *mut c_void;
        self.call("ncclRecv", stream, |lib, comm, stream| {
            // SAFETY: as for `all_gather`.
            unsafe { lib.ncclRecv(to, bytes, sys::ncclUint8, from as c_int, comm, stream) }
        })
    }

    /// Sends part `i` to rank `i`, and receives part `i` from it, in one group of calls.
    pub(super) fn all_to_all(
        &self,
        stream: &Stream,
        from: usize,
        to: usize,
        bytes: usize,
        ranks: usize,
    ) -> Result<()> {
        self.call("ncclGroupEnd", stream, |lib, comm, stream| {
            // SAFETY: takes no argument.
            let started = unsafe { lib.ncclGroupStart() }?;
            if started != sys::ncclSuccess {
                return Ok(started);
            }
            let exchange = |rank: usize| -> Status {
                let (from, to) = ((from + rank * bytes) as *const c_void, (to + rank * bytes) as *mut c_void);
                // SAFETY: as for `all_gather`; the areas have `ranks` parts.
                let sent = unsafe { lib.ncclSend(from, bytes, sys::ncclUint8, rank as c_int, comm, stream) }?;
                if sent != sys::ncclSuccess {
                    return Ok(sent);
                }
                // SAFETY: as above.
                unsafe { lib.ncclRecv(to, bytes, sys::ncclUint8, rank as c_int, comm, stream) }
            };
            let failure = (0..ranks).map(exchange).find(|status| *status != Ok(sys::ncclSuccess));
            // An open group must be ended in any case; the first failure is the one to report.
            // SAFETY: takes no argument.
            let ended = unsafe { lib.ncclGroupEnd() };
            failure.unwrap_or(ended)
        })
    }

    /// Makes one call, with the stream's device as the thread's current one.
    fn call(
        &self,
        name: &'static str,
        stream: &Stream,
        call: impl FnOnce(&Lib, ncclComm_t, hipStream_t) -> Status,
    ) -> Result<()> {
        let raw = self.raw.lock();
        let Some(Raw(comm)) = &*raw else { return Err(failed(name, "the communicator was aborted")) };
        let leased = stream.lease(name)?;
        let status = self.device.as_current(|| call(&self.lib, *comm, leased.handle))?;
        check(&self.lib, name, status)
    }

    /// The error that the communicator has met on the device, if any. If another thread is using it, that thread finds out.
    pub(super) fn async_error(&self) -> Option<String> {
        let raw = self.raw.try_lock()?;
        let mut status = sys::ncclSuccess;
        let Some(Raw(comm)) = &*raw else { return None };
        // SAFETY: the communicator is live; the function writes one status.
        let asked = unsafe { self.lib.ncclCommGetAsyncError(*comm, &mut status) };
        match (asked, status) {
            (Ok(sys::ncclSuccess), sys::ncclSuccess | IN_PROGRESS) => None,
            (Ok(sys::ncclSuccess), status) => Some(text(&self.lib, status)),
            (asked, _) => {
                check(&self.lib, "ncclCommGetAsyncError", asked).err().map(|error| error.to_string())
            }
        }
    }

    /// Ends what the communicator does on the device; returns false while another thread is inside of a call of RCCL.
    pub(super) fn abort(&self) -> bool {
        let Some(mut raw) = self.raw.try_lock() else { return false };
        self.end("ncclCommAbort", raw.take());
        true
    }

    /// Destroys the communicator, whose work is done.
    pub(super) fn close(&self) {
        let taken = self.raw.lock().take();
        self.end("ncclCommDestroy", taken);
    }

    fn end(&self, call: &'static str, raw: Option<Raw>) {
        let Some(Raw(comm)) = raw else { return };
        let ended = self.device.as_current(|| match call {
            // SAFETY: the communicator was live and is not used again.
            "ncclCommAbort" => unsafe { self.lib.ncclCommAbort(comm) },
            // SAFETY: as above.
            _ => unsafe { self.lib.ncclCommDestroy(comm) },
        });
        let ended = ended.map_err(Error::from).and_then(|status| check(&self.lib, call, status));
        if let Err(error) = ended {
            tracing::warn!("{error}");
        }
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        self.close();
    }
}

/// Turns the status of a call into a result.
fn check(lib: &Lib, call: &'static str, status: Status) -> Result<()> {
    match status {
        Ok(sys::ncclSuccess) => Ok(()),
        Ok(status) => Err(failed(call, format!("{}; NCCL_DEBUG=WARN says more", text(lib, status)))),
        Err(missing) => Err(failed(call, missing)),
    }
}

fn text(lib: &Lib, status: ncclResult_t) -> String {
    let name = sys::status_name(status).unwrap_or("an unknown status");
    // SAFETY: takes a number.
    let said = unsafe { lib.ncclGetErrorString(status) };
    let said = said.ok().filter(|said| !said.is_null());
    // SAFETY: RCCL returns a static string that ends in a zero.
    let said = said.map(|said| unsafe { CStr::from_ptr(said) }.to_string_lossy());
    format!("{name} ({status}){}", said.map_or(String::new(), |said| format!(", {said}")))
}
