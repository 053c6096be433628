//! The screens: kernels that score rows, each with everything that plans and searches need to know about it.
//!
//! A new screen is a new [`ScoreKernel`] and its place in [`screens`]. Plans, searches and scratch buffers follow from the values.

use crate::elements::ElementKind;
use crate::engine::rows::quantized::{QuantizedRows, QuantizedSegment, TERMS_BYTES};
use crate::engine::rows::segments::GpuRows;
use crate::error::{Error, Result};
use crate::gpu::{Buffer, Commands, Gpu, Wanted};
use crate::kernels::distance_tile::TILE_QUERIES;
use crate::kernels::{
    BLOCK_ROWS, Kernel, Part, Scored, collect, collect_tile_coop, collect_tile_i8, distance_scan,
    distance_tile, pick, screen_scan_i8, screen_tile_coop, screen_tile_i8,
};
use crate::metric::{Form, Metric};
use crate::screen::certificate::Intervals;

/// A kernel whose scores tell which rows may be among the nearest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScreenKernel {
    /// `distance_scan`: reads every row once for up to four queries.
    Scan,
    /// `distance_tile`: tiles of 128 queries by 128 rows.
    Tile,
    /// `screen_scan_i8`: reads every quantised row once for up to eight queries.
    ScanI8,
    /// `collect_tile_i8`: tiles of quantised queries and rows, by integer products.
    TileI8,
    /// `collect_tile_coop`: the same tiles on cooperative matrices.
    TileCoop,
}

impl ScreenKernel {
    pub(crate) fn kernel(self) -> &'static ScoreKernel {
        match self {
            Self::Scan => &SCAN,
            Self::Tile => &TILE,
            Self::ScanI8 => &SCAN_I8,
            Self::TileI8 => &TILE_I8,
            Self::TileCoop => &TILE_COOP,
        }
    }
}

/// One kernel of a screen.
#[derive(Debug)]
pub(crate) struct ScoreKernel {
    pub(crate) name: ScreenKernel,
    /// Its name in profiles and in plans.
    pub(crate) stage: &'static str,
    /// Buffers hold a multiple of this many queries.
    pub(crate) unit: u32,
    /// How many times k rows pass a threshold, out of as many rows as it was taken from. Wider intervals let more pass: those of
    /// integers may be as wide as the distances of a cluster differ (data around 256 centres, with noise as large as they are).
    pub(crate) spread: u32,
    /// Planes of integers of up to two queries, and of more; 0 for kernels that score f32. A query with two planes is the sum of
    /// two integer vectors, which makes its own residual vanish. For one or two queries that costs nothing, because their
    /// scan waits for memory. For more it would cost arithmetic.
    planes: [u32; 2],
    /// Whether it reports the best intervals of each block, from which `pick` takes a threshold.
    pub(crate) has_bests: bool,
    /// A second kernel, which collects rows as it scores them. Where there is one, scores go to memory for a sample of the rows only,
    /// from which the first threshold is taken.
    pub(crate) collects: Option<&'static Kernel>,
    /// Its speed where matrices or products are weak, in multiples of f32 kernels: so much longer may a submission be.
    pub(crate) speed: u64,
    /// Queries of the largest batch. More of them take the screen's next kernel, which is then as fast. A batch of the last kernel is so
    /// large that reading the rows costs little beside the arithmetic.
    pub(crate) most_queries: u64,
    /// The intervals of its scores.
    pub(crate) intervals: fn(&GpuRows, Metric) -> Result<Intervals>,
    /// The form of those intervals.
    pub(crate) form: fn(Metric) -> Form,
    encode: fn(&Scoring<'_>, &mut Commands<'_>, Part) -> Result<()>,
    /// What `encode` records for rows of this metric and element type.
    pub(crate) scoring: fn(Metric, ElementKind) -> Vec<Wanted>,
}

const SCAN: ScoreKernel = ScoreKernel {
    name: ScreenKernel::Scan,
    stage: "distance_scan",
    unit: distance_scan::QUERIES_AT_ONCE,
    spread: 4,
    planes: [0, 0],
    has_bests: false,
    collects: None,
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

const TILE: ScoreKernel = ScoreKernel {
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

const SCAN_I8: ScoreKernel = ScoreKernel {
    name: ScreenKernel::ScanI8,
    stage: "screen_scan_i8",
    unit: collect::AT_ONCE,
    spread: 8,
    planes: [2, 1],
    has_bests: true,
    collects: None,
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
            Wanted::of(&pick::KERNEL).with("FORM", form),
            scan(2).with("QUERIES", 1),
            scan(2).with("QUERIES", 2),
            scan(1),
        ]
    },
};

