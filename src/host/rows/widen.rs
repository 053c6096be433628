//! f16 to f32: by the processor's own instruction where it has one, else by integers, so that every register width does it.

use half::f16;
use pulp::Arch;

use crate::matrix::{Element, ElementKind};

/// A vector in f32; `space` is as long.
pub(crate) fn widened<'a, T: Element>(vector: &'a [T], space: &'a mut [f32]) -> &'a [f32] {
    match T::KIND {
        ElementKind::F32 => bytemuck::cast_slice(vector),
        ElementKind::F16 => {
            widen(bytemuck::cast_slice::<T, f16>(vector), space);
            space
        }
    }
}

fn widen(values: &[f16], space: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    let (values, space) = {
        let done = crate::host::integers::widen(values, space);
        (&values[done..], &mut space[done..])
    };
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (value, wide) in values.iter().zip(space) {
                *wide = wide_of(value.to_bits());
            }
        },
    );
}

#[inline(always)]
fn wide_of(bits: u16) -> f32 {
    /// 2^-14 has this exponent in f32.
    const LEAST: u32 = 113 << 23;
    let bits = u32::from(bits);
    let magnitude = (bits & 0x7fff) << 13;
    let normal = magnitude + (112 << 23);
    // Below the normal numbers: of 2^-14 and the fraction, the fraction.
    let small = (f32::from_bits(magnitude | LEAST) - f32::from_bits(LEAST)).to_bits();
    // Infinities and NaN have the largest exponent of either type.
    let large = magnitude | 0x7f80_0000;
    let wide = if magnitude < 1 << 23 { small } else { normal };
    let wide = if magnitude >= 31 << 23 { large } else { wide };
    f32::from_bits(wide | (bits & 0x8000) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_is_widened_exactly() {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let mut space = vec![0.0; all.len()];
        for (value, wide) in all.iter().zip(widened(&all, &mut space)) {
            let want = value.to_f32();
            assert!(want.to_bits() == wide.to_bits() || want.is_nan() && wide.is_nan(), "{value:?}");
        }
    }
}
