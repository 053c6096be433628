//! Shared by all test binaries: engines, devices and helpers. Reference answers, models of indexes and seeded data are in
//! nearfield-testing.
#![expect(dead_code, reason = "each test binary uses a part of this")]

pub(crate) mod bench;
pub(crate) mod covering;
pub(crate) mod lists;
pub(crate) mod quantized;
pub(crate) mod reduce;
pub(crate) mod select;
pub(crate) mod vectors;

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use nearfield::{Device, DeviceOptions, Element, Error, wgpu};

/// Dims that every kernel has to get right: one, not whole vectors of four, the specialised ones, and past a workgroup.
pub(crate) const DIMS: [usize; 9] = [1, 3, 4, 5, 17, 384, 768, 1536, 2049];

/// Row counts at which something changes: no rows, k, a block, the screening path, more than a chunk.
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

    /// A device with small segments and little scratch memory. All tests that ask for the same share it: each device compiles its own
    /// kernels.
    pub(crate) fn confined(self, segment_bytes: u64, budget_bytes: u64) -> Option<Device> {
        static DEVICES: Mutex<BTreeMap<(usize, u64, u64), Option<Device>>> = Mutex::new(BTreeMap::new());
        let open = || self.open(options().max_segment_bytes(segment_bytes).budget_bytes(budget_bytes));
        let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        devices.entry((self as usize, segment_bytes, budget_bytes)).or_insert_with(open).clone()
    }

    /// A device whose buffers are visible in windows of this many bytes, without subgroup operations. None on the host
    /// engine, which has no such limit.
    pub(crate) fn with_bindings_of(self, bytes: u64) -> Option<Device> {
        let limits = |adapter: &wgpu::Adapter| wgpu::Limits {
            max_storage_buffer_binding_size: bytes,
            ..adapter.limits()
        };
        self.of_wgpu(limits, wgpu::Features::empty())
    }

    /// A wgpu device that the caller made, of the adapter that other tests use and with those of these features that it has. None on
    /// the host engine.
    pub(crate) fn of_wgpu(
        self,
        limits: impl Fn(&wgpu::Adapter) -> wgpu::Limits,
        features: wgpu::Features,
    ) -> Option<Device> {
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
        let descriptor = wgpu::DeviceDescriptor {
            required_limits: limits(&adapter),
            required_features: adapter.features() & features,
            ..Default::default()
        };
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

/// Fails if something took too long, where the clock counts: in `scripts/test --all`, on a machine that does nothing else.
pub(crate) fn assert_soon(took: Duration, limit: Duration, what: &str) {
    let counts = std::env::var("NEARFIELD_CLOCK").is_ok_and(|value| value == "1");
    assert!(!counts || took < limit, "{what} took {took:?}, more than {limit:?}");
}

/// The default options, except that an `Ivf` always searches its lists: those of tests are so short that it seldom would.
pub(crate) fn options() -> DeviceOptions {
    DeviceOptions::new().exact_if_faster(false)
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

/// Whether the tier runs that takes long.
pub(crate) fn is_nightly() -> bool {
    std::env::var("NEARFIELD_NIGHTLY").is_ok_and(|value| value == "1")
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

/// Rows padded to whole vectors of four, as kernels read them.
pub(crate) fn padded<T: Element>(values: &[T], dim: usize) -> Vec<T> {
    let stride = dim.next_multiple_of(4);
    let mut rows = vec![T::zeroed(); values.len() / dim * stride];
    for (row, target) in values.chunks_exact(dim).zip(rows.chunks_exact_mut(stride)) {
        target[..dim].copy_from_slice(row);
    }
    rows
}
