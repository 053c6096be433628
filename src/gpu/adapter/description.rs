//! Describes an adapter: its kind, features and limits.

use std::fmt;

use crate::gpu::kernel::REGISTERS;
use crate::platform::HAS_NATIVE_FEATURES;

/// NVIDIA's number on the PCI bus.
const NVIDIA: u32 = 0x10de;

/// AMD's.
const AMD: u32 = 0x1002;

/// The kind of hardware behind an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AdapterKind {
    /// A card with memory of its own.
    Discrete,
    /// A GPU that shares the processor's memory.
    Integrated,
    /// A GPU of a virtual machine.
    Virtual,
    /// The driver does not say.
    Unknown,
    /// The processor itself, through the host engine.
    Host,
    /// A driver that runs on the processor, for tests.
    Software,
}

impl fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Discrete => "discrete",
            Self::Integrated => "integrated",
            Self::Virtual => "virtual",
            Self::Unknown => "unknown",
            Self::Host => "host",
            Self::Software => "software",
        })
    }
}

/// A matrix size that the adapter multiplies cooperatively, as `m x n x k`, with its element types.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CooperativeSize {
    /// Rows of the left matrix, columns of the right one, and the dimension they share.
    pub size: [u32; 3],
    /// Element type of the operands.
    pub operands: String,
    /// Element type of the accumulator.
    pub accumulator: String,
}

/// The features and limits of an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Capabilities {
    /// Bytes of one buffer at most.
    pub max_buffer_bytes: u64,
    /// Bytes of a buffer that a kernel sees at most. A row store spans several buffers beyond it.
    pub max_binding_bytes: u64,
    /// Storage buffers that one kernel can have.
    pub max_storage_buffers: u32,
    /// Invocations of a workgroup.
    pub max_workgroup_size: u32,
    /// Bytes of workgroup memory.
    pub max_workgroup_bytes: u32,
    /// Workgroups in one dimension of a dispatch.
    pub max_workgroups: u32,
    /// Smallest and largest subgroup, where the adapter has subgroup operations.
    pub subgroup_sizes: Option<(u32, u32)>,
    /// Arithmetic on 16-bit floating point in kernels. Storing f16 rows does not need it.
    pub f16: bool,
    /// Cooperative matrix sizes; empty where there are none.
    pub cooperative_sizes: Vec<CooperativeSize>,
    /// Whether stages can be timed on the device.
    pub timestamps: bool,
}

impl Capabilities {
    /// The side of the square matrices of f16, summed in f32, that kernels multiply cooperatively; none where the adapter lists
    /// no size that they are written for.
    pub fn matrix_side(&self) -> Option<u32> {
        self.matrices().map(|[side, _]| side)
    }

    /// Bytes that rows and columns of 16 x 16 matrices share in a product, summed in 32-bit integers: 32 or 16. None where the adapter lists no
    /// such size, or no matrices of f16 beside it, which take the same tiles.
    pub(crate) fn byte_matrices(&self) -> Option<u32> {
        self.matrices().filter(|[side, _]| *side == 16)?;
        let listed = |depth: &u32| {
            let mut sizes = self.cooperative_sizes.iter();
            sizes.any(|one| one.size == [16, 16, *depth] && one.operands == "i8" && one.accumulator == "i32")
        };
        [32, 16].into_iter().find(listed)
    }

    /// That side, and the lanes of the subgroups that multiply such matrices.
    pub(crate) fn matrices(&self) -> Option<[u32; 2]> {
        let listed = |side: u32| {
            let mut sizes = self.cooperative_sizes.iter();
            sizes.any(|one| one.size == [side; 3] && one.operands == "f16" && one.accumulator == "f32")
        };
        // A tile is shared among subgroups of this many lanes. AMD's drivers compile for the larger size, 64.
        // Matrices of 8 x 8 are those of Apple's GPUs, whose subgroups have 32, though the interface tells a range. Were it otherwise, the
        // self-test would fail.
        let lanes = |side: u32| match (side, self.subgroup_sizes?) {
            (16, (32.., most)) => [32, 64].into_iter().find(|lanes| *lanes == most),
            (16, _) => None,
            (_, (least, most)) => (least..=most).contains(&32).then_some(32),
        };
        let sides = [16, 8].into_iter().filter(|&side| HAS_NATIVE_FEATURES && self.f16 && listed(side));
        sides.filter_map(|side| Some([side, lanes(side)?])).next()
    }
}

/// An adapter: one GPU (or software driver) seen through one graphics interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adapter {
    /// Its place in [`Device::adapters`](crate::Device::adapters), which opens it where a name is taken. It stays the same from process to
    /// process while drivers, hardware and `WGPU_BACKEND` do. None for the host engine, and for a wgpu device of the caller.
    pub index: Option<usize>,
    /// Name by the driver.
    pub name: String,
    /// The name that opens this adapter and no other, on any machine with the same adapters: its name and its number among those whose
    /// name contains it, such as `NVIDIA H200#1`. `host` for the host engine. For a wgpu device of the caller, its name.
    pub selector: String,
    /// `vulkan`, `metal`, `dx12`, `gl` or `webgpu`.
    pub backend: String,
    /// Driver and its version.
    pub driver: String,
    /// Kind of hardware.
    pub kind: AdapterKind,
    /// The vendor's number on the PCI bus, where the interface tells, such as `0x10de` for NVIDIA.
    pub vendor: Option<u32>,
    /// Address on the PCI bus, as `domain:bus:device.function` in hexadecimal digits (`0000:3b:00.0`), where the interface tells: Vulkan for
    /// most cards, and DX12 for a card that is the only one of its model.
    pub pci_address: Option<String>,
    /// Bytes of its memory, where the system tells: the largest heap of a GPU's own in Vulkan, the system's memory for the host engine. Other
    /// programs use some of it.
    pub memory_bytes: Option<u64>,
    /// Its features and limits.
    pub capabilities: Capabilities,
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {}, {})", self.name, self.kind, self.backend, self.driver)
    }
}

