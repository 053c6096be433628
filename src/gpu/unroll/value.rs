//! The values of constant expressions.

use std::collections::HashMap;

/// The expressions of a text's constants, by their names.
pub(super) type Consts<'a> = HashMap<&'a str, &'a str>;

/// The constants of a text's module, each on a line of its own. Their names begin in upper case, those in functions do not.
pub(super) fn consts_of(text: &str) -> Consts<'_> {
    let consts = text.lines().filter_map(|line| {
        let (name, value) = line.trim_start().strip_prefix("const ")?.split_once(';')?.0.split_once('=')?;
        Some((name.trim(), value))
    });
    consts.filter(|(name, _)| name.starts_with(|c: char| c.is_ascii_uppercase())).collect()
}

/// The value of an expression of `u32`, constants, `+ - * / %` and parentheses, or why it has none.
pub(super) fn value_of(expression: &str, consts: &Consts<'_>) -> Result<u32, String> {
    let mut reader = Reader { rest: expression, consts };
    let value = reader.value(0);
    match value.filter(|_| reader.rest.trim().is_empty()) {
        Some(value) => Ok(value),
        None => Err(format!("`{}` is no constant `u32`", expression.trim())),
    }
}

/// Whether `c` can be part of a name or a number. Those of kernels are ASCII.
pub(super) fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The operators that bind alike, the weakest first.
const OPERATORS: [&str; 2] = ["+-", "*/%"];

struct Reader<'a> {
    rest: &'a str,
    consts: &'a Consts<'a>,
}

impl Reader<'_> {
    /// Moves past one of these characters.
    fn take(&mut self, which: &str) -> Option<char> {
        let found = self.rest.trim_start().chars().next().filter(|c| which.contains(*c))?;
        self.rest = &self.rest.trim_start()[1..];
        Some(found)
    }

    /// The value of what comes next, of operators from this level on.
    fn value(&mut self, level: usize) -> Option<u32> {
        let Some(operators) = OPERATORS.get(level) else { return self.operand() };
        let mut left = self.value(level + 1)?;
        while let Some(operator) = self.take(operators) {
            let right = self.value(level + 1)?;
            left = match operator {
                '+' => left.checked_add(right),
                '-' => left.checked_sub(right),
                '*' => left.checked_mul(right),
                '/' => left.checked_div(right),
                _ => left.checked_rem(right),
            }?;
        }
        Some(left)
    }

    fn operand(&mut self) -> Option<u32> {
        if self.take("(").is_some() {
            let value = self.value(0)?;
            return self.take(")").map(|_| value);
        }
        let rest = self.rest.trim_start();
        let (word, rest) = rest.split_at(rest.find(|c| !in_word(c)).unwrap_or(rest.len()));
        self.rest = rest;
        match word.strip_suffix('u').and_then(|digits| digits.parse().ok()) {
            Some(value) => Some(value),
            None => value_of(self.consts.get(word)?, self.consts).ok(),
        }
    }
}
