//! Runs kernels on buffers of a test. Outputs are poisoned before a run and have guard words behind their end.

use std::fmt::Debug;

use bytemuck::Pod;
use nearfield::internals::kernels::{BLOCK_ROWS, Kernel, Part};
use nearfield::{BufferSlice, Device, ElementKind, Recorder, wgpu};

/// The contents of outputs before a kernel runs, and of the words behind their end.
pub(crate) const GUARD: u32 = 0xdead_beef;
const GUARD_WORDS: usize = 32;

/// A device on which single kernels are run.
#[derive(Clone, Copy)]
pub(crate) struct Bench<'d> {
    pub(crate) device: &'d Device,
}

/// A buffer and its length in words. An output has guard words behind it, which a faulty kernel would overwrite.
pub(crate) struct Buffer {
    whole: wgpu::Buffer,
    words: usize,
}

impl Buffer {
    pub(crate) fn slice(&self) -> BufferSlice<'_> {
        BufferSlice::all(&self.whole)
    }
}

impl std::ops::Deref for Buffer {
    type Target = wgpu::Buffer;

    fn deref(&self) -> &wgpu::Buffer {
        &self.whole
    }
}

/// Two rows of workgroups; an odd number leaves one workgroup too many in the second.
pub(crate) fn two_rows(workgroups: usize) -> [u32; 2] {
    [workgroups.div_ceil(2) as u32, 2]
}

impl Bench<'static> {
    /// The shared device of tests about kernels; none without an adapter.
    pub(crate) fn open() -> Option<Self> {
        super::gpu().map(Self::new)
    }

    /// The shared devices with and without subgroup operations.
    pub(crate) fn both() -> impl Iterator<Item = Self> {
        super::Engine::Adapter.devices().map(Self::new)
    }
}

impl<'d> Bench<'d> {
    pub(crate) fn new(device: &'d Device) -> Self {
        Self { device }
    }

    fn wgpu(&self) -> &wgpu::Device {
        self.device.wgpu_device().expect("a GPU")
    }

    fn queue(&self) -> &wgpu::Queue {
        self.device.wgpu_queue().expect("a GPU")
    }

    /// A buffer with these contents.
    pub(crate) fn input<T: Pod>(&self, contents: &[T]) -> Buffer {
        let mut bytes: Vec<u8> = bytemuck::cast_slice(contents).to_vec();
        bytes.resize(bytes.len().max(16).next_multiple_of(4), 0);
        let whole = self.create(bytes.len(), wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST);
        self.queue().write_buffer(&whole, 0, &bytes);
        Buffer { whole, words: bytes.len() / 4 }
    }

    /// A buffer with the parameters of a kernel.
    pub(crate) fn uniform<T: Pod>(&self, params: &T) -> wgpu::Buffer {
        let bytes = bytemuck::bytes_of(params);
        let buffer = self.create(bytes.len(), wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST);
        self.queue().write_buffer(&buffer, 0, bytes);
        buffer
    }

    /// A poisoned buffer for this many words of output.
    pub(crate) fn output(&self, words: usize) -> Buffer {
        self.filled(&vec![GUARD; words])
    }

    /// A buffer for output with these contents before the run.
    pub(crate) fn filled<T: Pod>(&self, contents: &[T]) -> Buffer {
        let mut words: Vec<u32> = bytemuck::cast_slice(contents).to_vec();
        let length = words.len();
        words.resize(length + GUARD_WORDS, GUARD);
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let whole = self.create(words.len() * 4, usage);
        self.queue().write_buffer(&whole, 0, bytemuck::cast_slice(&words));
        Buffer { whole, words: length }
    }

    fn create(&self, bytes: usize, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let size = bytes as u64;
        let descriptor =
            wgpu::BufferDescriptor { label: Some("test"), size, usage, mapped_at_creation: false };
        self.wgpu().create_buffer(&descriptor)
    }

