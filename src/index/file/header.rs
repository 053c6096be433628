//! The header of a saved index: metadata, tensors and their checksums.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::files::mismatch;

/// The value of `format`. Model files have `pt` or `np` here.
const FORMAT: &str = "nearfield";
/// The only `version` written and read.
const VERSION: &str = "1";
/// The most bytes of a header's text. Headers of indexes have a few hundred.
pub(crate) const LONGEST: usize = 1 << 20;
/// Bytes that hold the length of the header's text, before it. The text is padded to a multiple of this number.
pub(crate) const PREFIX: usize = 8;
/// Placeholder for a checksum. It is as long as a checksum, so replacing it moves nothing.
const UNKNOWN: &str = "0000000000000000";
/// The key of the header's own checksum.
const OWN: &str = "xxh3.header";

/// The content of a header.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    /// Sorted by key, unlike the map of `safetensors`, so that the same index always gives the same bytes.
    metadata: BTreeMap<String, String>,
    /// Sorted by offset. Only tensors without elements can share an offset; these are sorted by name.
    tensors: Vec<(String, TensorInfo)>,
}

impl Header {
    /// The header of a new file whose tensors follow each other in the given order.
    pub(crate) fn new(metadata: &[(&str, String)], tensors: &[(&str, Dtype, &[usize])]) -> Result<Self> {
        let mut map = BTreeMap::new();
        let own = [("format", FORMAT.into()), ("version", VERSION.into()), (OWN, UNKNOWN.into())];
        let sums = tensors.iter().map(|(name, ..)| (checksum_key(name), UNKNOWN.to_owned()));
        let given = metadata.iter().chain(&own).map(|(key, value)| ((*key).to_owned(), value.clone()));
        for (key, value) in sums.chain(given) {
            if map.contains_key(&key) {
                let needed = "tensors and keys once each, and no reserved ones";
                return Err(Error::argument("metadata", needed, key));
            }
            map.insert(key, value);
        }
        let mut end = 0usize;
        let mut placed = vec![];
        for &(name, dtype, shape) in tensors {
            let element = dtype.bitsize() / 8;
            let start = end;
            end = end_of(start, dtype, shape).ok_or_else(|| {
                let needed = "fewer bytes than this host can count";
                Error::argument("tensors", needed, describe(name, dtype, shape))
            })?;
            // Readers that map files into memory need aligned elements. This also refuses elements smaller than a byte.
            if element == 0 || !start.is_multiple_of(element) {
                let given = format!("{} at byte {start}", describe(name, dtype, shape));
                return Err(Error::argument("tensors", "wider elements before narrower ones", given));
            }
            let info = TensorInfo { dtype, shape: shape.to_vec(), data_offsets: (start, end) };
            placed.push((name.to_owned(), info));
        }
        let header = Self::sorted(map, placed);
        match header.render() {
            Ok(bytes) if bytes.len() <= PREFIX + LONGEST => Ok(header),
            _ => Err(Error::argument("metadata", format!("at most {LONGEST} bytes"), "more")),
        }
    }

    /// Parses `bytes`, which are the length prefix and the header's text.
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Self> {
        let header = Self::of_json(&bytes[PREFIX..])
            .map_err(|error| mismatch(path, "a file of safetensors", error.to_string()))?;
        match header.get("format") {
            Some(FORMAT) => {}
            Some(other) => {
                let found = format!("safetensors of format {other:?}");
                return Err(mismatch(path, "an index of nearfield", found));
            }
            None => {
                return Err(mismatch(path, "an index of nearfield", "safetensors without metadata `format`"));
            }
        }
        match header.get("version") {
            Some(VERSION) => {}
            Some(other) => {
                let needed = format!("an index of version {VERSION}, which this release of nearfield reads");
                return Err(mismatch(path, needed, format!("version {other}")));
            }
            None => return Err(mismatch(path, "metadata `version`", "none")),
        }
        let mut end = 0;
        for (name, info) in header.tensors() {
            let found =
                || format!("{} at bytes {:?}", describe(name, info.dtype, &info.shape), info.data_offsets);
            if info.data_offsets.0 != end || end_of(end, info.dtype, &info.shape) != Some(info.data_offsets.1)
            {
                return Err(mismatch(
                    path,
                    format!("a tensor from byte {end} on, of the bytes of its shape"),
                    found(),
                ));
            }
            end = info.data_offsets.1;
        }
        // Only headers that `render` would write are valid. This also finds duplicate names, which the maps have dropped.
        let own = header.get(OWN).unwrap_or_default();
        if !header.render().is_ok_and(|rendered| rendered == bytes) {
            return Err(mismatch(path, "a header as nearfield writes it", "a damaged one"));
        }
        let sealed = header.own_checksum().map_err(|cause| Error::Io { path: path.into(), cause })?;
        if own != sealed {
            let needed = format!("a header of checksum {own:?}");
            return Err(mismatch(path, needed, format!("one of {sealed:?}")));
        }
        Ok(header)
    }