impl Adapter {
    /// Whether another listing has this very adapter there: the same hardware through the same interface.
    pub(crate) fn is_again(&self, other: &Self) -> bool {
        let place = |one: &Self| (one.index, one.pci_address.clone());
        (&self.backend, &self.name) == (&other.backend, &other.name) && place(self) == place(other)
    }

    /// How many registers an invocation has for a kernel's data (docs/adapters.md).
    pub(crate) fn registers(&self) -> u32 {
        let [many, few] = REGISTERS;
        match (self.kind, self.vendor) {
            (AdapterKind::Software, _) | (_, Some(NVIDIA)) => many,
            // RDNA, whose subgroups can have 32 lanes.
            (_, Some(AMD)) if self.capabilities.subgroup_sizes.is_some_and(|(least, _)| least == 32) => many,
            _ => few,
        }
    }

    /// The number of registers that [`Adapter::registers`] does not give.
    pub(crate) fn other_registers(&self) -> Option<u32> {
        REGISTERS.into_iter().find(|number| *number != self.registers())
    }

    /// Whether measurements have shown that the number of [`Adapter::registers`] suits the adapter.
    pub(crate) fn is_measured(&self) -> bool {
        self.kind == AdapterKind::Software || self.vendor == Some(NVIDIA)
    }

    /// Whether both are one GPU, perhaps seen through two interfaces. Software drivers are none: each device on one is as good as another.
    pub(crate) fn is_same_hardware(&self, other: &Self) -> bool {
        let are_gpus =
            [self, other].iter().all(|one| !matches!(one.kind, AdapterKind::Host | AdapterKind::Software));
        are_gpus
            && match (&self.pci_address, &other.pci_address) {
                (Some(address), Some(other)) => address == other,
                _ => self.index.is_some() && self.index == other.index,
            }
    }
}

/// The features that kernels use where the adapter has them.
pub(crate) fn wanted_features() -> wgpu::Features {
    wgpu::Features::SUBGROUP
        | wgpu::Features::SUBGROUP_BARRIER
        | wgpu::Features::SHADER_F16
        | wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX
        | wgpu::Features::TIMESTAMP_QUERY
        | wgpu::Features::PIPELINE_CACHE
        | wgpu::Features::PASSTHROUGH_SHADERS
}

pub(crate) fn describe(
    info: &wgpu::AdapterInfo,
    features: wgpu::Features,
    limits: &wgpu::Limits,
    cooperative: Vec<wgpu::CooperativeMatrixProperties>,
) -> Adapter {
    let cooperative_sizes = cooperative
        .into_iter()
        .map(|one| CooperativeSize {
            size: [one.m_size, one.n_size, one.k_size],
            operands: format!("{:?}", one.ab_type).to_ascii_lowercase(),
            accumulator: format!("{:?}", one.cr_type).to_ascii_lowercase(),
        })
        .collect();
    Adapter {
        index: None,
        name: info.name.clone(),
        selector: info.name.clone(),
        backend: info.backend.to_str().to_owned(),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        kind: match info.device_type {
            wgpu::DeviceType::DiscreteGpu => AdapterKind::Discrete,
            wgpu::DeviceType::IntegratedGpu => AdapterKind::Integrated,
            wgpu::DeviceType::VirtualGpu => AdapterKind::Virtual,
            wgpu::DeviceType::Cpu => AdapterKind::Software,
            wgpu::DeviceType::Other => AdapterKind::Unknown,
        },
        vendor: Some(info.vendor).filter(|vendor| *vendor > 0),
        pci_address: Some(info.device_pci_bus_id.clone()).filter(|address| !address.is_empty()),
        memory_bytes: None,
        capabilities: Capabilities {
            max_buffer_bytes: limits.max_buffer_size,
            // Element indices are u32, and Metal computes wrong addresses in the last 4 bytes below 4 GiB
            // (gfx-rs/wgpu issue 10305).
            max_binding_bytes: limits.max_storage_buffer_binding_size.min((1 << 32) - 8),
            max_storage_buffers: limits.max_storage_buffers_per_shader_stage,
            max_workgroup_size: limits
                .max_compute_invocations_per_workgroup
                .min(limits.max_compute_workgroup_size_x),
            max_workgroup_bytes: limits.max_compute_workgroup_storage_size,
            max_workgroups: limits.max_compute_workgroups_per_dimension,
            subgroup_sizes: features
                .contains(wgpu::Features::SUBGROUP)
                .then_some((info.subgroup_min_size, info.subgroup_max_size)),
            f16: features.contains(wgpu::Features::SHADER_F16),
            cooperative_sizes,
            timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
        },
    }
}
