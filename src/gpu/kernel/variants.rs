//! The variants of a kernel: what exchanges text, and the values of its override constants.

use super::{Kernel, OF_TEXT, REGISTERS, TILE, WORKGROUP};
use crate::elements::ElementKind;

/// One of a kernel's variants.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Variant {
    /// Element type of the rows, for kernels that load rows.
    pub elements: ElementKind,
    /// Subgroup operations, for kernels that sum lanes.
    pub subgroups: bool,
    /// Rows and columns of the cooperative matrices, 8 or 16, for kernels that multiply them; 0 otherwise.
    pub matrix_side: u32,
    /// Elements that such matrices of bytes share in a product, 16 or 32; 0 for matrices of f16.
    pub matrix_bytes: u32,
    /// Whether invocations find the sums of matrices of bytes in their registers. Otherwise sums pass through workgroup memory.
    pub sums_in_registers: bool,
    /// Registers of an invocation, 128 or 64, for kernels that have forms for both; 0 otherwise.
    pub registers: u32,
    /// Values of all override constants, in the declaration's order.
    pub constants: Vec<u32>,
    /// Elements of a vector, for kernels that are written for one number of them; 0 if the parameters tell.
    pub dimension: u32,
}

/// The form as the files of a tuner name it.
impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            elements,
            subgroups,
            matrix_side,
            matrix_bytes,
            sums_in_registers,
            registers,
            constants,
            dimension,
        } = self;
        write!(f, "{elements:?}")?;
        if *subgroups {
            write!(f, " subgroups")?;
        }
        if *matrix_side > 0 {
            write!(f, " matrices of {matrix_side}")?;
        }
        if *matrix_bytes > 0 {
            write!(f, " x {matrix_bytes} bytes")?;
        }
        if *sums_in_registers {
            write!(f, " sums in registers")?;
        }
        if *registers > 0 {
            write!(f, " {registers} registers")?;
        }
        for constant in constants {
            write!(f, " {constant}")?;
        }
        if *dimension > 0 {
            write!(f, " for {dimension}")?;
        }
        Ok(())
    }
}

impl Kernel {
    /// A variant, and those that do the same with less, each with less than the one before it.
    pub(crate) fn lesser(&self, variant: &Variant) -> Vec<Variant> {
        let mut variants = vec![variant.clone()];
        let mut add = |variant: Variant| {
            if variants.last() != Some(&variant) {
                variants.push(variant)
            }
        };
        let general = Variant { dimension: 0, ..variant.clone() };
        add(general.clone());
        let general = Variant { sums_in_registers: false, ..general };
        add(general.clone());
        let general = Variant { matrix_bytes: 0, ..general };
        add(general.clone());
        let smaller = match self.multiplies_matrices {
            true => general,
            false => Variant { registers: general.registers.min(REGISTERS[1]), ..general },
        };
        add(smaller.clone());
        add(Variant { subgroups: false, ..smaller });
        variants
    }

    /// The form of a general variant for vectors of this many elements, if there is one.
    pub(crate) fn for_dimension(&self, variant: &Variant, dimension: u32) -> Option<Variant> {
        self.has_lengths().then(|| Variant { dimension, ..variant.clone() })
    }

    /// The form of a general variant for another number of registers, if there is one.
    pub(crate) fn for_registers(&self, variant: &Variant, registers: u32) -> Option<Variant> {
        // Those of matrices have as many as subgroups have lanes for.
        let is_other = self.fits_registers && !self.multiplies_matrices && variant.registers != registers;
        is_other.then(|| Variant { registers, ..variant.clone() })
    }

    /// Every variant that takes the lengths of vectors from the parameters: element types, with and without subgroups, and each value
    /// of each override constant, as far as they are of use together.
    pub fn variants(&self) -> Vec<Variant> {
        let elements = if self.row_types.is_empty() { &[ElementKind::F32] } else { self.row_types };
        let sides: &[(u32, u32, bool)] = match (self.multiplies_matrices, self.takes_byte_matrices) {
            (true, true) => &[
                (8, 0, false),
                (16, 0, false),
                (16, 16, false),
                (16, 16, true),
                (16, 32, false),
                (16, 32, true),
            ],
            (true, false) => &[(8, 0, false), (16, 0, false)],
            (false, _) => &[(0, 0, false)],
        };
        let registers: &[u32] = if self.fits_registers { &REGISTERS } else { &[0] };
        // Subgroups of 32 lanes alone hold sums in a known order.
        let is_known = |&(&(_, _, sums_in_registers), &number): &(&(u32, u32, bool), &u32)| {
            !sums_in_registers || number == REGISTERS[0]
        };
        let subgroups: &[bool] = if self.sums_lanes { &[false, true] } else { &[false] };
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
            for &subgroups in subgroups {
                let sides = sides.iter().flat_map(|side| registers.iter().map(move |number| (side, number)));
                for (&(matrix_side, matrix_bytes, sums_in_registers), &registers) in sides.filter(is_known) {
                    variants.extend(constants.iter().map(|constants| Variant {
                        elements,
                        subgroups,
                        matrix_side,
                        matrix_bytes,
                        sums_in_registers,
                        registers,
                        constants: constants.clone(),
                        dimension: 0,
                    }));
                }
            }
        }
        variants.retain(|variant| {
            (self.is_used)(variant.elements, &|name| self.value(variant, name).unwrap_or(0))
        });
        variants
    }

    /// Invocations per workgroup of a variant.
    pub fn invocations(&self, variant: &Variant) -> u32 {
        if self.holds_tile {
            return TILE / variant.registers;
        }
        self.value(variant, WORKGROUP).unwrap_or(self.workgroup_size)
    }

    /// The value of an override constant, if the kernel has it.
    pub(super) fn value(&self, variant: &Variant, constant: &str) -> Option<u32> {
        let mut values = self.overrides.iter().zip(&variant.constants);
        values.find(|((name, _), _)| *name == constant).map(|(_, &value)| value)
    }

    /// Names and values of the override constants of a variant, without those of its text.
    pub fn constants(&self, variant: &Variant) -> Vec<(&'static str, f64)> {
        let names = self.overrides.iter().map(|(name, _)| *name);
        let values = variant.constants.iter().map(|&value| f64::from(value));
        names.zip(values).filter(|(name, _)| !OF_TEXT.contains(name)).collect()
    }
}
