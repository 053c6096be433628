//! How much memory is in use.

/// The memory of a device at one moment, by the system's estimate.
///
/// `used_bytes + free_bytes` is less than [`Adapter::memory_bytes`](crate::Adapter::memory_bytes) by what other programs use and what the
/// system keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct MemoryUsage {
    /// Bytes that this process uses, whatever for, and no other does. On a GPU they are those of all devices that it has opened there, with
    /// what driver and wgpu keep in reserve; on the host engine, those of the whole process that are in memory.
    pub used_bytes: u64,
    /// Bytes that this process can take besides, beside all other programs: what the driver grants it at this moment less what it uses; on
    /// the host engine, what Linux calls available.
    pub free_bytes: u64,
}
