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
//! the source as written stays valid WGSL of the same meaning. The loop's head is one line, `for (var i = A; i < B; i++) {`;
//! also `i <= B`, `i += S`. `A`, `B` and `S` are `u32` that [`value_of`] can find. It has at most 64 turns. All other text stays as it is. A
//! marked loop that cannot be unrolled is an error: the kernel would lose most of its speed. A body that declares or writes the
//! variable is an error of naga, to which `let 0u` and `0u = x` are no WGSL.
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

mod value;

use value::{Consts, consts_of, in_word, value_of};

/// What compiles a kernel's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// The driver of a GPU.
    Hardware,
    /// A driver that runs kernels on the processor.
    Software,
}

/// Marks a loop.
pub(crate) const ALWAYS: &str = "// unroll";

/// Marks a loop that stays a loop on software drivers.
pub(crate) const ON_HARDWARE: &str = "// unroll on hardware";

/// Marks a loop that stays a loop where an invocation has few registers. Where it has many, this becomes `// unroll` before.
pub(crate) const WITH_REGISTERS: &str = "// unroll with many registers";

/// The most turns of a marked loop.
const MOST_TURNS: usize = 64;

/// Returns `source` with every `for` loop that is marked for this driver replaced by its turns, or why that cannot be.
pub(crate) fn unroll(source: &str, driver: Driver) -> Result<String, String> {
    let mut out = String::with_capacity(2 * source.len());
    copy(source, driver, &consts_of(source), &mut out)?;
    Ok(out)
}

/// Copies `text` to `out`, unrolling the marked loops.
fn copy(mut text: &str, driver: Driver, consts: &Consts<'_>, out: &mut String) -> Result<(), String> {
    while let Some(at) = text.find(ALWAYS) {
        let (before, marked) = text.split_at(at);
        let (marker, code) = marked.split_once('\n').unwrap_or((marked, ""));
        let is_alone = before.rsplit('\n').next().is_none_or(|line| line.trim().is_empty());
        let stays = match marker {
            ALWAYS => false,
            ON_HARDWARE => driver == Driver::Software,
            WITH_REGISTERS => true,
            _ => return Err(format!("`{marker}` is no marker")),
        };
        let indent = &code[..code.len() - code.trim_start().len()];
        let fault = |fault: &str| {
            let line = code.trim_start().lines().next().unwrap_or_default();
            format!("`{marker}` of `{line}`: {fault}")
        };
        let head = code.trim_start().split_once(") {").and_then(|(head, body)| Some((Head::of(head)?, body)));
        let (head, body) = head.filter(|_| is_alone && !indent.contains('\n')).ok_or_else(|| {
            fault("the marker stands alone on the line before `for (var i = A; i < B; i++) {`")
        })?;
        out.push_str(before);
        if stays {
            let Head { name, first, compare, limit, step } = head;
            out.push_str(&format!(
                "{marker}\n{indent}for (var {name} ={first}; {name}{compare}opaque({limit});{step}) {{"
            ));
            text = body;
            continue;
        }
        let (body, rest) = body_of(body).ok_or_else(|| fault("its body does not end"))?;
        if leaves(body) {
            return Err(fault("`break` or `continue` in a loop that is to be unrolled"));
        }
        let turns = head.turns(consts).map_err(|message| fault(&message))?;
        for (turn, value) in turns.into_iter().enumerate() {
            if turn > 0 {
                out.extend(["\n", indent]);
            }
            out.push('{');
            copy(&with_value(body, head.name, value), driver, consts, out)?;
            out.push('}');
        }
        text = rest;
    }
    out.push_str(text);
    Ok(())
}

/// `for (var NAME =FIRST; NAMECOMPARELIMIT;STEP`
struct Head<'a> {
    name: &'a str,
    first: &'a str,
    compare: &'a str,
    limit: &'a str,
    step: &'a str,
}

impl<'a> Head<'a> {
    /// Reads a head up to its last parenthesis.
    fn of(text: &'a str) -> Option<Self> {
        let (name, rest) = text.strip_prefix("for (var ")?.split_once(" =")?;
        let (first, rest) = rest.split_once("; ")?;
        let (condition, step) = rest.strip_prefix(name)?.split_once(';')?;
        let compare = if condition.starts_with(" <= ") { " <= " } else { " < " };
        Some(Self { name, first, compare, limit: condition.strip_prefix(compare)?, step })
    }

    /// The values of the variable.
    fn turns(&self, consts: &Consts<'_>) -> Result<Vec<u32>, String> {
        let step = self.step.trim_start().strip_prefix(self.name).unwrap_or_default();
        let step = match step.strip_prefix(" += ") {
            Some(step) => value_of(step, consts)?,
            None if step == "++" => 1,
            None => return Err("its step is not `i++` or `i += S`".into()),
        };
        let (first, limit) = (value_of(self.first, consts)?, value_of(self.limit, consts)?);
        let end = u64::from(limit) + u64::from(self.compare == " <= ");
        let turns = (u64::from(first)..end).step_by(step.max(1) as usize).take(MOST_TURNS + 1);
        let turns: Vec<u32> = turns.map(|value| value as u32).collect();
        if step == 0 || turns.len() > MOST_TURNS {
            return Err(format!("more than {MOST_TURNS} turns"));
        }
        Ok(turns)
    }
}

/// What stands in front of the brace that ends a body, and behind it.
fn body_of(text: &str) -> Option<(&str, &str)> {
    let (mut depth, mut at) = (1, 0);
    for line in text.split_inclusive('\n') {
        for (place, c) in code_of(line).char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => continue,
            }
            if depth == 0 {
                return Some((&text[..at + place], &text[at + place + 1..]));
            }
        }
        at += line.len();
    }
    None
}

/// A line without its comment.
fn code_of(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

/// The names and numbers of a text, and what stands between them.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let is_word = text.starts_with(in_word);
        let (piece, rest) = text.split_at(text.find(|c| in_word(c) != is_word).unwrap_or(text.len()));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Whether a body ends its loop or a turn of it, and not those of a loop within.
fn leaves(body: &str) -> bool {
    let (mut blocks, mut is_loop) = (vec![], false);
    for piece in body.lines().flat_map(|line| pieces(code_of(line))) {
        match piece {
            "for" | "while" | "loop" => is_loop = true,
            "break" | "continue" if !blocks.contains(&true) => return true,
            _ => piece.chars().for_each(|c| match c {
                '{' => blocks.push(std::mem::take(&mut is_loop)),
                '}' => drop(blocks.pop()),
                _ => {}
            }),
        }
    }
    false
}

/// The text with a value in the place of a variable.
fn with_value(text: &str, name: &str, value: u32) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (code, comment) = line.split_at(code_of(line).len());
        for piece in pieces(code) {
            // `v.i` is a member.
            match piece == name && !out.ends_with('.') {
                true => out.push_str(&format!("{value}u")),
                false => out.push_str(piece),
            }
        }
        out.push_str(comment);
    }
    out
}

#[cfg(test)]
mod tests;
