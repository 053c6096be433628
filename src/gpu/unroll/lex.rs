//! Splits WGSL into tokens, and finds the markers of loops.

/// What compiles a kernel's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// The driver of a GPU.
    Hardware,
    /// A driver that runs kernels on the processor.
    Software,
}

/// Marks a loop that stays a loop on software drivers.
pub(crate) const ON_HARDWARE: &str = "// unroll on hardware";

/// Marks a loop that stays a loop where an invocation has few registers. Where it has many, this becomes `// unroll` before.
pub(crate) const WITH_REGISTERS: &str = "// unroll with many registers";

/// The deepest nesting of brackets.
const DEEPEST: usize = 64;

/// Why a source could not be unrolled, and at which line, counted from 1.
#[derive(Debug, Clone, thiserror::Error)]
#[error("line {line}: {message}")]
pub(crate) struct UnrollError {
    line: usize,
    message: String,
}

/// An error at the byte `at` of `source`.
pub(super) fn error_at(source: &str, at: usize, message: impl Into<String>) -> UnrollError {
    UnrollError { line: 1 + line_breaks(&source[..at]), message: message.into() }
}

/// A token: `text` is a name, a number's digits or one character of punctuation, and `tail` the source from there on. `space`
/// is the whitespace and comments before it. At a marked `for` it ends before the marker, and `marked` is the indentation of
/// the `for`. `depth` counts the brackets around the token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) space: &'a str,
    pub(super) text: &'a str,
    pub(super) tail: &'a str,
    pub(super) marked: Option<&'a str>,
    pub(super) depth: usize,
}

/// Whether WGSL ends a line at `c`.
fn breaks_line(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// How many lines end in `text`.
fn line_breaks(text: &str) -> usize {
    text.matches(breaks_line).count() - text.matches("\r\n").count()
}

/// Whether `c` can be part of a name or a number. Those of kernels are ASCII.
pub(super) fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Splits `source` into tokens, with the markers for this driver; the last is empty, for the space at the end.
pub(super) fn lex(source: &str, driver: Driver) -> Result<Vec<Token<'_>>, UnrollError> {
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
        let is_marker = match text.trim() {
            "// unroll" => true,
            ON_HARDWARE => driver == Driver::Hardware,
            _ => false,
        };
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
            "(" | "{" if depth < DEEPEST => depth += 1,
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
