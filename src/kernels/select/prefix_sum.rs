//! CSR offsets from counts.

use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, Grid, Kernel, params, wgsl};

params! {
    pub struct Params {
        /// Number of counts.
        count: u32,
        /// Larger counts are cut to it.
        limit: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("prefix_sum")
    .source(wgsl!("select/prefix_sum"))
    .buffers(bindings!(counts: Read, offsets: Write))
    .workgroup(256, 256 * 4);

/// Records the kernel. `offsets` gets one entry more than `counts`. The total must be below 2^32.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    counts: BufferSlice<'_>,
    count: u32,
    limit: u32,
    offsets: BufferSlice<'_>,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[])?;
    commands.dispatch(&pipeline, &Params { count, limit }, &[counts, offsets], Grid::Linear(1))
}

/// The offsets, one more than there are counts.
pub fn reference(counts: &[u32], limit: u32) -> Vec<u32> {
    let mut total = 0;
    let sums = counts.iter().map(|&count| {
        total += count.min(limit);
        total
    });
    std::iter::once(0).chain(sums).collect()
}
