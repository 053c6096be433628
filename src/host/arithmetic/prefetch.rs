//! Tells the processor which memory is read next.

/// Lines that are asked for at once. The processor notices by itself that the lines behind them follow.
#[cfg(target_arch = "x86_64")]
const LINES: usize = 16;

/// Starts to load the first bytes of some values into the caches, where the processor can be told so.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "an instruction of the processor, which takes a pointer")]
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in bytes.chunks(64).take(LINES) {
        // SAFETY: the instruction reads nothing that the program sees, whatever the address, and this one lies in a slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn prefetch(_: &[u8]) {}
