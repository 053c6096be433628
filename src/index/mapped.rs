//! Files whose rows an index uses in place: npy, the fbin family, and saved indexes.

use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3Default;

use crate::elements::ElementKind;
use crate::engine::{FileRows, MappedRows, open_file};
use crate::error::{Error, Result};
use crate::files::npy::{MAGIC, NpyHeader};
use crate::files::{MappedFile, mismatch};
use crate::index::common::{Common, Resources, Settings};
use crate::index::file::{self, Reader};
use crate::index::saved::{Loading, SavedDocuments, SavedIndex, SavedKind, blame, of_metric};
use crate::memory;
use crate::metric::Metric;
use crate::store::RowStore;

/// Rows of a file that is mapped.
pub(crate) struct MappedVectors {
    pub(crate) rows: MappedRows,
    /// The id of each row.
    pub(crate) ids: Vec<u64>,
    /// The insertion number of the next row.
    pub(crate) next: u64,
    /// Whether the index that was saved quantises rows of other types.
    quantizes: bool,
    checksum: Option<Checksum>,
    /// The documents that the rows are the tokens of, in a saved index of documents.
    pub(crate) documents: Option<SavedDocuments>,
}

/// The checksum that a saved index has of its rows, and that of the bytes seen so far.
struct Checksum {
    written: String,
    seen: Xxh3Default,
}

/// Where the rows of a file are.
struct Place {
    elements: ElementKind,
    /// Rows and elements of each.
    shape: [u64; 2],
    /// Bytes before the first row.
    start: u64,
}

impl MappedVectors {
    /// Opens a file of vectors, or a saved index of one of these kinds.
    pub(crate) fn open(path: &Path, metric: Metric, dim: usize, kinds: &[SavedKind]) -> Result<Self> {
        let file = MappedFile::open(path)?;
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        let raw = ElementKind::find(|about| extension == about.extension);
        let (place, saved) = if file.bytes().starts_with(MAGIC) {
            (npy(path, file.bytes())?, None)
        } else if let Some(elements) = raw {
            (with_header(path, file.bytes(), elements)?, None)
        } else {
            let (place, saved) = saved(path, file.bytes(), metric, kinds).map_err(named)?;
            if SavedIndex::log(path)?.is_some_and(|log| log.bytes > 0) {
                let needed = "an index without changes beside it, which a checkpoint writes";
                return Err(mismatch(path, needed, "one with a log of changes"));
            }
            (place, Some(saved))
        };
        let Place { elements, shape: [rows, given], start } = place;
        let elements = of_metric(path, metric, elements)?;
        if given != dim as u64 {
            let needed = format!("rows of dim {dim}, as the index has");
            return Err(mismatch(path, needed, format!("rows of dim {given}")));
        }
        Error::check_slots(rows)?;
        let values = u128::from(rows) * u128::from(given);
        let (end, length) = (u128::from(start) + values * elements.size() as u128, file.bytes().len());
        if end > length as u128 {
            let needed = format!("{end} bytes for {rows} rows of {given} elements");
            return Err(mismatch(path, needed, format!("{length} bytes")));
        }
        let count = rows;
        let (file, rows, start, of_slots) = (Arc::new(file), rows as usize, start as usize, None);
        let rows = MappedRows { file, elements, dim, rows, start, of_slots };
        Ok(match saved {
            Some(Saved { ids, next, quantizes, checksum, documents }) => {
                Self { rows, ids, next, quantizes, checksum: Some(checksum), documents }
            }
            None => {
                let ids = memory::collect((0..count as u32).map(u64::from))?;
                Self { rows, ids, next: count, quantizes: false, checksum: None, documents: None }
            }
        })
    }

    /// Reads the rows through once, and makes the common part of an index that has them in these slots.
    pub(crate) async fn read(self, settings: Settings, slots: Vec<u32>) -> Result<Common> {
        self.read_into(settings, slots, None).await
    }

    /// The same for the tokens of documents, of which each has this many: they lie where [`Rows::place_documents`] says, in a store without ids.
    pub(crate) async fn read_documents(self, settings: Settings, lengths: &[usize]) -> Result<Common> {
        self.read_into(settings, vec![], Some(lengths)).await
    }

