//! Device errors: those caught in scopes, and those outside of any call.

use std::fmt;

use super::device::Gpu;
use super::state::lock;
use crate::error::{Error, Result};
use crate::platform;

impl Gpu {
    /// The error for a failed command: the device's own, where it has one.
    pub(crate) async fn fault(&self, message: &(dyn fmt::Display + Sync)) -> Error {
        // A browser fails the command first, and tells in a later task that the device is lost.
        platform::next_task().await;
        self.fault_now(message)
    }

    /// [`Gpu::fault`], where the device is known to be there.
    pub(super) fn fault_now(&self, message: &dyn fmt::Display) -> Error {
        // A lost device says so when it is polled.
        let _ = self.device.poll(wgpu::PollType::Poll);
        match self.take_fault() {
            Err(error) => error,
            Ok(()) => Error::Device { message: message.to_string() },
        }
    }

    /// Reports what went wrong on the device since this was called last.
    pub(crate) async fn check_faults(&self) -> Result<()> {
        let open = std::mem::take(&mut lock(&self.faults).open);
        for scope in open {
            if let Some(fault) = scope.caught.await {
                // On a lost device every command fails in words of its own.
                platform::next_task().await;
                let _ = self.device.poll(wgpu::PollType::Poll);
                let lost = lock(&self.faults).lost.clone();
                return Err(lost.map_or_else(|| (scope.error)(fault), |reason| Error::DeviceLost { reason }));
            }
        }
        self.take_fault()
    }

    /// Whether the device has told that it is lost.
    pub(crate) fn is_lost(&self) -> bool {
        lock(&self.faults).lost.is_some()
    }

    fn take_fault(&self) -> Result<()> {
        if lock(&self.faults).uncaptured.is_some() {
            // On a lost device every command is invalid; that it is lost shows when it is polled.
            let _ = self.device.poll(wgpu::PollType::Poll);
        }
        let mut faults = lock(&self.faults);
        if let Some(reason) = &faults.lost {
            return Err(Error::DeviceLost { reason: reason.clone() });
        }
        match faults.uncaptured.take() {
            None => Ok(()),
            Some(wgpu::Error::OutOfMemory { .. }) => {
                Err(Error::OutOfMemory { purpose: "a submission".into(), bytes: None })
            }
            Some(other) => Err(Error::Device { message: other.to_string() }),
        }
    }
}
