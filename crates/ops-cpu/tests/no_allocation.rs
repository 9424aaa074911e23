//! A call through the traits allocates nothing.
use ops_core::Backend;
use ops_core::ops::{BinaryFn, ElementwiseMethods};
use ops_cpu::Cpu;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local!(static ALLOCATIONS: Cell<usize> = const { Cell::new(0) });

/// Counts the allocations of the current thread.
struct Counting;
// SAFETY: all methods forward to the system allocator; the counter is a thread-local cell that allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}
#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_small_call_allocates_nothing() {
    let b = Cpu::new();
    let (x, mut y) = (b.tensor(&[4, 8], &[1.5f32; 32]).unwrap(), b.zeros::<f32>(&[4, 8]).unwrap());
    let call = |y: &mut ops_core::TensorOf<Cpu, f32>| {
        b.binary_into(x.as_ref(), x.as_ref(), y.as_mut(), BinaryFn::Add).unwrap();
    };
    call(&mut y);
    let before = ALLOCATIONS.with(Cell::get);
    call(&mut y);
    assert_eq!(ALLOCATIONS.with(Cell::get), before);
    // Check that the counter works.
    drop(vec![0u8; 10]);
    assert_eq!(ALLOCATIONS.with(Cell::get), before + 1);
}
