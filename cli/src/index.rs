//! An index of either kind, filled from vector files or loaded.

use std::path::Path;

use anyhow::Result;
use nearfield::{
    Device, Flat, Ivf, Matrix, MatrixView, Metric, Neighbors, SavedIndex, SearchOptions, Statistics,
};

use crate::output::counted;

/// An index of either kind.
pub(crate) enum Index {
    Flat(Box<Flat>),
    Ivf(Box<Ivf>),
}

/// Calls a method that both kinds have.
macro_rules! both {
    ($self:ident, $index:ident => $call:expr) => {
        match $self {
            Self::Flat($index) => $call,
            Self::Ivf($index) => $call,
        }
    };
}

impl Index {
    /// Loads the index of a file.
    pub(crate) fn load(device: &Device, path: &Path, about: &SavedIndex) -> nearfield::Result<Self> {
        match about.lists {
            None => Ok(Self::Flat(Box::new(Flat::load(device, path)?))),
            Some(_) => Ok(Self::Ivf(Box::new(Ivf::load(device, path)?))),
        }
    }

    /// Adds vectors, and reports the number sent so far.
    pub(crate) fn add(&mut self, rows: &Matrix, progress: impl FnMut(usize)) -> nearfield::Result<()> {
        both!(self, index => match rows {
            Matrix::F32(values, dim) => index.add_with_progress(MatrixView::new(values, *dim)?, progress),
            Matrix::F16(values, dim) => index.add_with_progress(MatrixView::new(values, *dim)?, progress),
        })
    }

    pub(crate) fn search(
        &self,
        queries: &Matrix,
        options: &SearchOptions<'_>,
    ) -> nearfield::Result<(Neighbors, Statistics)> {
        both!(self, index => match queries {
            Matrix::F32(values, dim) => index.search_with(MatrixView::new(values, *dim)?, options),
            Matrix::F16(values, dim) => index.search_with(MatrixView::new(values, *dim)?, options),
        })
    }

    /// Describes how a search for the k nearest of this number of queries runs.
    pub(crate) fn plan(&self, queries: usize, k: usize, probes: Option<usize>) -> Result<String> {
        Ok(match self {
            Self::Flat(index) => index.plan(queries, k)?.to_string(),
            Self::Ivf(index) => {
                // The default of the library.
                let probes = probes.unwrap_or(index.default_probes());
                format!("{probes} of {} a query", counted(index.lists(), "list", "lists"))
            }
        })
    }

    pub(crate) fn save(&self, path: &Path) -> nearfield::Result<()> {
        both!(self, index => index.save(path))
    }

    pub(crate) fn get(&self, id: u64) -> nearfield::Result<Vec<f32>> {
        both!(self, index => index.get(id))
    }

    /// One more than the largest id.
    pub(crate) fn ids_end(&self) -> u64 {
        both!(self, index => index.ids().last()).map_or(0, |id| id + 1)
    }

    pub(crate) fn len(&self) -> usize {
        both!(self, index => index.len())
    }

    pub(crate) fn metric(&self) -> Metric {
        both!(self, index => index.metric())
    }

    pub(crate) fn is_screened(&self) -> bool {
        both!(self, index => index.is_screened())
    }

    pub(crate) fn device(&self) -> &Device {
        both!(self, index => index.device())
    }
}