const TILE_I8: ScoreKernel = ScoreKernel {
    name: ScreenKernel::TileI8,
    stage: "screen_tile_i8",
    unit: TILE_QUERIES,
    spread: 16,
    planes: [1, 1],
    has_bests: false,
    collects: Some(&collect_tile_i8::KERNEL),
    most_queries: 1024,
    encode: |scoring, commands, part| {
        let (quantized, scored) = scoring.integers(part)?;
        quantized.encode_tile(commands, &scored)
    },
    scoring: |_, _| vec![Wanted::of(&screen_tile_i8::KERNEL)],
    ..SCAN_I8
};

/// The tiles of [`TILE_I8`], on adapters with cooperative matrices.
const TILE_COOP: ScoreKernel = ScoreKernel {
    name: ScreenKernel::TileCoop,
    stage: "screen_tile_coop",
    collects: Some(&collect_tile_coop::KERNEL),
    speed: 10,
    most_queries: 2048,
    scoring: |_, _| vec![Wanted::of(&screen_tile_coop::KERNEL)],
    ..TILE_I8
};

/// A screen: kernels for few queries and for more.
#[derive(Debug)]
pub(crate) struct ScreenKernels {
    /// Each takes batches of up to its `most_queries`. These are the counts at which it costs as much as the next one, which takes as
    /// long for fewer (on an H200 at dim 768: `docs/lessons.md`).
    pub(crate) kernels: &'static [&'static ScoreKernel],
    /// If a filter allows less than this share of the rows, their distances are computed without scoring the others: `refine`
    /// reaches about a tenth of a f32 tile's speed, and integers are scored several times as fast.
    pub(crate) selective_share: u64,
}

const FLOATS: ScreenKernels = ScreenKernels { kernels: &[&SCAN, &TILE], selective_share: 16 };
const INTEGERS: ScreenKernels = ScreenKernels { kernels: &[&SCAN_I8, &TILE_I8], selective_share: 64 };
/// Where tiles of bytes take longer than those of floats, as on GPUs without an instruction for their products.
const INTEGERS_BUT_TILES: ScreenKernels = ScreenKernels { kernels: &[&SCAN_I8, &TILE], ..INTEGERS };
const INTEGERS_COOP: ScreenKernels = ScreenKernels { kernels: &[&SCAN_I8, &TILE_COOP], ..INTEGERS };

/// The screens of an index, fastest first. A query whose candidates overflow with one is searched again with the next. The last
/// one scores the rows as they are, where the device has them.
pub(crate) fn screens(rows: &GpuRows) -> Vec<&'static ScreenKernels> {
    let has_matrices = screen_tile_coop::is_expected(&rows.gpu);
    let mut screens = screens_of(rows.quantized.as_ref().map(|_| has_matrices));
    if rows.keeps_rows
        && rows.quantized.is_some()
        && !has_matrices
        && rows.gpu.compiler.batches_take_floats(rows.dim, rows.layout.elements)
    {
        screens[0] = &INTEGERS_BUT_TILES;
    }
    // The last one needs the rows on the device.
    screens.truncate(screens.len() - usize::from(!rows.keeps_rows));
    screens
}

/// The screens of an index with a quantised copy, which cooperative matrices score or not, or of one without.
pub(crate) fn screens_of(has_matrices: Option<bool>) -> Vec<&'static ScreenKernels> {
    match has_matrices {
        Some(true) => vec![&INTEGERS_COOP, &FLOATS],
        Some(false) => vec![&INTEGERS, &FLOATS],
        None => vec![&FLOATS],
    }
}

/// The screens behind that with this kernel. One that computes wrongly has been replaced by the first.
pub(crate) fn behind<'s>(
    screens: &'s [&'static ScreenKernels],
    kernel: ScreenKernel,
) -> &'s [&'static ScreenKernels] {
    let has_it = |screen: &&ScreenKernels| screen.kernels.iter().any(|one| one.name == kernel);
    screens.get(screens.iter().rposition(has_it).unwrap_or(0) + 1..).unwrap_or_default()
}

impl ScoreKernel {
    /// How many queries buffers have to hold for this many.
    pub(crate) fn padded(&self, queries: u64) -> u64 {
        queries.next_multiple_of(self.unit.into())
    }

