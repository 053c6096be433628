//! The two engines as one value, and what every device has of either: an adapter, options, a way to wait.

use std::future::Future;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::gpu::{self, Adapter, Gpu, MemoryUsage};
use crate::host::{self, Host};
use crate::options::device::DeviceOptions;

/// The GPU or the processor, which runs every operation.
#[derive(Debug, Clone)]
pub(crate) enum Engine {
    Gpu(Arc<Gpu>),
    Host(Arc<Host>),
}

impl Engine {
    /// Runs a future of this crate to its end on this thread, or drops it where the caller asks the call to end.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        match self {
            Self::Gpu(gpu) => gpu.block_on(future),
            // The host's futures wait for nothing but each other.
            Self::Host(_) => gpu::NoDevice.block_on(future),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Gpu(gpu) if gpu.is_lost())
    }

    /// Whether both are one device.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gpu(one), Self::Gpu(other)) => Arc::ptr_eq(one, other),
            // They have one memory.
            (Self::Host(_), Self::Host(_)) => true,
            _ => false,
        }
    }

    /// Whether both are clones of one engine, or compute on one GPU. wgpu cannot tell: it compares devices by numbers that begin anew in each
    /// of its instances.
    pub(crate) fn is_same_hardware(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gpu(one), Self::Gpu(other)) => {
                Arc::ptr_eq(one, other) || one.adapter.is_same_hardware(&other.adapter)
            }
            (Self::Host(one), Self::Host(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// The memory in use and free, where the system tells.
    pub(crate) fn memory_usage(&self) -> Option<MemoryUsage> {
        match self {
            Self::Gpu(gpu) => gpu.memory_usage(),
            Self::Host(_) => host::memory_usage(),
        }
    }

    pub(crate) fn adapter(&self) -> &Adapter {
        match self {
            Self::Gpu(gpu) => &gpu.adapter,
            Self::Host(host) => &host.adapter,
        }
    }

    pub(crate) fn options(&self) -> &DeviceOptions {
        match self {
            Self::Gpu(gpu) => &gpu.options,
            Self::Host(host) => &host.options,
        }
    }

    /// The GPU, or an error that names the operation that needs one.
    pub(crate) fn gpu(&self, operation: &str) -> Result<&Arc<Gpu>> {
        match self {
            Self::Gpu(gpu) => Ok(gpu),
            Self::Host(host) => Err(Error::unsupported(operation, "a GPU", &host.adapter)),
        }
    }

    /// An error when what lives on the device `there` is used with this one.
    pub(crate) fn check(&self, argument: &'static str, what: &str, there: &Self) -> Result<()> {
        if self.is(there) {
            return Ok(());
        }
        let needed = format!("{what} on the same device ({})", self.adapter());
        Err(Error::argument(argument, needed, format!("one on another ({})", there.adapter())))
    }
}