    /// Records and submits; `read` waits for the device.
    pub(crate) fn run(&self, record: impl FnOnce(&mut Recorder<'_>) -> nearfield::Result<()>) {
        let mut encoder = self.wgpu().create_command_encoder(&Default::default());
        let mut recorder = self.device.record(&mut encoder).expect("a GPU");
        record(&mut recorder).expect("the kernel is recorded");
        recorder.finish();
        self.queue().submit([encoder.finish()]);
    }

    /// Runs one kernel on f32 elements.
    pub(crate) fn dispatch(
        &self,
        kernel: &'static Kernel,
        constants: &[u32],
        params: &impl Pod,
        buffers: &[&Buffer],
        grid: [u32; 2],
    ) {
        self.dispatch_on(ElementKind::F32, kernel, constants, params, buffers, grid);
    }

    /// Runs one kernel on elements of this kind.
    pub(crate) fn dispatch_on(
        &self,
        elements: ElementKind,
        kernel: &'static Kernel,
        constants: &[u32],
        params: &impl Pod,
        buffers: &[&Buffer],
        grid: [u32; 2],
    ) {
        let slices: Vec<BufferSlice<'_>> = buffers.iter().map(|buffer| buffer.slice()).collect();
        self.run(|recorder| recorder.dispatch(kernel, elements, constants, params, &slices, grid));
    }

    /// Panics unless the recorder refuses a call with this beginning of an error.
    pub(crate) fn refuses<T: Debug>(
        &self,
        start: &str,
        record: impl FnOnce(&mut Recorder<'_>) -> nearfield::Result<T>,
    ) {
        self.run(|recorder| {
            let said = record(recorder).expect_err("it is refused").to_string();
            assert!(said.starts_with(start), "{said}");
            Ok(())
        });
    }

    /// [`Bench::run`], and the names of the kernels in the order of their first dispatch; none without timestamps.
    pub(crate) fn run_timed(
        &self,
        record: impl FnOnce(&mut Recorder<'_>) -> nearfield::Result<()>,
    ) -> Option<Vec<&'static str>> {
        let Some(mut profile) = self.device.profile() else {
            self.run(record);
            return None;
        };
        let mut encoder = self.wgpu().create_command_encoder(&Default::default());
        let mut recorder = self.device.record_timed(&mut encoder, &mut profile, true).expect("a GPU");
        record(&mut recorder).expect("the kernels are recorded");
        recorder.finish();
        self.queue().submit([encoder.finish()]);
        let times = self.device.times_of(profile).expect("times");
        Some(times.iter().map(|one| one.stage).collect())
    }

    /// The words of an output. Panics when something was written behind them.
    pub(crate) fn read(&self, output: &Buffer) -> Vec<u32> {
        let bytes = output.size();
        let staging =
            self.create(bytes as usize, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
        let mut encoder = self.wgpu().create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(output, 0, &staging, 0, bytes);
        self.queue().submit([encoder.finish()]);
        let (sender, mapped) = std::sync::mpsc::channel();
        staging
            .map_async(wgpu::MapMode::Read, .., move |result| sender.send(result).expect("the test waits"));
        let result = loop {
            // The callback may also run in the poll of another test's thread.
            self.wgpu().poll(wgpu::PollType::wait_indefinitely()).expect("the device answers");
            if let Ok(result) = mapped.recv_timeout(std::time::Duration::from_millis(10)) {
                break result;
            }
        };
        result.expect("the buffer is mapped");
        let view = staging.get_mapped_range(..).expect("the buffer is mapped");
        let mut words: Vec<u32> = bytemuck::pod_collect_to_vec(&view);
        let behind = words.split_off(output.words);
        assert!(behind.iter().all(|&word| word == GUARD), "written behind the end: {behind:x?}");
        words
    }

    /// The words of an output as f32.
    pub(crate) fn read_floats(&self, output: &Buffer) -> Vec<f32> {
        floats_of(&self.read(output))
    }

    /// The words of an output in records of `N`.
    pub(crate) fn read_records<const N: usize>(&self, output: &Buffer) -> Vec<[u32; N]> {
        self.read(output).as_chunks().0.to_vec()
    }
}

/// Words as f32.
pub(crate) fn floats_of(words: &[u32]) -> Vec<f32> {
    words.iter().map(|&word| f32::from_bits(word)).collect()
}

/// Pairs of words as u64, low word first.
pub(crate) fn ids_of(words: &[u32]) -> Vec<u64> {
    words.chunks_exact(2).map(|pair| u64::from(pair[1]) << 32 | u64::from(pair[0])).collect()
}

/// Parts of a segment of 7 blocks: all of it; every third block; behind columns of another part; one block.
pub(crate) const PARTS: [Part; 4] = [
    Part { segment: 0, block_first: 0, block_step: 1, blocks: 7, column_first: 0 },
    Part { segment: 0, block_first: 1, block_step: 3, blocks: 2, column_first: 0 },
    Part { segment: 0, block_first: 0, block_step: 2, blocks: 4, column_first: 256 },
    Part { segment: 0, block_first: 6, block_step: 5, blocks: 1, column_first: 128 },
];

/// The columns of a part, and the rows that they stand for.
pub(crate) fn columns_of(part: &Part) -> impl Iterator<Item = (usize, usize)> + use<> {
    let part = *part;
    (0..part.blocks).flat_map(move |block| {
        let row = ((part.block_first + block * part.block_step) * BLOCK_ROWS) as usize;
        let column = (part.column_first + block * BLOCK_ROWS) as usize;
        (0..BLOCK_ROWS as usize).map(move |place| (column + place, row + place))
    })
}

/// Where the score of a query and a column lies in `[blocks, room, 128]`.
pub(crate) fn score_place(query: usize, column: usize, room: usize) -> usize {
    let block = BLOCK_ROWS as usize;
    (column / block * room + query) * block + column % block
}

/// The scores of a part, `[count, columns]`, from a poisoned buffer `[blocks, room, 128]`. Panics when something is written
/// that is no score of the part and the first `written` queries.
pub(crate) fn picked_scores(
    words: &[u32],
    part: &Part,
    room: usize,
    count: usize,
    written: usize,
) -> Vec<u32> {
    let mut is_used = vec![false; words.len()];
    for query in 0..written {
        columns_of(part).for_each(|(column, _)| is_used[score_place(query, column, room)] = true);
    }
    let stray = (0..words.len()).find(|&place| !is_used[place] && words[place] != GUARD);
    assert_eq!(stray, None, "{part:?}, room for {room}: written at a place without a score");
    let places = (0..count)
        .flat_map(|query| columns_of(part).map(move |(column, _)| score_place(query, column, room)));
    places.map(|place| words[place]).collect()
}
