//! The row store: which id lies in which slot, over the engine's rows.

use std::collections::HashMap;

use crate::engine::EngineRows;
use crate::error::{Error, Result};
use crate::matrix::{Element, MatrixView};

/// Ids are below this, so that files can hold them as i64 with -1 for none.
const ID_LIMIT: u64 = 1 << 63;

/// Rows with their ids. Rows are appended; slot numbers are their order.
#[derive(Debug)]
pub(crate) struct RowStore {
    pub(crate) rows: EngineRows,
    ids: Ids,
}

/// Ids of the slots, in order.
#[derive(Debug)]
enum Ids {
    /// Every row has its insertion number.
    Inserted(u64),
    /// The caller gave ids.
    Given { ids: Vec<u64>, slots: HashMap<u64, u32> },
}

impl RowStore {
    pub(crate) fn new(rows: EngineRows) -> Self {
        Self { rows, ids: Ids::Inserted(0) }
    }

    pub(crate) fn len(&self) -> u64 {
        self.rows.len()
    }

    /// Adds rows with the given ids, or their insertion numbers; all of them or, after an error, none.
    pub(crate) async fn add<T: Element>(
        &mut self,
        rows: MatrixView<'_, T>,
        ids: Option<&[u64]>,
        progress: impl FnMut(usize),
    ) -> Result<()> {
        let first = self.len();
        let given = match ids {
            Some(ids) => ids.to_vec(),
            None => (first..first + rows.rows() as u64).collect(),
        };
        if given.len() != rows.rows() {
            return Err(Error::argument("ids", format!("{} ids, one a row", rows.rows()), given.len()));
        }
        if let Some(&id) = given.iter().find(|&&id| id >= ID_LIMIT) {
            return Err(Error::IdTooLarge { id });
        }
        let next = match &self.ids {
            Ids::Inserted(count) if ids.is_none() => Ids::Inserted(count + given.len() as u64),
            Ids::Inserted(count) => Ids::given((0..*count).chain(given.iter().copied()))?,
            Ids::Given { ids, slots } => {
                // Only the new ids are looked at before the rows are in.
                let mut new = HashMap::with_capacity(given.len());
                for (slot, &id) in (ids.len() as u32..).zip(&given) {
                    if slots.contains_key(&id) || new.insert(id, slot).is_some() {
                        return Err(Error::DuplicateId { id });
                    }
                }
                self.rows.add(rows, &given, progress).await?;
                if let Ids::Given { ids, slots } = &mut self.ids {
                    ids.extend(given);
                    slots.extend(new);
                }
                return Ok(());
            }
        };
        self.rows.add(rows, &given, progress).await?;
        self.ids = next;
        Ok(())
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        match &self.ids {
            Ids::Inserted(count) => id < *count,
            Ids::Given { slots, .. } => slots.contains_key(&id),
        }
    }
}

impl Ids {
    fn given(all: impl Iterator<Item = u64>) -> Result<Self> {
        let ids: Vec<u64> = all.collect();
        let mut slots = HashMap::with_capacity(ids.len());
        for (slot, &id) in (0..).zip(&ids) {
            if slots.insert(id, slot).is_some() {
                return Err(Error::DuplicateId { id });
            }
        }
        Ok(Self::Given { ids, slots })
    }
}
