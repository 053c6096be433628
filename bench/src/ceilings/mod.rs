//! The ceilings of a device, measured in the run that is compared with them.

mod kernels;
mod processor;
mod roofline;

use anyhow::Result;
use nearfield::Device;

use super::gpu::has_kernels;

pub(super) use kernels::Warmer;
pub(super) use roofline::{Ceilings, Reached, Unit, Work};

impl Ceilings {
    pub(super) fn measure(device: &Device) -> Result<Self> {
        if has_kernels(device) { kernels::measure(device) } else { processor::measure() }
    }
}
