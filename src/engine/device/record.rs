//! Kernels on the caller's buffers: a `Recorder` records this crate's kernels into the caller's encoder.

use crate::elements::ElementKind;
use crate::engine::device::handle::Device;
use crate::error::{Error, Result};
use crate::future::blocking_and_async;
#[cfg(feature = "internals")]
use crate::gpu::Grid;
use crate::gpu::{BufferSlice, Commands, Gpu, Profile, StageTime};
use crate::kernels::{
    all_pairs, locate, norms, pairs, prefix_sum, reduce_blocks, reduce_partials, reduce_rows,
};
use crate::kernels::{refine, select_k};

/// Records kernels into an encoder of the caller, who submits it. Made by [`Device::record`].
///
/// Buffers need the usage `STORAGE`. Nothing is read back, and only shapes are checked: the caller answers for the contents of
/// the buffers.
pub struct Recorder<'a> {
    /// None after the recording ended.
    commands: Option<Commands<'a>>,
    gpu: &'a Gpu,
}

impl std::fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Device {
    /// Starts recording into `encoder`, which must belong to this device's wgpu device.
    ///
    /// Recording ends when the recorder is dropped, or with [`Recorder::finish`]; then the caller submits the encoder to this
    /// device's queue.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on the host engine, which has no kernels.
    pub fn record<'a>(&'a self, encoder: &'a mut wgpu::CommandEncoder) -> Result<Recorder<'a>> {
        let gpu = self.gpu("a recording")?;
        Ok(Recorder { commands: Some(Commands::within(gpu, encoder)), gpu })
    }

    /// Makes timestamps for one recording; none where the adapter has no timestamps.
    pub fn profile(&self) -> Option<Profile> {
        self.gpu("timestamps").ok().and_then(|gpu| Profile::new(gpu))
    }

    /// [`Device::record`] with timestamps: around the whole recording, or around every kernel, which takes longer in all.
    ///
    /// # Errors
    /// As there.
    pub fn record_timed<'a>(
        &'a self,
        encoder: &'a mut wgpu::CommandEncoder,
        profile: &'a mut Profile,
        each_kernel: bool,
    ) -> Result<Recorder<'a>> {
        let gpu = self.gpu("a recording")?;
        Ok(Recorder { commands: Some(Commands::within_timed(gpu, encoder, profile, each_kernel)), gpu })
    }

    blocking_and_async! { self;
        /// Waits for a recording that the caller submitted, and tells how long its stages took on the device.
        ///
        /// # Errors
        /// [`Error::Unsupported`] on the host engine; [`Error::DeviceLost`], [`Error::OutOfMemory`].
        pub fn times_of(&self, profile: Profile) -> Result<Vec<StageTime>> {
            profile.times(self.gpu("timestamps")?)
        }
        async times_of_async;
    }
}

