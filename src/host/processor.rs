//! The processor as a device.

use crate::gpu::{Adapter, AdapterKind, Capabilities};
use crate::host::integers::isa::Isa;
use crate::options::device::DeviceOptions;
use crate::parallel;

/// Bytes of the system's memory.
#[cfg(target_os = "linux")]
fn memory_bytes() -> Option<u64> {
    // `MemTotal:       16384000 kB`
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(not(target_os = "linux"))]
fn memory_bytes() -> Option<u64> {
    None
}

/// The processor as a device.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) adapter: Adapter,
    pub(crate) options: DeviceOptions,
}

impl Host {
    pub(crate) fn new(options: DeviceOptions) -> Self {
        let threads = parallel::current_num_threads();
        let capabilities = Capabilities {
            max_buffer_bytes: u64::MAX,
            max_binding_bytes: u64::MAX,
            ..Capabilities::default()
        };
        let adapter = Adapter {
            name: format!("host, {threads} threads"),
            backend: "host".to_owned(),
            driver: format!("{}, {:?}", std::env::consts::ARCH, Isa::detect()).to_ascii_lowercase(),
            kind: AdapterKind::Host,
            memory_bytes: memory_bytes(),
            capabilities,
        };
        Self { adapter, options }
    }
}
