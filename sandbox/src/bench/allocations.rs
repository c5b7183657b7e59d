//! Counts allocations by thread.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether allocations are counted. A program that never calls [`so_far`], such as the simulation,
/// does not pay for the count.
static COUNTING: AtomicBool = AtomicBool::new(false);

thread_local! {
    // Constant and without a destructor, so that access never allocates.
    static COUNT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// The allocations and bytes that this thread has requested since the first call in the process.
/// Always zero unless the allocator of the program is [`Counting`].
pub(super) fn so_far() -> (u64, u64) {
    COUNTING.store(true, Ordering::Relaxed);
    COUNT.get()
}

#[inline]
fn count(bytes: usize) {
    if COUNTING.load(Ordering::Relaxed) {
        add(bytes);
    }
}

#[cold]
fn add(bytes: usize) {
    let (allocations, total) = COUNT.get();
    COUNT.set((allocations + 1, total.wrapping_add(bytes as u64)));
}

/// An allocator that counts requests and passes them on.
#[derive(Debug)]
pub struct Counting<A>(pub A);

#[expect(
    unsafe_code,
    reason = "the trait of an allocator is unsafe; every call is passed on as it came"
)]
// SAFETY: every method passes its arguments to an allocator that keeps the contract, and returns
// its result.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract, which is the same one.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract, which is the same one.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller keeps the contract, which is the same one.
        unsafe { self.0.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract, which is the same one.
        unsafe { self.0.dealloc(block, layout) }
    }
}
