//! Puts another device in the place of a lost one.

use crate::engine::device::handle::Device;
use crate::engine::rows::device_rows::DeviceRows;
use crate::engine::rows::shape::RowShape;
use crate::engine::rows::write::Placing;
use crate::engine::spread::devices::Devices;
use crate::engine::spread::engine_rows::EngineRows;
use crate::error::{Error, Result};
use crate::future::Boxed;
#[cfg(not(target_arch = "wasm32"))]
use crate::{elements::Matrix, engine::rows::of_file::read_again, memory};

/// Rows to copy, and where they have each slot of the index.
#[derive(Clone, Copy)]
#[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "a browser's index lives on one device"))]
pub(crate) struct RowSource<'s> {
    pub(crate) rows: &'s EngineRows,
    pub(crate) slot_of: &'s (dyn Fn(u32) -> Result<u32> + Sync),
}

/// The rows of a lost device on another one.
pub(crate) struct Recovered {
    pub(crate) place: usize,
    pub(crate) devices: Devices,
    rows: DeviceRows,
}

/// The error for an index on one device.
fn on_one() -> Error {
    let needed = "an index on several devices; load others from their files";
    Error::argument("recover", needed, "an index on one")
}

/// A browser's index lives on one device.
#[cfg(target_arch = "wasm32")]
impl EngineRows {
    pub(crate) fn recovered<'f>(
        &'f self,
        _device: &'f Device,
        _source: Option<RowSource<'f>>,
        _id_of: &'f (dyn Fn(u32) -> u64 + Sync),
    ) -> Boxed<'f, Recovered> {
        Box::pin(async { Err(on_one()) })
    }

    pub(crate) fn replace(&mut self, _recovered: Recovered) {}
}

#[cfg(not(target_arch = "wasm32"))]
impl EngineRows {
    /// Copies the rows of a lost device to another one. Without a source, those of a replica.
    pub(crate) fn recovered<'f>(
        &'f self,
        device: &'f Device,
        source: Option<RowSource<'f>>,
        id_of: &'f (dyn Fn(u32) -> u64 + Sync),
    ) -> Boxed<'f, Recovered> {
        Box::pin(async move {
            let refused = |needed, given| Err(Error::argument("recover", needed, given));
            let Self::Several(spread) = self else { return Err(on_one()) };
            let live = spread.live();
            let lost = || (0..spread.parts.len()).filter(|place| !live.contains(place));
            let of_same_gpu = lost().find(|&place| spread.devices.with(place, device).check().is_ok());
            let Some(place) = of_same_gpu.or(lost().next()) else {
                return refused("an index that has lost a device", "one that has lost none");
            };
            let devices = spread.devices.with(place, device);
            devices.check()?;
            // The rows of a shard that the host keeps are still there.
            let has_left = match &spread.layout {
                Some(_) => Some(place).filter(|&place| spread.parts[place].is_hybrid()),
                None => live.first().copied(),
            };
            let shape = spread.shape;
            if let Some(file) = has_left.and_then(|left| spread.parts[left].in_file()) {
                let rows = read_again(device, &shape, file).await?;
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
            let has_row = self.has_row();
            match &spread.layout {
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
            let mut rows = DeviceRows::new(device, &shape).await?;
            let piece = shape.elements.rows_of_piece(shape.dim);
            for (slots, there) in slots.chunks(piece).zip(there.chunks(piece)) {
                let ids = memory::collect(slots.iter().map(|&slot| id_of(slot)))?;
                let of_source: Vec<u32> =
                    slots.iter().map(|&slot| (source.slot_of)(slot)).collect::<Result<_>>()?;
                let bytes = source.rows.fetch_bytes(&of_source).await?;
                let matrix = Matrix::of_bytes(shape.elements, &bytes, shape.dim)?;
                let placing = Placing { slots: there, ids: &ids, freed: &[] };
                let change = rows.prepared_put((&matrix).into(), &placing, &mut |_| ()).await?;
                rows.apply(change)?;
            }
            Ok(Recovered { place, devices, rows })
        })
    }

    pub(crate) fn replace(&mut self, recovered: Recovered) {
        let Recovered { place, devices, rows } = recovered;
        if let Self::Several(spread) = self {
            spread.parts[place] = rows;
            spread.devices = devices;
            spread.is_back(place);
        }
    }
}
