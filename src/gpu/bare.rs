//! WGSL without its comments and indentation, a third of its text: for WebAssembly, which pages download.

/// What [`bare`] leaves of a text, computed by the compiler. The lines that messages of a browser name are those of the shorter text.
#[cfg(target_arch = "wasm32")]
macro_rules! bare_text {
    ($text:expr) => {{
        const FULL: &[u8] = $text.as_bytes();
        const ROOMY: ([u8; FULL.len()], usize) = crate::gpu::bare(FULL);
        const BARE: [u8; ROOMY.1] = match ROOMY.0.first_chunk() {
            Some(bytes) => *bytes,
            None => panic!("the copy is no longer than its room"),
        };
        match str::from_utf8(&BARE) {
            Ok(text) => text,
            Err(_) => panic!("whole lines and comments were left out"),
        }
    }};
}

/// The text as it is.
#[cfg(not(target_arch = "wasm32"))]
macro_rules! bare_text {
    ($text:expr) => {
        $text
    };
}
pub(crate) use bare_text;

/// Copies the lines of a text without indentation, comments and blank lines, but with the markers of `unroll`. Returns the copy, and how
/// long it is. Our files have no block comments.
#[cfg(any(test, target_arch = "wasm32"))]
pub(crate) const fn bare<const N: usize>(text: &[u8]) -> ([u8; N], usize) {
    let (mut out, mut len, mut rest) = ([0; N], 0, text);
    while !rest.is_empty() {
        let mut end = 0;
        while end < rest.len() && rest[end] != b'\n' {
            end += 1;
        }
        let (line, after) = rest.split_at(end);
        rest = if after.is_empty() { after } else { after.split_at(1).1 };
        let line = without_comment(line.trim_ascii());
        let mut at = 0;
        while at < line.len() {
            out[len] = line[at];
            (at, len) = (at + 1, len + 1);
        }
        // The last line of a file ends too.
        if !line.is_empty() {
            out[len] = b'\n';
            len += 1;
        }
    }
    (out, len)
}

/// The start of a line up to its comment; a marker as it is.
#[cfg(any(test, target_arch = "wasm32"))]
const fn without_comment(line: &[u8]) -> &[u8] {
    let mut at = 0;
    while at + 1 < line.len() && !(line[at] == b'/' && line[at + 1] == b'/') {
        at += 1;
    }
    let is_marker =
        matches!(line, b"// unroll" | b"// unroll on hardware" | b"// unroll with many registers");
    if at + 1 >= line.len() || is_marker { line } else { line.split_at(at).0.trim_ascii_end() }
}
