//! A change of rows, as an index asks for it: new rows, rows that move, rows that go.

use std::borrow::Cow;
use std::sync::Arc;

use crate::elements::{HostVectors, Matrix};
use crate::engine::device::vectors::{OnHost, Vectors};
use crate::engine::rows::write::Placing;
use crate::error::Result;

/// The slots that a change fills and frees. The caller chooses them: those behind the end are created, and those left out below it become
/// tombstones.
#[derive(Default)]
pub(crate) struct Edit<'a> {
    /// New rows, one for each filled slot. An edit that fills slots without new rows moves rows: each from a freed slot to the filled one at
    /// its place.
    rows: Option<NewRows<'a>>,
    /// Distinct slots without a row.
    pub(crate) filled: Cow<'a, [u32]>,
    /// The id of each new row.
    pub(crate) ids: Cow<'a, [u64]>,
    /// Distinct slots that lose their row.
    pub(crate) freed: Cow<'a, [u32]>,
}

enum NewRows<'a> {
    Given(Vectors<'a>),
    Copied(Matrix),
}

impl<'a> From<OnHost<'a>> for NewRows<'a> {
    fn from(rows: OnHost<'a>) -> Self {
        match rows {
            OnHost::Borrowed(rows) => Self::Given(rows.into()),
            OnHost::Owned(matrix) => Self::Copied(matrix),
        }
    }
}

impl<'a> Edit<'a> {
    pub(crate) fn put(rows: Vectors<'a>, placing: &Placing<'a>) -> Arc<Self> {
        let &Placing { slots, ids, freed } = placing;
        let rows = Some(NewRows::Given(rows));
        Arc::new(Self { rows, filled: slots.into(), ids: ids.into(), freed: freed.into() })
    }

    pub(crate) fn release(freed: &'a [u32]) -> Arc<Self> {
        Arc::new(Self { freed: freed.into(), ..Self::default() })
    }

    pub(crate) fn relocate(from: &'a [u32], to: &'a [u32]) -> Arc<Self> {
        Arc::new(Self { filled: to.into(), freed: from.into(), ..Self::default() })
    }

    /// The part of a change that falls to one of several devices, in the slots of that device.
    pub(crate) fn part(
        rows: Option<OnHost<'a>>,
        filled: Vec<u32>,
        ids: Vec<u64>,
        freed: Vec<u32>,
    ) -> Arc<Self> {
        let rows = rows.filter(|_| !filled.is_empty()).map(NewRows::from);
        Arc::new(Self { rows, filled: filled.into(), ids: ids.into(), freed: freed.into() })
    }

    /// The same change with new rows in the host's memory.
    pub(crate) async fn fetched(self: &Arc<Self>) -> Result<Arc<Self>> {
        let Some(NewRows::Given(rows @ Vectors::Device(_))) = &self.rows else { return Ok(self.clone()) };
        let rows = Some(rows.fetched().await?.into());
        let (filled, ids, freed) = (self.filled.clone(), self.ids.clone(), self.freed.clone());
        Ok(Arc::new(Self { rows, filled, ids, freed }))
    }

    pub(crate) fn rows(&self) -> Option<Vectors<'_>> {
        Some(match self.rows.as_ref()? {
            NewRows::Given(rows) => *rows,
            NewRows::Copied(matrix) => matrix.into(),
        })
    }

    /// The new rows, where they are in the memory of the host or of the host engine.
    pub(crate) fn rows_on_host(&self) -> Result<Option<HostVectors<'_>>> {
        self.rows().map(Vectors::on_host).transpose()
    }

    /// The new rows with these numbers, which ascend.
    pub(crate) fn chosen(&self, numbers: &[usize]) -> Result<Option<OnHost<'a>>> {
        Ok(Some(match &self.rows {
            None => return Ok(None),
            Some(NewRows::Given(rows)) => rows_at(rows.on_host()?, numbers)?,
            Some(NewRows::Copied(matrix)) => OnHost::Owned(HostVectors::from(matrix).chosen(numbers)?),
        }))
    }

    /// Where new rows go.
    pub(crate) fn placing(&self) -> Placing<'_> {
        Placing { slots: &self.filled, ids: &self.ids, freed: &self.freed }
    }

    /// Whether rows move.
    pub(crate) fn moves(&self) -> bool {
        self.rows.is_none() && !self.filled.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.filled.is_empty() && self.freed.is_empty()
    }
}

/// The rows with these numbers, which ascend.
pub(crate) fn rows_at<'a>(rows: HostVectors<'a>, numbers: &[usize]) -> Result<OnHost<'a>> {
    let first = numbers.first().copied().unwrap_or(0);
    let end = numbers.last().map_or(first, |last| last + 1);
    if end - first == numbers.len() {
        return Ok(OnHost::Borrowed(rows.slice(first..end)));
    }
    rows.chosen(numbers).map(OnHost::Owned)
}
