//! Kernel declarations, and the WGSL text of their variants.

use super::unroll::unroll;
use crate::error::{Error, Result};
use crate::matrix::ElementKind;

/// Declares a kernel's parameters once: the Rust struct, and its WGSL text as `Params::WGSL`.
///
/// Fields are `u32` or `f32`, so the layouts agree without padding; a test compares the sizes.
macro_rules! params {
    ($(#[$meta:meta])* pub struct Params { $($(#[$field_meta:meta])* $field:ident: $kind:ident,)* }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
        pub struct Params { $($(#[$field_meta])* pub $field: $kind,)* }

        impl Params {
            /// The same struct in WGSL, bound as `params`.
            pub const WGSL: &str = concat!(
                "struct Params {", $(stringify!($field), ": ", stringify!($kind), ", ",)* "}\n",
                "@group(0) @binding(0) var<uniform> params: Params;\n",
            );
        }
    };
}
pub(crate) use params;

/// What a kernel does with a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Reads and writes it.
    Write,
}

/// A kernel as it is declared beside its WGSL file. Binding 0 is `params`, the buffers follow in order.
#[derive(Debug)]
pub struct Kernel {
    /// Entry point, and name of the WGSL file.
    pub name: &'static str,
    /// WGSL text: the snippets of `wgsl/lib` that it uses, and its own file.
    pub source: &'static [&'static str],
    /// `Params::WGSL`.
    pub params: &'static str,
    /// Bytes of `Params`.
    pub params_bytes: usize,
    /// Names and use of the storage buffers, from binding 1 on.
    pub buffers: &'static [(&'static str, Access)],
    /// Override constants, and the values that they take.
    pub overrides: &'static [(&'static str, &'static [u32])],
    /// Whether rows are loaded, so that there is a form for each element type (`Row`, `widen`).
    pub loads_rows: bool,
    /// Whether lanes are summed, so that there is a form with subgroups and one without (`Lanes`, `lanes_sum`).
    pub sums_lanes: bool,
    /// Whether f32 are added atomically, so that there is a form with native atomics and one that exchanges bits
    /// (`Total`, `add_to_total`).
    pub adds_floats: bool,
    /// Whether cooperative matrices are multiplied, so that there is a form for each of their sizes (`Left`, `Right`, `Sum`).
    /// Adapters without them cannot run the kernel.
    pub multiplies_matrices: bool,
    /// Invocations a workgroup, unless [`WORKGROUP`] is one of the override constants.
    pub workgroup_size: u32,
    /// Bytes of workgroup memory of the largest form.
    pub workgroup_bytes: u32,
}

/// The override constant that sets the invocations a workgroup, in kernels that have it.
pub const WORKGROUP: &str = "WORKGROUP";

/// Which form of a kernel is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Variant {
    /// Element type of the rows, for kernels that load rows.
    pub elements: ElementKind,
    /// Subgroup operations, for kernels that sum lanes.
    pub subgroups: bool,
    /// Native atomic addition of f32, for kernels that add them.
    pub float_atomics: bool,
    /// Rows and columns of the cooperative matrices, 8 or 16, for kernels that multiply them; 0 otherwise.
    pub matrix_side: u32,
    /// Values of all override constants, in the declaration's order.
    pub constants: Vec<u32>,
}

impl Kernel {
    /// Every form: element types, with and without subgroups, and each value of each override constant.
    pub fn variants(&self) -> Vec<Variant> {
        let elements: &[ElementKind] =
            if self.loads_rows { &[ElementKind::F32, ElementKind::F16] } else { &[ElementKind::F32] };
        let sides: &[u32] = if self.multiplies_matrices { &[8, 16] } else { &[0] };
        let either = |has_forms: bool| if has_forms { &[false, true][..] } else { &[false][..] };
        let mut constants = vec![vec![]];
        for (_, values) in self.overrides {
            constants = constants
                .iter()
                .flat_map(|start: &Vec<u32>| {
                    values.iter().map(move |value| start.iter().copied().chain([*value]).collect())
                })
                .collect();
        }
        let mut variants = vec![];
        for &elements in elements {
            for &subgroups in either(self.sums_lanes) {
                for &float_atomics in either(self.adds_floats) {
                    for &matrix_side in sides {
                        variants.extend(constants.iter().map(|constants| Variant {
                            elements,
                            subgroups,
                            float_atomics,
                            matrix_side,
                            constants: constants.clone(),
                        }));
                    }
                }
            }
        }
        variants
    }

    /// The WGSL text of a form, unrolled.
    ///
    /// # Errors
    /// When a loop marked `// unroll` cannot be unrolled: a fault of the kernel's file.
    pub fn wgsl(&self, variant: &Variant) -> Result<String> {
        let mut text = String::new();
        if self.multiplies_matrices {
            text.push_str("enable f16;\nenable wgpu_cooperative_matrix;\n");
            text.push_str(match variant.matrix_side {
                8 => wgsl!("lib/matrices_8"),
                _ => wgsl!("lib/matrices_16"),
            });
        }
        text.push_str(self.params);
        if self.loads_rows {
            text.push_str(match variant.elements {
                ElementKind::F32 => wgsl!("lib/rows_f32"),
                ElementKind::F16 => wgsl!("lib/rows_f16"),
            });
        }
        if self.sums_lanes {
            text.push_str(if variant.subgroups {
                wgsl!("lib/lanes_subgroup")
            } else {
                wgsl!("lib/lanes_workgroup")
            });
        }
        if self.adds_floats {
            text.push_str(if variant.float_atomics {
                wgsl!("lib/total_native")
            } else {
                wgsl!("lib/total_exchange")
            });
        }
        for part in self.source {
            text.push_str(part);
        }
        unroll(&text).map_err(|fault| Error::Device { message: format!("kernel {}: {fault}", self.name) })
    }

    /// Invocations a workgroup of a form.
    pub fn invocations(&self, variant: &Variant) -> u32 {
        let mut sizes = self.overrides.iter().zip(&variant.constants);
        sizes.find(|((name, _), _)| *name == WORKGROUP).map_or(self.workgroup_size, |(_, &size)| size)
    }

    /// Names and values of the override constants of a form.
    pub fn constants(&self, variant: &Variant) -> Vec<(&'static str, f64)> {
        let names = self.overrides.iter().map(|(name, _)| *name);
        names.zip(variant.constants.iter().map(|&value| f64::from(value))).collect()
    }
}
