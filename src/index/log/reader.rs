//! Reads a log: finds the changes that are whole, and tells an unfinished one from damage.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::files::{PositionedFile, failed, mismatch};
use crate::index::log::place::log_path;
use crate::index::log::record::{CHECKSUM_BYTES, ChangeKind, HEAD_BYTES, LogShape, Record, may_begin};
use crate::interrupt;
use crate::memory;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// A log, and the changes in it that are whole.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: PositionedFile,
    pub(crate) shape: LogShape,
    /// The records of whole changes, in their order.
    pub(crate) records: Vec<Record>,
    /// The end of the last whole change.
    pub(crate) end: u64,
    /// The end of the file when it was read.
    length: u64,
}

impl Log {
    /// Reads the log of an index, if its shape is wanted; none where there is no log, or one that no change has reached.
    ///
    /// # Errors
    /// [`Error::File`] for a file that is no log, and with the byte of a damaged record that the disk had as a whole.
    pub(crate) fn read(
        index: &Path,
        is_wanted: impl FnOnce(LogShape) -> Result<bool>,
    ) -> Result<Option<Self>> {
        let path = log_path(index);
        let file = match PositionedFile::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed(&path))?,
        };
        let length = file.length();
        if length < HEAD_BYTES as u64 {
            return Ok(None);
        }
        let mut header = [0; HEAD_BYTES];
        file.fill(0, &mut header).map_err(failed(&path))?;
        let Some(shape) = LogShape::of_header(&header) else {
            // A crash of the machine can leave the room of a header without its bytes.
            if length == HEAD_BYTES as u64 {
                return Ok(None);
            }
            return Err(mismatch(
                &path,
                "the log of an index, version 1",
                "a header that is damaged or another's",
            ));
        };
        if !is_wanted(shape)? {
            return Ok(None);
        }
        let mut log = Self { path, file, shape, records: vec![], end: HEAD_BYTES as u64, length };
        log.read_on()?;
        Ok(Some(log))
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes behind the last whole change: of one that was not finished.
    pub(crate) fn unfinished(&self) -> u64 {
        self.length - self.end
    }

    /// Bytes of the whole changes.
    pub(crate) fn bytes(&self) -> u64 {
        self.end - HEAD_BYTES as u64
    }

    /// The most rows that an index of this many has on the way through the changes.
    pub(crate) fn most_rows(&self, rows: u64) -> u64 {
        let (mut now, mut most) = (rows, rows);
        for record in &self.records {
            match record.kind {
                ChangeKind::Add => now += record.count,
                ChangeKind::Remove => now = now.saturating_sub(record.count),
                _ => {}
            }
            most = most.max(now);
        }
        most
    }

    /// The index that the log beside a file is of, whatever the file is by now; none without a log.
    pub(crate) fn index_of(path: &Path) -> Option<u64> {
        let mut header = [0; HEAD_BYTES];
        let file = PositionedFile::open(&log_path(path)).ok()?;
        file.fill(0, &mut header).ok()?;
        Some(LogShape::of_header(&header)?.index)
    }

    /// How many ids the changes of one kind have.
    pub(crate) fn ids(&self, kind: ChangeKind) -> u64 {
        self.records.iter().filter(|record| record.kind == kind).map(|record| record.count).sum()
    }

    /// Looks for changes that were appended since; false when the log is of another index by now.
    pub(crate) fn refresh(&mut self) -> Result<bool> {
        let file = PositionedFile::open(&self.path).map_err(failed(&self.path))?;
        let mut header = [0; HEAD_BYTES];
        let is_same = file.length() >= self.end && {
            file.fill(0, &mut header).map_err(failed(&self.path))?;
            LogShape::of_header(&header) == Some(self.shape)
        };
        if is_same {
            (self.length, self.file) = (file.length(), file);
            self.records.clear();
            self.read_on()?;
        }
        Ok(is_same)
    }

    /// Looks for changes behind those that were read.
    fn read_on(&mut self) -> Result<()> {
        let mut change: Vec<Record> = vec![];
        let mut at = self.end;
        loop {
            let Some(record) = self.record(at)? else {
                // A writer may have finished the record between the two looks.
                if at < self.length && self.is_durable(at)? && self.record(at)?.is_none() {
                    let found = "damaged bytes, which the disk had before";
                    return Err(mismatch(&self.path, format!("a whole record at byte {at}"), found));
                }
                return Ok(());
            };
            interrupt::check()?;
            at = record.end(self.shape).unwrap_or(self.length);
            if record.kind.has_body() {
                memory::reserve_more(&mut change, 1)?;
                change.push(record);
                continue;
            }
            memory::reserve_more(&mut self.records, change.len())?;
            self.records.append(&mut change);
            self.end = at;
        }
    }

    /// The record at a place; none where no whole one is.
    fn record(&self, offset: u64) -> Result<Option<Record>> {
        let mut head = [0; HEAD_BYTES];
        if offset + HEAD_BYTES as u64 > self.length {
            return Ok(None);
        }
        self.fill(offset, &mut head)?;
        let record = Record::of_head(&head, self.shape, offset);
        let Some((record, end)) = record.and_then(|record| Some((record, record.end(self.shape)?))) else {
            return Ok(None);
        };
        if end > self.length {
            return Ok(None);
        }
        let is_whole = !record.kind.has_body() || self.check(&record, end, &mut |_| Ok(()))?;
        Ok(is_whole.then_some(record))
    }

    /// Reads the body of a record up to its checksum, piece by piece, and says whether that is right.
    fn check(&self, record: &Record, end: u64, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let mut sum = self.shape.checksum(record.offset);
        let (mut at, stop) = (record.offset + HEAD_BYTES as u64, end - CHECKSUM_BYTES as u64);
        let mut piece = memory::filled(PIECE.min((stop - at) as usize), 0)?;
        while at < stop {
            let bytes = (stop - at).min(piece.len() as u64) as usize;
            self.fill(at, &mut piece[..bytes])?;
            sum.update(&piece[..bytes]);
            take(&piece[..bytes])?;
            at += bytes as u64;
        }
        let mut written = [0; CHECKSUM_BYTES];
        self.fill(stop, &mut written)?;
        Ok(u64::from_le_bytes(written) == sum.digest())
    }

    /// Whether a record behind this place says that the disk had all bytes before it.
    fn is_durable(&self, place: u64) -> Result<bool> {
        let mut piece = memory::filled(PIECE.min(self.length as usize), 0)?;
        let mut at = place.next_multiple_of(8);
        while at + HEAD_BYTES as u64 <= self.length {
            interrupt::check()?;
            let bytes = (self.length - at).min(piece.len() as u64) as usize;
            self.fill(at, &mut piece[..bytes])?;
            // A head that begins in one piece may end in the next.
            let starts = bytes - HEAD_BYTES + 1;
            for start in (0..starts).step_by(8).filter(|&start| may_begin(&piece[start..])) {
                let head = std::array::from_fn(|byte| piece[start + byte]);
                let record = Record::of_head(&head, self.shape, at + start as u64);
                if record.is_some_and(|record| record.kind == ChangeKind::Synced) {
                    return Ok(true);
                }
            }
            at += starts.next_multiple_of(8) as u64;
        }
        Ok(false)
    }

    /// The ids of a record, and the bytes of its rows. A writer may have emptied the log since it was read.
    pub(crate) fn body(&self, record: &Record) -> Result<(Vec<u64>, Vec<u8>)> {
        let [ids, rows] = record.body(self.shape).unwrap_or_default();
        let mut bytes: Vec<u8> = vec![];
        let end = record.end(self.shape).unwrap_or_default();
        let is_same = self.check(record, end, &mut |piece| {
            memory::reserve_more(&mut bytes, piece.len())?;
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        if !is_same {
            let needed = format!("a whole record at byte {}", record.offset);
            return Err(mismatch(&self.path, needed, "bytes that were written since"));
        }
        let values = bytes[..ids as usize].as_chunks().0.iter().map(|id| u64::from_le_bytes(*id));
        let values = memory::collect(values)?;
        Ok((values, memory::copied(&bytes[ids as usize..(ids + rows) as usize])?))
    }

    fn fill(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.fill(offset, bytes).map_err(|cause| Error::Io { path: self.path.clone(), cause })
    }
}
