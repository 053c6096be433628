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
//! module-scope `const`s and the variables of marked loops around it; at most 64 turns. All else stays as it
//! is. What is marked but cannot be unrolled is an error: silence would cost the kernel most of its speed.
//!
//! The values being constants now, an index past its array no longer compiles, not even behind an `if`.

use std::collections::HashMap;

/// The most turns a marked loop may have, and the deepest nesting of brackets.
const MAX: usize = 64;

/// Why a source could not be unrolled: what is wrong on which line of it, counted from 1.
#[derive(Debug, Clone, thiserror::Error)]
#[error("line {line}: {message}")]
pub(crate) struct UnrollError {
    line: usize,
    message: String,
}

/// An error at the byte `at` of `source`.
fn error_at(source: &str, at: usize, message: impl Into<String>) -> UnrollError {
    UnrollError { line: 1 + line_breaks(&source[..at]), message: message.into() }
}

/// Returns `source` with every `for` loop marked `// unroll` replaced by its turns.
pub(crate) fn unroll(source: &str) -> Result<String, UnrollError> {
    let mut unroller = Unroller { source, tokens: lex(source)?, ..Unroller::default() };
    unroller.find_consts();
    unroller.walk(0, unroller.tokens.len())?;
    Ok(unroller.out)
}

/// A name, a number's digits or one character of punctuation: `text`. `tail` is the source from it on, `space`
/// the whitespace and comments before it; at a marked `for`, only those before the marker, and `marked` the
/// indentation of the `for`. `depth` counts the brackets around it.
#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    space: &'a str,
    text: &'a str,
    tail: &'a str,
    marked: Option<&'a str>,
    depth: usize,
}