    /// This kernel, or the one in its place where cooperative matrices compute wrongly. The first tiles of a device wait for that test,
    /// and it for the compiler.
    pub(crate) async fn tested(&'static self, gpu: &Gpu, metric: Metric) -> Result<&'static Self> {
        let needs_test = self.name == ScreenKernel::TileCoop;
        let is_replaced = needs_test && !screen_tile_coop::is_usable(gpu, (self.form)(metric)).await?;
        Ok(if is_replaced { &TILE_I8 } else { self })
    }

    /// The kernel that scores rows to memory. The sample of a tile of few queries is scanned.
    pub(crate) fn scores_with(&'static self, queries: u64) -> &'static Self {
        if self.collects.is_some() && self.padded(queries) == u64::from(TILE_QUERIES) {
            &SCAN_I8
        } else {
            self
        }
    }

    /// Whether it scores quantised vectors.
    pub(crate) fn is_quantized(&self) -> bool {
        self.planes[1] > 0
    }

    /// Planes of integers in which this many queries are quantised; 0 for f32.
    pub(crate) fn planes(&self, queries: u64) -> u32 {
        self.planes[usize::from(queries > 2)]
    }

    /// Scratch bytes of a query's integers and terms. A scan's few queries take a whole block.
    pub(crate) fn quantized_bytes(&self, rows: &GpuRows) -> u64 {
        let Some(quantized) = rows.quantized.as_ref().filter(|_| self.is_quantized()) else { return 0 };
        let share = u64::from(BLOCK_ROWS / self.unit.min(BLOCK_ROWS));
        u64::from(self.planes(1)) * quantized.vector_bytes() * share + TERMS_BYTES
    }
}

/// The queries of a batch, and the buffer of their scores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scoring<'a> {
    pub(crate) kernel: &'static ScoreKernel,
    pub(crate) rows: &'a GpuRows,
    pub(crate) metric: Metric,
    /// f32, for the kernels that score rows as they are.
    pub(crate) queries: &'a Buffer,
    /// Integers, for the other kernels.
    pub(crate) quantized_queries: &'a Buffer,
    pub(crate) count: u32,
    pub(crate) scores: &'a Buffer,
    /// Queries that a block of scores holds.
    pub(crate) padded: u32,
    /// Planes of `quantized_queries`.
    pub(crate) planes: u32,
    pub(crate) intervals: Intervals,
    pub(crate) query_terms: &'a Buffer,
    /// One bit per slot, if some rows may not be found.
    pub(crate) allowed: Option<&'a Buffer>,
    /// Receives the best intervals.
    pub(crate) best: &'a Buffer,
    /// Blocks of the chunk that is scored.
    pub(crate) blocks: u32,
}

impl Scoring<'_> {
    /// Records the kernel for a part of a segment.
    pub(crate) fn encode(&self, commands: &mut Commands<'_>, part: Part) -> Result<()> {
        (self.kernel.encode)(self, commands, part)
    }

    /// The queries, the rows of a part as they are, and the rows' element type and length in vectors of four.
    fn floats(&self, part: Part) -> Result<(Scored<'_>, (ElementKind, u32))> {
        let rows = &self.rows.segments[part.segment].stored()?.rows;
        Ok((self.scored(self.queries, rows, part), (self.rows.layout.elements, self.rows.vectors())))
    }

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

    fn scored<'s>(&self, queries: &'s Buffer, rows: &'s Buffer, part: Part) -> Scored<'s>
    where
        Self: 's,
    {
        Scored { queries, count: self.count, rows, scores: self.scores, room: self.padded, part }
    }
}

/// How rows are quantised, and the copy of a segment.
pub(crate) fn quantized_segment(
    rows: &GpuRows,
    segment: usize,
) -> Result<(&QuantizedRows, &QuantizedSegment)> {
    Ok((quantized(rows)?, rows.segments[segment].quantized.as_ref().ok_or_else(no_copy)?))
}

fn quantized(rows: &GpuRows) -> Result<&QuantizedRows> {
    rows.quantized.as_ref().ok_or_else(no_copy)
}

fn no_copy() -> Error {
    Error::internal("the plan needs a quantised copy, which the index does not have")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_that_its_test_replaced_is_followed_by_that_of_floats() {
        let names =
            |screens: &[&ScreenKernels]| screens.iter().map(|one| one.kernels[0].name).collect::<Vec<_>>();
        let follows = |has_matrices, kernel| names(behind(&screens_of(has_matrices), kernel));
        for has_matrices in [true, false] {
            for kernel in [ScreenKernel::TileCoop, ScreenKernel::TileI8] {
                assert_eq!(
                    follows(Some(has_matrices), kernel),
                    names(&[&FLOATS]),
                    "{has_matrices} {kernel:?}"
                );
            }
        }
        assert!(
            follows(Some(true), ScreenKernel::Tile).is_empty()
                && follows(None, ScreenKernel::Scan).is_empty()
        );
        assert!(behind(&[], ScreenKernel::Tile).is_empty());
    }
}
