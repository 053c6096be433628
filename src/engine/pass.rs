//! The steps that searches, training and changes of an index record: norms of vectors, distances as they are reported, and the nearest
//! of some candidates. Each kernel's parameters are put together here and nowhere else in the engine.

use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, Gpu, RowLayout};
use crate::kernels::{norms, refine, select_k};
use crate::metric::Metric;

/// Vectors in a buffer, one after another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferVectors<'a> {
    pub(crate) values: BufferSlice<'a>,
    pub(crate) layout: RowLayout,
}

impl BufferVectors<'_> {
    /// Groups of four elements in a vector, as kernels count them.
    fn quads(&self) -> u32 {
        (self.layout.stride / 4) as u32
    }
}

/// Writes that no vector was refused yet, as [`encode_norms`] needs it.
pub(crate) async fn reset_refused(gpu: &Gpu, refused: &Buffer) -> Result<()> {
    gpu.upload_bytes(refused, 0, &NONE_REFUSED).await
}

/// What says that no vector was refused.
pub(crate) const NONE_REFUSED: [u8; 8] = [0xff; 8];

/// Records the norms of the vectors `range`, and the check of their values. `refused` then tells the first vector with a bad value,
/// counted from `first_number`: see [`norms::check`].
pub(crate) fn encode_norms(
    commands: &mut Commands<'_>,
    vectors: BufferVectors<'_>,
    ([first_row, end_row], first_number): ([u32; 2], u32),
    (norms, refused): (BufferSlice<'_>, BufferSlice<'_>),
) -> Result<()> {
    let params = norms::Params { vectors: vectors.quads(), first_row, end_row, first_number };
    norms::encode(commands, vectors.layout.elements, &params, [vectors.values, norms, refused])
}

/// Rows whose distances can be computed: a segment of an index, or centroids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Table<'a> {
    pub(crate) vectors: BufferVectors<'a>,
    pub(crate) rows: u32,
    pub(crate) first_slot: u32,
    /// u64 for each row.
    pub(crate) ids: BufferSlice<'a>,
}

/// Distances to compute as they are reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refining<'a> {
    pub(crate) metric: Metric,
    /// f32, padded as rows are.
    pub(crate) queries: BufferSlice<'a>,
    pub(crate) count: u32,
    /// Whether elements of queries and rows are integers: see [`refine::Refine::integral`].
    pub(crate) integral: bool,
    pub(crate) candidates: refine::Candidates<'a>,
    /// Receives the keys of the distances and the ids of their rows.
    pub(crate) found: select_k::Selected<'a>,
}

impl Refining<'_> {
    /// Records the kernel for the candidates in one table. Candidates in no table so far are marked absent by the first one.
    pub(crate) fn encode(&self, commands: &mut Commands<'_>, table: Table<'_>, is_first: bool) -> Result<()> {
        let refining = refine::Refine {
            metric: self.metric,
            queries: self.queries,
            count: self.count,
            rows: table.vectors.values,
            elements: table.vectors.layout.elements,
            in_blocks: table.vectors.layout.in_blocks,
            integral: self.integral,
            vectors: table.vectors.quads(),
            row_count: table.rows,
            first_slot: table.first_slot,
            ids: table.ids,
            candidates: self.candidates,
            keys: self.found.keys,
            found_ids: self.found.ids,
            mark_absent: is_first,
        };
        refine::encode(commands, &refining)
    }
}

/// Keys and ids in two whole buffers.
pub(crate) fn keys_and_ids<'a>(keys: &'a Buffer, ids: &'a Buffer) -> select_k::Selected<'a> {
    select_k::Selected { keys: BufferSlice::all(keys), ids: BufferSlice::all(ids) }
}

/// The nearest rows to select for each query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection<'a> {
    pub(crate) k: u32,
    pub(crate) selected: select_k::Selected<'a>,
    /// Distance between the results of two queries.
    pub(crate) pitch: u32,
    /// Receives how many results each query has.
    pub(crate) counts: BufferSlice<'a>,
    /// A second place as large as `selected`, used for more than [`select_k::SORTED_MAX`] results.
    pub(crate) spare: Option<select_k::Selected<'a>>,
}

impl<'a> Selection<'a> {
    /// The k nearest, one query after another, into whole buffers.
    pub(crate) fn into(
        k: u32,
        keys: &'a Buffer,
        ids: &'a Buffer,
        counts: &'a Buffer,
        spare: [&'a Buffer; 2],
    ) -> Self {
        let (selected, spare) = (keys_and_ids(keys, ids), Some(keys_and_ids(spare[0], spare[1])));
        Self { k, selected, pitch: k, counts: counts.into(), spare }
    }

    /// Records the selection from the refined candidates `from`, where `rows` says which candidates each of `count` queries has.
    pub(crate) fn encode(
        &self,
        commands: &mut Commands<'_>,
        from: select_k::Selected<'_>,
        rows: select_k::Rows<'_>,
        count: u32,
    ) -> Result<()> {
        let select = select_k::Select {
            keys: from.keys,
            ids: Some(from.ids),
            floats: false,
            rows,
            count,
            k: self.k,
            selected: self.selected,
            selected_pitch: self.pitch,
            selected_counts: self.counts,
            spare: self.spare.filter(|_| self.k > select_k::SORTED_MAX),
            scratch: None,
        };
        crate::kernels::selection::encode(commands, &select)
    }
}

/// The candidate rows of each query: slots, with room for `capacity` of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CandidateLists<'a> {
    pub(crate) slots: BufferSlice<'a>,
    /// How many candidates each query has. Only the first `capacity` are there.
    pub(crate) counts: BufferSlice<'a>,
    pub(crate) capacity: u32,
}

impl<'a> CandidateLists<'a> {
    /// The candidates as [`Refining`] takes them. With `slots` they are places on that list, of this length.
    pub(crate) fn to_refine(self, slots: Option<(BufferSlice<'a>, u32)>) -> refine::Candidates<'a> {
        let Self { slots: candidates, counts, capacity: pitch } = self;
        refine::Candidates::Lists { candidates, counts, slots, pitch }
    }

    /// The refined candidates as [`Selection`] takes them.
    pub(crate) fn to_select(self) -> select_k::Rows<'a> {
        select_k::Rows::Lists { counts: self.counts, pitch: self.capacity }
    }
}
