//! The standard library's locks, for data that is consistent at every point: a panic while one is held does
//! no harm, so poisoning is ignored.
//!
//! With debug assertions they tell valgrind's drd about happens-before relations. drd recognises pthread
//! locks but not the standard library's, which are made of atomics and futexes. Outside valgrind these
//! requests are a few instructions that do nothing.
use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError};

/// A [`sync::Mutex`] that is never poisoned.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Mutex(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<sync::MutexGuard<'_, T>> {
        Guard::new(self, self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// `None` while another thread holds the lock.
    pub(crate) fn try_lock(&self) -> Option<Guard<sync::MutexGuard<'_, T>>> {
        let held = match self.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Guard::new(self, held))
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        watched::after(self);
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A [`sync::RwLock`] that is never poisoned.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(sync::RwLock<T>);

/// An [`RwLock`] held for reading.
pub(crate) type ReadGuard<'l, T> = Guard<sync::RwLockReadGuard<'l, T>>;

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        RwLock(sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> ReadGuard<'_, T> {
        Guard::new(self, self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// `None` while a writer holds the lock or waits for it.
    pub(crate) fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        let held = match self.0.try_read() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Guard::new(self, held))
    }

    pub(crate) fn write(&self) -> Guard<sync::RwLockWriteGuard<'_, T>> {
        Guard::new(self, self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A held lock.
#[derive(Debug)]
pub(crate) struct Guard<G> {
    held: G,
    lock: *const (),
}

impl<G> Guard<G> {
    fn new<L>(lock: &L, held: G) -> Self {
        watched::after(lock);
        Guard { held, lock: (&raw const *lock).cast() }
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;
    fn deref(&self) -> &G::Target {
        &self.held
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.held
    }
}

impl<G> Drop for Guard<G> {
    fn drop(&mut self) {
        watched::before(self.lock);
    }
}

#[cfg(all(debug_assertions, target_os = "linux", target_arch = "x86_64"))]
mod watched {
    //! valgrind's requests, as defined in its headers `valgrind.h` and `drd.h`.

    /// `VG_USERREQ_TOOL_BASE('H', 'G') + 256`
    const BASE: u64 = 0x4847_0000 + 256;

    /// Everything this thread has done so far happens before what others do after [`after`] at this address.
    pub(super) fn before<T>(at: *const T) {
        request(BASE + 33, at.addr() as u64);
    }

    pub(super) fn after<T>(at: *const T) {
        request(BASE + 34, at.addr() as u64);
    }

    fn request(kind: u64, address: u64) {
        let args = [kind, address, 0, 0, 0, 0];
        // SAFETY: rotations of rdi by 128 bits in all and an exchange of rbx with itself change nothing but
        // the flags; under valgrind the six words are read, and rdx receives the answer.
        unsafe {
            core::arch::asm!(
                "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
                in("rax") args.as_ptr(), inout("rdx") 0u64 => _,
            );
        }
    }
}

#[cfg(not(all(debug_assertions, target_os = "linux", target_arch = "x86_64")))]
mod watched {
    pub(super) fn before<T>(_: *const T) {}
    pub(super) fn after<T>(_: *const T) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_while_a_lock_is_held_does_no_harm() {
        let (mut mutex, lock) = (Mutex::new(1), RwLock::<i32>::default());
        let panicked = std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let (mut a, mut b) = (mutex.lock(), lock.write());
                (*a, *b) = (2, 3);
                panic!("while both are held");
            });
            holder.join().is_err()
        });
        assert!(panicked);
        assert_eq!((*mutex.lock(), *lock.read()), (2, 3));
        assert_eq!(*mutex.get_mut(), 2);
    }
}
