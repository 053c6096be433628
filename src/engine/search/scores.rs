//! The scores of a chunk, by the kernel of the plan.

use crate::engine::rows::narrowed::NarrowedSegment;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::plan::Nominator;
use crate::error::{Error, Result};
use crate::gpu::Commands;
use crate::kernels::{
    Part, distance_scan, distance_tile, narrow, screen_scan_i8, screen_tile_coop, screen_tile_i8,
};
use crate::metric::Metric;
use crate::screen::certificate::{Form, Margin};

/// The queries of a batch and where their scores go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scores<'a> {
    pub(crate) kernel: Nominator,
    pub(crate) metric: Metric,
    /// f32, for the kernels that take rows as they are.
    pub(crate) queries: &'a wgpu::Buffer,
    /// Integers, for the others.
    pub(crate) narrowed_queries: &'a wgpu::Buffer,
    pub(crate) count: u32,
    pub(crate) scores: &'a wgpu::Buffer,
    /// Queries that a block of scores has room for.
    pub(crate) room: u32,
    /// Planes of integers that queries are narrowed to.
    pub(crate) planes: u32,
}

/// The form of a kernel's scores, and how far they are off.
pub(crate) fn margin(rows: &GpuRows, kernel: Nominator, metric: Metric) -> (Form, Margin) {
    if let (true, Some(narrowed)) = (kernel.is_narrowed(), &rows.narrowed) {
        return narrowed.margin();
    }
    let form = match metric {
        Metric::L2Squared | Metric::L2 if kernel == Nominator::Scan => Form::Direct,
        Metric::L2Squared | Metric::L2 => Form::L2,
        Metric::Cosine => Form::Cosine,
        Metric::InnerProduct => Form::InnerProduct,
    };
    (form, Margin::of_rounding(form, rows.dim))
}

impl Scores<'_> {
    /// Records the kernel for a part of a segment.
    pub(crate) fn encode(&self, commands: &mut Commands<'_>, rows: &GpuRows, part: Part) -> Result<()> {
        let &Self { kernel, queries, count, scores, room, planes, .. } = self;
        let segment = &rows.segments[part.segment];
        let (elements, vectors) = (rows.layout.elements, rows.vectors());
        match kernel {
            Nominator::Scan => {
                let direct = margin(rows, kernel, self.metric).0 == Form::Direct;
                let rows = &segment.rows;
                let scan = distance_scan::Scan {
                    queries,
                    count,
                    rows,
                    elements,
                    vectors,
                    scores,
                    room,
                    part,
                    direct,
                };
                distance_scan::encode(commands, &scan)
            }
            Nominator::Tile => {
                let rows = &segment.rows;
                let tile =
                    distance_tile::Tile { queries, count, rows, elements, vectors, scores, room, part };
                distance_tile::encode(commands, &tile)
            }
            Nominator::ScanI8 | Nominator::TileI8 | Nominator::TileCoop => {
                let (Some(narrowed), Some(copy)) = (&rows.narrowed, &segment.narrowed) else {
                    return Err(Error::Device {
                        message: "a plan for narrowed rows, which are not there".into(),
                    });
                };
                let granules = narrow::granules(rows.dim);
                let queries = self.narrowed_queries;
                let NarrowedSegment { rows, .. } = copy;
                if kernel == Nominator::ScanI8 {
                    let finer = narrowed.narrowing.finer;
                    // A scan's few queries lie in one block.
                    let plane = granules * crate::kernels::BLOCK_ROWS;
                    let scan = screen_scan_i8::Scan {
                        queries,
                        count,
                        planes,
                        plane,
                        finer,
                        rows,
                        granules,
                        scores,
                        room,
                        part,
                    };
                    return screen_scan_i8::encode(commands, &scan);
                }
                let tile = screen_tile_i8::Tile { queries, count, rows, granules, scores, room, part };
                match narrowed.side {
                    Some(side) if kernel == Nominator::TileCoop => {
                        screen_tile_coop::encode(commands, &tile, side)
                    }
                    _ => screen_tile_i8::encode(commands, &tile),
                }
            }
        }
    }
}
