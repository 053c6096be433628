//! Finds the datasets of an HDF5 file.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hdf5_reader::error::{Error as Hdf5Error, Result as Hdf5Result};
use hdf5_reader::{ByteOrder, Dataset, Datatype, Hdf5File, OpenOptions, Storage, StorageBuffer};

use super::archive::{Archive, Array};
use super::dataset::{DatasetBytes, of_system};
use super::npy::Header;
use crate::error::Result;
use crate::files::{PositionedFile, failed, mismatch};
use crate::io::element_type::ElementType;
use crate::io::location::member_path;
use crate::io::source::Source;
use crate::memory;

/// The most bytes of a chunk of elements, which is decoded as a whole.
const MOST_CHUNK_BYTES: usize = 256 << 20;
/// Bytes of decoded chunks that are kept for the next read.
const CACHE_BYTES: usize = 64 << 20;
/// No byte of a file stands for more bytes of elements than this, as deflate expands none to more.
const LARGEST_RATIO: u64 = 1032;

/// An open HDF5 file.
pub(in crate::io) struct Hdf5 {
    path: PathBuf,
    length: u64,
    file: Hdf5File,
    /// Those of the outermost group, or the one that was asked for.
    names: Vec<String>,
}

impl Hdf5 {
    /// Finds the datasets of a file: `name`, which may be a path of groups, or else all of the outermost group.
    pub(in crate::io) fn open(path: &Path, file: PositionedFile, name: Option<&str>) -> Result<Self> {
        let broken = |error: Hdf5Error| match error {
            Hdf5Error::Io(cause) => failed(path)(cause),
            other => mismatch(path, "an HDF5 file", other.to_string()),
        };
        let options =
            OpenOptions::default().with_chunk_cache_bytes(CACHE_BYTES).with_max_chunk_bytes(MOST_CHUNK_BYTES);
        let length = file.length();
        let file = Hdf5File::from_storage_with_options(Arc::new(Bytes(file)), options).map_err(broken)?;
        let names = match name.filter(|name| file.dataset(name).is_ok()) {
            Some(name) => vec![name.to_owned()],
            None => file.root_group().and_then(|group| group.member_names()).map_err(broken)?.1,
        };
        Ok(Self { path: path.into(), length, file, names })
    }
}

/// A type of elements in words.
fn named(dtype: &Datatype) -> String {
    match dtype {
        Datatype::FloatingPoint { size, .. } => format!("floats of {size} bytes"),
        Datatype::FixedPoint { size, signed, .. } => {
            format!("{} of {size} bytes", if *signed { "integers" } else { "unsigned integers" })
        }
        // The name of the variant.
        other => format!("{other:?}").chars().take_while(char::is_ascii_alphanumeric).collect(),
    }
}

impl Archive for Hdf5 {
    fn path(&self) -> &Path {
        &self.path
    }

    fn names(&self) -> Box<dyn DoubleEndedIterator<Item = &str> + '_> {
        Box::new(self.names.iter().map(String::as_str))
    }

    fn array(&self, index: usize) -> Result<Array> {
        let name = &self.names[index];
        let path = member_path(&self.path, name);
        let fault = |error: Hdf5Error| failed(&path)(of_system(error));
        let dataset = self.file.dataset(name).map_err(fault)?;
        let element = element(&dataset);
        let header = Header {
            dtype: named(dataset.dtype()),
            element,
            shape: dataset.shape().to_vec(),
            fortran: false,
            length: 0,
        };
        let size = element.map_or(1, |(element, _)| element.size());
        let row = header.shape.iter().skip(1).try_fold(size as u64, |row, &length| row.checked_mul(length));
        let length = row.zip(header.shape.first()).and_then(|(row, rows)| row.checked_mul(*rows));
        // A damaged file may claim any shape, and elements that were never written take no place.
        let (Some(row), Some(length)) = (row, length.filter(|length| length / LARGEST_RATIO <= self.length))
        else {
            let needed = format!("elements in a file of {} bytes", self.length);
            return Err(mismatch(&path, needed, format!("shape {:?}", header.shape)));
        };
        let source = Source::Dataset(Box::new(DatasetBytes::new(dataset, row, size, length)));
        Ok(Array { path, source, header })
    }
}

/// The element type of a dataset, and whether its bytes are big endian.
fn element(dataset: &Dataset) -> Option<(ElementType, bool)> {
    let (element, order) = match *dataset.dtype() {
        Datatype::FloatingPoint { size: 2, byte_order } => {
            // Where exponent and fraction lie, and how many bits they have.
            let element = match dataset.raw_datatype().ok()?.get(12..16)? {
                [10, 5, 0, 10] => ElementType::F16,
                [7, 8, 0, 7] => ElementType::BF16,
                _ => return None,
            };
            (element, byte_order)
        }
        Datatype::FloatingPoint { size, byte_order } => {
            (ElementType::named(&format!("float{}", 8 * u32::from(size)))?, byte_order)
        }
        Datatype::FixedPoint { size, signed, byte_order } => {
            let sign = if signed { "" } else { "u" };
            (ElementType::named(&format!("{sign}int{}", 8 * u32::from(size)))?, byte_order)
        }
        _ => return None,
    };
    Some((element, order == ByteOrder::BigEndian))
}

/// The bytes of a file.
struct Bytes(PositionedFile);

impl Storage for Bytes {
    fn len(&self) -> u64 {
        self.0.length()
    }

    fn read_range(&self, offset: u64, length: usize) -> Hdf5Result<StorageBuffer> {
        // Before anything is allocated: damaged files lead anywhere.
        if offset.checked_add(length as u64).is_none_or(|end| end > self.len()) {
            return Err(Hdf5Error::OffsetOutOfBounds(offset));
        }
        let out_of_memory = |_| Hdf5Error::Io(ErrorKind::OutOfMemory.into());
        let mut bytes = memory::filled(length, 0).map_err(out_of_memory)?;
        self.0.fill(offset, &mut bytes)?;
        Ok(StorageBuffer::from_vec(bytes))
    }
}
