//! The processor as a device.

use std::sync::Arc;

use crate::gpu::{Adapter, AdapterKind, Capabilities, Limit, MemoryUsage};
use crate::host::integers::isa::Isa;
use crate::options::device::DeviceOptions;
use crate::parallel;

/// The bytes that a line of a file in `/proc` tells, like `MemTotal:       16384000 kB`; none on other systems.
fn told_bytes(path: &str, line: &str) -> Option<u64> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    let told = text.lines().find_map(|one| one.strip_prefix(line)?.strip_prefix(':'))?;
    let kibibytes: u64 = told.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The memory that this process has, and that which the system has for more.
pub(crate) fn memory_usage() -> Option<MemoryUsage> {
    let used_bytes = told_bytes("/proc/self/status", "VmRSS")?;
    Some(MemoryUsage { used_bytes, free_bytes: told_bytes("/proc/meminfo", "MemAvailable")? })
}

/// The processor as a device.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) adapter: Adapter,
    pub(crate) options: DeviceOptions,
    /// The limit of what rows of indexes hold.
    pub(crate) rows_limit: Arc<Limit>,
}

impl Host {
    pub(crate) fn new(options: DeviceOptions) -> Self {
        // Without threads, what needs them is an error later.
        let threads = parallel::start_threads().map_or(1, |()| parallel::current_num_threads());
        let capabilities = Capabilities {
            max_buffer_bytes: u64::MAX,
            max_binding_bytes: u64::MAX,
            ..Capabilities::default()
        };
        let adapter = Adapter {
            index: None,
            name: format!("host, {threads} threads"),
            selector: "host".to_owned(),
            backend: "host".to_owned(),
            driver: format!("{}, {:?}", std::env::consts::ARCH, Isa::detect()).to_ascii_lowercase(),
            kind: AdapterKind::Host,
            vendor: None,
            pci_address: None,
            memory_bytes: told_bytes("/proc/meminfo", "MemTotal"),
            capabilities,
        };
        Self { adapter, rows_limit: Arc::new(Limit::new(options.memory_bytes)), options }
    }

    /// The host beside a GPU, with the options of that: it keeps rows that the limit of the GPU's memory does not count.
    pub(crate) fn beside_gpu(options: &DeviceOptions) -> Self {
        Self::new(options.clone().memory_bytes(u64::MAX))
    }
}
