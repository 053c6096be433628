//! The compiled kernels of a GPU.

use std::sync::Arc;

use super::adapter::AdapterKind;
use super::compiler::{Wanted, WantedForms};
use super::device::Gpu;
use super::kernel::Kernel;
use super::state::Pipeline;
use crate::elements::ElementKind;
use crate::error::{Error, Result};
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
        self.compiler.get(kernel, self.compiler.variant(kernel, elements, constants.to_vec()))
    }

    /// Whether the variant of `kernel` with these values of its override constants is compiled.
    pub(crate) fn has_pipeline(&self, kernel: &'static Kernel, constants: &[u32]) -> bool {
        let variant = self.compiler.variant(kernel, ElementKind::F32, constants.to_vec());
        self.compiler.has(kernel, &variant)
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

    /// Compiles all forms of kernels, with those for this number of registers if there is one, so that they can be timed.
    pub(crate) async fn compile_forms(
        &self,
        dim: usize,
        registers: Option<u32>,
        wanted: &[Wanted],
    ) -> Result<()> {
        self.ahead.finish(wanted, WantedForms::All(dim as u32, registers)).await
    }
}
