//! The state that a device keeps between calls: compiled kernels, buffers and faults.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_intrusive::sync::SharedSemaphore;

use super::kernel::{Kernel, Variant};
use crate::error::{Error, Result};
pub(super) use crate::lock::lock;

/// Staging buffers of a device, made when they are first needed: while one is filled the others are copied.
const STAGING_BUFFERS: usize = 4;
/// Bytes of free readback buffers that a device keeps.
const KEPT_BYTES: u64 = 32 << 20;
/// Larger readbacks come in pieces of this size.
pub(super) const READBACK_PIECE_BYTES: u64 = 8 << 20;

/// A compiled variant of a kernel.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(super) kernel: &'static Kernel,
    pub(super) variant: Variant,
    pub(super) pipeline: wgpu::ComputePipeline,
    pub(super) layout: wgpu::BindGroupLayout,
}

/// Free scratch buffers, oldest first, and the calls that wait for some.
#[derive(Debug, Default)]
pub(super) struct Pool {
    pub(super) kept: VecDeque<wgpu::Buffer>,
    pub(super) booked: u64,
    pub(super) waiting: VecDeque<(u64, Waker)>,
    pub(super) next_ticket: u64,
}

impl Pool {
    /// A kept buffer of this size, after the oldest ones were dropped as far as the budget demands it.
    pub(super) fn take(&mut self, bytes: u64, budget: u64) -> Option<wgpu::Buffer> {
        if let Some(index) = self.kept.iter().position(|buffer| buffer.size() == bytes) {
            return self.kept.remove(index);
        }
        while self.booked + self.kept.iter().map(wgpu::Buffer::size).sum::<u64>() > budget {
            self.kept.pop_front()?;
        }
        None
    }
}

/// The staging buffers of a device.
#[derive(Debug)]
pub(super) struct Staging {
    /// Mapped and free.
    pub(super) ready: Arc<Mutex<Vec<wgpu::Buffer>>>,
    /// One permit for each staging buffer, returned when the device is done with it.
    pub(super) permits: SharedSemaphore,
}

impl Staging {
    pub(super) fn new() -> Self {
        Self { ready: Arc::default(), permits: SharedSemaphore::new(true, STAGING_BUFFERS) }
    }
}

/// Free readback buffers of a device, unmapped, the latest last.
#[derive(Debug, Default)]
pub(super) struct Readbacks(Mutex<Vec<wgpu::Buffer>>);

impl Readbacks {
    /// A kept buffer that is large enough, but not much larger than needed.
    pub(super) fn take(&self, bytes: u64) -> Option<wgpu::Buffer> {
        let mut kept = lock(&self.0);
        let fits = |one: &wgpu::Buffer| {
            one.size() >= bytes && one.size() / 4 <= bytes.max(READBACK_PIECE_BYTES / 64)
        };
        let place = kept.iter().rposition(fits)?;
        Some(kept.remove(place))
    }

    pub(super) fn keep(&self, buffer: wgpu::Buffer) {
        if buffer.size() > KEPT_BYTES {
            return;
        }
        let mut kept = lock(&self.0);
        kept.push(buffer);
        while kept.iter().map(wgpu::Buffer::size).sum::<u64>() > KEPT_BYTES {
            kept.remove(0);
        }
    }
}

/// Errors outside of any call, and scopes whose errors are not known yet.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) lost: Option<String>,
    pub(super) uncaptured: Option<wgpu::Error>,
    /// Scopes whose errors the device has yet to tell.
    pub(super) open: Vec<OpenScope>,
}

/// A closed error scope whose error is still on its way.
pub(super) struct OpenScope {
    pub(super) caught: Pin<Box<dyn Future<Output = Option<wgpu::Error>> + Send>>,
    pub(super) error: Box<dyn FnOnce(wgpu::Error) -> Error + Send>,
}

/// Closes an error scope without waiting. A native device has told by then what the scope caught. In a browser the answer comes
/// later: the next readback waits for it and fails with the error.
pub(super) fn close_scope(
    faults: &Mutex<Faults>,
    scope: wgpu::ErrorScopeGuard,
    error: impl FnOnce(wgpu::Error) -> Error + Send + 'static,
) -> Result<()> {
    let mut caught: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(scope.pop());
    match caught.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(None) => Ok(()),
        Poll::Ready(Some(fault)) => Err(error(fault)),
        Poll::Pending => {
            lock(faults).open.push(OpenScope { caught, error: Box::new(error) });
            Ok(())
        }
    }
}
