//! Code compiled for the widest registers of the processor it runs on.

use pulp::Arch;

/// Runs `work`, compiled for the widest registers that the processor has.
///
/// Pass the closure directly and mark it `#[inline(always)]`: the bound makes it `FnOnce`, and its body is compiled in place. A closure that
/// can be called again goes through a shim, where the compiler may leave the body with the narrowest registers.
#[inline(always)]
pub(crate) fn with_widest_registers<R>(work: impl FnOnce() -> R) -> R {
    Arch::new().dispatch(work)
}
