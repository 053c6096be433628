//! Finds the tensors of a file of safetensors.

use std::path::{Path, PathBuf};

use safetensors::tensor::{Metadata, TensorInfo};

use super::archive::{Archive, Array};
use super::npy::Header;
use crate::error::Result;
use crate::files::{PositionedFile, failed, mismatch};
use crate::io::element_type::ElementType;
use crate::io::location::member_path;
use crate::io::source::Source;

/// Bytes of the header's length, in front of it.
const PREFIX: u64 = 8;
/// The most bytes of a header. Those of language models have a few hundred kilobytes.
const LONGEST: u64 = 16 << 20;

/// An open file of safetensors.
#[derive(Debug)]
pub(in crate::io) struct Tensors {
    path: PathBuf,
    file: PositionedFile,
    /// The offset of the first tensor.
    data: u64,
    /// Sorted by name.
    tensors: Vec<(String, TensorInfo)>,
}

impl Tensors {
    /// Reads the header of a file.
    pub(in crate::io) fn open(path: &Path, file: PositionedFile) -> Result<Self> {
        const NEEDED: &str = "a file of safetensors";
        let bytes = |length| format!("{length} bytes");
        if file.length() < PREFIX {
            return Err(mismatch(path, NEEDED, bytes(file.length())));
        }
        let mut length = [0; PREFIX as usize];
        file.fill(0, &mut length).map_err(failed(path))?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST.min(file.length() - PREFIX) {
            let needed =
                format!("{NEEDED}, whose header has at most {LONGEST} bytes and lies within the file");
            return Err(mismatch(path, needed, format!("a header of {}", bytes(length))));
        }
        let mut header = vec![0; length as usize];
        file.fill(PREFIX, &mut header).map_err(failed(path))?;
        // The crate checks that tensors neither overlap nor leave gaps, and that their bytes fit their shapes.
        let metadata: Metadata = serde_json::from_slice(&header)
            .map_err(|error| mismatch(path, NEEDED, format!("a header with {error}")))?;
        let data = PREFIX + length;
        let end = data.saturating_add(metadata.data_len() as u64);
        if end != file.length() {
            return Err(mismatch(path, bytes(end), bytes(file.length())));
        }
        let tensors = metadata.tensors().into_iter();
        let mut tensors: Vec<_> = tensors.map(|(name, info)| (name.clone(), info.clone())).collect();
        tensors.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Self { path: path.into(), file, data, tensors })
    }
}

impl Archive for Tensors {
    fn path(&self) -> &Path {
        &self.path
    }

    fn names(&self) -> Box<dyn DoubleEndedIterator<Item = &str> + '_> {
        Box::new(self.tensors.iter().map(|(name, _)| name.as_str()))
    }

    fn array(&self, index: usize) -> Result<Array> {
        let (name, info) = &self.tensors[index];
        let (start, end) = info.data_offsets;
        let (start, length) = (self.data + start as u64, (end - start) as u64);
        Ok(Array {
            path: member_path(&self.path, name),
            source: Source::Stretch { file: self.file.clone(), start, length },
            header: Header {
                dtype: format!("{:?}", info.dtype),
                element: ElementType::of_tensor(info.dtype).map(|element| (element, false)),
                shape: info.shape.iter().map(|&length| length as u64).collect(),
                fortran: false,
                length: 0,
            },
        })
    }
}
