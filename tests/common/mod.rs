//! What the tests share: devices, seeded data, and buffers with guards. The truth they compare with is in `truth`.
#![expect(dead_code, reason = "each test binary uses a part of this")]

pub(crate) mod bench;
pub(crate) mod lists;
pub(crate) mod narrowed;
pub(crate) mod reduce;
pub(crate) mod select;
pub(crate) mod truth;
pub(crate) mod vectors;

use std::sync::OnceLock;

use half::f16;
use nearfield::{Device, DeviceOptions, Element, Error, MatrixView, wgpu};

/// The dims that every kernel has to get right: not of four, one, vectors, the specialised ones, and past a workgroup.
pub(crate) const DIMS: [usize; 9] = [1, 3, 4, 5, 17, 384, 768, 1536, 2049];

/// The row counts at which something changes: nothing, k, a block, the nominating path, more than a chunk.
pub(crate) fn row_counts(k: usize) -> [usize; 12] {
    [0, 1, k - 1, k, k + 1, 127, 128, 129, 4095, 4096, 4097, 9001]
}

/// The best adapter, or the device that `NEARFIELD_ADAPTER` names; shared by a test binary.
pub(crate) fn gpu() -> Option<&'static Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    present(DEVICE.get_or_init(|| opened(Device::open(Some(&wanted()), DeviceOptions::default()))).as_ref())
}

/// Whether a device runs kernels, which have buffers and limits: the host engine does not.
pub(crate) fn has_kernels(device: &Device) -> bool {
    device.capabilities().max_storage_buffers > 0
}

/// What the tests run on. Kernels need an adapter, be it a software driver.
pub(crate) fn wanted() -> String {
    std::env::var("NEARFIELD_ADAPTER")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "gpu".to_owned())
}

/// The same adapter without subgroup operations.
pub(crate) fn without_subgroups() -> Option<&'static Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    let open = || {
        let mut options = DeviceOptions::default();
        options.subgroups = false;
        opened(Device::open(Some(&wanted()), options))
    };
    present(DEVICE.get_or_init(open).as_ref())
}

/// The same adapter with segments and scratch memory forced small.
pub(crate) fn confined(segment_bytes: u64, budget_bytes: u64) -> Option<Device> {
    let mut options = DeviceOptions::default();
    options.max_segment_bytes = segment_bytes;
    options.budget_bytes = budget_bytes;
    present(opened(Device::open(Some(&wanted()), options)))
}

/// A device of the same adapter that sees so many bytes of a buffer at once; it has no subgroup operations.
pub(crate) fn with_bindings_of(bytes: u64) -> Option<Device> {
    let wanted = gpu().filter(|device| has_kernels(device))?.adapter();
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle().with_env());
    let adapter = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()))
        .into_iter()
        .find(|adapter| {
            adapter.get_info().name == wanted.name && adapter.get_info().backend.to_str() == wanted.backend
        })
        .expect("the adapter is there");
    let limits = wgpu::Limits { max_storage_buffer_binding_size: bytes, ..adapter.limits() };
    let descriptor = wgpu::DeviceDescriptor { required_limits: limits, ..Default::default() };
    let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).expect("a device");
    Some(Device::from_wgpu(device, queue, DeviceOptions::default()))
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

    /// In [-1, 1).
    pub(crate) fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Whole numbers from `-most` to `most`: every sum of their products is exact in f32.
    pub(crate) fn integers(&mut self, count: usize, most: usize) -> Vec<f32> {
        (0..count).map(|_| self.below(2 * most + 1) as f32 - most as f32).collect()
    }

    /// Near enough normally distributed: mean 0, variance 1.
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

/// f16 values, and what they are in f32.
pub(crate) fn rounded(values: &[f32]) -> (Vec<f16>, Vec<f32>) {
    let halves: Vec<f16> = values.iter().map(|&x| f16::from_f32(x)).collect();
    let widened = halves.iter().map(|x| x.to_f32()).collect();
    (halves, widened)
}

/// Rows padded to whole vectors of four, as kernels want them.
pub(crate) fn padded<T: Element>(values: &[T], dim: usize) -> Vec<T> {
    let stride = dim.next_multiple_of(4);
    let mut rows = vec![T::zeroed(); values.len() / dim * stride];
    for (row, target) in values.chunks_exact(dim).zip(rows.chunks_exact_mut(stride)) {
        target[..dim].copy_from_slice(row);
    }
    rows
}
