//! Unrolls marked `for` loops of a WGSL source before the driver sees it.
//!
//! A kernel that keeps its tile in registers writes to an array such as `acc[i][j]` inside short loops. naga
//! emits those loops as they are, and a driver keeps an array in memory as soon as one index into it is not a
//! constant: the same source measured 219 TFLOP/s unrolled and 35 as written. So the kernels mark such loops:
//!
//! ```wgsl
//! // unroll
//! for (var i = 0u; i < TILE / 4u; i++) { acc[i] = rows[base + i]; }
//! ```
//!
//! and [`unroll`] replaces each by its body in braces, once a turn, with the variable's value in its place:
//! `{ acc[0u] = rows[base + 0u]; }` and so on. The marker is a comment alone on the line before the loop, so
//! the source as written stays valid WGSL of the same meaning. The loop reads `for (var i = A; i < B; i++) {`;
//! also `var i: u32`, `i <= B`, `i += S`. `A`, `B` and `S` are integers under `+ - * / % << >>`, parentheses,
//! module-scope `const`s and the variables of marked loops around it. It has at most 64 turns. All other text
//! stays as it is. A marked loop that cannot be unrolled is an error: the kernel would lose most of its speed.
//!
//! Loops marked `// unroll on hardware` stay loops where a software driver compiles the text. SwiftShader compiled `winnow` for 14.8 s
//! unrolled and for 0.2 s as written, and such kernels also ran up to twice as fast. Only loops that multiply are unrolled everywhere.
//! Mesa unrolls loops of few turns by itself, so their limit becomes `opaque(4u)`, a call of a function that Mesa cannot evaluate:
//! lavapipe compiled `sort_buckets` for 15 s without it, and for 10 s with it.
//!
//! Loops marked `// unroll with many registers` stay loops, with such a limit, in forms for few registers. Intel's compiler moves what all turns
//! of an unrolled loop load to its start: `distance_tile` had 165 registers in use there, and 101 as a loop.
//!
//! Indices become constants, so one past the end of its array no longer compiles, not even behind an `if`.

mod lex;
mod value;

use std::collections::HashMap;
use std::ops::Range;

pub use lex::Driver;
pub(crate) use lex::UnrollError;
pub(crate) use lex::{ON_HARDWARE, WITH_REGISTERS};
use lex::{Token, error_at, in_word, lex};
use value::Value;

/// The most turns of a marked loop.
const MOST_TURNS: usize = 64;

/// Returns `source` with every `for` loop that is marked for this driver replaced by its turns.
pub(crate) fn unroll(source: &str, driver: Driver) -> Result<String, UnrollError> {
    let mut unroller = Unroller { source, tokens: lex(source, driver)?, ..Unroller::default() };
    unroller.find_consts();
    unroller.walk(0, unroller.tokens.len())?;
    Ok(unroller.out)
}

/// A scope: the keyword of its `block` if that matters, `turn` for a turn of an unrolled loop; and the names
/// declared in it so far, the variable of an unrolled loop with its value.
#[derive(Debug)]
struct Scope<'a> {
    block: &'a str,
    names: Vec<(&'a str, Option<Value>)>,
}

/// Copies `tokens` to `out`, unrolling the marked loops. `consts` are the module's integers or why not;
/// `scopes` those around the current token, none at module scope; `declared` the place of the name
/// that the next `;` brings into scope; `opens` the keyword whose block the next `{` opens; `limit` the tokens to hide in `opaque`.
#[derive(Debug, Default)]
struct Unroller<'a> {
    source: &'a str,
    tokens: Vec<Token<'a>>,
    consts: HashMap<&'a str, Result<Value, UnrollError>>,
    scopes: Vec<Scope<'a>>,
    declared: Option<usize>,
    opens: &'a str,
    limit: Range<usize>,
    out: String,
}

impl<'a> Unroller<'a> {
    /// The text of the token at `at`; empty outside the source.
    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    /// An error at the token at `at`.
    fn error(&self, at: usize, message: impl Into<String>) -> UnrollError {
        let tail = self.tokens.get(at).map_or("", |token| token.tail);
        error_at(self.source, self.source.len() - tail.len(), message)
    }

