//! The matrix of distances between two sets of vectors.

use rayon::prelude::*;

use crate::distance_options::{DistanceOptions, Output};
use crate::error::{Error, Result};
use crate::host::arithmetic::sums::{dot, squares};
use crate::host::search::pair::{NormedVector, cosine, distance};
use crate::matrix::MatrixView;
use crate::metric::Metric;

/// The distance, or the similarity, of every query to every row, `[queries, rows]`.
pub(crate) fn distances(
    queries: MatrixView<'_, f32>,
    rows: MatrixView<'_, f32>,
    DistanceOptions { metric, output, .. }: DistanceOptions,
) -> Result<Vec<f32>> {
    let count = queries.rows().saturating_mul(rows.rows());
    let mut matrix = vec![];
    matrix.try_reserve_exact(count).map_err(|_| Error::OutOfMemory {
        purpose: "distances".to_owned(),
        bytes: Some((count as u64).saturating_mul(4)),
    })?;
    if count == 0 {
        return Ok(matrix);
    }
    matrix.resize(count, 0.0);
    let squared: Vec<f64> = (0..rows.rows()).into_par_iter().map(|row| squares(rows.row(row))).collect();
    matrix.par_chunks_mut(rows.rows()).enumerate().for_each(|(query, distances)| {
        let values = queries.row(query);
        let query = NormedVector { values, squared: squares(values) };
        for (row, entry) in distances.iter_mut().enumerate() {
            let row = NormedVector { values: rows.row(row), squared: squared[row] };
            *entry = match (metric, output) {
                (Metric::Cosine, Output::Similarity) => cosine(query, row) as f32,
                (Metric::InnerProduct, Output::Similarity) => dot(query.values, row.values) as f32,
                (Metric::L2, _) => distance(metric, query, row).sqrt(),
                _ => distance(metric, query, row),
            };
        }
    });
    Ok(matrix)
}