/// Whether WGSL ends a line at `c`.
fn breaks_line(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// How many lines end in `text`.
fn line_breaks(text: &str) -> usize {
    text.matches(breaks_line).count() - text.matches("\r\n").count()
}

/// Whether `c` can be part of a name or a number.
fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Splits `source` into tokens; the last is empty, for the space at the end.
fn lex(source: &str) -> Result<Vec<Token<'_>>, UnrollError> {
    let (mut tokens, mut at, mut space_at, mut marker, mut depth) = (Vec::new(), 0, 0, None, 0);
    loop {
        let tail = &source[at..];
        let (is_space, end) = match tail.chars().next() {
            _ if tail.starts_with("//") => (true, tail.find(breaks_line)),
            _ if tail.starts_with("/*") => (true, block_comment(tail)),
            Some(c) if c.is_whitespace() => (true, tail.find(|c: char| !c.is_whitespace())),
            Some(c) if in_word(c) => (false, tail.find(|c| !in_word(c))),
            first => (false, first.map(char::len_utf8)),
        };
        let text = &tail[..end.unwrap_or(tail.len())];
        let mut token = Token { space: &source[space_at..at], text, tail, marked: None, depth };
        let is_marker = text.trim() == "// unroll";
        if let Some(start) = marker.filter(|_| is_marker || !is_space) {
            token.space = &source[space_at..start];
            let gap = source[start..at].trim_start_matches(|c| !breaks_line(c));
            let blank = token.space.trim_end_matches(|c: char| c.is_whitespace() && !breaks_line(c));
            let alone = blank.ends_with(breaks_line) || blank.is_empty() && space_at == 0;
            if !alone || text != "for" || !gap.trim().is_empty() || line_breaks(gap) != 1 {
                let message = "`// unroll` must stand alone on the line before the `for` loop that it marks";
                return Err(error_at(source, start, message));
            }
            token.marked = Some(gap.trim_start_matches(breaks_line));
        }
        match text {
            "(" | "{" if depth < MAX => depth += 1,
            "(" | "{" => return Err(error_at(source, at, "nested too deep")),
            ")" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        marker = if is_marker { Some(at) } else { marker.filter(|_| is_space) };
        at += text.len();
        if !is_space {
            space_at = at;
            tokens.push(token);
        }
        if text.is_empty() {
            return Ok(tokens);
        }
    }
}

/// The length of the block comment, others nested in it, that `text` starts with; `None` if it does not end.
fn block_comment(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (1, 2);
    while depth > 0 {
        let close = text[at..].find("*/")?;
        let open = text[at..].find("/*").unwrap_or(text.len());
        (depth, at) = if open < close { (depth + 1, at + open + 2) } else { (depth - 1, at + close + 2) };
    }
    Some(at)
}

/// A constant integer: `suffix` is `u`, `i`, or nothing for one that is not yet of either type. Always in its
/// type's range, so that no arithmetic on two of them overflows an `i128`.
#[derive(Debug, Clone, Copy)]
struct Value {
    value: i128,
    suffix: &'static str,
}

impl Value {
    /// `value` with `suffix`; an error if it is out of range.
    fn new(value: i128, suffix: &'static str) -> Result<Self, String> {
        let (low, high) = match suffix {
            "u" => (0, u32::MAX.into()),
            "i" => (i32::MIN.into(), i32::MAX.into()),
            _ => (i64::MIN.into(), i64::MAX.into()),
        };
        let fits = (low..=high).contains(&value);
        if fits { Ok(Self { value, suffix }) } else { Err(format!("`{value}{suffix}` overflows")) }
    }

    /// This value with `suffix`, which only one without a suffix can be given.
    fn to(self, suffix: &'static str) -> Result<Self, String> {
        let converts = self.suffix == suffix || self.suffix.is_empty();
        if converts { Self::new(self.value, suffix) } else { Err("a u32 and an i32 meet here".into()) }
    }

    /// Reads a literal.
    fn literal(text: &str) -> Result<Self, String> {
        let suffix = ["u", "i"].into_iter().find(|suffix| text.ends_with(suffix)).unwrap_or_default();
        let digits = &text[..text.len() - suffix.len()];
        let parsed = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
            Some(digits) => i128::from_str_radix(digits, 16),
            None => digits.parse(),
        };
        Self::new(parsed.map_err(|_| format!("`{text}` is not an integer"))?, suffix)
    }

    /// The literal, as one operand of whatever surrounds it.
    fn text(self) -> String {
        let Self { value, suffix } = self;
        match i32::try_from(value) {
            Ok(i32::MIN) => format!("({}i - 1i)", value + 1),
            Ok(..0) => format!("({value}{suffix})"),
            _ => format!("{value}{suffix}"),
        }
    }

    /// `self op right`, where `op` is the first character of the operator.
    fn apply(self, op: &str, right: Self) -> Result<Self, String> {
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

/// A scope: the keyword of its `block` if that matters, `turn` for a turn of an unrolled loop; and the names
/// declared in it so far, the variable of an unrolled loop with its value.
#[derive(Debug)]
struct Scope<'a> {
    block: &'a str,
    names: Vec<(&'a str, Option<Value>)>,
}

/// Copies `tokens` to `out`, unrolling the marked loops. `consts` are the module's integers or why not;
/// `scopes` those around the current token, none at module scope; `declared` the place of the name
/// that the next `;` brings into scope; `opens` the keyword whose block the next `{` opens.
#[derive(Debug, Default)]
struct Unroller<'a> {
    source: &'a str,
    tokens: Vec<Token<'a>>,
    consts: HashMap<&'a str, Result<Value, UnrollError>>,
    scopes: Vec<Scope<'a>>,
    declared: Option<usize>,
    opens: &'a str,
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
            self.out.push_str(space);
            if let Some(indent) = marked {
                at = self.marked_loop(at, indent)?;
                continue;
            }
            match self.name(at, text)? {
                Some(value) => self.out.push_str(&value.text()),
                None => self.out.push_str(text),
            }
            at += 1;
        }
        Ok(())
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
            if turns.len() == MAX || step <= 0 {
                return Err(fail(format!("a marked loop of more than {MAX} turns")));
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
mod tests {
    use super::unroll;

    /// What `body`, in a function after some constants, unrolls to, without line breaks and indentation.
    fn unrolled(body: &str) -> String {
        let head = "const M = N / 2u; const N: u32 = 4u; override O: u32; const F = 1.5;\nfn f(p: u32) {\n";
        let text = unroll(&format!("{head}{body}\n}}")).unwrap_or_else(|e| e.to_string());
        let text = text.strip_prefix(head).and_then(|text| text.strip_suffix("\n}")).unwrap_or(&text);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// What `body` unrolls to in a marked loop of one turn, whose variable `x` is `7u`.
    fn turn(body: &str) -> String {
        unrolled(&format!("// unroll\nfor (var x = 7u; x < 8; x++) {{ {body} }}"))
    }

    /// Panics unless naga takes `source`.
    fn validate(source: &str) {
        use naga::valid::{Capabilities, ValidationFlags, Validator};
        let module = naga::front::wgsl::parse_str(source).expect(source);
        Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).expect(source);
    }

    #[test]
    fn literals_keep_the_type_of_the_variable() {
        for (header, expected) in [
            ("var i = 0u; i < 2; i++", "{ a(0u); } { a(1u); }"),
            ("var i: u32 = 1; i <= 0x2; i++", "{ a(1u); } { a(2u); }"),
            ("var i = -1; i < 2; i += 1 + 1", "{ a((-1i)); } { a(1i); }"),
            ("var i = 3i; i < (1 << 3u) - 1 - 9 % 5 * 9 / 12; i++", "{ a(3i); }"),
            ("var i = M; i < N; i++", "{ a(2u); } { a(3u); }"),
            ("var i = -2147483648; i < -2147483647; i++", "{ a((-2147483647i - 1i)); }"),
            ("var i = N; i < N; i++", ""),
        ] {
            assert_eq!(unrolled(&format!("// unroll\nfor ({header}) {{ a(i); }}")), expected);
        }
    }

    #[test]
    fn inner_bounds_follow_the_outer_variable() {
        let inner = "  // unroll \r\n  for (var j = i; j <= i * 2u; j++) { a[i][j]; }";
        let expected = "{ { a[1u][1u]; } { a[1u][2u]; } } { { a[2u][2u]; } { a[2u][3u]; } { a[2u][4u]; } }";
        assert_eq!(unrolled(&format!("// unroll\nfor (var i = 1u; i < 3u; i++) {{\n{inner}\n}}")), expected);
    }

    #[test]
    fn only_the_variable_itself_is_replaced() {
        for (body, expected) in [
            ("v.x = xx + 1.*x; @x y /* x */ = v . x;", "{ v.x = xx + 1.*7u; @x y /* x */ = v . x; }"),
            ("if (b < 1.) { let x = x; a(x); } a(x);", "{ if (b < 1.) { let x = 7u; a(x); } a(7u); }"),
            ("a(x); var<function> x: u32 = x; x++;", "{ a(7u); var<function> x: u32 = 7u; x++; }"),
            ("for (var x = x; x < 9; x++) {x;} a(x);", "{ for (var x = 7u; x < 9; x++) {x;} a(7u); }"),
            ("c = x == d && (x) <= e & x - -x;", "{ c = 7u == d && (7u) <= e & 7u - -7u; }"),
            ("switch x {default:{break;}} loop {break;}", "{ switch 7u {default:{break;}} loop {break;} }"),
        ] {
            assert_eq!(turn(body), expected);
        }
    }

    #[test]
    fn unmarked_source_stays_as_it_is() {
        let source = "//unroll\r\nfn x(x: u32) { /* /**/ // unroll\n */ for (var i = x; i<4u; i++) {i;} }\n";
        assert_eq!(unroll(source).expect("nothing is marked"), source);
    }

    #[test]
    fn what_cannot_be_unrolled_is_an_error_with_its_line() {
        for (header, message) in [
            ("var i = 0u; i < O; i++", "`O` is no"),
            ("var i = 0u; i < p; i++", "`p` is no"),
            ("var i = 0u; i < F; i++", "`F` is no constant integer: line 1: "),
            ("var i = 0u; i < 65u; i++", "more than 64 turns"),
            ("var i = 0u; i < 5u; i += 0u", "more than 64 turns"),
            ("var i = 0u; i <= 4294967295u; i += 4294967295u", "overflows"),
            ("var i = 0u; i < 2u - 3u; i++", "`-1u` overflows"),
            ("var i = 0u; i < N / 0u; i++", "a division by zero"),
            ("var i = 0u; i < 4i; i++", "a u32 and an i32"),
            ("var i = 4u; i > 0u; i--", "expected `<`, found `>`"),
        ] {
            let text = unrolled(&format!("// unroll\nfor ({header}) {{}}"));
            assert!(text.starts_with("line 4: ") && text.contains(message), "{header}: {text}");
        }
        let shadowed = unrolled("let N = 3u;\n// unroll\nfor (var i = 0u; i < N; i++) {}");
        assert!(shadowed.starts_with("line 5: `N` is no"), "{shadowed}");
        for body in ["// unroll\n\nfor", "a(); // unroll\nfor", "// unroll\n// unroll", "// unroll\nloop"] {
            assert!(unrolled(body).starts_with("line 3: `// unroll` must stand alone"), "{body}");
        }
        for body in ["x = 1u;", "x <<= 1u;", "(x)--;", "a(&x);", "for (; x < 9u; x += 1u) {}"] {
            assert!(turn(body).ends_with("`x` of an unrolled loop is written to"), "{body}");
        }
        for body in ["if (b) { break; }", "continue;", "switch b { default: { continue; } }"] {
            assert!(turn(body).ends_with("of a loop that is to be unrolled"), "{body}");
        }
    }

    #[test]
    fn a_register_tile_is_valid_before_and_after() {
        let source = "const LOADS = TILE * 8u / 4u / 128u; const TILE = 128u; const PITCH = 33u;
override D: u32; @group(0) @binding(0) var<storage, read> rows: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> scores: array<vec4<f32>>;
var<workgroup> tile: array<vec4<f32>, 8u * PITCH>;
@compute @workgroup_size(128) fn main(@builtin(local_invocation_index) lid: u32) {
  var acc: array<array<vec4<f32>, 4>, 4>; var next: array<vec4<f32>, LOADS>;
  for (var k0 = 0u; k0 < D; k0 += 2u) {
    // unroll
    for (var i = 0u; i < LOADS; i++) {
      next[i] = rows[lid + k0 + i * (TILE / LOADS)];
      // unroll
      for (var j = 0u; j < 4u; j++) { tile[lid + j * PITCH][lid % 4u] = next[i][j]; }
    } workgroupBarrier();
    for (var k = 0u; k < 8u; k++) { let a = tile[k * PITCH + lid / 8u];
      // unroll
      for (var x = 0u; x < 4u; x++) {
        // unroll
        for (var j = 0u; j < 4u; j++) { acc[x][j] = fma(vec4(a[x]), tile[k * PITCH + j], acc[x][j]); }
      }
    } workgroupBarrier(); }
  // unroll
  for (var x = 0u; x < 4u; x++) { scores[lid * 4u + x] = acc[x][0] + acc[x][3u - x]; }
}";
        validate(source);
        let text = unroll(source).expect("every marked loop has constant bounds");
        validate(&text);
        assert_eq!((text.matches("for (").count(), text.matches("next[1u][").count()), (2, 4));
        for (x, j) in (0..16).map(|at| (at / 4, at % 4)) {
            let sum =
                format!("{{ acc[{x}u][{j}u] = fma(vec4(a[{x}u]), tile[k * PITCH + {j}u], acc[{x}u][{j}u]);");
            assert_eq!(text.matches(&sum).count(), 1, "{text}");
        }
        assert_eq!(unroll(&text).ok(), Some(text));
    }
}