    /// Reads the text as it is. The crate's own `Metadata` counts the bits of a tensor in a `usize`, which has 32 bits in a browser: rows of
    /// 512 MiB have more.
    fn of_json(text: &[u8]) -> serde_json::Result<Self> {
        let mut all: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(text)?;
        let metadata = all.remove("__metadata__").map(serde_json::from_value).transpose()?;
        let tensors = all.into_iter().map(|(name, info)| Ok((name, serde_json::from_value(info)?)));
        Ok(Self::sorted(metadata.unwrap_or_default(), tensors.collect::<serde_json::Result<_>>()?))
    }

    fn sorted(metadata: BTreeMap<String, String>, mut tensors: Vec<(String, TensorInfo)>) -> Self {
        tensors.sort_by(|(left, a), (right, b)| (a.data_offsets, left).cmp(&(b.data_offsets, right)));
        Self { metadata, tensors }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    pub(crate) fn tensors(&self) -> &[(String, TensorInfo)] {
        &self.tensors
    }

    pub(crate) fn data_bytes(&self) -> usize {
        self.tensors.last().map_or(0, |(_, info)| info.data_offsets.1)
    }

    /// The first bytes of the file. Their number does not depend on the values of checksums.
    pub(crate) fn render(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; PREFIX];
        bytes.extend(br#"{"__metadata__":"#);
        serde_json::to_writer(&mut bytes, &self.metadata)?;
        for (name, info) in &self.tensors {
            bytes.push(b',');
            serde_json::to_writer(&mut bytes, name)?;
            bytes.push(b':');
            serde_json::to_writer(&mut bytes, info)?;
        }
        bytes.push(b'}');
        bytes.resize(bytes.len().next_multiple_of(PREFIX), b' ');
        let length = (bytes.len() - PREFIX) as u64;
        bytes[..PREFIX].copy_from_slice(&length.to_le_bytes());
        Ok(bytes)
    }

    /// The checksum of the header, which tells the index from every other.
    pub(crate) fn identity(&self) -> u64 {
        self.get(OWN).and_then(|sum| u64::from_str_radix(sum, 16).ok()).unwrap_or_default()
    }

    pub(crate) fn set_checksum(&mut self, tensor: &str, checksum: u64) {
        self.metadata.insert(checksum_key(tensor), digits(checksum));
    }

    /// The checksum of a tensor as digits.
    pub(crate) fn checksum(&self, tensor: &str) -> Option<&str> {
        self.get(&checksum_key(tensor))
    }

    /// The first bytes of the file, including their own checksum.
    pub(crate) fn seal(mut self) -> io::Result<Vec<u8>> {
        let own = self.own_checksum()?;
        self.metadata.insert(OWN.into(), own);
        self.render()
    }

    /// The checksum of the first bytes of the file, with zeros in its own place.
    fn own_checksum(&self) -> io::Result<String> {
        let mut blank = self.clone();
        blank.metadata.insert(OWN.into(), UNKNOWN.into());
        Ok(digits(xxh3_64(&blank.render()?)))
    }
}

/// Where a tensor ends that starts at this byte, if this host can count so far.
fn end_of(start: usize, dtype: Dtype, shape: &[usize]) -> Option<usize> {
    // Elements smaller than a byte are none of an index.
    let element = Some(dtype.bitsize() / 8).filter(|&bytes| bytes > 0)?;
    start.checked_add(shape.iter().try_fold(element, |bytes, &length| bytes.checked_mul(length))?)
}

/// A checksum as the header stores it.
pub(crate) fn digits(checksum: u64) -> String {
    format!("{checksum:016x}")
}

pub(crate) fn describe(name: &str, dtype: Dtype, shape: &[usize]) -> String {
    format!("tensor {name}: {dtype} {shape:?}")
}

fn checksum_key(tensor: &str) -> String {
    format!("xxh3.{tensor}")
}
