//! Which form of a kernel runs, by the times that a tuner found.

use std::sync::atomic::{AtomicBool, Ordering};

use super::compile::Compiler;
use super::forms::{FormChoice, FormTimes};
use crate::elements::ElementKind;
use crate::error::Result;
use crate::gpu::kernel::{Kernel, Variant};
use crate::lock::lock;

/// The name of the times of batches of rows of these elements.
fn batches_of(dim: usize, elements: ElementKind) -> String {
    format!("batches {elements} for {dim}")
}

/// Has batches searched in tiles of floats until it is dropped.
pub(crate) struct TriedFloats<'c>(&'c AtomicBool);

impl Drop for TriedFloats<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Compiler {
    /// Lets recordings choose like this, to test forms.
    pub(crate) fn choose(&self, usual: FormChoice) {
        *lock(&self.usual) = usual;
    }

    /// The other forms than general ones that were run since this was called last.
    pub(crate) fn tried(&self) -> Vec<(&'static Kernel, Variant)> {
        std::mem::take(&mut lock(&self.trial))
    }

    /// The times of a form beside those of the general one, if it was timed.
    pub(crate) fn times(&self, kernel: &Kernel, variant: &Variant) -> Option<FormTimes> {
        self.forms.times(kernel, variant)
    }

    /// The times of a batch with tiles of bytes and, as the other form, with tiles of floats, for vectors of this many elements.
    pub(crate) fn batch_times(&self, dim: usize, elements: ElementKind) -> Option<FormTimes> {
        self.forms.named(&batches_of(dim, elements))
    }

    /// Keeps such times.
    pub(crate) fn keep_batch_times(&self, dim: usize, elements: ElementKind, times: FormTimes) {
        self.forms.keep([(batches_of(dim, elements), times)]);
    }

    /// Whether batches are searched in tiles of floats, though there are bytes.
    pub(crate) fn batches_take_floats(&self, dim: usize, elements: ElementKind) -> bool {
        let takes_floats = || self.batch_times(dim, elements).is_some_and(FormTimes::specialises);
        self.tries_floats.load(Ordering::Relaxed) || takes_floats()
    }

    /// Searches batches in tiles of floats, to time them.
    pub(crate) fn try_floats(&self) -> TriedFloats<'_> {
        self.tries_floats.store(true, Ordering::Relaxed);
        TriedFloats(&self.tries_floats)
    }

    /// Keeps the times of forms, and uses the faster ones, which were compiled to be timed.
    pub(crate) fn keep_times(&self, times: &[(&'static Kernel, Variant, FormTimes)]) -> Result<()> {
        for (kernel, variant, times) in times {
            if times.specialises() {
                self.use_form(kernel, variant.clone(), *times)?;
            }
        }
        self.forms.keep_forms(times);
        Ok(())
    }

    /// Compiles another form than the general one, and uses it from now on.
    pub(super) fn use_form(&self, kernel: &'static Kernel, variant: Variant, times: FormTimes) -> Result<()> {
        self.forms.take(self.get(kernel, variant)?, times);
        Ok(())
    }
}
