//! Recording: dispatches with their parameters, into an encoder of ours or of the caller.

use bytemuck::Pod;

use super::compiler::FormChoice;
use super::device::Gpu;
use super::memory::{BufferSlice, check_slices};
use super::profile::Profile;
use super::readback::{self, Reading};
use super::state::{Pipeline, lock};
use super::transfer::{RowLayout, Staged};
use crate::elements::HostVectors;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::platform::CAN_WAIT;

/// Bytes of a params arena.
const ARENA_BYTES: u64 = 64 << 10;
/// Up to this many bytes travel with the parameters. Each call of `write_buffer` takes 6 us, and the first of a submission 15 (H200).
const SENT_BYTES: u64 = 8 << 10;

/// How many workgroups run a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Grid {
    /// Workgroups in one sequence: kernels find their number with `workgroup_number`.
    Linear(u64),
    /// Columns and rows of workgroups.
    Tiles(u32, u32),
}

enum EncoderTarget<'a> {
    Own(Box<wgpu::CommandEncoder>),
    Caller(&'a mut wgpu::CommandEncoder),
}

/// Commands being recorded.
pub(crate) struct Commands<'a> {
    gpu: &'a Gpu,
    target: EncoderTarget<'a>,
    pass: Option<wgpu::ComputePass<'static>>,
    arena: Option<(wgpu::Buffer, Vec<u8>)>,
    full: Vec<wgpu::Buffer>,
    /// Staging buffers that the commands copy from.
    staged: Vec<Staged>,
    profile: Option<&'a mut Profile>,
    stage: &'static str,
    /// Whether every kernel is a stage of its own name.
    each_kernel: bool,
}

