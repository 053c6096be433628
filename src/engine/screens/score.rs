//! A screen: kernels that score rows, each with everything that plans and searches need to know about it. Plans, searches and scratch
//! buffers follow from the values.

use crate::elements::ElementKind;
use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::int8::codes::TERMS_BYTES;
use crate::engine::screens::int8::tiles::Tiles;
use crate::error::Result;
use crate::gpu::{Buffer, Commands, Gpu, Wanted};
use crate::kernels::collect_tile_i8::RoundPart;
use crate::kernels::distance_tile::TILE_QUERIES;
use crate::kernels::pick::Picked;
use crate::kernels::{BLOCK_ROWS, Kernel, Part, Scored};
use crate::metric::{Form, Metric};
use crate::platform::CAN_WAIT;
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
    /// `screen_scan_i8` for rows of bits, which it counts.
    ScanBits,
    /// `collect_tile_i8` for rows of bits, which it counts.
    TileBits,
    /// `collect_tile_coop` for rows of bits, whose bytes of 0 and 1 it multiplies.
    TileBitsCoop,
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
    pub(crate) planes: [u32; 2],
    /// Puts rows of a part on candidate lists, with a threshold from the best intervals of each block. None if it does not report those.
    pub(crate) picks: Option<Pick>,
    /// A second kernel, which collects rows as it scores them. Where there is one, scores go to memory for a sample of the rows only,
    /// from which the first threshold is taken.
    pub(crate) collects: Option<Collecting>,
    /// The kernel that scores the sample of a tile of few queries.
    pub(crate) few: Option<&'static Self>,
    /// The kernel in its place where cooperative matrices compute wrongly.
    pub(crate) replaced_by: Option<&'static Self>,
    /// Its speed where matrices or products are weak, in multiples of f32 kernels: so much longer may a submission be.
    pub(crate) speed: u64,
    /// Queries of the largest batch. More of them take the screen's next kernel, which is then as fast. A batch of the last kernel is so
    /// large that reading the rows costs little beside the arithmetic.
    pub(crate) most_queries: u64,
    /// The intervals of its scores.
    pub(crate) intervals: fn(&GpuRows, Metric) -> Result<Intervals>,
    /// The form of those intervals.
    pub(crate) form: fn(Metric) -> Form,
    pub(crate) encode: fn(&Scoring<'_>, &mut Commands<'_>, Part) -> Result<()>,
    /// What `encode` records for rows of this metric and element type.
    pub(crate) scoring: fn(Metric, ElementKind) -> Vec<Wanted>,
}

/// A kernel that collects rows as it scores them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Collecting {
    pub(crate) kernel: &'static Kernel,
    pub(crate) encode: Collect,
}

/// Records the kernel that picks rows of a part.
type Pick = fn(&Scoring<'_>, &mut Commands<'_>, Part, &Picked<'_>) -> Result<()>;

/// Records a kernel for some blocks of a segment.
type Collect = fn(&Scoring<'_>, &mut Commands<'_>, &'static Kernel, &RoundPart, &Picked<'_>) -> Result<()>;

/// A screen: kernels for few queries and for more.
#[derive(Debug)]
pub(crate) struct ScreenKernels {
    /// Each takes batches of up to its `most_queries`. These are the counts at which it costs as much as the next one, which takes as
    /// long for fewer (on an H200 at dim 768: `docs/lessons.md`).
    pub(crate) kernels: &'static [&'static ScoreKernel],
    /// If a filter allows less than this share of the rows, their distances are computed without scoring the others. On an H200 at dim 128,
    /// `refine` of a 20th of the rows takes as long as scoring all in f32, for 100 queries and for 1,024. The share of integers, which are
    /// scored several times as fast, is an estimate.
    pub(crate) selective_share: u64,
}

impl ScreenKernels {
    /// Whether the lowest tile on matrices is not compiled yet, which takes longer than all other kernels of a search for few queries. Threads
    /// compile it from the making of an index on.
    pub(crate) fn is_compiling(&self, rows: &GpuRows) -> bool {
        let on_matrices = CAN_WAIT && self.kernels.last().is_some_and(|tile| tile.replaced_by.is_some());
        let codes = rows.quantized.as_ref().filter(|_| on_matrices);
        codes.is_some_and(|codes| !Tiles::are_compiled(&rows.gpu, codes.intervals().form))
    }
}

impl ScoreKernel {
    /// How many queries buffers have to hold for this many.
    pub(crate) fn padded(&self, queries: u64) -> u64 {
        queries.next_multiple_of(self.unit.into())
    }

    /// This kernel, or the one in its place where cooperative matrices compute wrongly. The first tiles of a device wait for that test,
    /// and it for the compiler.
    pub(crate) async fn tested(
        &'static self,
        gpu: &Gpu,
        metric: Metric,
        queries: u64,
    ) -> Result<&'static Self> {
        let Some(other) = self.replaced_by else { return Ok(self) };
        let scores = std::ptr::eq(self.scores_with(queries), self);
        let tiles = Tiles::tested(gpu, (self.form)(metric), scores).await?;
        Ok(if tiles == Tiles::Matrices { self } else { other })
    }

    /// This kernel, or the one in its place where cooperative matrices do not collect pairs correctly. None as long as threads compile the
    /// tiles of pairs on matrices, unless the caller waits for them.
    pub(crate) async fn tested_with_pairs(
        &'static self,
        gpu: &Gpu,
        metric: Metric,
        can_wait: bool,
    ) -> Result<Option<&'static Self>> {
        let kernel = self.tested(gpu, metric, u32::MAX.into()).await?;
        let Some(other) = kernel.replaced_by else { return Ok(Some(kernel)) };
        let is_right = Tiles::collect_pairs(gpu, (kernel.form)(metric), can_wait).await?;
        Ok(is_right.map(|is_right| if is_right { kernel } else { other }))
    }

    /// The kernel that scores rows to memory. The sample of a tile of few queries is scanned.
    pub(crate) fn scores_with(&'static self, queries: u64) -> &'static Self {
        let is_few = self.padded(queries) == u64::from(TILE_QUERIES);
        self.few.filter(|_| is_few).unwrap_or(self)
    }

    /// Whether it reports the best intervals of each block.
    pub(crate) fn has_bests(&self) -> bool {
        self.picks.is_some()
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

    /// The queries and rows of a part, either as they are or as codes.
    pub(super) fn scored<'s>(&self, queries: &'s Buffer, rows: &'s Buffer, part: Part) -> Scored<'s>
    where
        Self: 's,
    {
        Scored { queries, count: self.count, rows, scores: self.scores, room: self.padded, part }
    }
}
