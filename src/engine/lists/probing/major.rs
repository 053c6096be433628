//! The list-major form: queries grouped by the lists they probe, screened by tiles of integers.

use crate::engine::lists::probing::form::Form;
use crate::engine::lists::probing::{Buffer, Buffers, Probing};
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands};
use crate::kernels::screen_lists_i8::{HEIGHT, ListBlocks};
use crate::kernels::{group, list_work, narrow, screen_lists_coop, screen_lists_i8, tighten, winnow};
use crate::matrix::ElementKind;

impl Probing<'_> {
    /// The rows that cannot be excluded of the lists that are probed, on the queries' lists.
    pub(crate) fn encode_major(
        &self,
        commands: &mut Commands<'_>,
        form: &Form,
        buffers: &Buffers,
        count: u32,
    ) -> Result<()> {
        let Some(narrowed) = &self.rows.narrowed else { return Ok(()) };
        commands.stage("narrow");
        let narrowing = narrow::Narrow {
            metric: narrowed.metric,
            dim: narrowed.dim,
            rows: BufferSlice::all(&buffers[Buffer::Queries]),
            elements: ElementKind::F32,
            vectors: self.rows.vectors(),
            norms: BufferSlice::all(&buffers[Buffer::QueryNorms]),
            centre: BufferSlice::all(&narrowed.centre_buffer),
            range: [0, count],
            narrowed: BufferSlice::all(&buffers[Buffer::Narrowed]),
            terms: BufferSlice::all(&buffers[Buffer::Terms]),
            planes: 1,
            plane_bytes: buffers[Buffer::Narrowed].size(),
            slots: None,
        };
        narrow::encode(commands, &narrowing)?;
        commands.stage("group");
        commands.clear(&buffers[Buffer::ListCounts], 0, u64::from(self.lists()) * 4);
        let (form_of, margin) = narrowed.margin();
        let mut is_first = true;
        for (segment, tables) in self.rows.segments.iter().zip(&self.tables.segments) {
            let grouping = group::Group {
                probed: &buffers[Buffer::Probed],
                queries: count,
                probes: self.probes,
                lists: self.lists(),
                height: HEIGHT,
                counts: &buffers[Buffer::ListCounts],
                ranks: &buffers[Buffer::Ranks],
                starts: &buffers[Buffer::Starts],
                list_tiles: &tables.list_tiles,
                grouped: &buffers[Buffer::Grouped],
                pairs: &buffers[Buffer::Pairs],
            };
            commands.stage("group");
            if is_first {
                group::encode(commands, &grouping, false)?;
            }
            let counts = &buffers[Buffer::ListCounts];
            let starts = &buffers[Buffer::Starts];
            list_work::encode(commands, (self.lists(), HEIGHT), counts, &tables.list_tiles, starts)?;
            group::encode(commands, &grouping, true)?;
            let Some(copy) = &segment.narrowed else { continue };
            let most = tables.most_blocks(count, self.probes, HEIGHT);
            let mut first = 0;
            while u64::from(first) < most {
                commands.stage("screen_lists");
                let blocks = [first, form.blocks];
                let scoring = ListBlocks {
                    queries: &buffers[Buffer::Narrowed],
                    rows: &copy.rows,
                    segment: [segment.first_slot, segment.capacity],
                    granules: narrow::granules(self.rows.dim),
                    lists: self.lists(),
                    starts,
                    list_tiles: &tables.list_tiles,
                    tiles: &tables.tiles,
                    grouped: &buffers[Buffer::Grouped],
                    scores: &buffers[Buffer::Scores],
                    blocks,
                    most,
                };
                match narrowed.side {
                    Some(side) => screen_lists_coop::encode(commands, &scoring, side)?,
                    None => screen_lists_i8::encode(commands, &scoring)?,
                }
                commands.stage("winnow");
                let winnowing = winnow::Winnow {
                    form: form_of,
                    margin,
                    scores: &buffers[Buffer::Scores],
                    room: HEIGHT,
                    blocks,
                    row_terms: &copy.terms,
                    rows: segment.len,
                    first_slot: segment.first_slot,
                    query_terms: &buffers[Buffer::Terms],
                    queries: count,
                    k: form.k,
                    probed: Some(winnow::Probed {
                        probes: self.probes,
                        pairs: &buffers[Buffer::Pairs],
                        tiles: &tables.tiles,
                        allowed: self.allowed_buffer(buffers),
                    }),
                    counts: BufferSlice::all(&buffers[Buffer::Counts]),
                    lists: &buffers[Buffer::Lists],
                    capacity: form.capacity,
                    is_first,
                };
                winnow::encode(commands, &winnowing)?;
                is_first = false;
                first += form.blocks;
            }
        }
        // What is found in all blocks lies nearer than what one turn of them told.
        commands.stage("tighten");
        let tightening = tighten::Tighten {
            thresholds: &buffers[Buffer::Thresholds],
            counts: &buffers[Buffer::Counts],
            lists: &buffers[Buffer::Lists],
            overflowed: &buffers[Buffer::Overflowed],
            exact: None,
            unused: &buffers[Buffer::Keys],
            queries: count,
            k: form.k,
            capacity: form.capacity,
            is_first: true,
        };
        tighten::encode(commands, &tightening)
    }
}
