//! Everything that talks to wgpu: adapters, buffers, kernels, recording, transfers. wgpu's types stay in here,
//! except for [`Device::from_wgpu`](crate::Device::from_wgpu) and the recording of kernels.

mod adapter;
mod bare;
mod blocked;
mod commands;
mod compiler;
mod device;
mod faults;
mod kernel;
mod limit;
mod memory;
mod pipeline;
mod profile;
mod readback;
mod snippets;
mod state;
mod transfer;
mod unroll;
mod wait;

#[cfg(target_arch = "wasm32")]
pub use adapter::browser_instance;
pub use adapter::{Adapter, AdapterKind, Capabilities, CooperativeSize, MemoryUsage};
pub(crate) use adapter::{AdapterChoice, Choice, Listing, every_gpu, refuse_twice};
#[cfg(any(test, target_arch = "wasm32"))]
pub(crate) use bare::bare;
pub(crate) use bare::bare_text;
pub(crate) use blocked::{NoDevice, is_blocked};
pub(crate) use commands::{Commands, Grid};
pub(crate) use compiler::{FormChoice, FormTimes, Wanted};
pub use compiler::{KernelForms, Refusal};
#[cfg(feature = "internals")]
pub(crate) use compiler::{with_spelled_products, words_of_bytes};
pub(crate) use device::{Gpu, TileHeight};
pub use kernel::{Access, Kernel, Variant, WORKGROUP};
pub(crate) use kernel::{HEIGHT, Length, OF_BITS, PAIRS, Snippet, Uniform, params, wgsl};
pub(crate) use limit::{Limit, Loan, Share};
pub use memory::BufferSlice;
pub(crate) use memory::{Request, Reserved, Scratch, budget_for, buffers, scratch, usable};
pub use profile::{Profile, StageTime};
pub(crate) use readback::{Range as ReadRange, Reading, words};
pub(crate) use snippets::*;
pub(crate) use transfer::RowLayout;
pub use unroll::Driver;
/// A buffer on the device.
pub(crate) use wgpu::Buffer;