impl<'a> Recorder<'a> {
    fn commands(&mut self) -> Result<&mut Commands<'a>> {
        self.commands.as_mut().ok_or_else(|| Error::internal("the recording has ended"))
    }

    /// Computes the distances of all pairs.
    ///
    /// # Errors
    /// [`Error::Argument`] when vectors, norms or results do not lie within their buffers, or for similarities by L2.
    pub fn distances(&mut self, pairs: &pairs::Pairs<'_>) -> Result<()> {
        all_pairs::encode(self.commands()?, pairs)
    }

    /// Computes distances of candidates by their slots, or of a range of slots, in one segment of rows.
    ///
    /// # Errors
    /// [`Error::Argument`] when vectors, ids or results do not lie within their buffers.
    pub fn refine(&mut self, refining: &refine::Refine<'_>) -> Result<()> {
        refining.check()?;
        refine::encode(self.commands()?, refining)
    }

    /// Selects the k smallest of each row or CSR segment by (key, id).
    ///
    /// # Errors
    /// [`Error::Argument`] for k = 0, a large k without a spare place, or rows or results that do not lie within their buffers.
    pub fn select(&mut self, select: &select_k::Select<'_>) -> Result<()> {
        select.check()?;
        crate::kernels::selection::encode(self.commands()?, select)
    }

    /// Reduces blocks of rows, or of a part of one long row, to records of two u32 each: the bits of a sum and of its error, or
    /// the smallest key and its block. [`Operation::value`](crate::recording::Operation::value) reads a record.
    ///
    /// # Errors
    /// [`Error::Argument`] for a product without others, or a layout that no kernel has; [`Error::Unsupported`] when a buffer exceeds
    /// a binding.
    pub fn reduce(&mut self, reduce: &reduce_blocks::Reduce<'_>) -> Result<()> {
        reduce_blocks::encode(self.commands()?, reduce)
    }

    /// Combines the `pitch` records of each of `rows` rows to one, `[rows]`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when a buffer exceeds a binding.
    pub fn reduce_partials(
        &mut self,
        operation: reduce_blocks::Operation,
        summation: reduce_blocks::Summation,
        [rows, pitch]: [u32; 2],
        partials: BufferSlice<'_>,
        results: BufferSlice<'_>,
    ) -> Result<()> {
        reduce_partials::encode(self.commands()?, (operation, summation), [rows, pitch], partials, results)
    }

    /// Reduces short rows to one u32 each, `[rows]`, in `reduce.partials`: the bits of a sum, a key, or a place (`u32::MAX` in
    /// a row without a number).
    ///
    /// # Errors
    /// As [`Recorder::reduce`].
    pub fn reduce_rows(&mut self, reduce: &reduce_blocks::Reduce<'_>) -> Result<()> {
        reduce_rows::encode(self.commands()?, reduce)
    }

    /// Finds the places of extremes, `[rows]` u32, after [`Recorder::reduce`] with the same arguments and its records combined
    /// in `results`.
    ///
    /// # Errors
    /// As [`Recorder::reduce`].
    pub fn locate(
        &mut self,
        reduce: &reduce_blocks::Reduce<'_>,
        results: BufferSlice<'_>,
        places: BufferSlice<'_>,
    ) -> Result<()> {
        locate::encode(self.commands()?, reduce, results, places)
    }

    /// Computes CSR offsets, `[count + 1]`, from u32 counts, each cut to `limit`.
    ///
    /// # Errors
    /// [`Error::Argument`] when counts or offsets do not lie within their buffers.
    pub fn prefix_sum(
        &mut self,
        counts: BufferSlice<'_>,
        count: u32,
        limit: u32,
        offsets: BufferSlice<'_>,
    ) -> Result<()> {
        counts.check_rows("counts", count, [1; 2], 4)?;
        offsets.check_rows("offsets", count.saturating_add(1), [1; 2], 4)?;
        prefix_sum::encode(self.commands()?, counts, count, limit, offsets)
    }

    /// Computes squared and inverse norms, `[rows, 2]`, of rows of `vectors` vectors of four elements. `refused` (two u32,
    /// initially `u32::MAX`) receives the first row that is not finite and the first whose norm is out of range.
    ///
    /// # Errors
    /// [`Error::Argument`] when rows or results do not lie within their buffers.
    pub fn norms(
        &mut self,
        rows: BufferSlice<'_>,
        elements: ElementKind,
        vectors: u32,
        count: u32,
        norm_buffer: BufferSlice<'_>,
        refused: BufferSlice<'_>,
    ) -> Result<()> {
        rows.check_rows("rows", count, [vectors; 2], 4 * elements.size() as u64)?;
        norm_buffer.check_rows("norm_buffer", count, [1; 2], 8)?;
        refused.check_rows("refused", 1, [2; 2], 4)?;
        let params = norms::Params { vectors, first_row: 0, end_row: count, first_number: 0 };
        norms::encode(self.commands()?, elements, &params, [rows, norm_buffer, refused])
    }

    /// Any kernel of this crate with its raw parameters, for tests and experiments. `workgroups` are columns and rows.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the kernel does not fit the adapter.
    #[cfg(feature = "internals")]
    pub fn dispatch<P: bytemuck::Pod>(
        &mut self,
        kernel: &'static crate::kernels::Kernel,
        elements: ElementKind,
        constants: &[u32],
        params: &P,
        buffers: &[BufferSlice<'_>],
        workgroups: [u32; 2],
    ) -> Result<()> {
        let pipeline = self.gpu.pipeline_for(kernel, elements, constants)?;
        self.commands()?.dispatch(&pipeline, params, buffers, Grid::Tiles(workgroups[0], workgroups[1]))
    }

    /// Ends the recording.
    pub fn finish(self) {}
}

impl Drop for Recorder<'_> {
    /// Ends the recording, which sends the parameters of its kernels.
    fn drop(&mut self) {
        if let Some(commands) = self.commands.take() {
            let _ = commands.finish();
        }
    }
}
