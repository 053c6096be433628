//! The lists of an `Ivf`, on one device or on several.

use crate::elements::{Matrix, MatrixView};
use crate::engine::device::handle::Device;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::assign::Assigned;
use crate::engine::lists::device_lists::{DeviceLists, Training};
use crate::engine::parts::devices::Devices;
use crate::engine::rows::contract::Rows;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::memory;
use crate::metric::Metric;
use crate::options::quantization::Quantization;
use crate::options::residency::Residency;
use crate::usage::Memory;

/// The lists of an index: every device has all centroids, and the pages of its own rows. So has a copy of the rows on the host.
#[derive(Debug)]
pub(crate) struct EngineLists {
    parts: Vec<DeviceLists>,
    /// Whether the last part is of a copy of the rows on the host.
    has_copy: bool,
    /// All centroids, for a device that comes when the others are lost; none for one device.
    centroids: Option<Matrix>,
}

impl EngineLists {
    /// Lists without rows, around centroids that were trained on the first device.
    pub(crate) async fn of(
        training: Training<'_>,
        devices: &Devices,
        metric: Metric,
        quantization: Quantization,
    ) -> Result<Self> {
        let mut parts = vec![DeviceLists::of(training)];
        let [_, others @ ..] = devices.list() else { return Err(Error::internal("lists on no device")) };
        if others.is_empty() {
            return Ok(Self { parts, has_copy: false, centroids: None });
        }
        let centroids = parts[0].centroids().await?;
        let dim = centroids.len() / (parts[0].count() as usize).max(1);
        let view = MatrixView::new(&centroids, dim)?;
        for device in others {
            parts.push(DeviceLists::around(device, metric, view, quantization).await?);
        }
        Ok(Self { parts, has_copy: false, centroids: Some(Matrix::F32(centroids, dim)) })
    }

    /// Lists without rows, around centroids of the host. The metric is that of the index.
    pub(crate) async fn around(
        devices: &Devices,
        metric: Metric,
        centroids: MatrixView<'_, f32>,
        quantization: Quantization,
    ) -> Result<Self> {
        let mut parts = vec![];
        for device in devices.list() {
            parts.push(DeviceLists::around(device, metric, centroids, quantization).await?);
        }
        let kept = || Ok(Matrix::F32(memory::copied(centroids.values())?, centroids.dim()));
        let centroids = (parts.len() > 1).then(kept).transpose()?;
        Ok(Self { parts, has_copy: false, centroids })
    }

    /// The list of each row, which is that of its nearest centroid, by the first device.
    pub(crate) async fn assign_on_first(&self, rows: Vectors<'_>) -> Result<Vec<Assigned>> {
        self.parts[0].assign(rows).await
    }

    /// The lists of each device, and of a copy of the rows on the host.
    pub(crate) fn parts(&self) -> &[DeviceLists] {
        &self.parts
    }

    pub(crate) fn count(&self) -> u64 {
        self.parts[0].count()
    }

    /// Gives the copy of these rows on the host lists of its own.
    pub(crate) async fn mirror(
        &mut self,
        rows: &dyn Rows,
        metric: Metric,
        dim: usize,
        quantization: Quantization,
    ) -> Result<()> {
        if rows.has_copy() {
            let centroids = self.parts[0].centroids().await?;
            let centroids = MatrixView::new(&centroids, dim)?;
            self.parts.push(DeviceLists::around(&Device::host(), metric, centroids, quantization).await?);
            self.has_copy = true;
        }
        Ok(())
    }

    /// All centroids, `[lists, dim]`.
    pub(crate) async fn centroids(&self, rows: &dyn Rows) -> Result<Vec<f32>> {
        match &self.centroids {
            Some(Matrix::F32(values, _)) => memory::copied(values),
            _ => rows.centroids(&self.parts).await,
        }
    }

    /// Lists without rows around the same centroids, for a device in the place of a lost one.
    pub(crate) async fn around_again(
        &self,
        device: &Device,
        metric: Metric,
        quantization: Quantization,
    ) -> Result<DeviceLists> {
        let Some(Matrix::F32(values, dim)) = &self.centroids else {
            return Err(Error::internal("lists on one device"));
        };
        DeviceLists::around(device, metric, MatrixView::new(values, *dim)?, quantization).await
    }

    pub(crate) fn replace(&mut self, place: usize, lists: DeviceLists) {
        self.parts[place] = lists;
    }

    /// Sets the pages of each list, ascending, and the number of its rows. Searches go through all rows before this is done.
    pub(crate) fn set<'f>(
        &'f mut self,
        rows: &'f dyn Rows,
        pages: &'f [Vec<u32>],
        sizes: &'f [u32],
    ) -> Boxed<'f, ()> {
        if self.has_copy && !rows.has_copy() {
            // The rows have left their device, and the copy is gone.
            self.parts.pop();
            self.has_copy = false;
        }
        rows.set_lists(&mut self.parts, pages, sizes)
    }

    pub(crate) fn measure(&self, memory: &mut Memory) {
        let (others, of_copy) = self.parts.split_at(self.parts.len() - usize::from(self.has_copy));
        others.iter().for_each(|lists| lists.measure(memory));
        let mut of_host = Memory::default();
        of_copy.iter().for_each(|lists| lists.measure(&mut of_host));
        memory.add("host copy", Residency::Host, of_host.total());
        if let Some(Matrix::F32(values, _)) = &self.centroids {
            memory.add_vec("centroids", values);
        }
    }
}
