//! Chooses among the arrays of a file that has several.

use std::path::{Path, PathBuf};

use super::npy::Header;
use crate::error::Result;
use crate::files::mismatch;
use crate::io::source::Source;

/// The most arrays that a message names.
const NAMED: usize = 16;

/// A file of named arrays.
pub(in crate::io) trait Archive {
    fn path(&self) -> &Path;

    /// The names of the arrays.
    fn names(&self) -> Box<dyn DoubleEndedIterator<Item = &str> + '_>;

    /// The array at this position of [`names`](Self::names).
    fn array(&self, index: usize) -> Result<Array>;
}

/// An array of a file.
#[derive(Debug)]
pub(in crate::io) struct Array {
    /// `FILE:NAME`, or the file if it has only this array.
    pub(in crate::io) path: PathBuf,
    pub(in crate::io) source: Source,
    pub(in crate::io) header: Header,
}

/// The array `name`. If a name repeats, the last array counts.
pub(in crate::io) fn member(archive: &dyn Archive, name: &str) -> Result<Array> {
    let index = archive.names().enumerate().filter(|(_, given)| *given == name).last();
    match index {
        Some((index, _)) => archive.array(index),
        None => Err(mismatch(archive.path(), format!("a member {name}"), describe(archive))),
    }
}

/// The only array of the lowest rank. `rank` is `None` for arrays that do not fit; `needed` says what fits.
pub(in crate::io) fn only(
    archive: &dyn Archive,
    rank: impl Fn(&Header) -> Option<usize>,
    needed: &str,
) -> Result<Array> {
    let count = archive.names().count();
    let ranked = |index| Some((rank(&archive.array(index).ok()?.header)?, index));
    let mut fitting: Vec<_> = (0..count).filter_map(ranked).collect();
    fitting.sort_unstable();
    match fitting.as_slice() {
        [(_, index)] => archive.array(*index),
        [(first, index), (second, _), ..] if first < second => archive.array(*index),
        _ => {
            let needed = format!("one member that is {needed}, or FILE:MEMBER to name one");
            Err(mismatch(archive.path(), needed, describe(archive)))
        }
    }
}

/// The arrays with their dtypes and shapes, for messages.
fn describe(archive: &dyn Archive) -> String {
    let names: Vec<_> = archive.names().collect();
    let one = |(index, name): (usize, &&str)| {
        let header = archive.array(index).map(|array| array.header.to_string());
        format!("{name} ({})", header.unwrap_or_else(|_| "unreadable".into()))
    };
    let mut texts: Vec<_> = names.iter().take(NAMED).enumerate().map(one).collect();
    match names.len() {
        0 => return "no arrays".into(),
        count if count > NAMED => texts.push(format!("{} more", count - NAMED)),
        _ => {}
    }
    format!("members {}", texts.join(", "))
}
