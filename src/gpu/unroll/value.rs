//! Constant integers of WGSL, and arithmetic on them.

/// A constant integer: `suffix` is `u`, `i`, or nothing for one that is not yet of either type. Always in its
/// type's range, so that no arithmetic on two of them overflows an `i128`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    pub(super) value: i128,
    pub(super) suffix: &'static str,
}

impl Value {
    /// `value` with `suffix`; an error if it is out of range.
    pub(super) fn new(value: i128, suffix: &'static str) -> Result<Self, String> {
        let (low, high) = match suffix {
            "u" => (0, u32::MAX.into()),
            "i" => (i32::MIN.into(), i32::MAX.into()),
            _ => (i64::MIN.into(), i64::MAX.into()),
        };
        let fits = (low..=high).contains(&value);
        if fits { Ok(Self { value, suffix }) } else { Err(format!("`{value}{suffix}` overflows")) }
    }

    /// This value with `suffix`, which only one without a suffix can be given.
    pub(super) fn to(self, suffix: &'static str) -> Result<Self, String> {
        let converts = self.suffix == suffix || self.suffix.is_empty();
        if converts { Self::new(self.value, suffix) } else { Err("a u32 and an i32 meet here".into()) }
    }

    /// Reads a literal.
    pub(super) fn literal(text: &str) -> Result<Self, String> {
        let suffix = ["u", "i"].into_iter().find(|suffix| text.ends_with(suffix)).unwrap_or_default();
        let digits = &text[..text.len() - suffix.len()];
        let parsed = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
            Some(digits) => i128::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        Self::new(parsed.map_err(|_| format!("`{text}` is not an integer"))?, suffix)
    }

    /// The literal, as one operand of whatever surrounds it.
    pub(super) fn text(self) -> String {
        let Self { value, suffix } = self;
        match i32::try_from(value) {
            Ok(i32::MIN) => format!("({}i - 1i)", value + 1),
            Ok(..0) => format!("({value}{suffix})"),
            _ => format!("{value}{suffix}"),
        }
    }

    /// `self op right`, where `op` is the first character of the operator.
    pub(super) fn apply(self, op: &str, right: Self) -> Result<Self, String> {
        let is_shift = matches!(op, "<" | ">");
        let suffix = if is_shift || !self.suffix.is_empty() { self.suffix } else { right.suffix };
        let (a, b) = (self.to(suffix)?.value, right.to(if is_shift { "u" } else { suffix })?.value);
        let result = match op {
            "<" | ">" if b >= if suffix.is_empty() { 64 } else { 32 } => None,
            "<" => Some(a << b),
            ">" => Some(a >> b),
            "+" => Some(a + b),
            "-" => Some(a - b),
            "*" => Some(a * b),
            "/" => a.checked_div(b),
            _ => a.checked_rem(b),
        };
        Self::new(result.ok_or("a division by zero, or a shift by too many bits")?, suffix)
    }
}
