//! Converts little-endian numbers of files to the types of the library.

use std::fmt::{Display, LowerExp};

use half::{bf16, f16};

use super::element_type::ElementType;
use crate::elements::{Element, PackedBits};

/// A number that the wanted type cannot hold. Those before it were appended.
#[derive(Debug)]
pub(super) struct Misfit {
    pub(super) needed: &'static str,
    pub(super) found: String,
}

/// Appends numbers as f32: floats rounded to the nearest f32, integers exactly.
pub(super) fn to_f32(element: ElementType, bytes: &[u8], to: &mut Vec<f32>) -> Result<(), Misfit> {
    const EXACT: &str = "integers that float32 holds exactly; in numpy, \
                         rows.astype('float32') rounds them to the nearest that it holds";
    const SMALL: &str = "float64 numbers that do not exceed the largest float32";
    let rounded = |x: f64| Some(x as f32).filter(|value| !value.is_infinite() || x.is_infinite());
    match element {
        ElementType::F16 => append(bytes, to, f16::from_le_bytes, |x| Some(x.to_f32()), SMALL),
        ElementType::BF16 => append(bytes, to, bf16::from_le_bytes, |x| Some(x.to_f32()), SMALL),
        ElementType::F32 => append(bytes, to, f32::from_le_bytes, Some, SMALL),
        ElementType::F64 => append(bytes, to, f64::from_le_bytes, rounded, SMALL),
        ElementType::U8 => append(bytes, to, u8::from_le_bytes, |x| Some(x.into()), EXACT),
        ElementType::I8 => append(bytes, to, i8::from_le_bytes, |x| Some(x.into()), EXACT),
        ElementType::U16 => append(bytes, to, u16::from_le_bytes, |x| Some(x.into()), EXACT),
        ElementType::I16 => append(bytes, to, i16::from_le_bytes, |x| Some(x.into()), EXACT),
        ElementType::U32 => append(bytes, to, u32::from_le_bytes, |x| exact(x.into(), x as f32), EXACT),
        ElementType::I32 => {
            append(bytes, to, i32::from_le_bytes, |x| exact(x.unsigned_abs().into(), x as f32), EXACT)
        }
        ElementType::U64 => append(bytes, to, u64::from_le_bytes, |x| exact(x, x as f32), EXACT),
        ElementType::I64 => {
            append(bytes, to, i64::from_le_bytes, |x| exact(x.unsigned_abs(), x as f32), EXACT)
        }
        ElementType::Bool => Err(Misfit {
            needed: "numbers, or --bits (VectorFile::of_bits), which takes bools for bits",
            found: "bool".to_owned(),
        }),
    }
}

/// Appends numbers of the type in which they are.
pub(super) fn as_is<T: Element>(bytes: &[u8], to: &mut Vec<T>) -> Result<(), Misfit> {
    to.extend(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned::<T>));
    Ok(())
}

/// Appends bytes of eight bools each, the first of which is the highest bit, as numpy's `packbits` does.
pub(super) fn packed(bytes: &[u8], to: &mut Vec<PackedBits>) -> Result<(), Misfit> {
    let byte = |bools: &[u8; 8]| bools.iter().fold(0, |byte, &bool| byte << 1 | u8::from(bool != 0));
    to.extend(bytes.as_chunks().0.iter().map(|bools| PackedBits(byte(bools))));
    Ok(())
}

/// Appends integers as i64.
pub(super) fn to_i64(element: ElementType, bytes: &[u8], to: &mut Vec<i64>) -> Result<(), Misfit> {
    const IDS: &str = "ids below 2^63";
    match element {
        ElementType::U8 => append(bytes, to, u8::from_le_bytes, |x| Some(x.into()), IDS),
        ElementType::I8 => append(bytes, to, i8::from_le_bytes, |x| Some(x.into()), IDS),
        ElementType::U16 => append(bytes, to, u16::from_le_bytes, |x| Some(x.into()), IDS),
        ElementType::I16 => append(bytes, to, i16::from_le_bytes, |x| Some(x.into()), IDS),
        ElementType::U32 => append(bytes, to, u32::from_le_bytes, |x| Some(x.into()), IDS),
        ElementType::I32 => append(bytes, to, i32::from_le_bytes, |x| Some(x.into()), IDS),
        ElementType::U64 => append(bytes, to, u64::from_le_bytes, |x| x.try_into().ok(), IDS),
        ElementType::I64 => append(bytes, to, i64::from_le_bytes, Some, IDS),
        ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64 | ElementType::Bool => {
            Err(Misfit { needed: "integers", found: element.name().to_owned() })
        }
    }
}

/// The value of an integer of this magnitude, if f32 holds it: it has 24 digits between the first and the last 1.
fn exact(magnitude: u64, value: f32) -> Option<f32> {
    let is_exact = magnitude < 1 << 24 || magnitude >> magnitude.trailing_zeros() < 1 << 24;
    is_exact.then_some(value)
}

/// Appends numbers up to the first that is not what is needed.
fn append<const N: usize, S: Display + LowerExp, T: Default>(
    bytes: &[u8],
    values: &mut Vec<T>,
    read: impl Fn([u8; N]) -> S,
    convert: impl Fn(S) -> Option<T>,
    needed: &'static str,
) -> Result<(), Misfit> {
    let numbers = bytes.as_chunks().0;
    // Looked for beforehand: without a misfit, as with most types, the rest is one loop without branches.
    let misfit = numbers.iter().position(|bytes| convert(read(*bytes)).is_none());
    let fitting = &numbers[..misfit.unwrap_or(numbers.len())];
    values.extend(fitting.iter().map(|bytes| convert(read(*bytes)).unwrap_or_default()));
    let Some(misfit) = misfit else { return Ok(()) };
    let number = read(numbers[misfit]);
    let digits = number.to_string();
    // A float may have 300 of them.
    let found = if digits.len() <= 24 { digits } else { format!("{number:e}") };
    Err(Misfit { needed, found })
}
