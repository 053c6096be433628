//! Writes numpy arrays, files of vectors in pieces, and true neighbours.

use std::io::{Error as IoError, Result as IoResult, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use half::f16;
use rawzip::{CompressionMethod, ZipArchiveWriter};

use super::formats::npy::write_header;
use super::ids::Ids;
use super::location::Location;
use crate::elements::Element;
use crate::error::{Error, Result};
use crate::files::{Pending, failed, mismatch};

mod sealed {
    pub trait Sealed: bytemuck::Pod {
        /// numpy's name of the type.
        const DTYPE: &'static str;
    }
    impl Sealed for f32 {
        const DTYPE: &'static str = "<f4";
    }
    impl Sealed for half::f16 {
        const DTYPE: &'static str = "<f2";
    }
    impl Sealed for i8 {
        const DTYPE: &'static str = "|i1";
    }
    impl Sealed for u8 {
        const DTYPE: &'static str = "|u1";
    }
    impl Sealed for i64 {
        const DTYPE: &'static str = "<i8";
    }
    impl Sealed for i32 {
        const DTYPE: &'static str = "<i4";
    }
    impl Sealed for u32 {
        const DTYPE: &'static str = "<u4";
    }
    impl Sealed for u64 {
        const DTYPE: &'static str = "<u8";
    }
}
use sealed::Sealed;

/// The element types that [`write_npy`] accepts: `f32`, [`half::f16`], `i8`, `u8` and `i64`.
pub trait NpyValue: Sealed {}

impl NpyValue for f32 {}
impl NpyValue for f16 {}
impl NpyValue for i8 {}
impl NpyValue for u8 {}
impl NpyValue for i64 {}

/// Writes a file that appears under its name when it is complete: `write` fills a temporary file in the same directory, which then
/// replaces `path`. After an error or a crash, `path` is as it was.
///
/// # Errors
/// [`Error::Io`] if the file cannot be written, or `write` fails.
///
/// ```no_run
/// use std::io::Write;
/// nearfield::io::write_file("found.csv", |file| writeln!(file, "query,id,distance"))?;
/// # Ok::<(), nearfield::Error>(())
/// ```
pub fn write_file(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut (dyn Write + Send)) -> IoResult<()>,
) -> Result<()> {
    whole(path.as_ref(), 0, write)
}

/// [`write_file`] of at least this many bytes.
fn whole(path: &Path, bytes: u64, write: impl FnOnce(&mut (dyn Write + Send)) -> IoResult<()>) -> Result<()> {
    let done = || {
        let mut pending = Pending::create(path, bytes)?;
        write(pending.file())?;
        pending.finish()
    };
    done().map_err(failed(path))
}

/// Writes `values` to an npy file as a C-order array of the given shape, `[rows, width]`.
///
/// A temporary file in the same directory replaces `path` once all bytes are on the disk. A crash before that leaves `path`
/// unchanged.
///
/// # Errors
/// [`Error::Argument`] if the shape does not match the number of values. [`Error::Io`] if the file cannot be written;
/// nothing is left behind then.
pub fn write_npy<T: NpyValue>(path: impl AsRef<Path>, shape: [usize; 2], values: &[T]) -> Result<()> {
    let path = path.as_ref();
    check_shape("values", shape, values.len())?;
    whole(path, size_of_val(values) as u64, |file| {
        file.write_all(&write_header(T::DTYPE, &shape))?;
        write_values(file, values)
    })
}

/// Writes vectors, `[rows, dim]` of f32, f16, i8 or u8, in pieces, so that they need not all be in memory.
///
/// The bytes go to a temporary file in the same directory. [`finish`](Self::finish) puts it in its place once all bytes are on
/// the disk. A writer that is dropped before that leaves nothing behind.
///
/// ```no_run
/// let mut writer = nearfield::io::VectorWriter::create("base.npy", [2000, 3])?;
/// for _ in 0..2 {
///     writer.write(&[0.5f32; 3000])?;
/// }
/// writer.finish()?;
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug)]
pub struct VectorWriter<T> {
    path: PathBuf,
    pending: Pending,
    shape: [usize; 2],
    written: usize,
    element: PhantomData<T>,
}

impl<T: Element + NpyValue> VectorWriter<T> {
    /// Starts a file of the given shape, `[rows, dim]`. The extension selects the format: `.npy`, or `.fbin` for f32,
    /// `.f16bin` for f16, `.i8bin` for i8 and `.u8bin` for u8.
    ///
    /// # Errors
    /// [`Error::File`] if the extension is another, or the shape is too large for the format or for a file.
    /// [`Error::Io`] if the file cannot be written.
    pub fn create(path: impl AsRef<Path>, shape: [usize; 2]) -> Result<Self> {
        let path = path.as_ref();
        let bytes =
            shape.iter().try_fold(size_of::<T>() as u64, |bytes, &length| bytes.checked_mul(length as u64));
        let Some(bytes) = bytes.filter(|&bytes| i64::try_from(bytes).is_ok()) else {
            return Err(mismatch(path, "a file below 2^63 bytes", format!("{shape:?} numbers")));
        };
        let other = T::KIND.extension();
        let header = match Location::new(path).ending.as_str() {
            "npy" => write_header(T::DTYPE, &shape),
            ending if ending == other => binary_header(path, shape)?,
            ending => {
                let needed = format!("a name that ends in .npy or .{other} for {}", T::DTYPE);
                return Err(mismatch(path, needed, format!(".{ending}")));
            }
        };
        let start = || {
            let mut pending = Pending::create(path, bytes)?;
            pending.file().write_all(&header)?;
            Ok(pending)
        };
        let pending = start().map_err(failed(path))?;
        Ok(Self { path: path.to_path_buf(), pending, shape, written: 0, element: PhantomData })
    }

