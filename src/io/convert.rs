//! Converts little-endian numbers of files to the types of the library.

use std::fmt::{Display, LowerExp};

use half::{bf16, f16};

use super::element_type::ElementType;

/// A number that the wanted type cannot hold. Those before it were appended.
#[derive(Debug)]
pub(super) struct Misfit {
    pub(super) needed: &'static str,
    pub(super) found: String,
}

/// Appends numbers as f32: floats rounded to the nearest f32, integers exactly.
pub(super) fn to_f32(element: ElementType, bytes: &[u8], values: &mut Vec<f32>) -> Result<(), Misfit> {
    const EXACT: &str = "integers that float32 holds exactly; in numpy, \
                         rows.astype('float32') rounds them to the nearest that it holds";
    match element {
        ElementType::F16 => all(bytes, values, f16::from_le_bytes, f16::to_f32),
        ElementType::BF16 => all(bytes, values, bf16::from_le_bytes, bf16::to_f32),
        ElementType::F32 => all(bytes, values, f32::from_le_bytes, |value| value),
        ElementType::F64 => {
            let needed = "float64 numbers that do not exceed the largest float32";
            let fits = |value: f64| !(value as f32).is_infinite() || value.is_infinite();
            return checked(bytes, values, f64::from_le_bytes, fits, |value| value as f32, needed);
        }
        ElementType::U8 => all(bytes, values, u8::from_le_bytes, f32::from),
        ElementType::I8 => all(bytes, values, i8::from_le_bytes, f32::from),
        ElementType::U16 => all(bytes, values, u16::from_le_bytes, f32::from),
        ElementType::I16 => all(bytes, values, i16::from_le_bytes, f32::from),
        ElementType::U32 => {
            let fits = |value: u32| is_exact(value.into());
            return checked(bytes, values, u32::from_le_bytes, fits, |value| value as f32, EXACT);
        }
        ElementType::I32 => {
            let fits = |value: i32| is_exact(value.unsigned_abs().into());
            return checked(bytes, values, i32::from_le_bytes, fits, |value| value as f32, EXACT);
        }
        ElementType::U64 => {
            return checked(bytes, values, u64::from_le_bytes, is_exact, |value| value as f32, EXACT);
        }
        ElementType::I64 => {
            let fits = |value: i64| is_exact(value.unsigned_abs());
            return checked(bytes, values, i64::from_le_bytes, fits, |value| value as f32, EXACT);
        }
    }
    Ok(())
}

/// Appends numbers as f16, in which they are.
pub(super) fn to_f16(bytes: &[u8], values: &mut Vec<f16>) -> Result<(), Misfit> {
    all(bytes, values, f16::from_le_bytes, |value| value);
    Ok(())
}

/// Appends integers as i64.
pub(super) fn to_i64(element: ElementType, bytes: &[u8], values: &mut Vec<i64>) -> Result<(), Misfit> {
    match element {
        ElementType::U8 => all(bytes, values, u8::from_le_bytes, i64::from),
        ElementType::I8 => all(bytes, values, i8::from_le_bytes, i64::from),
        ElementType::U16 => all(bytes, values, u16::from_le_bytes, i64::from),
        ElementType::I16 => all(bytes, values, i16::from_le_bytes, i64::from),
        ElementType::U32 => all(bytes, values, u32::from_le_bytes, i64::from),
        ElementType::I32 => all(bytes, values, i32::from_le_bytes, i64::from),
        ElementType::I64 => all(bytes, values, i64::from_le_bytes, |value| value),
        ElementType::U64 => {
            let fits = |value: u64| i64::try_from(value).is_ok();
            return checked(bytes, values, u64::from_le_bytes, fits, u64::cast_signed, "ids below 2^63");
        }
        ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64 => {
            return Err(Misfit { needed: "integers", found: element.name().to_owned() });
        }
    }
    Ok(())
}

/// Whether f32 holds an integer of this magnitude: it has 24 digits between the first and the last 1.
fn is_exact(magnitude: u64) -> bool {
    magnitude < 1 << 24 || magnitude >> magnitude.trailing_zeros() < 1 << 24
}

fn all<const N: usize, S, T>(
    bytes: &[u8],
    values: &mut Vec<T>,
    read: impl Fn([u8; N]) -> S,
    convert: impl Fn(S) -> T,
) {
    values.extend(bytes.as_chunks().0.iter().map(|bytes| convert(read(*bytes))));
}

fn checked<const N: usize, S: Display + LowerExp, T>(
    bytes: &[u8],
    values: &mut Vec<T>,
    read: impl Fn([u8; N]) -> S,
    fits: impl Fn(S) -> bool,
    convert: impl Fn(S) -> T,
    needed: &'static str,
) -> Result<(), Misfit> {
    let numbers = bytes.as_chunks().0;
    let misfit = numbers.iter().position(|bytes| !fits(read(*bytes)));
    let fitting = &numbers[..misfit.unwrap_or(numbers.len())];
    values.extend(fitting.iter().map(|bytes| convert(read(*bytes))));
    match misfit {
        Some(misfit) => {
            let number = read(numbers[misfit]);
            let digits = number.to_string();
            // A float may have 300 of them.
            let found = if digits.len() <= 24 { digits } else { format!("{number:e}") };
            Err(Misfit { needed, found })
        }
        None => Ok(()),
    }
}
