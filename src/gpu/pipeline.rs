//! The compiled kernels of a GPU.

use std::sync::Arc;

use super::adapter::AdapterKind;
use super::compiler::{FormChoice, FormTimes, Wanted, WantedForms};
use super::device::Gpu;
use super::kernel::{Kernel, Variant};
use super::state::Pipeline;
use crate::error::{Error, Result};
use crate::matrix::ElementKind;
use crate::platform::CAN_WAIT;

impl Gpu {
    /// The variant of `kernel` for this device with these values of its override constants. A kernel that loads rows loads f32.
    pub(crate) fn pipeline(&self, kernel: &'static Kernel, constants: &[u32]) -> Result<Arc<Pipeline>> {
        self.pipeline_for(kernel, ElementKind::F32, constants)
    }

    /// [`Gpu::pipeline`] for rows of this element type.
    pub(crate) fn pipeline_for(
        &self,
        kernel: &'static Kernel,
        elements: ElementKind,
        constants: &[u32],
    ) -> Result<Arc<Pipeline>> {
        if constants.len() != kernel.overrides.len() {
            return Err(Error::internal(format!(
                "{} takes {} constants",
                kernel.name,
                kernel.overrides.len()
            )));
        }
        self.pipeline_of(kernel, self.compiler.variant(kernel, elements, constants.to_vec()))
    }

    /// This variant of `kernel`, compiled on first use. The adapter must be able to run it.
    pub(crate) fn pipeline_of(&self, kernel: &'static Kernel, variant: Variant) -> Result<Arc<Pipeline>> {
        self.compiler.get(kernel, variant)
    }

    /// Starts threads that compile these kernels, and returns at once; without threads it does nothing. A search that needs a kernel earlier compiles it or waits for the
    /// thread that does. Vectors have `dim` elements.
    pub(crate) fn compile_ahead(&self, dim: usize, wanted: impl FnOnce() -> Vec<Wanted>) {
        // A software driver compiles on the processor that also runs the kernels, and of a list like this few may be needed.
        if CAN_WAIT && self.adapter.kind != AdapterKind::Software {
            self.ahead.start(&wanted(), WantedForms::Tuned(dim as u32));
        }
    }

    /// Compiles kernels, several at a time, and waits for them. Vectors have `dim` elements.
    pub(crate) async fn compile_all(&self, dim: usize, wanted: &[Wanted]) -> Result<()> {
        self.ahead.finish(wanted, WantedForms::Tuned(dim as u32)).await
    }

    /// Compiles both forms of kernels, so that they can be timed.
    pub(crate) async fn compile_forms(&self, dim: usize, wanted: &[Wanted]) -> Result<()> {
        self.ahead.finish(wanted, WantedForms::All(dim as u32)).await
    }

    /// The forms for one number of elements that trials ran since this was called last.
    pub(crate) fn tried_forms(&self) -> Vec<(&'static Kernel, Variant)> {
        self.compiler.tried()
    }

    /// Whether both forms were timed on such a device.
    pub(crate) fn is_timed(&self, kernel: &Kernel, variant: &Variant) -> bool {
        self.compiler.times(kernel, variant).is_some()
    }

    /// Runs the forms for vectors of this many elements wherever there are such, to test them.
    pub(crate) fn specialise(&self, dimension: u32) {
        self.compiler.choose(FormChoice::Specialised(dimension));
    }

    /// Writes kernels as for hardware, to test that text on a software driver. None may have been compiled before.
    #[cfg(feature = "internals")]
    pub(crate) fn write_for_hardware(&self) {
        self.compiler.write_for(super::unroll::Driver::Hardware);
    }

    /// Keeps the times of forms, and uses the faster ones.
    pub(crate) fn keep_times(&self, times: &[(&'static Kernel, Variant, FormTimes)]) -> Result<()> {
        self.compiler.keep_times(times)
    }

    /// How many variants of kernels were compiled so far.
    pub(crate) fn compiled(&self) -> usize {
        self.compiler.count()
    }

    /// Checks the limits that wgpu does not check for kernels with override constants.
    pub(crate) fn check_limits(&self, kernel: &Kernel) -> Result<()> {
        self.compiler.check_limits(kernel)
    }
}
