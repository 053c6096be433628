//! The contents of an index file: its description and its lists.

use crate::elements::ElementKind;
use crate::engine::{PAGE, STORED_BYTES, TERMS_BYTES};
use crate::error::Result;
use crate::gpu::RowLayout;
use crate::kernels::quantize;
use crate::memory;
use crate::metric::Metric;
use crate::options::quantization::Quantization;
use crate::screen::certificate::are_codes;

/// Bytes of rows on the host at a time: enough that the device and the disk are busy.
pub(super) const PIECE_BYTES: usize = 16 << 20;
/// Ids that are written at a time.
pub(super) const PIECE_IDS: usize = 1 << 16;

/// The description in an index file: see [`Flat::save`](crate::Flat::save).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SavedIndex {
    /// The lists of an [`Ivf`](crate::Ivf), or of the tokens of documents; none for an index without lists.
    pub lists: Option<usize>,
    /// The documents of a [`MultiVector`](crate::MultiVector), whose rows are their tokens; none for another index.
    pub documents: Option<usize>,
    /// The metric.
    pub metric: Metric,
    /// Elements per row.
    pub dim: usize,
    /// How rows are stored.
    pub elements: ElementKind,
    /// Whether rows of other types are quantised to that one: see [`FlatBuilder::store`](crate::FlatBuilder::store).
    pub quantizes: bool,
    /// How many rows there are.
    pub rows: usize,
    /// The quantisation that was asked for.
    pub quantization: Quantization,
    /// The insertion number of the next row, or document, without an id of its own.
    pub next: u64,
    /// The parts of the file and their bytes, in their order: see docs/files.md.
    pub parts: Vec<(String, u64)>,
}

impl SavedIndex {
    /// About how many bytes the index takes on a GPU once it is loaded with its rows there ([`Residency::Device`](crate::Residency::Device)), without the scratch memory of searches.
    /// [`Index::memory`](crate::Index::memory) tells the exact ones of a loaded index.
    pub fn device_bytes(&self) -> u64 {
        // A list leaves half of its last page empty, on average.
        let lists = self.lists.unwrap_or(0) as u64;
        let slots = self.rows as u64 + lists * u64::from(PAGE) / 2;
        let is_quantized = self.metric.counts_bits() || self.quantization.is_wanted_on_host(self.dim);
        let of = |vectors: u64, elements, dim| {
            let integers = quantize::plane_bytes(vectors, dim) + vectors * TERMS_BYTES;
            // Rows of integers are their own codes.
            let are_codes = is_quantized && are_codes(self.metric, elements, dim);
            let row = if are_codes { 0 } else { RowLayout::padded(elements, dim).row_bytes() };
            vectors * (row + STORED_BYTES) + if is_quantized { integers } else { 0 }
        };
        let mut of_rows = of(slots, self.elements, self.dim);
        if let (Some(_), true) = (self.documents, lists > 0) {
            // Tokens lie in lists as integers, beside those of the documents.
            of_rows = of(self.rows as u64, self.elements, self.dim) + of(slots, ElementKind::I8, self.dim);
        }
        of_rows + of(lists, ElementKind::F32, self.metric.dim_of_centroids(self.dim))
    }
}

/// The kinds of indexes, as files name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SavedKind {
    Flat,
    Ivf,
    MultiVector,
}

impl SavedKind {
    pub(crate) const ALL: [Self; 3] = [Self::Flat, Self::Ivf, Self::MultiVector];
    /// Those of rows that have an id each.
    pub(crate) const OF_ROWS: &'static [Self] = &[Self::Flat, Self::Ivf];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Ivf => "ivf",
            Self::MultiVector => "multivector",
        }
    }
}

/// The documents of an index.
#[derive(Debug)]
pub(crate) struct SavedDocuments {
    pub(crate) ids: Vec<u64>,
    /// Where the tokens of each begin among the rows of the file, and the end of the last: `[documents + 1]`.
    pub(crate) offsets: Vec<u64>,
    pub(crate) next: u64,
    /// The centroids of lists of tokens, `[lists, dim]`; none without lists.
    pub(crate) centroids: Option<Vec<f32>>,
}

impl SavedDocuments {
    /// The number of tokens of each document.
    pub(crate) fn lengths(&self) -> Result<Vec<usize>> {
        memory::collect(self.offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize))
    }
}

/// The lists of an index.
#[derive(Debug)]
pub(crate) struct SavedLists {
    /// Where each list starts among the rows of the file, and the end of the last: `[lists + 1]`.
    pub(crate) offsets: Vec<u64>,
    /// `[lists, dim]`.
    pub(crate) centroids: Vec<f32>,
}
