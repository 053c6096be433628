//! Puts another device in the place of a lost one.

use crate::elements::{Matrix, MatrixView};
use crate::engine::device::handle::Device;
use crate::engine::lists::given::GivenCentroids;
use crate::engine::parts::rows::Parts;
use crate::engine::rows::changing::apply;
use crate::engine::rows::contract::{Recovered, RowSource, Rows};
use crate::engine::rows::edit::Edit;
use crate::engine::rows::hybrid::of_file::read_again;
use crate::engine::rows::open::open_on;
use crate::engine::rows::shape::RowShape;
use crate::engine::rows::write::Placing;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::memory;

impl Parts {
    /// Copies the rows of a lost device to another one. Without a source, those of a replica.
    pub(super) fn copied_to<'f>(
        &'f self,
        device: &'f Device,
        source: Option<RowSource<'f>>,
        id_of: &'f (dyn Fn(u32) -> u64 + Sync),
    ) -> Boxed<'f, Recovered> {
        Box::pin(async move {
            let refused = |needed, given| Err(Error::argument("recover", needed, given));
            let live = self.live();
            let lost = || (0..self.parts.len()).filter(|place| !live.contains(place));
            let of_same_gpu = lost().find(|&place| self.devices.with(place, device).check().is_ok());
            let Some(place) = of_same_gpu.or(lost().next()) else {
                return refused("an index that has lost a device", "one that has lost none");
            };
            let devices = self.devices.with(place, device);
            devices.check()?;
            // The rows of a shard that the host keeps are still there.
            let has_left = match &self.layout {
                Some(_) => Some(place).filter(|&place| self.parts[place].is_hybrid()),
                None => live.first().copied(),
            };
            let shape = self.shape;
            if let Some(file) = has_left.and_then(|left| self.parts[left].on_host()?.in_file()) {
                let rows = self.with_lists(read_again(device, &shape, file).await?).await?;
                return Ok(Recovered { place, devices, rows });
            }
            let source = match (source, has_left) {
                (Some(source), _) => source,
                (None, Some(_)) => RowSource { rows: self, slot_of: &Ok },
                (None, None) => {
                    return refused(
                        "rows to copy: a host copy (keep_host_copy), or another index (recover_from)",
                        "shards without either",
                    );
                }
            };
            let (mut slots, mut there): (Vec<u32>, Vec<u32>) = (vec![], vec![]);
            let has_row = (self as &dyn Rows).has_row();
            match &self.layout {
                Some(layout) => {
                    slots.extend(layout.slots_of(place).filter(|&slot| has_row(slot)));
                    there.extend(slots.iter().map(|&slot| layout.place(slot).1));
                }
                None => {
                    slots.extend((0..self.end() as u32).filter(|&slot| has_row(slot)));
                    there.extend_from_slice(&slots);
                }
            }
            let expected = there.iter().max().map_or(0, |&last| u64::from(last) + 1);
            let shape = RowShape { expected, ..shape };
            let mut rows = open_on(device, &shape).await?;
            let piece = shape.elements.rows_of_piece(shape.dim);
            for (slots, there) in slots.chunks(piece).zip(there.chunks(piece)) {
                let ids = memory::collect(slots.iter().map(|&slot| id_of(slot)))?;
                let of_source: Vec<u32> =
                    slots.iter().map(|&slot| (source.slot_of)(slot)).collect::<Result<_>>()?;
                let bytes = source.rows.fetch_bytes(&of_source).await?;
                let matrix = Matrix::of_bytes(shape.elements, &bytes, shape.dim)?;
                let edit = Edit::put((&matrix).into(), &Placing { slots: there, ids: &ids, freed: &[] });
                let prepared = rows.prepare(edit, &mut |_| ()).await?.ready()?;
                apply(&mut rows, prepared)?;
            }
            Ok(Recovered { place, devices, rows: self.with_lists(rows).await? })
        })
    }

    /// Gives rows of another device the lists that the others have, without pages.
    async fn with_lists(&self, mut rows: Box<dyn Rows>) -> Result<Box<dyn Rows>> {
        if let Some(values) = &self.centroids {
            let RowShape { metric, dim, quantization, .. } = self.shape;
            let values = MatrixView::new(values, metric.dim_of_centroids(dim))?;
            rows.attach_lists(GivenCentroids { values, metric, quantization }).await?;
        }
        Ok(rows)
    }

    pub(super) fn take_back(&mut self, recovered: Recovered) {
        let Recovered { place, devices, rows } = recovered;
        self.parts[place] = rows;
        self.devices = devices;
        self.is_back(place);
    }
}
