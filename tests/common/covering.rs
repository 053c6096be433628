//! Which variants of a kernel stand for all of them.

use std::collections::HashSet;

use nearfield::internals::kernels::Variant;

/// Kernels of no more variants have all of them checked.
const ALL_CHECKED: usize = 32;

/// The properties of a variant, each with its place.
fn values(variant: &Variant) -> Vec<(usize, u32)> {
    let Variant {
        elements,
        subgroups,
        matrix_side,
        matrix_bytes,
        sums_in_registers,
        registers,
        constants,
        dimension,
    } = variant;
    let own = [
        *elements as u32,
        u32::from(*subgroups),
        *matrix_side,
        *matrix_bytes,
        u32::from(*sums_in_registers),
        *registers,
        *dimension,
    ];
    own.into_iter().chain(constants.iter().copied()).enumerate().collect()
}

/// Which variants are checked by what takes long. `reduce_rows` and `reduce_blocks` have hundreds, whose constants choose among branches:
/// each pair of two values is in some variant that is checked.
pub(crate) fn covering(variants: &[Variant]) -> Vec<bool> {
    let mut seen = HashSet::new();
    let mut has_new_pair = |variant: &Variant| {
        let values = values(variant);
        let before = seen.len();
        for (number, one) in values.iter().enumerate() {
            seen.extend(values[..number].iter().map(|other| [*one, *other]));
        }
        seen.len() > before
    };
    variants.iter().map(|variant| has_new_pair(variant) || variants.len() <= ALL_CHECKED).collect()
}
