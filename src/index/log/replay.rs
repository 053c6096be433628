//! Applies the changes of a log to an index.

use std::collections::HashSet;

use crate::elements::{ElementKind, Matrix};
use crate::engine::Vectors;
use crate::error::{Error, Result};
use crate::files::mismatch;
use crate::index::log::change::Change;
use crate::index::log::reader::Log;
use crate::index::log::record::{ChangeKind, Record};
use crate::index::saved::kept::FromSaved;
use crate::memory;

/// Bytes of rows that are applied together.
const TOGETHER: usize = 16 << 20;

/// Successive records of one kind, which an index takes at once: its changes cost time by themselves.
struct Batch {
    kind: ChangeKind,
    ids: Vec<u64>,
    rows: Vec<u8>,
    next: u64,
    /// The ids of an update, which has each once.
    updated: HashSet<u64>,
}

impl Batch {
    fn new() -> Self {
        let (ids, rows, updated) = (vec![], vec![], HashSet::new());
        Self { kind: ChangeKind::Synced, ids, rows, next: 0, updated }
    }

    /// Whether a record can go with those that are here.
    fn takes(&self, kind: ChangeKind, ids: &[u64], bytes: usize) -> bool {
        self.kind == kind
            && self.rows.len() + bytes <= TOGETHER
            && (kind != ChangeKind::Update || ids.iter().all(|id| !self.updated.contains(id)))
    }

    fn push(&mut self, record: &Record, ids: &[u64], rows: &[u8]) -> Result<()> {
        memory::reserve_more(&mut self.ids, ids.len())?;
        memory::reserve_more(&mut self.rows, rows.len())?;
        self.ids.extend(ids);
        self.rows.extend(rows);
        if record.kind == ChangeKind::Update {
            let bytes = size_of_val(ids) as u64;
            memory::granted(self.updated.try_reserve(ids.len()), bytes)?;
            self.updated.extend(ids);
        }
        (self.kind, self.next) = (record.kind, record.next);
        Ok(())
    }

    async fn apply(
        &mut self,
        index: &mut impl FromSaved,
        (elements, dim): (ElementKind, usize),
    ) -> Result<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let rows = match self.kind {
            ChangeKind::Add | ChangeKind::Update => Some(Matrix::of_bytes(elements, &self.rows, dim)?),
            ChangeKind::Remove | ChangeKind::End | ChangeKind::Synced => None,
        };
        let rows = rows.as_ref().map(Vectors::from);
        let change = Change { kind: self.kind, ids: &self.ids, rows, next: self.next, progress: None };
        index.apply(change).await?;
        *self = Self::new();
        Ok(())
    }
}

/// Applies the changes of a log that were read last.
///
/// # Errors
/// [`Error::File`] for changes that do not fit the index, such as the removal of a row that is not there.
pub(crate) async fn replay(index: &mut impl FromSaved, log: &Log) -> Result<()> {
    let common = index.common();
    let shape = (common.elements, common.dim);
    let mut batch = Batch::new();
    for record in &log.records {
        let (ids, rows) = log.body(record)?;
        if !batch.takes(record.kind, &ids, rows.len()) {
            batch.apply(index, shape).await.map_err(|error| blame(log, error))?;
        }
        batch.push(record, &ids, &rows)?;
    }
    batch.apply(index, shape).await.map_err(|error| blame(log, error))
}

/// Turns the error of a change that no index can have logged into one of the file.
fn blame(log: &Log, error: Error) -> Error {
    match error {
        Error::Argument { .. }
        | Error::UnknownId { .. }
        | Error::DuplicateId { .. }
        | Error::IdTooLarge { .. }
        | Error::NotFinite { .. }
        | Error::NormOutOfRange { .. } => {
            mismatch(log.path(), "changes of the index that it lies beside", error.to_string())
        }
        other => other,
    }
}
