//! The tables in a Markdown document.

use anyhow::{Error, anyhow};

/// A part of a document.
#[derive(Debug)]
pub(super) enum Piece<'t> {
    /// What stays as it is, with the comments around tables.
    Kept(&'t str),
    /// What stands between two comments.
    Table {
        /// Of the first comment.
        line: usize,
        /// What the comment asks for.
        request: &'t str,
        old: &'t str,
        /// How lines end.
        ending: &'static str,
    },
}

const END: &str = "<!-- end of table -->";

/// The parts of a document, or the line at fault.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, (usize, Error)> {
    let mut pieces = vec![];
    // Start of what is not in a piece yet, and of the line.
    let (mut kept, mut at) = (0, 0);
    let mut table: Option<(usize, &str, &'static str)> = None;
    let mut fence: Option<&str> = None;
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let start = at;
        at += line.len();
        let bare = line.trim_end();
        let request = request(bare);
        match (table, request) {
            (Some((first, asked, ending)), _) if bare == END => {
                pieces.push(Piece::Table { line: first, request: asked, old: &text[kept..start], ending });
                (kept, table) = (start, None);
            }
            (Some((first, ..)), Some(_)) => return Err((first, unclosed())),
            (Some(_), None) => {}
            // Code may show what a table looks like.
            (None, _) if is_fence(bare, &mut fence) || fence.is_some() => {}
            (None, Some(request)) => {
                let request =
                    request.ok_or_else(|| (number, anyhow!("needed `-->` at the end of the line")))?;
                if !line.ends_with('\n') {
                    return Err((number, unclosed()));
                }
                pieces.push(Piece::Kept(&text[kept..at]));
                kept = at;
                table = Some((number, request, if line.ends_with("\r\n") { "\r\n" } else { "\n" }));
            }
            (None, None) if bare == END => {
                return Err((number, anyhow!("needed `<!-- table … -->` before `{END}`, found none")));
            }
            (None, None) => {}
        }
    }
    if let Some((first, ..)) = table {
        return Err((first, unclosed()));
    }
    pieces.push(Piece::Kept(&text[kept..]));
    Ok(pieces)
}

fn unclosed() -> Error {
    anyhow!("needed a line `{END}` after the table, found none")
}

/// What a line asks for, if it is the comment before a table; nothing where the comment has no end.
fn request(line: &str) -> Option<Option<&str>> {
    let rest = line.strip_prefix("<!-- table")?;
    let is_word = rest.starts_with(char::is_whitespace) || rest.is_empty() || rest == "-->";
    is_word.then(|| rest.strip_suffix("-->").map(str::trim))
}

/// Whether a line begins or ends code, as fences do.
fn is_fence<'t>(line: &'t str, open: &mut Option<&'t str>) -> bool {
    let line = line.trim_start();
    let marks = |letter: char| &line[..line.len() - line.trim_start_matches(letter).len()];
    let fence = [marks('`'), marks('~')].into_iter().find(|marks| marks.len() >= 3);
    match (fence, *open) {
        (Some(fence), None) => *open = Some(fence),
        // At least as long, and with nothing behind it.
        (Some(fence), Some(first)) if fence.starts_with(first) && fence == line => *open = None,
        _ => return false,
    }
    true
}
