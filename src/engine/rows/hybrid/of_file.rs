//! Rows of a mapped file, which is read through once: each device checks and quantises its rows of every piece.

use std::sync::Arc;

use crate::bits::Bits;
use crate::elements::{HostVectors, Matrix};
use crate::engine::device::engine::Engine;
use crate::engine::device::handle::Device;
use crate::engine::rows::contract::Rows;
use crate::engine::rows::hybrid::HybridRows;
use crate::engine::rows::hybrid::changes::{Quantizing, spread_out};
use crate::engine::rows::on_host::ListedRows;
use crate::engine::rows::shape::RowShape;
use crate::engine::search::ahead::Searched;
use crate::error::{Error, Result};
use crate::host::{Host, HostRows, MappedRows};
use crate::interrupt;
use crate::memory;
use crate::options::residency::Residency;

/// Rows of a file, and where they go.
pub(crate) struct FileRows {
    pub(crate) rows: MappedRows,
    /// The id of each row.
    pub(crate) ids: Vec<u64>,
    /// The slot of each row.
    pub(crate) slots: Vec<u32>,
}

/// Takes the bytes of the rows, in the order of the file.
pub(crate) type Seen<'a> = &'a mut (dyn FnMut(&[u8]) + Send);

impl FileRows {
    /// One past the last slot.
    pub(crate) fn end(&self) -> u64 {
        self.slots.iter().max().map_or(0, |&last| u64::from(last) + 1)
    }

    /// Copies of some rows, evenly spread over the file.
    pub(crate) fn sample(&self) -> Result<Matrix> {
        self.rows.file.check()?;
        // The rows around those of the sample are not needed yet.
        self.rows.file.expect_order(false);
        let sample = self.rows.chosen(&memory::collect(spread_out(self.slots.len()))?);
        self.rows.file.expect_order(true);
        sample
    }

    /// The part of one device: the numbers of its rows, ascending, and their slots.
    pub(crate) fn part(
        &self,
        mut numbers: impl Iterator<Item = usize> + Clone,
        slots: &[u32],
    ) -> Result<FilePart> {
        let end = slots.iter().max().map_or(0, |&last| last as usize + 1);
        let mut ids = memory::filled(end, 0)?;
        let placed = slots.iter().zip(numbers.clone());
        placed.clone().for_each(|(&slot, number)| ids[slot as usize] = self.ids[number]);
        let (_, alive) = Bits::after(None, 0, slots, &[])?;
        let first = numbers.next().unwrap_or(0);
        let mut rows = self.rows.from(first, slots.len());
        // Rows that follow each other in the file and in the slots need no table.
        if !placed.clone().all(|(&slot, number)| slot as usize == number - first) {
            let mut of_slots = memory::filled(end, 0)?;
            placed.for_each(|(&slot, number)| of_slots[slot as usize] = (number - first) as u32);
            rows.of_slots = Some(of_slots);
        }
        Ok(FilePart { rows, ids, alive })
    }
}

/// Rows of a file that lie in the slots of one device.
pub(crate) struct FilePart {
    rows: MappedRows,
    /// The id of each slot.
    ids: Vec<u64>,
    /// The slots that have a row; none when all below the end have.
    alive: Option<Bits>,
}

/// Rows of a file on one device, while they are read.
pub(crate) enum Reading {
    Host(Box<HostRows>),
    Hybrid(Box<HybridRows>, Option<Quantizing>),
}

impl Reading {
    /// Starts with rows that cannot be searched before all of them were [taken](Self::take). `sample` are rows of the whole file.
    pub(crate) async fn new(
        device: &Device,
        shape: &RowShape,
        part: FilePart,
        sample: HostVectors<'_>,
    ) -> Result<Self> {
        let FilePart { rows, ids, alive } = part;
        match (&device.engine, shape.kept) {
            (Engine::Gpu(gpu), Residency::Host | Residency::Streamed) => {
                let host = Arc::new(Host::beside_gpu(&gpu.options));
                let rows = HostRows::of_file(host, shape.metric, rows, (ids, alive), false)?;
                let mut rows = Box::new(HybridRows::of(gpu, shape, rows)?);
                if let Some(integers) = rows.on_gpu() {
                    gpu.compile_ahead(shape.dim, || Searched::of(integers, shape.metric).kernels());
                }
                let quantizing = rows.quantizing(sample).await?;
                Ok(Self::Hybrid(rows, quantizing))
            }
            (Engine::Gpu(_), _) => Err(Error::internal("rows of a file are on the host")),
            (Engine::Host(host), _) => {
                let is_quantized = shape.quantization.is_wanted_on_host(shape.dim);
                let mut rows =
                    HostRows::of_file(host.clone(), shape.metric, rows, (ids, alive), is_quantized)?;
                rows.count(sample)?;
                Ok(Self::Host(Box::new(rows)))
            }
        }
    }

    /// Checks and quantises copies of the rows in these slots.
    pub(crate) async fn take(&mut self, rows: HostVectors<'_>, slots: &[u32]) -> Result<()> {
        match self {
            Self::Host(there) => there.enter(slots, rows),
            Self::Hybrid(there, quantizing) => {
                there.rows.enter(slots, rows)?;
                match quantizing {
                    Some(quantizing) => there.quantize(quantizing, (rows, slots)).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// The rows, when all were taken.
    pub(crate) async fn finished(self) -> Result<Box<dyn Rows>> {
        Ok(match self {
            Self::Host(rows) => Box::new(ListedRows::from(*rows)),
            Self::Hybrid(mut rows, quantizing) => {
                if let Some(quantizing) = quantizing {
                    rows.quantized(quantizing).await?;
                }
                rows
            }
        })
    }
}

/// Reads rows in a file again, for another device.
pub(crate) async fn read_again(device: &Device, shape: &RowShape, rows: &HostRows) -> Result<Box<dyn Rows>> {
    let Some(file) = rows.values.file() else { return Err(Error::internal("rows that lie in no file")) };
    rows.check_file()?;
    let shape = RowShape { expected: rows.end() as u64, ..*shape };
    let slots = Bits::slots(rows.alive(), rows.end())?;
    let sample =
        rows.values.gathered(&memory::collect(spread_out(slots.len()).map(|place| slots[place]))?)?;
    let mut again = file.from(0, file.rows);
    again.of_slots = file.of_slots.as_deref().map(memory::copied).transpose()?;
    let alive = rows.alive().map(Bits::copied).transpose()?;
    let part = FilePart { rows: again, ids: memory::copied(&rows.ids)?, alive };
    let mut reading = Reading::new(device, &shape, part, (&sample).into()).await?;
    for slots in slots.chunks(file.elements.rows_of_piece(file.dim)) {
        interrupt::check()?;
        rows.check_file()?;
        let piece = rows.values.gathered(slots)?;
        reading.take((&piece).into(), slots).await?;
    }
    reading.finished().await
}
