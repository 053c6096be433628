//! The compiled kernels of a GPU.

use std::sync::Arc;

use super::adapter::AdapterKind;
use super::compiler::Wanted;
use super::device::Gpu;
use super::kernel::{Kernel, Variant};
use super::state::Pipeline;
use crate::error::{Error, Result};
use crate::matrix::ElementKind;

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

    /// Starts to compile kernels that will be needed, on threads of their own, and returns at once. What is needed before it is
    /// compiled is compiled or waited for where it is needed.
    pub(crate) fn compile_ahead(&self, wanted: impl FnOnce() -> Vec<Wanted>) {
        // A software driver compiles on the processor that also runs the kernels, and of a list like this few may be needed.
        if self.adapter.kind != AdapterKind::Software {
            self.ahead.start(&wanted());
        }
    }

    /// Compiles kernels, several at a time, and waits for them.
    pub(crate) async fn compile_all(&self, wanted: &[Wanted]) -> Result<()> {
        self.ahead.finish(wanted).await
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
