//! The plan of a search: the kernel that screens, batches of queries, and chunks of rows.

use std::fmt;

use crate::engine::screens::score::ScreenKernel;
use crate::kernels::BLOCK_ROWS;
use crate::options::distribution::Distribution;
use crate::options::residency::Residency;

/// How a search finds the rows that may be among the nearest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Route {
    /// A kernel scores all rows; the rows that it cannot exclude are refined.
    Screened {
        /// The kernel.
        kernel: ScreenKernel,
        /// Rows that can survive for each query. A query with more is searched again: in f32, then exhaustively.
        capacity: u32,
        /// Blocks of 128 rows that are scored at a time.
        chunk_blocks: u32,
        /// The number of such chunks that the rows would make.
        chunks: u32,
        /// Chunks whose scores go to memory: all of them, or one if the rows of the others are collected as they are scored. A search
        /// within a radius needs none, because it has its threshold.
        stored_chunks: u32,
    },
    /// The reporting kernel computes the distance of every row.
    Exhaustive {
        /// Rows at a time.
        chunk_rows: u32,
    },
    /// The host engine scores all rows, on its threads; the rows that it cannot exclude are refined.
    Host {
        /// Whether it scores the quantised copy.
        is_screened: bool,
    },
}

/// How a search will run. `Display` prints it in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// The number of queries.
    pub queries: u64,
    /// Neighbours for each query: at most the number of rows.
    pub k: u32,
    /// Queries that are searched together.
    pub batch: u32,
    pub(crate) route: Route,
    /// Whether the codes of the rows that a filter allows are gathered, and these rows screened alone.
    pub(crate) gathers: bool,
    /// Scratch bytes of a batch.
    pub scratch_bytes: u64,
    /// The number of devices. The rest is the plan of the one that has most to do.
    pub devices: usize,
    /// How rows lie on several devices; none for one.
    pub distribution: Option<Distribution>,
    /// Where the rows are: [`Residency`](crate::Residency), as it is now.
    pub rows: Residency,
    /// Windows of rows that are quantised and sent to the device for each search, one after the other
    /// ([`Residency::Streamed`](crate::Residency::Streamed)). The route is that of the first. 0 if the device has what it screens.
    pub windows: u64,
    /// Whether the host computes the distances that are reported: on the host engine, and where it keeps the rows of a GPU's index
    /// ([`Residency`](crate::Residency)).
    pub reports_on_host: bool,
}

impl Plan {
    /// A plan for rows on one device, which reports their distances.
    pub(crate) fn of([queries, k, batch]: [u64; 3], route: Route, scratch_bytes: u64) -> Self {
        let (devices, distribution, rows, windows, reports_on_host) = (1, None, Residency::Device, 0, false);
        let (k, batch) = (k as u32, batch as u32);
        Self {
            queries,
            k,
            batch,
            route,
            gathers: false,
            scratch_bytes,
            devices,
            distribution,
            rows,
            windows,
            reports_on_host,
        }
    }
}

#[cfg(feature = "unstable")]
impl Plan {
    /// How it finds rows: the kernels, chunks and lists.
    pub fn route(&self) -> Route {
        self.route
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(distribution) = self.distribution {
            write!(f, "{} {}, each with ", self.devices, distribution.parts())?;
        }
        let batches = self.queries.div_ceil(self.batch.into());
        let plural =
            |count: u64, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
        let batches = plural(batches, "batch", "batches");
        let queries = plural(self.batch.into(), "query", "queries");
        write!(f, "{batches} of up to {queries}, k = {}: ", self.k)?;
        match self.route {
            Route::Screened { kernel, capacity, chunk_blocks, chunks, stored_chunks } => {
                let kernel = kernel.kernel();
                let stage = kernel.stage;
                let rows = u64::from(chunk_blocks) * u64::from(BLOCK_ROWS);
                match kernel.collects.filter(|_| stored_chunks < chunks) {
                    Some(collects) => {
                        write!(f, "{stage} samples {rows} rows, {} screens, ", collects.kernel.name)?;
                    }
                    None => {
                        let chunks = plural(chunks.into(), "chunk", "chunks");
                        write!(f, "{stage} screens in {chunks} of up to {rows} rows, ")?;
                    }
                }
                let then = if self.reports_on_host { "the host refines" } else { "refine and select_k" };
                write!(f, "lists of {capacity} rows a query, then {then}")?;
            }
            Route::Exhaustive { chunk_rows } => {
                write!(f, "refine of every row in chunks of {chunk_rows}, then select_k")?;
            }
            Route::Host { is_screened } => {
                let kind = if is_screened { "integers" } else { "f32" };
                write!(f, "the host engine scores every row in {kind}, then refines what is left")?;
            }
        }
        write!(f, "; rows {}", self.rows.words())?;
        if self.windows > 0 {
            write!(f, ", streamed in {}", plural(self.windows, "window", "windows"))?;
        }
        write!(f, "; {} bytes of scratch", self.scratch_bytes)
    }
}
