//! The kernels that score codes, and what plans and searches need to know about each.

use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::int8::codes::{QuantizedRows, QuantizedSegment};
use crate::engine::screens::int8::tiles::Tiles;
use crate::engine::screens::score::{Collecting, ScoreKernel, Scoring, ScreenKernel, ScreenKernels};
use crate::error::{Error, Result};
use crate::gpu::{Commands, Wanted};
use crate::kernels::collect_tile_i8::{RoundPart, Tile};
use crate::kernels::distance_tile::TILE_QUERIES;
use crate::kernels::pick::Picked;
use crate::kernels::{
    Kernel, Part, Scored, collect, collect_tile_coop, collect_tile_i8, pick, screen_scan_i8,
};
use crate::metric::Form;

pub(in crate::engine::screens) const INTEGERS: ScreenKernels =
    ScreenKernels { kernels: &[&SCAN_I8, &TILE_I8], selective_share: 64 };
pub(in crate::engine::screens) const INTEGERS_COOP: ScreenKernels =
    ScreenKernels { kernels: &[&SCAN_BEFORE_MATRICES, &TILE_COOP], ..INTEGERS };

pub(in crate::engine::screens) const SCAN_I8: ScoreKernel = ScoreKernel {
    name: ScreenKernel::ScanI8,
    stage: "screen_scan_i8",
    unit: collect::AT_ONCE,
    spread: 8,
    planes: [2, 1],
    picks: Some(|scoring, commands, part, into| {
        pick::encode(commands, (scoring.scores, scoring.padded), &scoring.scan(part)?, part, into)
    }),
    collects: None,
    few: None,
    replaced_by: None,
    speed: 1,
    most_queries: 36,
    intervals: |rows, _| Ok(quantized(rows)?.intervals()),
    form: Form::quantized,
    encode: |scoring, commands, part| {
        let (quantized, scored) = scoring.integers(part)?;
        quantized.encode_scan(commands, &scored, &scoring.scan(part)?, scoring.planes)
    },
    scoring: |metric, _| {
        let form = Form::quantized(metric) as u32;
        let scan = |planes| Wanted::of(&screen_scan_i8::KERNEL).with("FORM", form).with("PLANES", planes);
        // Two planes are for one or two queries.
        vec![
            scan(2).with("QUERIES", 1),
            Wanted::of(&pick::KERNEL).with("FORM", form),
            scan(2).with("QUERIES", 2),
            scan(1),
        ]
    },
};

/// The screens of bits, whose codes are the rows themselves: their scores tell the distances.
pub(in crate::engine::screens) const BITS: ScreenKernels =
    ScreenKernels { kernels: &[&SCAN_BITS, &TILE_BITS], ..INTEGERS };
pub(in crate::engine::screens) const BITS_COOP: ScreenKernels =
    ScreenKernels { kernels: &[&SCAN_BITS_BEFORE_MATRICES, &TILE_BITS_COOP], ..INTEGERS };

pub(in crate::engine::screens) const SCAN_BITS: ScoreKernel = ScoreKernel {
    name: ScreenKernel::ScanBits,
    // A query has no residual.
    planes: [1, 1],
    scoring: |metric, _| {
        let form = Form::quantized(metric) as u32;
        let scan = Wanted::of(&screen_scan_i8::KERNEL).with("FORM", form).with("PLANES", 1);
        vec![scan.clone().with("QUERIES", 1), Wanted::of(&pick::KERNEL).with("FORM", form), scan]
    },
    ..SCAN_I8
};

pub(in crate::engine::screens) const TILE_BITS: ScoreKernel =
    ScoreKernel { name: ScreenKernel::TileBits, stage: "screen_tile_bits", few: Some(&SCAN_BITS), ..TILE_I8 };

/// The tiles of [`TILE_BITS`] on cooperative matrices, which multiply bytes of 0 and 1. The sample is counted as there.
pub(in crate::engine::screens) const TILE_BITS_COOP: ScoreKernel = ScoreKernel {
    name: ScreenKernel::TileBitsCoop,
    collects: Some(Collecting { kernel: Tiles::Matrices.collects(), encode: encode_collecting }),
    replaced_by: Some(&TILE_BITS),
    speed: 10,
    most_queries: 2048,
    ..TILE_BITS
};

/// Scans where matrices multiply tiles: a low tile takes more queries in as little time. Two scans of eight queries of bits take a little
/// less than a tile, which makes bytes of bits first (docs/lessons.md).
const SCAN_BITS_BEFORE_MATRICES: ScoreKernel = ScoreKernel { most_queries: 16, ..SCAN_BITS };
const SCAN_BEFORE_MATRICES: ScoreKernel = ScoreKernel { most_queries: 12, ..SCAN_I8 };

