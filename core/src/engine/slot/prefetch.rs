//! The one hint the engine gives the processor.

/// Brings the cache line at `place` near. Never faults, whatever `place` is; does nothing where there is no such hint.
#[inline]
pub(crate) fn prefetch<P>(place: *const P) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint: it reads nothing that the program can see and does not fault on any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}