    /// Appends vectors, or part of one.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be written.
    pub fn write(&mut self, values: &[T]) -> Result<()> {
        write_values(self.pending.file(), values).map_err(failed(&self.path))?;
        self.written += values.len();
        Ok(())
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// [`Error::Argument`] if the number of values written does not match the shape. [`Error::Io`] if they cannot be stored
    /// on the disk. Nothing is left behind then.
    pub fn finish(self) -> Result<()> {
        check_shape("vectors", self.shape, self.written)?;
        self.pending.finish().map_err(failed(&self.path))
    }
}

/// Writes true neighbours: ids, and the distances of the same shape, `[queries, width]`.
///
/// | extension | content |
/// |---|---|
/// | `.npz` | members `ids` (i64) and `distances` (f32), stored |
/// | `.npy` | ids (i64) only |
/// | `.ibin` | ids (i32) only |
/// | `.bin` | u32 queries, u32 width, ids (i32), distances (f32) |
///
/// [`read_ids`](super::read_ids) and [`read_distances`](super::read_distances) read them. The file appears whole or not at
/// all, as with [`write_npy`].
///
/// # Errors
/// [`Error::Argument`] if the numbers of ids and distances differ. [`Error::File`] for another extension, and for an id or a
/// shape that the format cannot hold. [`Error::Io`] if the file cannot be written; nothing is left behind then.
pub fn write_truth(path: impl AsRef<Path>, ids: &Ids, distances: &[f32]) -> Result<()> {
    let path = path.as_ref();
    let shape = [ids.rows, ids.width];
    check_shape("ids", shape, ids.values.len())?;
    check_shape("distances", shape, distances.len())?;
    match Location::new(path).ending.as_str() {
        "npy" => write_npy(path, shape, &ids.values),
        "npz" => write_found(path, ids, ("distances.npy", distances)),
        ending @ ("ibin" | "bin") => {
            let header = binary_header(path, shape)?;
            let narrow: std::result::Result<Vec<i32>, _> =
                ids.values.iter().map(|&id| i32::try_from(id)).collect();
            let narrow =
                narrow.map_err(|_| mismatch(path, "ids below 2^31 for this ending", "a larger one"))?;
            whole(path, size_of_val(narrow.as_slice()) as u64, |file| {
                file.write_all(&header)?;
                write_values(file, &narrow)?;
                if ending == "bin" { write_values(file, distances) } else { Ok(()) }
            })
        }
        other => Err(mismatch(path, "a name that ends in .npz, .npy, .ibin or .bin", format!(".{other}"))),
    }
}

/// Writes documents that a search found to an `.npz`: members `ids` (i64) and `scores` (f32), of the same shape, `[queries, width]`. The
/// file appears whole or not at all, as with [`write_npy`].
///
/// # Errors
/// [`Error::Argument`] if the numbers of ids and scores differ. [`Error::File`] for another extension. [`Error::Io`] if the file cannot be
/// written; nothing is left behind then.
///
/// ```no_run
/// use nearfield::io::{Ids, write_ranking};
/// // One query, which found documents 7 and 3.
/// write_ranking("found.npz", &Ids { values: vec![7, 3], rows: 1, width: 2 }, &[2.5, 1.0])?;
/// # Ok::<(), nearfield::Error>(())
/// ```
pub fn write_ranking(path: impl AsRef<Path>, ids: &Ids, scores: &[f32]) -> Result<()> {
    let path = path.as_ref();
    let shape = [ids.rows, ids.width];
    check_shape("ids", shape, ids.values.len())?;
    check_shape("scores", shape, scores.len())?;
    match Location::new(path).ending.as_str() {
        "npz" => write_found(path, ids, ("scores.npy", scores)),
        other => Err(mismatch(path, "a name that ends in .npz", format!(".{other}"))),
    }
}

fn write_found(path: &Path, ids: &Ids, (name, values): (&str, &[f32])) -> Result<()> {
    let shape = [ids.rows, ids.width];
    let bytes = size_of_val(&ids.values[..]) + size_of_val(values);
    whole(path, bytes as u64, |file| {
        let mut zip = ZipArchiveWriter::new(file);
        write_member(&mut zip, "ids.npy", &shape, &ids.values)?;
        write_member(&mut zip, name, &shape, values)?;
        zip.finish().map_err(IoError::other).map(drop)
    })
}

/// Writes a sparse matrix `[rows, rows]` in the form CSR to an `.npz` that `scipy.sparse.load_npz` reads, as the graph of rows with these
/// `ids`. The ids stand beside the matrix, in the member `ids` (u64).
///
/// The entries of row `r` are `indices[indptr[r]..indptr[r + 1]]`, with their values in the same places of `data`:
/// [`KnnGraph::to_csr`](crate::KnnGraph::to_csr) makes them. The file appears whole or not at all, as with [`write_npy`].
///
/// # Errors
/// [`Error::Argument`] if `indptr` has not a start for each id and one end, ascending from 0, if the numbers of indices and values differ from
/// it, and for an index that is no row.
/// [`Error::Io`] if the file cannot be written; nothing is left behind then.
///
/// ```no_run
/// # use nearfield::{Device, Flat, Metric, Symmetry};
/// # let index = Flat::builder(&Device::host(), Metric::L2, 1).build()?;
/// let graph = index.knn_graph(15)?;
/// let csr = graph.to_csr(Symmetry::Union)?;
/// nearfield::io::write_csr("graph.npz", graph.ids(), &csr.indptr, &csr.indices, &csr.data)?;
/// # Ok::<(), nearfield::Error>(())
/// ```
pub fn write_csr(
    path: impl AsRef<Path>,
    ids: &[u64],
    indptr: &[u64],
    indices: &[u32],
    data: &[f32],
) -> Result<()> {
    let rows = ids.len();
    check_shape("indptr", [rows + 1, 1], indptr.len())?;
    let entries = indptr[rows] as usize;
    check_shape("indices", [entries, 1], indices.len())?;
    check_shape("data", [entries, 1], data.len())?;
    let descent = indptr.windows(2).find(|pair| pair[0] > pair[1]);
    if indptr[0] != 0 || descent.is_some() {
        let given =
            descent.map_or(format!("{} first", indptr[0]), |pair| format!("{} after {}", pair[1], pair[0]));
        return Err(Error::argument("indptr", "numbers that ascend from 0", given));
    }
    if let Some(beyond) = indices.iter().find(|&&index| index as usize >= rows) {
        return Err(Error::argument("indices", format!("numbers below {rows}"), beyond));
    }
    let bytes = size_of_val(ids) + size_of_val(indptr) + size_of_val(indices) + size_of_val(data);
    whole(path.as_ref(), bytes as u64, |file| {
        let mut zip = ZipArchiveWriter::new(file);
        write_bytes(&mut zip, "format.npy", ("|S3", &[]), b"csr")?;
        write_member(&mut zip, "shape.npy", &[2], &[rows as i64; 2])?;
        write_member(&mut zip, "indptr.npy", &[rows + 1], indptr)?;
        write_member(&mut zip, "indices.npy", &[entries], indices)?;
        write_member(&mut zip, "data.npy", &[entries], data)?;
        write_member(&mut zip, "ids.npy", &[rows], ids)?;
        zip.finish().map_err(IoError::other).map(drop)
    })
}

fn write_member<T: Sealed>(
    zip: &mut ZipArchiveWriter<impl Write>,
    name: &str,
    shape: &[usize],
    values: &[T],
) -> IoResult<()> {
    write_bytes(zip, name, (T::DTYPE, shape), bytemuck::cast_slice(values))
}

/// Writes a stored member, an array of this type and shape, without a date, so that the same values always give the same bytes.
fn write_bytes(
    zip: &mut ZipArchiveWriter<impl Write>,
    name: &str,
    (dtype, shape): (&str, &[usize]),
    bytes: &[u8],
) -> IoResult<()> {
    let member = zip.new_file(name).compression_method(CompressionMethod::STORE);
    let (mut entry, config) = member.start().map_err(IoError::other)?;
    let mut writer = config.wrap(&mut entry);
    writer.write_all(&write_header(dtype, shape))?;
    writer.write_all(bytes)?;
    let (_, descriptor) = writer.finish().map_err(IoError::other)?;
    entry.finish(descriptor).map_err(IoError::other)?;
    Ok(())
}

/// The header of the fbin family: u32 rows, u32 dim.
fn binary_header(path: &Path, shape: [usize; 2]) -> Result<Vec<u8>> {
    let mut header = vec![];
    for length in shape {
        let length = u32::try_from(length)
            .map_err(|_| mismatch(path, "rows and dim below 2^32 for this ending", format!("{shape:?}")))?;
        header.extend(length.to_le_bytes());
    }
    Ok(header)
}

fn write_values<T: Sealed>(file: &mut (impl Write + ?Sized), values: &[T]) -> IoResult<()> {
    file.write_all(bytemuck::cast_slice(values))
}

fn check_shape(argument: &'static str, shape: [usize; 2], given: usize) -> Result<()> {
    if shape[0].checked_mul(shape[1]) == Some(given) {
        return Ok(());
    }
    Err(Error::argument(argument, format!("as many as the shape {shape:?} has"), given))
}
