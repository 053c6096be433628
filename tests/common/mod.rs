//! Shared by all test binaries: engines, seeded data, and views. The reference answers are in `truth`.
#![expect(dead_code, reason = "each test binary uses a part of this")]

pub(crate) mod bench;
pub(crate) mod lists;
pub(crate) mod living;
pub(crate) mod narrowed;
pub(crate) mod reduce;
pub(crate) mod select;
pub(crate) mod truth;
pub(crate) mod vectors;

use std::sync::OnceLock;

use half::f16;
use nearfield::{Device, DeviceOptions, Element, Error, MatrixView, wgpu};

/// Dims that every kernel has to get right: one, not whole vectors of four, the specialised ones, and past a workgroup.
pub(crate) const DIMS: [usize; 9] = [1, 3, 4, 5, 17, 384, 768, 1536, 2049];

/// Row counts at which something changes: no rows, k, a block, the nominating path, more than a chunk.
pub(crate) fn row_counts(k: usize) -> [usize; 12] {
    [0, 1, k - 1, k, k + 1, 127, 128, 129, 4095, 4096, 4097, 9001]
}

/// The engine that computes the answers of a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Engine {
    /// Kernels, on the adapter that `NEARFIELD_ADAPTER` names: by default any GPU, software drivers included.
    Adapter,
    Host,
}

impl Engine {
    /// A device with default options, shared by all tests of a binary.
    pub(crate) fn device(self) -> Option<&'static Device> {
        static DEVICES: [OnceLock<Option<Device>>; 2] = [const { OnceLock::new() }; 2];
        present(DEVICES[self as usize].get_or_init(|| self.open(options())).as_ref())
    }

    /// The same adapter without subgroup operations, also shared.
    pub(crate) fn without_subgroups(self) -> Option<&'static Device> {
        static DEVICES: [OnceLock<Option<Device>>; 2] = [const { OnceLock::new() }; 2];
        let open = || {
            let mut options = options();
            options.subgroups = false;
            self.open(options)
        };
        present(DEVICES[self as usize].get_or_init(open).as_ref())
    }

    /// A device with small segments and little scratch memory.
    pub(crate) fn confined(self, segment_bytes: u64, budget_bytes: u64) -> Option<Device> {
        let mut options = options();
        options.max_segment_bytes = segment_bytes;
        options.budget_bytes = budget_bytes;
        self.open(options)
    }

    /// A device whose buffers are visible in windows of this many bytes, without subgroup operations. None on the host
    /// engine, which has no such limit.
    pub(crate) fn with_bindings_of(self, bytes: u64) -> Option<Device> {
        if self == Self::Host {
            return None;
        }
        let wanted = self.device()?.adapter();
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle().with_env());
        let adapter = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()))
            .into_iter()
            .find(|adapter| {
                adapter.get_info().name == wanted.name
                    && adapter.get_info().backend.to_str() == wanted.backend
            })
            .expect("the adapter is there");
        let limits = wgpu::Limits { max_storage_buffer_binding_size: bytes, ..adapter.limits() };
        let descriptor = wgpu::DeviceDescriptor { required_limits: limits, ..Default::default() };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).expect("a device");
        Some(Device::from_wgpu(device, queue, options()))
    }

    /// The device with subgroup operations and the one without. The host engine has one device.
    pub(crate) fn devices(self) -> impl Iterator<Item = &'static Device> {
        let plain = if self == Self::Host { None } else { self.without_subgroups() };
        [self.device(), plain].into_iter().flatten()
    }

    /// A device of its own.
    pub(crate) fn open(self, options: DeviceOptions) -> Option<Device> {
        let adapter = std::env::var("NEARFIELD_ADAPTER").ok().filter(|name| !name.is_empty());
        let name = match self {
            Self::Adapter => adapter.as_deref().unwrap_or("gpu"),
            Self::Host => "host",
        };
        // With `NEARFIELD_ADAPTER=host` there is no adapter.
        let is_right = |device: &Device| self == Self::Host || has_kernels(device);
        present(opened(Device::open(Some(name), options)).filter(is_right))
    }
}

/// The default options, except that an `Ivf` always searches its lists: those of tests are so short that it seldom would.
pub(crate) fn options() -> DeviceOptions {
    DeviceOptions::new().exact_when_quicker(false)
}