    /// Moves `at` past `want`, a token or an operator of several.
    fn skip(&self, at: &mut usize, want: &str) -> bool {
        let is_operator = !want.starts_with(in_word);
        let tail = self.tokens.get(*at).map_or("", |token| token.tail);
        let found = self.text(*at) == want || is_operator && tail.starts_with(want);
        *at += usize::from(found) * if is_operator { want.len() } else { 1 };
        found
    }

    /// Moves `at` past each of `wants`, which must stand there.
    fn expect(&self, at: &mut usize, wants: &[&str]) -> Result<(), UnrollError> {
        for want in wants {
            if !self.skip(at, want) {
                return Err(self.error(*at, format!("expected `{want}`, found `{}`", self.text(*at))));
            }
        }
        Ok(())
    }

    /// Evaluates the module-scope `const`s, again as long as that finds the value of another.
    fn find_consts(&mut self) {
        let tokens = self.tokens.iter().zip(1..);
        let consts = tokens.filter(|(token, _)| token.depth == 0 && token.text == "const");
        let mut names: Vec<usize> = consts.map(|(_, name)| name).collect();
        let mut before = usize::MAX;
        while names.len() < before {
            before = names.len();
            names.retain(|&name| {
                let value = self.const_value(name);
                self.consts.insert(self.text(name), value.clone());
                value.is_err()
            });
        }
    }

    /// The value of the module-scope `const` whose name stands at `name`.
    fn const_value(&self, name: usize) -> Result<Value, UnrollError> {
        let mut at = name + 1;
        let suffix = self.suffix(&mut at)?;
        self.expect(&mut at, &["="])?;
        let value = self.expression(&mut at, 0)?;
        self.expect(&mut at, &[";"])?;
        value.to(suffix.unwrap_or(value.suffix)).map_err(|message| self.error(name, message))
    }

