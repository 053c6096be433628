//! Writes numpy arrays.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use half::f16;
use npyz::WriterBuilder;

use super::failed;
use crate::error::{Error, Result};

mod sealed {
    pub trait Sealed: npyz::AutoSerialize + Copy {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
    impl Sealed for i64 {}
}

/// The types whose arrays [`write_npy`] writes: `f32`, [`half::f16`] and `i64`.
pub trait NpyValue: sealed::Sealed {}

impl NpyValue for f32 {}
impl NpyValue for f16 {}
impl NpyValue for i64 {}

/// Writes `values` as a C-order array of the given shape, `[rows, width]`, to an npy file.
///
/// The bytes go to a file of another name in the same directory, which takes the place of `path` when they
/// are all on the disk. A crash leaves no half file under `path`, and what was there stays until then.
///
/// # Errors
/// [`Error::Argument`] when the shape does not hold as many values as are given. [`Error::Io`] when the file
/// cannot be written; nothing is left behind then.
pub fn write_npy<T: NpyValue>(path: impl AsRef<Path>, shape: [usize; 2], values: &[T]) -> Result<()> {
    let path = path.as_ref();
    if shape[0].checked_mul(shape[1]) != Some(values.len()) {
        return Err(Error::Argument {
            argument: "values",
            needed: format!("as many as the shape {shape:?} has"),
            given: format!("{}", values.len()),
        });
    }
    let temporary = path.with_file_name(temporary_name(path));
    let written = write_to(&temporary, shape, values).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The error to report is the first one.
        fs::remove_file(&temporary).ok();
    }
    written.map_err(failed(path))
}

/// A hidden name that no other call uses at the same time.
fn temporary_name(path: &Path) -> OsString {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{}.tmp", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed)));
    name
}

fn write_to<T: NpyValue>(path: &Path, shape: [usize; 2], values: &[T]) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create_new(path)?);
    let shape = shape.map(|length| length as u64);
    let mut array = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(&mut file).begin_nd()?;
    array.extend(values.iter().copied())?;
    array.finish()?;
    file.flush()?;
    file.get_ref().sync_all()
}