/// The device of tests that are about kernels.
pub(crate) fn gpu() -> Option<&'static Device> {
    Engine::Adapter.device()
}

/// [`gpu`] without subgroup operations.
pub(crate) fn without_subgroups() -> Option<&'static Device> {
    Engine::Adapter.without_subgroups()
}

/// [`gpu`] with small segments and little scratch memory.
pub(crate) fn confined(segment_bytes: u64, budget_bytes: u64) -> Option<Device> {
    Engine::Adapter.confined(segment_bytes, budget_bytes)
}

/// [`gpu`] with buffers visible in windows of this many bytes.
pub(crate) fn with_bindings_of(bytes: u64) -> Option<Device> {
    Engine::Adapter.with_bindings_of(bytes)
}

/// Whether a device runs kernels, in buffers with limits; the host engine does not.
pub(crate) fn has_kernels(device: &Device) -> bool {
    device.capabilities().max_storage_buffers > 0
}

fn opened(device: Result<Device, Error>) -> Option<Device> {
    match device {
        Ok(device) => Some(device),
        Err(Error::NoAdapter { .. }) => None,
        Err(error) => panic!("the adapter cannot be opened: {error}"),
    }
}

fn present<D>(device: Option<D>) -> Option<D> {
    if device.is_none() {
        let required = std::env::var("NEARFIELD_REQUIRE_GPU").is_ok_and(|value| value == "1");
        assert!(!required, "NEARFIELD_REQUIRE_GPU=1, but there is no adapter");
        println!("skipped: no adapter");
    }
    device
}

/// Seeded numbers. The seed is printed when the test that made them panics.
pub(crate) struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn shuffle<T>(&mut self, values: &mut [T]) {
        (1..values.len()).rev().for_each(|place| values.swap(place, self.below(place + 1)));
    }

    /// In [-1, 1).
    pub(crate) fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Whole numbers from `-most` to `most`: every sum of their products is exact in f32.
    pub(crate) fn integers(&mut self, count: usize, most: usize) -> Vec<f32> {
        (0..count).map(|_| self.below(2 * most + 1) as f32 - most as f32).collect()
    }

    /// Nearly normally distributed: mean 0, variance 1.
    pub(crate) fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| (0..3).map(|_| self.unit()).sum()).collect()
    }

    /// Rows at which a screen may go wrong: a large common part, norms from 2^-40 to 2^40, near duplicates of another
    /// row, single elements that outweigh the others, zeros.
    pub(crate) fn adversarial(&mut self, rows: usize, dim: usize) -> Vec<f32> {
        let mut values: Vec<f32> = vec![];
        for row in 0..rows {
            let mut one = self.floats(dim);
            match self.below(8) {
                0 => one.iter_mut().for_each(|x| *x += 1000.0),
                1 => {
                    let scale = 2f32.powi(self.below(70) as i32 - 35);
                    one.iter_mut().for_each(|x| *x *= scale);
                }
                2 if row > 0 => {
                    let other = self.below(row) * dim;
                    one.copy_from_slice(&values[other..other + dim]);
                    let place = self.below(dim);
                    one[place] *= 1.0 + f32::EPSILON;
                }
                3 => one[0] = 30_000.0,
                4 if row % 32 == 0 => one.fill(0.0),
                _ => {}
            }
            values.extend(one);
        }
        values
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {:#x}", self.seed);
        }
    }
}

/// A view that cannot fail.
pub(crate) fn view<T: Element>(values: &[T], dim: usize) -> MatrixView<'_, T> {
    MatrixView::new(values, dim).expect("whole rows")
}

/// Values rounded to f16, and the same widened to f32.
pub(crate) fn rounded(values: &[f32]) -> (Vec<f16>, Vec<f32>) {
    let halves: Vec<f16> = values.iter().map(|&x| f16::from_f32(x)).collect();
    let widened = halves.iter().map(|x| x.to_f32()).collect();
    (halves, widened)
}

/// Rows padded to whole vectors of four, as kernels read them.
pub(crate) fn padded<T: Element>(values: &[T], dim: usize) -> Vec<T> {
    let stride = dim.next_multiple_of(4);
    let mut rows = vec![T::zeroed(); values.len() / dim * stride];
    for (row, target) in values.chunks_exact(dim).zip(rows.chunks_exact_mut(stride)) {
        target[..dim].copy_from_slice(row);
    }
    rows
}
