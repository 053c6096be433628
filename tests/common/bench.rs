//! Kernels on buffers of the test: outputs are poisoned before, and guarded behind.

use bytemuck::Pod;
use nearfield::{BufferSlice, Device, Recorder};

/// What outputs hold before a kernel runs, and what has to be left behind their end.
pub(crate) const GUARD: u32 = 0xdead_beef;
const GUARD_WORDS: usize = 32;

/// A device on which single kernels are run.
#[derive(Clone, Copy)]
pub(crate) struct Bench<'d> {
    pub(crate) device: &'d Device,
}

/// A buffer that a kernel writes.
pub(crate) struct Output {
    buffer: wgpu::Buffer,
    words: usize,
}

impl Output {
    /// With its guard words, so that a kernel could write them.
    pub(crate) fn slice(&self) -> BufferSlice<'_> {
        BufferSlice::all(&self.buffer)
    }

    /// Without them.
    pub(crate) fn exact_slice(&self) -> BufferSlice<'_> {
        BufferSlice::range(&self.buffer, 0, self.words as u64 * 4)
    }
}

impl<'d> Bench<'d> {
    pub(crate) fn new(device: &'d Device) -> Self {
        Self { device }
    }

    /// A buffer with these contents.
    pub(crate) fn input<T: Pod>(&self, contents: &[T]) -> wgpu::Buffer {
        let bytes: &[u8] = bytemuck::cast_slice(contents);
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
        let buffer = self.create((bytes.len().max(16)).next_multiple_of(4), usage);
        let whole = bytes.len() / 4 * 4;
        self.device.wgpu_queue().write_buffer(&buffer, 0, &bytes[..whole]);
        if whole < bytes.len() {
            let mut last = [0; 4];
            last[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            self.device.wgpu_queue().write_buffer(&buffer, whole as u64, &last);
        }
        buffer
    }

    /// A poisoned buffer for so many words of output.
    pub(crate) fn output(&self, words: usize) -> Output {
        self.filled(&vec![GUARD; words])
    }

    /// A buffer for output that holds something before.
    pub(crate) fn filled<T: Pod>(&self, contents: &[T]) -> Output {
        let mut words: Vec<u32> = bytemuck::cast_slice(contents).to_vec();
        let length = words.len();
        words.resize(length + GUARD_WORDS, GUARD);
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let buffer = self.create(words.len() * 4, usage);
        self.device.wgpu_queue().write_buffer(&buffer, 0, bytemuck::cast_slice(&words));
        Output { buffer, words: length }
    }

    fn create(&self, bytes: usize, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        self.device.wgpu_device().create_buffer(&wgpu::BufferDescriptor {
            label: Some("test"),
            size: bytes as u64,
            usage,
            mapped_at_creation: false,
        })
    }

    /// Records and submits, and waits for the device.
    pub(crate) fn run(&self, record: impl FnOnce(&mut Recorder<'_>) -> nearfield::Result<()>) {
        let mut encoder = self.device.wgpu_device().create_command_encoder(&Default::default());
        let mut recorder = self.device.record(&mut encoder);
        record(&mut recorder).expect("the kernel is recorded");
        recorder.finish();
        self.device.wgpu_queue().submit([encoder.finish()]);
    }

    /// The words of an output. Panics when something was written behind them.
    pub(crate) fn read(&self, output: &Output) -> Vec<u32> {
        let bytes = output.buffer.size();
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging = self.create(bytes as usize, usage);
        let mut encoder = self.device.wgpu_device().create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(&output.buffer, 0, &staging, 0, bytes);
        self.device.wgpu_queue().submit([encoder.finish()]);
        let (sender, mapped) = std::sync::mpsc::channel();
        staging
            .map_async(wgpu::MapMode::Read, .., move |result| sender.send(result).expect("the test waits"));
        let result = loop {
            // The callback may also run in the poll of another test's thread.
            self.device.wgpu_device().poll(wgpu::PollType::wait_indefinitely()).expect("the device answers");
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
}

/// Words as f32.
pub(crate) fn floats_of(words: &[u32]) -> Vec<f32> {
    words.iter().map(|&word| f32::from_bits(word)).collect()
}

/// Pairs of words as u64, low word first.
pub(crate) fn ids_of(words: &[u32]) -> Vec<u64> {
    words.chunks_exact(2).map(|pair| u64::from(pair[1]) << 32 | u64::from(pair[0])).collect()
}
