//! Centroids of a saved index, on their way to a GPU.

use std::sync::Arc;

use crate::engine::lists::centroids::Centroids;
use crate::engine::pass::reset_refused;
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, Gpu};
use crate::matrix::MatrixView;
use crate::metric::Metric;

impl Centroids {
    /// These centroids, `[lists, dim]`, on a GPU.
    pub(crate) async fn of_host(
        gpu: &Arc<Gpu>,
        metric: Metric,
        rows: MatrixView<'_, f32>,
        is_narrowed: bool,
    ) -> Result<Self> {
        // A different centre than in training; answers do not depend on it.
        let centre = is_narrowed.then(|| mean(rows));
        let centroids = Self::new(gpu, metric, rows.dim(), rows.rows() as u32, centre).await?;
        gpu.upload_rows(&centroids.rows, 0, centroids.layout(), rows.into(), &mut |_| ()).await?;
        // Never read: a mean may be shorter than rows have to be.
        let refused = gpu.create_storage("refused", 8)?;
        reset_refused(gpu, &refused).await?;
        let mut commands = Commands::new(gpu, None);
        centroids.encode_update(&mut commands, BufferSlice::all(&refused))?;
        commands.submit();
        Ok(centroids)
    }
}

/// The mean of all rows, at least one.
fn mean(rows: MatrixView<'_, f32>) -> Vec<f32> {
    let mut sums = vec![0.0; rows.dim()];
    for row in rows.values().chunks_exact(rows.dim()) {
        sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
    }
    sums.iter().map(|sum| (sum / rows.rows() as f64) as f32).collect()
}
