//! Widening of f16 to f32: by the processor's own instruction where it has one, else by integer arithmetic that vectorises at every register
//! width.

use half::f16;
use pulp::Arch;

/// Widens values exactly; `wide` is as long as `values`.
pub(crate) fn widen(values: &[f16], wide: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    let (values, wide) = {
        let done = f16c::widen(values, wide);
        (&values[done..], &mut wide[done..])
    };
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (value, wide) in values.iter().zip(wide) {
                *wide = widen_bits(value.to_bits());
            }
        },
    );
}

#[inline(always)]
fn widen_bits(bits: u16) -> f32 {
    /// 2^-14 has this exponent in f32.
    const LEAST: u32 = 113 << 23;
    let bits = u32::from(bits);
    let magnitude = (bits & 0x7fff) << 13;
    let normal = magnitude + (112 << 23);
    // Subnormals: 2^-14 plus the fraction, minus 2^-14, leaves the fraction.
    let small = (f32::from_bits(magnitude | LEAST) - f32::from_bits(LEAST)).to_bits();
    // Infinities and NaN have the largest exponent of either type.
    let large = magnitude | 0x7f80_0000;
    let wide = if magnitude < 1 << 23 { small } else { normal };
    let wide = if magnitude >= 31 << 23 { large } else { wide };
    f32::from_bits(wide | (bits & 0x8000) << 16)
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "a function compiled for instructions that were detected")]
mod f16c {
    use std::arch::x86_64::_mm256_cvtph_ps;

    use half::f16;

    /// Widens whole chunks of eight values where the processor has the instruction; returns how many values it widened.
    pub(super) fn widen(values: &[f16], wide: &mut [f32]) -> usize {
        if !(is_x86_feature_detected!("avx") && is_x86_feature_detected!("f16c")) {
            return 0;
        }
        let (values, _) = values.as_chunks::<8>();
        let (wide, _) = wide.as_chunks_mut::<8>();
        // SAFETY: avx and f16c were detected.
        unsafe { widen_chunks(values, wide) };
        values.len() * 8
    }

    #[target_feature(enable = "avx,f16c")]
    fn widen_chunks(values: &[[f16; 8]], wide: &mut [[f32; 8]]) {
        for (&values, wide) in values.iter().zip(wide) {
            *wide = bytemuck::cast(_mm256_cvtph_ps(bytemuck::cast(values)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_is_widened_exactly() {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let mut scratch = vec![0.0; all.len()];
        widen(&all, &mut scratch);
        for (value, wide) in all.iter().zip(scratch) {
            let want = value.to_f32();
            assert!(want.to_bits() == wide.to_bits() || want.is_nan() && wide.is_nan(), "{value:?}");
        }
    }
}
