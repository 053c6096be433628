//! The variant of a kernel that a device runs: by what the adapter lists, and by what the self-tests of matrices said.

use std::sync::atomic::Ordering;

use super::compile::Compiler;
use crate::elements::ElementKind;
use crate::gpu::kernel::{Kernel, Variant};

/// Forms of matrices of bytes.
const FORMS: usize = 2;

impl Compiler {
    /// The variant that this device runs, for rows of this element type and these values of the override constants.
    pub(crate) fn variant(&self, kernel: &Kernel, elements: ElementKind, constants: Vec<u32>) -> Variant {
        let capabilities = &self.adapter.capabilities;
        let matrices = capabilities.matrices().filter(|_| kernel.multiplies_matrices);
        let matrix_bytes = self.byte_matrices().filter(|_| kernel.takes_byte_matrices).unwrap_or(0);
        let lanes = matrices.map_or(0, |[_, lanes]| lanes);
        Variant {
            elements: if kernel.row_types.is_empty() { ElementKind::default() } else { elements },
            subgroups: kernel.sums_lanes && self.options.subgroups && capabilities.subgroup_sizes.is_some(),
            matrix_side: matrices.map_or(0, |[side, _]| side),
            matrix_bytes,
            sums_in_registers: matrix_bytes > 0 && lanes == 32 && self.wrong_matrices() == 0,
            registers: match matrices {
                _ if !kernel.fits_registers => 0,
                // A subgroup holds 64 x 64 sums.
                Some([_, lanes]) => 64 * 64 / lanes,
                None => self.adapter.registers(),
            },
            constants,
            dimension: 0,
        }
    }

    /// Elements that matrices of bytes share in a product; none where the device has no such matrices, or its self-test found wrong sums.
    pub(crate) fn byte_matrices(&self) -> Option<u32> {
        self.adapter.capabilities.byte_matrices().filter(|_| self.wrong_matrices() < FORMS)
    }

    /// How many forms of matrices of bytes gave wrong sums.
    pub(crate) fn wrong_matrices(&self) -> usize {
        self.wrong_matrices.load(Ordering::Relaxed)
    }

    /// Moves on to the next form of matrices after a test failed: from sums in registers to sums in workgroup memory, then to matrices of
    /// f16. `wrong` is what [`Compiler::wrong_matrices`] said before the test, so that two searches that test one form leave it once.
    /// Returns false if the test was that of f16.
    pub(crate) fn leave_matrices(&self, wrong: usize) -> bool {
        let is_last = wrong == FORMS || self.adapter.capabilities.byte_matrices().is_none();
        if !is_last {
            let _ =
                self.wrong_matrices.compare_exchange(wrong, wrong + 1, Ordering::Relaxed, Ordering::Relaxed);
        }
        !is_last
    }
}
