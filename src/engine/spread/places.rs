//! Where the devices of an index keep its rows from the start.

use crate::engine::device::engine::Engine;
use crate::engine::device::handle::Device;
use crate::engine::rows::outgrown;
use crate::engine::rows::shape::{Kept, RowShape};

/// Where rows are from the start, on all devices alike: the host has them if one device has no room for its part.
pub(super) fn first_place(devices: &[Device], shape: &RowShape) -> Kept {
    let of_device = |device: &Device| match &device.engine {
        Engine::Gpu(gpu) => outgrown::first(gpu, shape),
        Engine::Host(_) => shape.kept,
    };
    let from_the_device = |kept: &Kept| match kept {
        Kept::OnDevice | Kept::Auto { .. } => 0,
        Kept::Apart { .. } => 1,
        Kept::Streamed { .. } => 2,
    };
    devices.iter().map(of_device).max_by_key(from_the_device).unwrap_or(shape.kept)
}
