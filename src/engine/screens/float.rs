//! The screen that scores rows as they are.

use crate::engine::screens::score::{ScoreKernel, Scoring, ScreenKernel, ScreenKernels};
use crate::error::Result;
use crate::gpu::{RowLayout, Wanted};
use crate::kernels::distance_tile::TILE_QUERIES;
use crate::kernels::{Part, Scored, distance_scan, distance_tile};
use crate::metric::Form;
use crate::screen::certificate::Intervals;

pub(super) const FLOATS: ScreenKernels = ScreenKernels { kernels: &[&SCAN, &TILE], selective_share: 20 };

pub(super) const SCAN: ScoreKernel = ScoreKernel {
    name: ScreenKernel::Scan,
    stage: "distance_scan",
    unit: distance_scan::QUERIES_AT_ONCE,
    spread: 4,
    planes: [0, 0],
    picks: None,
    collects: None,
    few: None,
    replaced_by: None,
    speed: 1,
    most_queries: 16,
    intervals: |rows, metric| Ok(Intervals::of_floats((SCAN.form)(metric), rows.dim)),
    form: Form::of_sums,
    encode: |scoring, commands, part| {
        let (scored, rows) = scoring.floats(part)?;
        distance_scan::encode(commands, &scored, rows, scoring.metric.adds_differences())
    },
    scoring: |metric, elements| {
        vec![
            Wanted::of(&distance_scan::KERNEL)
                .rows(elements)
                .with("DIRECT", metric.adds_differences().into()),
        ]
    },
};

pub(super) const TILE: ScoreKernel = ScoreKernel {
    name: ScreenKernel::Tile,
    stage: "distance_tile",
    unit: TILE_QUERIES,
    most_queries: 1024,
    intervals: |rows, metric| Ok(Intervals::of_floats(Form::of_products(metric), rows.dim)),
    form: Form::of_products,
    encode: |scoring, commands, part| {
        let (scored, rows) = scoring.floats(part)?;
        distance_tile::encode(commands, &scored, rows)
    },
    scoring: |_, elements| vec![Wanted::of(&distance_tile::KERNEL).rows(elements)],
    ..SCAN
};

impl Scoring<'_> {
    /// The queries and the rows of a part as they are, and how the rows lie.
    fn floats(&self, part: Part) -> Result<(Scored<'_>, RowLayout)> {
        let rows = &self.rows.segments[part.segment].stored()?.rows;
        Ok((self.scored(self.queries, rows, part), self.rows.layout))
    }
}