    /// The suffix of the type that the name before `at` is declared with, if any.
    fn suffix(&self, at: &mut usize) -> Result<Option<&'static str>, UnrollError> {
        if !self.skip(at, ":") {
            return Ok(None);
        }
        if self.skip(at, "i32") { Ok(Some("i")) } else { self.expect(at, &["u32"]).map(|()| Some("u")) }
    }

    /// The innermost declaration of `name` in a function, its value for the variable of an unrolled loop.
    fn local(&self, name: &str) -> Option<Option<Value>> {
        let mut names = self.scopes.iter().rev().flat_map(|scope| scope.names.iter().rev());
        names.find(|(declared, _)| *declared == name).map(|&(_, value)| value)
    }

    /// Declares the name at `at` in the innermost scope.
    fn declare(&mut self, at: usize) {
        let name = self.text(at);
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.push((name, None));
        }
    }

    /// Copies the tokens from `at` to `end`, unrolling the marked loops among them.
    fn walk(&mut self, mut at: usize, end: usize) -> Result<(), UnrollError> {
        while let Some(&Token { space, text, marked, .. }) = self.tokens.get(at).filter(|_| at < end) {
            if at == self.limit.end && !self.limit.is_empty() {
                self.out.push(')');
            }
            self.out.push_str(space);
            if let Some(indent) = marked {
                at = self.marked_loop(at, indent)?;
                continue;
            }
            if text == "for"
                && [ON_HARDWARE, WITH_REGISTERS].iter().any(|marker| space.trim_end().ends_with(marker))
            {
                self.limit = self.limit_of(at);
            } else if at == self.limit.start && !self.limit.is_empty() {
                self.out.push_str("opaque(");
            }
            match self.name(at, text)? {
                Some(value) => self.out.push_str(&value.text()),
                None => self.out.push_str(text),
            }
            at += 1;
        }
        Ok(())
    }

    /// The tokens of the limit in `for (var i = A; i < B; i++)`, whose `for` stands at `start`.
    fn limit_of(&self, start: usize) -> Range<usize> {
        let mut ends = (start..self.tokens.len()).filter(|&at| self.text(at) == ";");
        ends.next().zip(ends.next()).map_or(0..0, |(before, end)| before + 3..end)
    }

    /// Follows what the token at `at` means for the scopes; its value where it stands for one.
    fn name(&mut self, at: usize, text: &'a str) -> Result<Option<Value>, UnrollError> {
        let is_member = text.starts_with(in_word) && matches!(self.text(at.wrapping_sub(1)), "." | "@");
        if is_member || self.declared == Some(at) {
            return Ok(None);
        }
        match text {
            "{" => self.scopes.push(Scope { block: std::mem::take(&mut self.opens), names: Vec::new() }),
            "}" => {
                self.scopes.pop();
                self.scopes.pop_if(|outer| matches!(outer.block, "fn" | "for"));
            }
            ";" => self.declared.take().into_iter().for_each(|name| self.declare(name)),
            "fn" | "for" => self.scopes.push(Scope { block: text, names: Vec::new() }),
            "loop" | "while" | "switch" => self.opens = text,
            // A `var<function>` has three more tokens before its name.
            "let" | "var" | "const" if !self.scopes.is_empty() => {
                self.declared = Some(at + if self.text(at + 1) == "<" { 4 } else { 1 });
            }
            "break" | "continue" => {
                let owners = &["switch", "for", "loop", "while", "turn"][usize::from(text == "continue")..];
                let owner = self.scopes.iter().rev().find(|scope| owners.contains(&scope.block));
                if owner.is_some_and(|scope| scope.block == "turn") {
                    return Err(self.error(at, format!("`{text}` of a loop that is to be unrolled")));
                }
            }
            _ if self.text(at + 1) == ":" && self.scopes.last().is_some_and(|scope| scope.block == "fn") => {
                self.declare(at);
            }
            _ => {
                let value = self.local(text).flatten();
                if value.is_some() && self.is_written(at) {
                    return Err(self.error(at, format!("`{text}` of an unrolled loop is written to")));
                }
                return Ok(value);
            }
        }
        Ok(None)
    }

    /// Whether the variable at `at`, in parentheses or not, is assigned to or has its address taken.
    fn is_written(&self, at: usize) -> bool {
        let (mut before, mut after) = (at.wrapping_sub(1), at + 1);
        while self.text(before) == "(" && self.text(after) == ")" {
            (before, after) = (before.wrapping_sub(1), after + 1);
        }
        let assigned = match self.tokens.get(after).map_or(&[][..], |token| token.tail.as_bytes()) {
            [b'=', next, ..] => *next != b'=',
            [b'+' | b'-' | b'*' | b'/' | b'%' | b'&' | b'|' | b'^', b'=', ..] => true,
            [b'+', b'+', ..] | [b'-', b'-', ..] | [b'<', b'<', b'=', ..] | [b'>', b'>', b'=', ..] => true,
            _ => false,
        };
        // An `&` after an operand is the binary one.
        let left = self.text(before.wrapping_sub(1));
        let is_binary = left != "return" && left.ends_with(|c| in_word(c) || matches!(c, ')' | ']' | '&'));
        assigned || self.text(before) == "&" && !is_binary
    }

    /// Unrolls the loop whose `for` stands at `start`; the first token after the loop.
    fn marked_loop(&mut self, start: usize, indent: &str) -> Result<usize, UnrollError> {
        let (name, turns, open) = self.turns(start)?;
        let depth = self.tokens.get(open).map_or(0, |token| token.depth + 1);
        let mut rest = self.tokens.iter().enumerate().skip(open);
        let close = rest.find(|(_, token)| token.text == "}" && token.depth == depth).map(|(at, _)| at);
        let close = close.ok_or_else(|| self.error(open, "this `{` has no `}`"))?;
        for (turn, &value) in turns.iter().enumerate() {
            if turn > 0 {
                self.out.extend(["\n", indent]);
            }
            self.out.push('{');
            self.scopes.push(Scope { block: "turn", names: vec![(name, Some(value))] });
            self.walk(open + 1, close + 1)?;
            if self.out.len() > 8 << 20 {
                return Err(self.error(start, "the unrolled text is past 8 MiB"));
            }
        }
        Ok(close + 1)
    }

    /// Reads the header of the `for` at `start`: its variable, its value each turn, the place of its `{`.
    fn turns(&mut self, start: usize) -> Result<(&'a str, Vec<Value>, usize), UnrollError> {
        let mut at = start + 1;
        self.expect(&mut at, &["(", "var"])?;
        let name = self.text(at);
        at += 1;
        let suffix = self.suffix(&mut at)?;
        self.expect(&mut at, &["="])?;
        let first = self.expression(&mut at, 0)?;
        // From here on the name is this loop's own variable, whatever it was outside.
        self.scopes.push(Scope { block: "", names: vec![(name, None)] });
        self.expect(&mut at, &[";", name])?;
        let inclusive = self.skip(&mut at, "<=");
        self.expect(&mut at, if inclusive { &[] } else { &["<"] })?;
        let limit = self.expression(&mut at, 0)?;
        self.expect(&mut at, &[";", name])?;
        let mut step = Value { value: 1, suffix: "" };
        if !self.skip(&mut at, "++") {
            self.expect(&mut at, &["+="])?;
            step = self.expression(&mut at, 0)?;
        }
        self.expect(&mut at, &[")", "{"])?;
        self.scopes.pop();
        let suffix = suffix.unwrap_or(if first.suffix.is_empty() { "i" } else { first.suffix });
        let fail = |message| self.error(start, message);
        let to = |value: Value| value.to(suffix).map_err(fail);
        let (mut value, limit, step) = (to(first)?, to(limit)?.value, to(step)?.value);
        let mut turns = Vec::new();
        while value.value < limit || inclusive && value.value == limit {
            if turns.len() == MOST_TURNS || step <= 0 {
                return Err(fail(format!("a marked loop of more than {MOST_TURNS} turns")));
            }
            turns.push(value);
            value = Value::new(value.value + step, suffix).map_err(fail)?;
        }
        Ok((name, turns, at - 1))
    }

    /// Evaluates the expression at `at`, of operators that bind at `level` or tighter; moves `at` on.
    fn expression(&self, at: &mut usize, level: usize) -> Result<Value, UnrollError> {
        let mut left = self.operand(at)?;
        loop {
            let (place, op) = (*at, self.text(*at));
            let binds = match op {
                "<" | ">" if level == 0 && self.text(place + 1) == op => 0,
                "+" | "-" if level <= 1 => 1,
                "*" | "/" | "%" if level <= 2 => 2,
                _ => return Ok(left),
            };
            *at += if binds == 0 { 2 } else { 1 };
            let right = self.expression(at, binds + 1)?;
            left = left.apply(op, right).map_err(|message| self.error(place, message))?;
        }
    }

    /// Evaluates the one operand at `at` and moves `at` past it.
    fn operand(&self, at: &mut usize) -> Result<Value, UnrollError> {
        let (place, text) = (*at, self.text(*at));
        *at += 1;
        let value = match text {
            "(" => return self.expression(at, 0).and_then(|value| self.expect(at, &[")"]).map(|()| value)),
            "-" if self.text(*at) != "-" => match self.operand(at)? {
                Value { suffix: "u", .. } => Err("`-` of a u32".into()),
                Value { value, suffix } => Value::new(-value, suffix),
            },
            _ if text.starts_with(|c: char| c.is_ascii_digit()) => Value::literal(text),
            _ => match (self.local(text), self.consts.get(text)) {
                (Some(Some(value)), _) | (None, Some(&Ok(value))) => Ok(value),
                (None, Some(Err(error))) => Err(format!("`{text}` is no constant integer: {error}")),
                _ => Err(format!("`{text}` is no `const` of the module, nor a marked loop's variable")),
            },
        };
        value.map_err(|message| self.error(place, message))
    }
}

#[cfg(test)]
mod tests;
