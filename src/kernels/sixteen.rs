//! Sums over sixteen invocations in a fixed order: what makes reported distances repeatable bit for bit.

use crate::gpu::{Snippet, wgsl};

/// Invocations that share a vector.
const WIDTH: u32 = 16;

/// Invocations per workgroup of the kernels that sum this way.
pub(crate) const INVOCATIONS: u32 = 128;

/// Vectors that a workgroup takes at a time.
pub(crate) const AT_ONCE: u32 = INVOCATIONS / WIDTH;

/// The sum, and the constants above.
pub(crate) const SIXTEEN: Snippet = wgsl!("lib/sixteen", WIDTH, AT_ONCE);
