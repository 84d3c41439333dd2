//! Prefetching of memory: the only processor hint that the engine uses.

/// Prefetches the cache line at `place`. Never faults, whatever `place` is. Does nothing on
/// targets without such a hint.
#[inline]
pub(crate) fn prefetch<P>(place: *const P) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint: it reads nothing that the program can see and does not fault
    // on any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}
