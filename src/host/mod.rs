//! The host engine: the same operations on the processor, for machines without a GPU and for work that is too small for one.
//!
//! Distances are computed in f64 and rounded once, so that they do not depend on the order of summation; what screens nominate is
//! held against them by the same certificates as on a GPU.

mod centroids;
mod columns;
mod distances;
mod folds;
mod integers;
mod intervals;
mod lists;
mod narrowed;
mod nominees;
mod norms;
mod pace;
mod reduce;
mod rows;
mod scorer;
mod search;
mod select;
mod sharing;
mod training;
mod widen;

use crate::gpu::{Adapter, AdapterKind, Capabilities, DeviceOptions};
pub(crate) use centroids::HostCentroids;
pub(crate) use distances::distances;
pub(crate) use lists::HostLists;
pub(crate) use norms::checked;
pub(crate) use reduce::{Reduced, reduce, reduce_rows};
pub(crate) use rows::HostRows;
pub(crate) use search::{Answer, Asked, Wanted};
pub(crate) use select::top_k;
pub(crate) use training::HostTraining;
use widen::widened;

/// What a closure takes that is dispatched to the widest registers, so that it can be called but once. One that could be called again is
/// called through a shim, where the compiler may leave it, with the narrowest registers.
struct Once;

impl Once {
    #[inline(always)]
    fn take(self) {}
}

/// The processor as a device.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) adapter: Adapter,
    pub(crate) options: DeviceOptions,
}

impl Host {
    pub(crate) fn new(options: DeviceOptions) -> Self {
        let threads = rayon::current_num_threads();
        let capabilities = Capabilities {
            max_buffer_bytes: u64::MAX,
            max_binding_bytes: u64::MAX,
            max_storage_buffers: 0,
            max_workgroup_size: 0,
            max_workgroup_bytes: 0,
            max_workgroups: 0,
            subgroup_sizes: None,
            f16: false,
            float_atomics: false,
            cooperative_sizes: vec![],
            timestamps: false,
        };
        let adapter = Adapter {
            name: format!("host, {threads} threads"),
            backend: "host".to_owned(),
            driver: format!("{}, {:?}", std::env::consts::ARCH, integers::Isa::detect()).to_lowercase(),
            kind: AdapterKind::Host,
            capabilities,
        };
        Self { adapter, options }
    }
}
