//! The centre: a vector near the mean of the first rows, which is subtracted from every vector before it is quantised.

use crate::elements::{Element, MatrixView};
use crate::metric::Metric;

/// The mean is taken over at most this many rows. It is then off by a sixty-fourth of the rows' spread, which does not matter
/// beside the spread itself.
const SAMPLE: u64 = 4096;

/// The mean of a sample of the rows so far. For cosine, rows are divided by their norms first.
#[derive(Debug, Clone)]
pub(crate) struct Centre {
    metric: Metric,
    sums: Vec<f64>,
    squares: f64,
    counted: u64,
    /// Rows counted when `values` were last computed.
    used: u64,
    values: Vec<f32>,
}

impl Centre {
    pub(crate) fn new(metric: Metric, dim: usize) -> Self {
        // Nothing is subtracted from bits.
        let counted = if metric.counts_bits() { SAMPLE } else { 0 };
        Self { metric, sums: vec![0.0; dim], squares: 0.0, counted, used: counted, values: vec![0.0; dim] }
    }

    /// A centre that does not move.
    pub(crate) fn fixed(metric: Metric, values: Vec<f32>) -> Self {
        Self { values, counted: SAMPLE, used: SAMPLE, ..Self::new(metric, 0) }
    }

    /// The centre in use.
    pub(crate) fn values(&self) -> &[f32] {
        &self.values
    }

    /// How many of `rows` new rows would be counted.
    pub(crate) fn wanted(&self, rows: usize) -> usize {
        (SAMPLE - self.counted).min(rows as u64) as usize
    }

    /// Counts new rows. Returns true when the centre moved, so that all rows have to be quantised again. It moves a dozen times at
    /// most, and only while there are few rows, so that costs little.
    pub(crate) fn count<T: Element>(&mut self, rows: MatrixView<'_, T>) -> bool {
        let wanted = self.wanted(rows.rows());
        for number in 0..wanted {
            // A sample over all rows: the first ones may be unlike the others.
            let row = rows.row((number as u128 * rows.rows() as u128 / wanted as u128) as usize);
            let squared: f64 = row.iter().map(|x| f64::from(x.widen()).powi(2)).sum();
            let scale = self.metric.scale(squared);
            self.squares += squared * scale * scale;
            for (sum, x) in self.sums.iter_mut().zip(row) {
                *sum += f64::from(x.widen()) * scale;
            }
        }
        self.counted += wanted as u64;
        if wanted == 0 || self.counted < SAMPLE && self.counted < 2 * self.used {
            return false;
        }
        self.used = self.counted;
        let count = self.counted as f64;
        let mean: Vec<f64> = self.sums.iter().map(|sum| sum / count).collect();
        let squared: f64 = mean.iter().map(|m| m * m).sum();
        // A mean that is short beside the rows would only add its own rounding errors, most of all when the rows' lengths
        // differ much.
        let helps = squared * 64.0 >= self.squares / count;
        let next: Vec<f32> = mean.iter().map(|&m| if helps { m as f32 } else { 0.0 }).collect();
        std::mem::replace(&mut self.values, next) != self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(metric: Metric, rows: &[f32], dim: usize) -> Centre {
        let mut centre = Centre::new(metric, dim);
        centre.count(MatrixView::new(rows, dim).expect("whole rows"));
        centre
    }

    #[test]
    fn the_centre_is_the_mean_where_there_is_one() {
        let rows: Vec<f32> = (0..1000).flat_map(|i| [5.0, i as f32 * 1e-3]).collect();
        let centre = counted(Metric::L2Squared, &rows, 2);
        assert!((centre.values()[0] - 5.0).abs() < 1e-6 && (centre.values()[1] - 0.5).abs() < 0.01);
        let centre = counted(Metric::Cosine, &rows, 2);
        assert!((centre.values()[0] - 1.0).abs() < 0.01);
    }

    #[test]
    fn rows_around_the_origin_are_not_moved() {
        let rows: Vec<f32> =
            (0..1000).flat_map(|i| [(i as f32 * 1.7).sin(), (i as f32 * 0.9).cos()]).collect();
        assert_eq!(counted(Metric::L2Squared, &rows, 2).values(), [0.0, 0.0]);
    }

    #[test]
    fn rows_that_come_one_by_one_change_it_a_few_times() {
        let mut centre = Centre::new(Metric::L2Squared, 1);
        let changes = (0..10_000).filter(|&i| {
            let row = [3.0 + (i % 7) as f32];
            centre.count(MatrixView::new(&row, 1).expect("one row"))
        });
        assert!(changes.count() <= 14);
        assert!((centre.values()[0] - 6.0).abs() < 0.01);
    }
}
