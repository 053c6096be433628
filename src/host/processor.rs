//! The processor as a device.

use crate::gpu::{Adapter, AdapterKind, Capabilities};
use crate::host::integers::isa::Isa;
use crate::options::device::DeviceOptions;

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
            ..Capabilities::default()
        };
        let adapter = Adapter {
            name: format!("host, {threads} threads"),
            backend: "host".to_owned(),
            driver: format!("{}, {:?}", std::env::consts::ARCH, Isa::detect()).to_lowercase(),
            kind: AdapterKind::Host,
            capabilities,
        };
        Self { adapter, options }
    }
}
