//! The bytes of a log: a header, then records, each of a head and, where it changes rows, a body.
//!
//! All numbers are little endian. The checksum of each part is seeded with the index and the place in the file, so that bytes of an older log,
//! or of another place, are never taken for a record.

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// The first bytes of a log: its name and version.
const MAGIC: [u8; 8] = *b"nflog\0\0\x01";

/// The first bytes of a record.
const RECORD: [u8; 4] = *b"nfrc";

/// Bytes of the header of a log, and of the head of a record.
pub(super) const HEAD_BYTES: usize = 32;

/// Bytes of the checksum behind a body.
pub(super) const CHECKSUM_BYTES: usize = 8;

/// Records begin at multiples of this.
const ALIGNMENT: u64 = 8;

/// What every record of a log shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogShape {
    /// The checksum of the header of the index that the changes are of, which holds those of all its bytes.
    pub(crate) index: u64,
    /// Bytes of a row.
    pub(crate) row_bytes: u64,
}

impl LogShape {
    /// The header of a log.
    pub(super) fn header(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.index.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.row_bytes.to_le_bytes());
        seal(&mut bytes, 0);
        bytes
    }

    pub(super) fn of_header(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        let shape = Self { index: number(bytes, 8), row_bytes: number(bytes, 16) };
        (shape.header() == *bytes).then_some(shape)
    }

    /// The seed of the checksums of the record at this place.
    fn seed(self, offset: u64) -> u64 {
        self.index.wrapping_add(offset)
    }

    /// The checksum of the body of the record at this place, without bytes yet.
    pub(super) fn checksum(self, offset: u64) -> Xxh3 {
        Xxh3::with_seed(self.seed(offset))
    }
}

/// What a record is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Add = 1,
    Update = 2,
    Remove = 3,
    /// The records before this one, behind the last of its kind, are a whole change, and the index has made it.
    End = 4,
    /// The disk had all bytes before this record when it was written.
    Synced = 5,
}

impl ChangeKind {
    const ALL: [Self; 5] = [Self::Add, Self::Update, Self::Remove, Self::End, Self::Synced];

    /// Whether there are ids behind the head.
    pub(super) fn has_body(self) -> bool {
        !matches!(self, Self::End | Self::Synced)
    }

    /// Whether the body has rows behind the ids.
    fn has_rows(self) -> bool {
        matches!(self, Self::Add | Self::Update)
    }
}

/// The head of a record, and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(super) offset: u64,
    pub(crate) kind: ChangeKind,
    /// The number of ids.
    pub(crate) count: u64,
    /// The insertion number of the next row after the change.
    pub(crate) next: u64,
}

impl Record {
    pub(super) fn head(&self, shape: LogShape) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&RECORD);
        bytes[4] = self.kind as u8;
        bytes[8..16].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.next.to_le_bytes());
        seal(&mut bytes, shape.seed(self.offset));
        bytes
    }

    /// The record whose head is at this place; none for other bytes.
    pub(super) fn of_head(bytes: &[u8; HEAD_BYTES], shape: LogShape, offset: u64) -> Option<Self> {
        let kind = ChangeKind::ALL.into_iter().find(|&kind| kind as u8 == bytes[4])?;
        let record = Self { offset, kind, count: number(bytes, 8), next: number(bytes, 16) };
        (record.head(shape) == *bytes).then_some(record)
    }

    /// Bytes of the ids, and of the rows behind them; none where no file holds as many.
    pub(super) fn body(&self, shape: LogShape) -> Option<[u64; 2]> {
        let row_bytes = if self.kind.has_rows() { shape.row_bytes } else { 0 };
        Some([self.count.checked_mul(size_of::<u64>() as u64)?, self.count.checked_mul(row_bytes)?])
    }

    /// Bytes from the end of the rows to the checksum.
    pub(super) fn padding([ids, rows]: [u64; 2]) -> u64 {
        (ids + rows).next_multiple_of(ALIGNMENT) - (ids + rows)
    }

    /// Where the next record begins.
    pub(super) fn end(&self, shape: LogShape) -> Option<u64> {
        let head = self.offset.checked_add(HEAD_BYTES as u64)?;
        if !self.kind.has_body() {
            return Some(head);
        }
        let [ids, rows] = self.body(shape)?;
        let body = ids.checked_add(rows)?.checked_next_multiple_of(ALIGNMENT)?;
        head.checked_add(body)?.checked_add(CHECKSUM_BYTES as u64)
    }
}

/// Whether a record may begin with these bytes.
pub(super) fn may_begin(bytes: &[u8]) -> bool {
    bytes.starts_with(&RECORD)
}

/// Writes the checksum of the other bytes into the last ones.
fn seal(bytes: &mut [u8; HEAD_BYTES], seed: u64) {
    let sum = xxh3_64_with_seed(&bytes[..HEAD_BYTES - CHECKSUM_BYTES], seed);
    bytes[HEAD_BYTES - CHECKSUM_BYTES..].copy_from_slice(&sum.to_le_bytes());
}

fn number(bytes: &[u8; HEAD_BYTES], place: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[place + byte]))
}