pub(in crate::engine::screens) const TILE_I8: ScoreKernel = ScoreKernel {
    name: ScreenKernel::TileI8,
    stage: "screen_tile_i8",
    unit: TILE_QUERIES,
    spread: 16,
    planes: [1, 1],
    picks: None,
    collects: Some(Collecting { kernel: Tiles::Bytes.collects(), encode: encode_collecting }),
    few: Some(&SCAN_I8),
    most_queries: 1024,
    encode: |scoring, commands, part| {
        let (quantized, scored) = scoring.integers(part)?;
        quantized.encode_tile(commands, Tiles::Bytes, &scored)
    },
    scoring: |_, _| vec![Wanted::of(Tiles::Bytes.scores())],
    ..SCAN_I8
};

/// The tiles of [`TILE_I8`], on adapters with cooperative matrices.
pub(in crate::engine::screens) const TILE_COOP: ScoreKernel = ScoreKernel {
    name: ScreenKernel::TileCoop,
    stage: "screen_tile_coop",
    collects: Some(Collecting { kernel: Tiles::Matrices.collects(), encode: encode_collecting }),
    replaced_by: Some(&TILE_I8),
    speed: 10,
    most_queries: 2048,
    encode: |scoring, commands, part| {
        let (quantized, scored) = scoring.integers(part)?;
        quantized.encode_tile(commands, Tiles::Matrices, &scored)
    },
    scoring: |_, _| vec![Wanted::of(Tiles::Matrices.scores())],
    ..TILE_I8
};

impl Scoring<'_> {
    /// The quantised queries and rows of a part.
    fn integers(&self, part: Part) -> Result<(&QuantizedRows, Scored<'_>)> {
        let (quantized, copy) = quantized_segment(self.rows, part.segment)?;
        Ok((quantized, self.scored(self.quantized_queries, &copy.rows, part)))
    }

    /// The intervals of quantised rows.
    pub(crate) fn scan(&self, part: Part) -> Result<screen_scan_i8::Scan<'_>> {
        let segment = &self.rows.segments[part.segment];
        let (_, copy) = quantized_segment(self.rows, part.segment)?;
        Ok(screen_scan_i8::Scan {
            form: self.intervals.form,
            margin: self.intervals.margin,
            row_terms: &copy.terms,
            query_terms: self.query_terms,
            allowed: self.allowed,
            best: self.best,
            blocks: self.blocks,
            rows: segment.len,
            first_slot: segment.first_slot,
        })
    }
}

/// Scores blocks of rows, and makes those candidates that their scores do not exclude.
fn encode_collecting(
    scoring: &Scoring<'_>,
    commands: &mut Commands<'_>,
    kernel: &'static Kernel,
    part: &RoundPart,
    into: &Picked<'_>,
) -> Result<()> {
    let segment = &scoring.rows.segments[part.segment];
    let (quantized, copy) = quantized_segment(scoring.rows, part.segment)?;
    let [first_query, lists] = into.pairs.unwrap_or([0, into.queries]);
    let params = collect_tile_i8::Params {
        granules: quantized.granules(),
        queries: into.queries,
        rows: segment.len,
        first_slot: segment.first_slot,
        capacity: into.capacity,
        plane: lists * into.capacity,
        first_query,
        ..collect_tile_i8::Params::of(scoring.intervals.margin)
    };
    let buffers = collect_tile_i8::Buffers {
        queries: scoring.quantized_queries,
        rows: &copy.rows,
        row_terms: &copy.terms,
        query_terms: scoring.query_terms,
        thresholds: into.thresholds,
        allowed: scoring.allowed.unwrap_or(into.thresholds),
        counts: into.counts.into(),
        candidates: into.candidates,
    };
    let (form, has_bitset, of_pairs) =
        (scoring.intervals.form, scoring.allowed.is_some(), into.pairs.is_some());
    let height = match of_pairs {
        true => kernel.heights().last().copied(),
        false => collect_tile_coop::height_for(commands.gpu(), kernel, form.counts_bits(), into.queries),
    };
    let tile = Tile { form, has_bitset, of_pairs, height };
    collect_tile_i8::encode(commands, kernel, tile, part, params, &buffers)
}

/// How rows are quantised, and the copy of a segment.
fn quantized_segment(rows: &GpuRows, segment: usize) -> Result<(&QuantizedRows, &QuantizedSegment)> {
    Ok((quantized(rows)?, rows.segments[segment].quantized.as_ref().ok_or_else(no_copy)?))
}

fn quantized(rows: &GpuRows) -> Result<&QuantizedRows> {
    rows.quantized.as_ref().ok_or_else(no_copy)
}

fn no_copy() -> Error {
    Error::internal("the plan needs a quantised copy, which the index does not have")
}
