//! The rows that centroids are trained on.

use std::borrow::Cow;
use std::sync::Arc;

use crate::engine::device::engine::Engine;
use crate::engine::device::matrices::DeviceMatrix;
use crate::error::{Error, Result};
use crate::gpu::{Buffer, BufferSlice, Commands, Gpu, RowLayout};
use crate::kernels::move_rows::{self, Direction};
use crate::matrix::{Element, MatrixView};
use crate::vectors::{HostVectors, with_view};

/// Rows to train on: on the host, or on the device in any number of pieces.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sample<'a> {
    Host(HostVectors<'a>),
    Device(&'a [&'a DeviceMatrix]),
}

impl<'a> Sample<'a> {
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Host(rows) => rows.rows(),
            Self::Device(pieces) => pieces.iter().map(|piece| piece.rows()).sum(),
        }
    }

    /// Elements of a row; 0 if there is no piece.
    pub(crate) fn dim(&self) -> usize {
        match self {
            Self::Host(rows) => rows.dim(),
            Self::Device(pieces) => pieces.first().map_or(0, |piece| piece.dim()),
        }
    }

    /// Refuses pieces on another device and pieces of different dims.
    pub(crate) fn check(&self, engine: &Engine) -> Result<()> {
        let Self::Device(pieces) = self else { return Ok(()) };
        for piece in *pieces {
            piece.check_device("rows", engine)?;
            if piece.dim() != self.dim() {
                return Err(Error::argument(
                    "rows",
                    format!("dim {} as in the first piece", self.dim()),
                    piece.dim(),
                ));
            }
        }
        if u32::try_from(self.rows()).is_err() {
            return Err(Error::argument("rows", format!("at most {} on the device", u32::MAX), self.rows()));
        }
        Ok(())
    }

    /// The rows with these numbers, which ascend, as f32 on the host. All rows of one piece are borrowed as they lie.
    pub(crate) fn to_host(self, numbers: &[u64]) -> Result<Cow<'a, [f32]>> {
        let (is_whole, dim) = (numbers.len() == self.rows(), self.dim());
        let gathered = |pieces: &[MatrixView<'_, f32>]| {
            let mut sample = Vec::with_capacity(numbers.len() * dim);
            let (mut piece, mut first) = (0, 0);
            for &number in numbers {
                while number as usize - first >= pieces[piece].rows() {
                    first += pieces[piece].rows();
                    piece += 1;
                }
                sample.extend_from_slice(pieces[piece].row(number as usize - first));
            }
            sample
        };
        Ok(match self {
            Self::Host(HostVectors::F32(rows)) => {
                if is_whole {
                    Cow::Borrowed(rows.values())
                } else {
                    Cow::Owned(gathered(&[rows]))
                }
            }
            Self::Host(HostVectors::F16(rows)) => {
                let numbers = numbers.iter().map(|&number| number as usize);
                Cow::Owned(numbers.flat_map(|number| rows.row(number)).map(|x| x.widen()).collect())
            }
            Self::Device([all]) if is_whole => Cow::Borrowed(all.on_host()?.values()),
            Self::Device(pieces) => {
                let pieces = pieces.iter().map(|piece| piece.on_host()).collect::<Result<Vec<_>>>()?;
                Cow::Owned(gathered(&pieces))
            }
        })
    }

    /// The rows with these numbers, which ascend, in a buffer.
    pub(crate) async fn to_buffer(
        self,
        gpu: &Arc<Gpu>,
        layout: RowLayout,
        numbers: &[u64],
    ) -> Result<Buffer> {
        let (row_bytes, is_whole) = (layout.row_bytes(), numbers.len() == self.rows());
        let create = || gpu.create_storage("rows to train on", numbers.len() as u64 * row_bytes);
        match self {
            Self::Host(rows) if is_whole => {
                let buffer = create()?;
                gpu.upload_rows(&buffer, 0, layout, rows, &mut |_| ()).await?;
                Ok(buffer)
            }
            Self::Host(rows) => {
                let buffer = create()?;
                with_view!(rows, view => {
                    let picked: Vec<_> = numbers.iter().flat_map(|&number| view.row(number as usize)).copied().collect();
                    let picked = MatrixView::new(&picked, view.dim())?;
                    gpu.upload_rows(&buffer, 0, layout, picked.into(), &mut |_| ()).await?;
                });
                Ok(buffer)
            }
            // Training only reads its rows, so that the matrix and the training can share a buffer.
            Self::Device([all]) if is_whole => Ok(all.buffer()?.clone()),
            Self::Device(pieces) => {
                let buffer = create()?;
                let list = gpu.create_storage("numbers of rows", numbers.len() as u64 * 4)?;
                let numbers: Vec<u32> = numbers.iter().map(|&number| number as u32).collect();
                gpu.upload_bytes(&list, 0, bytemuck::cast_slice(&numbers)).await?;
                let mut commands = Commands::new(gpu, None);
                let mut first_slot = 0;
                for piece in pieces {
                    let rows = piece.rows() as u32;
                    let start = numbers.partition_point(|&number| number < first_slot);
                    let end = numbers.partition_point(|&number| number < first_slot + rows);
                    let moving = move_rows::Move {
                        direction: Direction::Gather,
                        row_bytes,
                        slots: BufferSlice::all(&list),
                        positions: start as u32..end as u32,
                        first_slot,
                        rows,
                        from: piece.as_slice()?,
                        to: BufferSlice::all(&buffer),
                    };
                    if start < end {
                        move_rows::encode(&mut commands, &moving)?;
                    }
                    first_slot += rows;
                }
                commands.submit();
                Ok(buffer)
            }
        }
    }
}
