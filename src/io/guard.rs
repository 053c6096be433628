//! Rejects npy headers that would crash the parser.
//!
//! npyz parses any Python literal. Deep nesting overflows its stack, and a shape whose product exceeds 64 bits overflows
//! its arithmetic. numpy writes no such headers.

/// The deepest nesting of a valid header: dict, list of fields, field, shape of a field, and one to spare.
const DEEPEST: usize = 5;

/// Checks the text of a header and returns what is wrong with it.
pub(super) fn check_header_text(text: &[u8]) -> Result<(), &'static str> {
    let mut quote = None;
    let mut depth = 0;
    let mut product = 1u64;
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = after;
        match (quote, byte) {
            (_, b'\\') => return Err("a backslash"),
            (Some(open), byte) => {
                if open == byte {
                    quote = None;
                }
            }
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'{') if depth > 0 => return Err("a dict within"),
            (None, b'{' | b'[' | b'(') => {
                depth += 1;
                if depth > DEEPEST {
                    return Err("deep nesting");
                }
            }
            (None, b'}' | b']' | b')') => depth = depth.saturating_sub(1),
            (None, b'0'..=b'9') => {
                let others = after.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
                let (digits, after) = after.split_at(others.unwrap_or(after.len()));
                rest = after;
                let factor = digits.iter().try_fold(u64::from(byte - b'0'), |number, digit| match digit {
                    b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
                    _ => None,
                });
                let factor = factor.ok_or("a number that is not a decimal one below 2^64")?;
                product = product.checked_mul(factor.max(1)).ok_or("a shape of 2^64 elements or more")?;
            }
            (None, b'a'..=b'z' | b'A'..=b'Z' | b',' | b':' | b' ' | b'\n') => {}
            (None, _) => return Err("a character that does not belong in it"),
        }
    }
    Ok(())
}
