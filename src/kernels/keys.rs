//! Keys: `u32` values that order as the `f32` values they stand for.

use crate::gpu::{Snippet, wgsl};

/// The key of nothing: behind every number, and never part of a result.
pub const ABSENT: u32 = u32::MAX;

/// The key of the largest finite number.
pub(crate) const LARGEST_KEY: u32 = key_of(f32::MAX);

/// `key_of` and `value_of` in WGSL.
pub(crate) const KEYS: Snippet = wgsl!("lib/keys", ABSENT, LARGEST_KEY);

/// The order-preserving key of a distance; [`ABSENT`] for a NaN. -0 has the key of +0.
pub const fn key_of(value: f32) -> u32 {
    let bits = value.to_bits();
    if value.is_nan() {
        ABSENT
    } else if value == 0.0 {
        1 << 31
    } else if value < 0.0 {
        !bits
    } else {
        bits | 1 << 31
    }
}

/// The distance of a key.
pub const fn value_of(key: u32) -> f32 {
    f32::from_bits(if key >> 31 == 1 { key & !(1 << 31) } else { !key })
}

#[cfg(test)]
mod tests {
    use super::{ABSENT, key_of, value_of};

    #[test]
    fn keys_keep_the_order_of_numbers() {
        let values =
            [f32::NEG_INFINITY, f32::MIN, -1.5, -1e-40, 0.0, 1e-40, 1e-3, 1.0, f32::MAX, f32::INFINITY];
        for pair in values.windows(2) {
            assert!(key_of(pair[0]) < key_of(pair[1]), "{pair:?}");
        }
        for value in values {
            assert_eq!(value_of(key_of(value)).to_bits(), value.to_bits());
        }
        assert_eq!(key_of(-0.0), key_of(0.0));
        assert_eq!(key_of(f32::NAN), ABSENT);
        assert_eq!(key_of(-f32::NAN), ABSENT);
        assert!(key_of(f32::INFINITY) < ABSENT);
    }
}