impl<'a> Commands<'a> {
    /// Records into an encoder of its own; stages are timed when there is a profile.
    pub(crate) fn new(gpu: &'a Gpu, profile: Option<&'a mut Profile>) -> Self {
        let label = Some("nearfield");
        let encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label });
        Self::with_target(gpu, EncoderTarget::Own(Box::new(encoder)), profile)
    }

    /// Records into the caller's encoder. The caller submits it before it records with another device.
    pub(crate) fn within(gpu: &'a Gpu, encoder: &'a mut wgpu::CommandEncoder) -> Self {
        Self::with_target(gpu, EncoderTarget::Caller(encoder), None)
    }

    /// The same with timestamps, around the whole or around every kernel.
    pub(crate) fn within_timed(
        gpu: &'a Gpu,
        encoder: &'a mut wgpu::CommandEncoder,
        profile: &'a mut Profile,
        each_kernel: bool,
    ) -> Self {
        Self { each_kernel, ..Self::with_target(gpu, EncoderTarget::Caller(encoder), Some(profile)) }
    }

    fn with_target(gpu: &'a Gpu, target: EncoderTarget<'a>, profile: Option<&'a mut Profile>) -> Self {
        let (pass, arena, full, staged) = (None, None, vec![], vec![]);
        Self { gpu, target, pass, arena, full, staged, profile, stage: "start", each_kernel: false }
    }

    pub(crate) fn gpu(&self) -> &'a Gpu {
        self.gpu
    }

    /// Names the following commands in profiles and graphics debuggers.
    pub(crate) fn stage(&mut self, name: &'static str) {
        if self.profile.is_some() && self.stage != name {
            self.pass = None;
        }
        self.stage = name;
    }

    fn encoder(&mut self) -> &mut wgpu::CommandEncoder {
        self.pass = None;
        match &mut self.target {
            EncoderTarget::Own(encoder) => encoder,
            EncoderTarget::Caller(encoder) => encoder,
        }
    }

    pub(crate) fn copy(&mut self, from: (&wgpu::Buffer, u64), to: (&wgpu::Buffer, u64), bytes: u64) {
        if bytes > 0 {
            self.encoder().copy_buffer_to_buffer(from.0, from.1, to.0, to.1, bytes);
        }
    }

    /// Copies rows of the host into a buffer, from a byte of it on.
    pub(crate) async fn upload_rows(
        &mut self,
        (to, offset): (&wgpu::Buffer, u64),
        layout: RowLayout,
        rows: HostVectors<'_>,
    ) -> Result<()> {
        let bytes = rows.rows() as u64 * layout.row_bytes();
        if bytes <= SENT_BYTES && layout.is_of(rows) {
            return self.write((to, offset), rows.bytes()).await;
        }
        if !Gpu::stages(bytes) {
            return self.gpu.upload_rows(to, offset, layout, rows, &mut |_| ()).await;
        }
        let staged = self.gpu.stage_rows(layout, rows).await?;
        self.copy((&staged.buffer, 0), (to, offset), bytes);
        self.staged.push(staged);
        Ok(())
    }

    /// Copies bytes of the host into a buffer, from a byte of it on; both multiples of 4.
    pub(crate) async fn write(&mut self, (to, offset): (&wgpu::Buffer, u64), bytes: &[u8]) -> Result<()> {
        if bytes.len() as u64 > SENT_BYTES {
            return self.gpu.upload_bytes(to, offset, bytes).await;
        }
        let (arena, at) = self.place(bytes)?;
        self.copy((&arena, at.into()), (to, offset), bytes.len() as u64);
        Ok(())
    }

    pub(crate) fn clear(&mut self, buffer: &wgpu::Buffer, offset: u64, bytes: u64) {
        if bytes > 0 {
            self.encoder().clear_buffer(buffer, offset, Some(bytes));
        }
    }

    /// Runs a kernel. The buffers are in the order of the kernel's declaration. An empty grid runs nothing.
    pub(crate) fn dispatch<P: Pod>(
        &mut self,
        pipeline: &Pipeline,
        params: &P,
        buffers: &[BufferSlice<'_>],
        grid: Grid,
    ) -> Result<()> {
        self.dispatch_bytes(pipeline, bytemuck::bytes_of(params), buffers, grid)
    }

    /// The same for parameters of any kind: one copy of this code.
    fn dispatch_bytes(
        &mut self,
        pipeline: &Pipeline,
        params: &[u8],
        buffers: &[BufferSlice<'_>],
        grid: Grid,
    ) -> Result<()> {
        let kernel = pipeline.kernel;
        let forms = self.profile.as_ref().map_or(FormChoice::Tuned, |profile| profile.forms);
        let form = self.gpu.compiler.form(pipeline, params, forms)?;
        let pipeline = form.as_deref().unwrap_or(pipeline);
        let (given, needed) = ((buffers.len(), params.len()), (kernel.buffers.len(), kernel.params_bytes));
        if given != needed {
            let message =
                format!("{} takes (buffers, bytes of parameters) {needed:?}, not {given:?}", kernel.name);
            return Err(Error::internal(message));
        }
        kernel.check_loops(params)?;
        let Some([columns, rows]) = self.shape(kernel.name, grid)? else { return Ok(()) };
        let limit = self.gpu.adapter.capabilities.max_binding_bytes;
        for ((name, _), slice) in kernel.buffers.iter().zip(buffers) {
            if slice.bytes > limit {
                self.gpu.check_binding(&format!("kernel {}: buffer {name}", kernel.name), slice.bytes)?;
            }
        }
        if let EncoderTarget::Caller(_) = self.target {
            check_slices(self.gpu, kernel, buffers)?;
        }
        if self.each_kernel || forms != FormChoice::Tuned {
            self.stage(kernel.name);
        }
        let (arena, offset) = self.place(params)?;
        let uniform = BufferSlice::range(&arena, 0, kernel.params_bytes as u64);
        let bound = std::iter::once(&uniform).chain(buffers).zip(0..);
        let entries: Vec<_> = bound
            .map(|(&BufferSlice { buffer, offset, bytes }, binding)| wgpu::BindGroupEntry {
                binding,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer,
                    offset,
                    size: std::num::NonZero::new(bytes),
                }),
            })
            .collect();
        let group = self.gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(kernel.name),
            layout: &pipeline.layout,
            entries: &entries,
        });
        let pass = self.pass();
        pass.set_pipeline(&pipeline.pipeline);
        pass.set_bind_group(0, &group, &[offset]);
        pass.dispatch_workgroups(columns, rows, 1);
        Ok(())
    }

    /// Columns and rows of workgroups, none for an empty grid.
    fn shape(&self, kernel: &'static str, grid: Grid) -> Result<Option<[u32; 2]>> {
        let limit = u64::from(self.gpu.adapter.capabilities.max_workgroups);
        let [columns, rows] = match grid {
            Grid::Linear(count) if count <= limit => [count, 1],
            // A column count that is no larger than needed leaves fewer idle workgroups in the last row.
            Grid::Linear(count) => [count.div_ceil(count.div_ceil(limit)), count.div_ceil(limit)],
            Grid::Tiles(columns, rows) => [columns.into(), rows.into()],
        };
        if columns == 0 || rows == 0 {
            return Ok(None);
        }
        if columns > limit || rows > limit {
            let (needed, available) =
                (format!("{columns} x {rows} workgroups"), format!("{limit} x {limit}"));
            return Err(Error::unsupported(format!("kernel {kernel}"), needed, available));
        }
        Ok(Some([columns as u32, rows as u32]))
    }

    fn pass(&mut self) -> &mut wgpu::ComputePass<'static> {
        let stage = self.stage;
        let encoder = match &mut self.target {
            EncoderTarget::Own(encoder) => &mut **encoder,
            EncoderTarget::Caller(encoder) => encoder,
        };
        let profile = &mut self.profile;
        self.pass.get_or_insert_with(|| {
            let timestamp_writes = profile.as_mut().and_then(|profile| profile.next(stage));
            let descriptor = wgpu::ComputePassDescriptor { label: Some(stage), timestamp_writes };
            encoder.begin_compute_pass(&descriptor).forget_lifetime()
        })
    }

    /// Puts parameters, or what else is uploaded with them, into the arena.
    fn place(&mut self, params: &[u8]) -> Result<(wgpu::Buffer, u32)> {
        let align = self.gpu.device.limits().min_uniform_buffer_offset_alignment as usize;
        let mut bytes_used = self.arena.as_ref().map_or(0, |(_, bytes)| bytes.len().next_multiple_of(align));
        if bytes_used + params.len() > ARENA_BYTES as usize {
            self.write_arena();
            bytes_used = 0;
        }
        let (arena, bytes) = match &mut self.arena {
            Some(arena) => arena,
            empty => {
                let kept = lock(&self.gpu.arenas).pop();
                let arena = match kept {
                    Some(arena) => arena,
                    None => {
                        let copies = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
                        let usage = wgpu::BufferUsages::UNIFORM | copies;
                        self.gpu.create_buffer("params", ARENA_BYTES, usage)?
                    }
                };
                empty.insert((arena, Vec::new()))
            }
        };
        bytes.resize(bytes_used, 0);
        bytes.extend_from_slice(params);
        Ok((arena.clone(), bytes_used as u32))
    }

    /// Sends the arena's contents ahead of the commands that use it.
    fn write_arena(&mut self) {
        if let Some((arena, bytes)) = self.arena.take() {
            self.gpu.queue.write_buffer(&arena, 0, &bytes);
            self.full.push(arena);
        }
    }

    /// Ends the recording. The caller submits commands in its own encoder.
    pub(crate) fn finish(mut self) -> Option<Recorded> {
        self.pass = None;
        self.write_arena();
        match self.target {
            EncoderTarget::Own(encoder) => {
                Some(Recorded { encoder: *encoder, arenas: self.full, staged: self.staged })
            }
            // The caller submits at an unknown time: these arenas are not used again.
            EncoderTarget::Caller(_) => None,
        }
    }

    /// Submits the commands without waiting for them.
    pub(crate) fn submit(self) {
        self.submitted();
    }

    fn submitted(self) -> Option<wgpu::SubmissionIndex> {
        let gpu = self.gpu;
        let Recorded { encoder, arenas, staged } = self.finish()?;
        let submission = gpu.queue.submit([encoder.finish()]);
        gpu.take_back(arenas, staged);
        Some(submission)
    }

    /// Submits one of many pieces of work: a call that may be interrupted does not run far ahead of the device.
    pub(crate) async fn submit_piece(self) -> Result<()> {
        let gpu = self.gpu;
        let Some(submission) = self.submitted() else { return Ok(()) };
        if !CAN_WAIT {
            gpu.waiter.keep_pace_of_future(&gpu.queue).await;
            return Ok(());
        }
        gpu.waiter.keep_pace(submission)
    }

    /// Submits the commands so far, as [`submit_piece`](Self::submit_piece) does, and continues in a new encoder.
    // The next encoder is made when the device has begun: it takes as long as a few dispatches.
    pub(crate) async fn submit_and_go_on(mut self) -> Result<Self> {
        let (gpu, stage) = (self.gpu, self.stage);
        let profile = self.profile.take();
        self.submit_piece().await?;
        Ok(Self { stage, ..Self::new(gpu, profile) })
    }

    /// Submits the commands and resolves to the contents of buffer ranges after them.
    pub(crate) fn read(self, ranges: &'a [readback::Range<'a>]) -> Boxed<'a, Vec<Vec<u8>>> {
        Box::pin(async move {
            let mut parts: Vec<Vec<u8>> =
                ranges.iter().map(|(_, _, bytes)| Vec::with_capacity(*bytes as usize)).collect();
            self.read_each(ranges, &mut |number, bytes| parts[number].extend_from_slice(bytes)).await?;
            Ok(parts)
        })
    }

    /// Submits the commands and shows the contents of buffer ranges after them, each with its number. A large one comes in
    /// several pieces, of whole words except for the last.
    pub(crate) fn read_each(
        self,
        ranges: &'a [readback::Range<'a>],
        show: readback::Show<'a>,
    ) -> Boxed<'a, ()> {
        Box::pin(async move {
            let gpu = self.gpu;
            if readback::is_large(ranges) {
                self.submit();
                return gpu.read_in_pieces(ranges, show).await;
            }
            self.submit_with_readback(ranges)?.show(gpu, show).await
        })
    }

    /// Submits the commands, with a copy of buffer ranges behind them.
    pub(crate) fn submit_with_readback(self, ranges: &[readback::Range<'_>]) -> Result<Reading> {
        let gpu = self.gpu;
        let Recorded { encoder, arenas, staged } = self.finish().unwrap_or_else(|| Recorded {
            encoder: gpu.device.create_command_encoder(&Default::default()),
            arenas: vec![],
            staged: vec![],
        });
        let reading = gpu.submit_and_read(encoder, ranges)?;
        gpu.take_back(arenas, staged);
        Ok(reading)
    }
}

/// Commands that are ready to be submitted, the params they use, and the staging buffers they copy from.
pub(crate) struct Recorded {
    encoder: wgpu::CommandEncoder,
    arenas: Vec<wgpu::Buffer>,
    staged: Vec<Staged>,
}

impl Gpu {
    /// Takes arenas and staging buffers back after the submission that uses them: later writes to them are ordered behind it.
    fn take_back(&self, arenas: Vec<wgpu::Buffer>, staged: Vec<Staged>) {
        lock(&self.arenas).extend(arenas);
        staged.into_iter().for_each(|one| self.give_back(one));
    }
}
