//! The rows of a mapped file on the devices of an index. The file is read through once, and every device takes its rows of each piece.

use crate::bits::Bits;
use crate::elements::{HostVectors, Matrix};
use crate::engine::documents::tokens::side_by_side;
use crate::engine::parts::devices::Devices;
use crate::engine::parts::layout::Layout;
use crate::engine::parts::merging::all_or_first;
use crate::engine::parts::rows::{Parts, Plan};
use crate::engine::parts::together::{Work, together};
use crate::engine::rows::contract::Rows;
use crate::engine::rows::edit::rows_at;
use crate::engine::rows::hybrid::of_file::{FileRows, Reading, Seen};
use crate::engine::rows::shape::RowShape;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::memory;
use crate::options::distribution::Distribution;

/// The rows of a file in their slots. Documents of these numbers of tokens, if there are any, get theirs as
/// [`Rows::place_documents`] gives them.
pub(crate) fn open_file<'f>(
    devices: &'f Devices,
    distribution: Distribution,
    shape: &'f RowShape,
    (mut file, documents): (FileRows, Option<&'f [usize]>),
    seen: Seen<'f>,
) -> Boxed<'f, Box<dyn Rows>> {
    Box::pin(async move {
        let shape = RowShape { expected: file.end().max(file.rows.rows as u64), ..*shape };
        let mut plan = Plan::new(devices, distribution, &shape).await?;
        if let Some(lengths) = documents {
            let starts = match &mut plan.layout {
                Some(layout) => layout.place_documents(0, lengths)?,
                None => side_by_side(0, lengths)?,
            };
            file.slots = memory::with_room(file.rows.rows)?;
            let placed = starts.iter().zip(lengths);
            placed.for_each(|(&start, &length)| file.slots.extend(start..start + length as u32));
            file.ids = memory::collect(file.slots.iter().map(|&slot| u64::from(slot)))?;
        }
        let (end, slots) = (file.end(), &file.slots[..]);
        plan.layout.iter_mut().for_each(|layout| layout.reach(end));
        let sample = file.sample()?;
        let mut readings = loop {
            match begun(devices, &plan, &file, &sample).await {
                Err(error) if error.lacks_memory() && plan.moves_on() => {}
                begun => break begun?,
            }
        };
        let done = read(&mut readings, devices, plan.layout.as_ref(), &file, seen).await;
        // Searches read here and there.
        file.rows.file.expect_order(false);
        done?;
        let mut parts = vec![];
        for reading in readings {
            parts.push(reading.finished().await?);
        }
        Ok(match devices.list() {
            [_] => parts.remove(0),
            _ => {
                let (_, alive) = Bits::after(None, 0, slots, &[])?;
                Box::new(Parts::of(devices, plan, parts, (end as usize, alive)))
            }
        })
    })
}

/// Makes room for the rows on every device.
async fn begun(devices: &Devices, plan: &Plan, file: &FileRows, sample: &Matrix) -> Result<Vec<Reading>> {
    let slots = &file.slots[..];
    let picked = plan.layout.as_ref().map(|layout| layout.picked(slots));
    let mut readings = vec![];
    for (place, device) in devices.list().iter().enumerate() {
        let part = match &picked {
            Some(picked) => file.part(picked[place].places.iter().copied(), &picked[place].slots)?,
            None => file.part(0..slots.len(), slots)?,
        };
        readings.push(Reading::new(device, &plan.own, part, sample.into()).await?);
    }
    Ok(readings)
}

/// Gives every device its rows of each piece.
async fn read(
    readings: &mut [Reading],
    devices: &Devices,
    layout: Option<&Layout>,
    file: &FileRows,
    seen: Seen<'_>,
) -> Result<()> {
    for piece in file.rows.pieces() {
        let (first, piece) = piece?;
        let rows = HostVectors::from(&piece);
        seen(rows.bytes());
        let slots = &file.slots[first..first + rows.rows()];
        let in_file =
            |error: Error, of_piece: &dyn Fn(u64) -> u64| error.with_rows(|row| first as u64 + of_piece(row));
        if let [reading] = readings {
            reading.take(rows, slots).await.map_err(|error| in_file(error, &|row| row))?;
            continue;
        }
        let picked = layout.map(|layout| layout.picked(slots));
        let mut works: Vec<Work<'_, ()>> = vec![];
        for (place, (reading, device)) in readings.iter_mut().zip(devices.list()).enumerate() {
            let work: Boxed<'_, ()> = match picked.as_ref().map(|picked| &picked[place]) {
                Some(own) if own.slots.is_empty() => continue,
                Some(own) => {
                    let rows = rows_at(rows, &own.places)?;
                    Box::pin(async move {
                        let taken = reading.take(rows.vectors(), &own.slots).await;
                        taken.map_err(|error| in_file(error, &|row| own.places[row as usize] as u64))
                    })
                }
                None => Box::pin(async move {
                    reading.take(rows, slots).await.map_err(|error| in_file(error, &|row| row))
                }),
            };
            works.push((device.engine.clone(), work));
        }
        all_or_first(together(works).await)?;
    }
    Ok(())
}
