//! Times devices, to divide rows among them.

use std::time::Duration;

use crate::elements::MatrixView;
use crate::engine::device::handle::Device;
use crate::error::Result;
use crate::metric::Metric;
use crate::platform::Instant;

/// Rows, queries and elements of the search that devices are timed by.
const TIMED: [usize; 3] = [1 << 15, 128, 128];

/// Times that a search is repeated; the least one counts.
const TIMES: usize = 3;

/// The part of all rows that each device is to have, in proportion to the speed of its searches. Devices of one name are not timed.
pub(super) async fn shares(devices: &[Device]) -> Result<Vec<f64>> {
    let is_alike = devices.windows(2).all(|pair| pair[0].adapter().name == pair[1].adapter().name);
    if is_alike {
        return Ok(vec![1.0; devices.len()]);
    }
    let [rows, queries, dim] = TIMED;
    let mut random = fastrand::Rng::with_seed(7);
    let values: Vec<f32> = (0..rows * dim).map(|_| random.f32() - 0.5).collect();
    let mut shares = vec![];
    for device in devices {
        let matrix = device.upload_async(MatrixView::new(&values, dim)?).await?;
        let queries = MatrixView::new(&values[..queries * dim], dim)?;
        let mut least = Duration::MAX;
        // The first search compiles its kernels.
        for _ in 0..=TIMES {
            let started = Instant::now();
            device.nearest_async(queries, &matrix, Metric::L2Squared, 10).await?;
            least = least.min(started.elapsed());
        }
        shares.push(1.0 / least.as_secs_f64().max(1e-9));
    }
    Ok(shares)
}
