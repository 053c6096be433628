//! Bounds the f64 distance of SQL from below, given the f32 distance that the library reports.

use nearfield::Metric;

/// The unit of the library's bounds: docs/certified-search.md has their proofs.
pub(crate) const UNIT: f64 = 1.0 / (1 << 23) as f64;
/// More than the rounding of sums in f64, for any order, and of the formulas below.
const SLACK: f64 = 1.0 / (1u64 << 48) as f64;
/// What underflow adds for each element.
const TINY: f64 = f64::from_bits((1023 - 126) << 52);

/// The rows of a block: the largest of their lengths, and how far conversion to f32 moved them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extent {
    pub(crate) norm: f64,
    /// The largest length of the difference.
    pub(crate) moved: f64,
    /// The largest quotient of that length and the row's own.
    pub(crate) turned: f64,
}

/// A query: its length, and how far conversion to f32 moved it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved {
    pub(crate) norm: f64,
    pub(crate) moved: f64,
}

impl Extent {
    /// A query that is as long as any row, and that conversion moved as far: a bound for it holds for every row.
    fn of_query(&self, metric: Metric) -> Moved {
        match metric {
            Metric::Cosine => Moved { norm: 1.0, moved: self.turned },
            _ => Moved { norm: self.norm, moved: self.moved },
        }
    }
}

/// A distance that the library's are below for all pairs of rows whose f64 distance is below a radius.
pub(crate) fn reach(metric: Metric, dim: usize, radius: f64, rows: Extent) -> f32 {
    let start = if metric == Metric::L2 { radius.max(0.0).powi(2) } else { radius };
    let mut step = f64::from(f32::EPSILON) * start.abs().max(f64::from(f32::MIN_POSITIVE));
    loop {
        let reach = (start + step).max(f64::from(f32::MIN)) as f32;
        let reported = f64::from(reach);
        // Past the largest f32 it is infinite, which all distances of the library are below.
        if reach == f32::INFINITY || least(metric, dim, reported, rows.of_query(metric), rows) >= radius {
            return reach;
        }
        step *= 2.0;
    }
}

/// A number that the f64 distance of a row is not below, when the library reported `reported` for it or a nearer row.
///
/// The library's distance of the converted vectors is off by what [`nearfield::Metric`] promises. Conversion moves a Euclidean distance by
/// no more than it moved both vectors together (the triangle inequality), a cosine by twice the angle of each, and an inner product by the
/// products of lengths (Cauchy and Schwarz).
pub(crate) fn least(metric: Metric, dim: usize, reported: f64, query: Moved, rows: Extent) -> f64 {
    let dim = dim as f64;
    match metric {
        Metric::L2 | Metric::L2Squared => {
            let squared = (reported - dim * TINY).max(0.0) / (1.0 + (dim + 4.0) * UNIT);
            let moved = (query.moved + rows.moved) * (1.0 + dim * SLACK);
            let distance = (squared.sqrt() - moved).max(0.0) * (1.0 - dim * SLACK - SLACK);
            if metric == Metric::L2 { distance } else { distance * distance }
        }
        Metric::Cosine => {
            let turned = 2.0 * (query.moved / query.norm + rows.turned);
            reported - (dim + 17.0) * UNIT - turned * (1.0 + SLACK) - (dim + 16.0) * SLACK
        }
        // Whole numbers that f32 holds, and their quotients, rounded once.
        Metric::Hamming => reported,
        Metric::Jaccard => reported * (1.0 - UNIT),
        // The inner product. `ordering` passes no other on.
        _ => {
            let lengths = (query.norm + query.moved) * (rows.norm + rows.moved);
            let moved = query.moved * (rows.norm + rows.moved) + (query.norm + query.moved) * rows.moved;
            reported - (dim + 4.0) * (UNIT + SLACK) * lengths - dim * TINY - moved * (1.0 + SLACK)
        }
    }
}