    async fn read_into(
        self,
        mut settings: Settings,
        slots: Vec<u32>,
        documents: Option<&[usize]>,
    ) -> Result<Common> {
        let Self { rows, ids, next, quantizes, mut checksum, .. } = self;
        let path = rows.file.path().to_owned();
        if settings.quantizes && settings.elements != rows.elements {
            let needed =
                format!("{}, as {} has them, which are used in place", rows.elements, path.display());
            return Err(Error::argument("store", needed, settings.elements));
        }
        (settings.elements, settings.quantizes) = (rows.elements, settings.quantizes || quantizes);
        let shape = settings.shape()?;
        // It makes no copy, and checks the options.
        settings.resources.copy.check()?;
        let file = FileRows { rows, ids: memory::copied(&ids)?, slots: memory::copied(&slots)? };
        let mut seen = |bytes: &[u8]| checksum.iter_mut().for_each(|checksum| checksum.seen.update(bytes));
        let Resources { devices, distribution, .. } = &settings.resources;
        let read = open_file(devices, *distribution, &shape, (file, documents), &mut seen).await;
        let store = read.and_then(|rows| match documents {
            Some(_) => Ok(RowStore::new(rows)),
            None => RowStore::of_rows(rows, (&ids, &slots), next),
        });
        let store = store.map_err(|error| blame(&path, error))?;
        if let Some(Checksum { written, seen }) = checksum {
            file::verify(&path, "rows", &written, &seen)?;
        }
        settings.over(store)
    }
}

/// The error of a file that is no index names the other files that can be mapped.
fn named(error: Error) -> Error {
    match error {
        Error::File { path, needed, found } if needed.starts_with("an index of nearfield") => mismatch(
            &path,
            format!("rows of .npy, .fbin, .f16bin, .bf16bin, .i8bin or .u8bin, or {needed}"),
            found,
        ),
        other => other,
    }
}

/// The rows of an npy array.
fn npy(path: &Path, bytes: &[u8]) -> Result<Place> {
    let fill = |offset: u64, buffer: &mut [u8]| {
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        std::io::Read::read_exact(&mut &*rest, buffer)
    };
    let NpyHeader { dtype, shape, fortran, length } = NpyHeader::read(path, bytes.len() as u64, fill)?;
    let needed = "dtype '<f4', '<f2', '|i1' or '|u1', in little endian, which is used in place";
    // A single byte has no order.
    let elements = ElementKind::find(|about| {
        let is_same = |npy: &str| npy == dtype || npy.starts_with('|') && dtype.get(1..) == npy.get(1..);
        about.npy.is_some_and(is_same)
    });
    let elements = elements.ok_or_else(|| mismatch(path, needed, format!("dtype '{dtype}'")))?;
    let &[rows, dim] = shape.as_slice() else {
        let found = format!("{} (shape {shape:?})", shape.len());
        return Err(mismatch(path, "an array of 2 dimensions", found));
    };
    if fortran && rows > 1 && dim > 1 {
        let needed = "an array in C order, whose rows are used in place";
        return Err(mismatch(path, needed, "one in Fortran order"));
    }
    Ok(Place { elements, shape: [rows, dim], start: length })
}

/// The rows of a file of the fbin family: u32 rows, u32 dim, then the elements.
fn with_header(path: &Path, bytes: &[u8], elements: ElementKind) -> Result<Place> {
    let &[rows, dim, ..] = bytes.as_chunks::<4>().0 else {
        let found = format!("{} bytes", bytes.len());
        return Err(mismatch(path, "a header of 8 bytes (u32 rows, u32 dim)", found));
    };
    let shape = [rows, dim].map(|number| u32::from_le_bytes(number).into());
    Ok(Place { elements, shape, start: 8 })
}

/// What a saved index has beside its rows.
struct Saved {
    /// The id of each row; none where rows are tokens.
    ids: Vec<u64>,
    next: u64,
    quantizes: bool,
    checksum: Checksum,
    documents: Option<SavedDocuments>,
}

/// The rows of a saved index of one of these kinds.
fn saved(path: &Path, bytes: &[u8], metric: Metric, kinds: &[SavedKind]) -> Result<(Place, Saved)> {
    // The errors of bytes in memory name no file.
    let named = |error| match error {
        Error::File { needed, found, .. } => mismatch(path, needed, found),
        Error::Io { cause, .. } => Error::Io { path: path.into(), cause },
        other => other,
    };
    let read = || {
        let reader = Reader::from_bytes(bytes)?;
        let (start, written) = reader.place("rows")?;
        let loading = Loading::new(reader, kinds)?;
        let documents = loading.about.documents.map(|_| loading.documents()).transpose()?;
        let ids = if documents.is_some() { vec![] } else { loading.ids()? };
        Ok((start, written, (ids, documents), loading.about))
    };
    let (start, written, (ids, documents), about) = read().map_err(named)?;
    if about.metric != metric {
        let needed = format!("an index of metric {}", metric.name());
        return Err(mismatch(path, needed, format!("one of metric {}", about.metric.name())));
    }
    let shape = [about.rows as u64, about.dim as u64];
    let checksum = Checksum { written, seen: Xxh3Default::new() };
    let (next, quantizes) = (about.next, about.quantizes);
    Ok((
        Place { elements: about.elements, shape, start },
        Saved { ids, next, quantizes, checksum, documents },
    ))
}
