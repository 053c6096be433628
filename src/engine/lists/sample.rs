//! The rows that centroids are trained on.

use std::borrow::Cow;
use std::sync::Arc;

use crate::elements::{ElementKind, Elements, HostVectors, MatrixView};
use crate::engine::device::engine::Engine;
use crate::engine::device::matrices::DeviceMatrix;
use crate::engine::device::vectors::Vectors;
use crate::error::{Error, Result};
use crate::gpu::{Buffer, BufferSlice, Commands, Gpu, RowLayout};
use crate::interrupt;
use crate::kernels::move_rows::{self, Direction};
use crate::memory;

/// Rows to train on: on the host, or on the device in any number of pieces.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sample<'a> {
    Host(HostVectors<'a>),
    Device(&'a [&'a DeviceMatrix]),
}

impl<'a> From<&'a Vectors<'a>> for Sample<'a> {
    fn from(rows: &'a Vectors<'a>) -> Self {
        match rows {
            Vectors::Host(rows) => Self::Host(*rows),
            Vectors::Device(matrix) => Self::Device(std::slice::from_ref(matrix)),
        }
    }
}

impl<'a> Sample<'a> {
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Host(rows) => rows.rows(),
            Self::Device(pieces) => pieces.iter().map(|piece| piece.rows()).sum(),
        }
    }

    /// Numbers of a row: its elements, or its bits; 0 if there is no piece.
    pub(crate) fn dim(&self) -> usize {
        match self {
            Self::Host(rows) if self.are_bits() => 8 * rows.dim(),
            Self::Host(rows) => rows.dim(),
            Self::Device(pieces) => pieces.first().map_or(0, |piece| piece.dim()),
        }
    }

    /// Whether rows are bits, which are trained on as numbers 0 and 1.
    pub(crate) fn are_bits(&self) -> bool {
        matches!(self, Self::Host(rows) if rows.kind() == ElementKind::Bits)
    }

    /// An error if rows are bits.
    pub(crate) fn check_numbers(&self) -> Result<()> {
        match self {
            Self::Host(rows) => rows.kind().check_numbers("rows"),
            Self::Device(_) => Ok(()),
        }
    }

    /// Refuses pieces on another device and pieces of different dims.
    pub(crate) fn check(&self, engine: &Engine) -> Result<()> {
        let pieces = match self {
            Self::Host(_) => return Ok(()),
            Self::Device(pieces) => pieces,
        };
        for piece in *pieces {
            piece.check_device("rows", engine)?;
            if piece.dim() != self.dim() {
                let needed = format!("dim {} as in the first piece", self.dim());
                return Err(Error::argument("rows", needed, piece.dim()));
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
        let at_once = (interrupt::WORK / dim).max(1);
        let gathered = |pieces: &[MatrixView<'_, f32>]| {
            let mut sample = memory::with_room(numbers.len() * dim)?;
            let (mut piece, mut first) = (0, 0);
            for numbers in numbers.chunks(at_once) {
                interrupt::check()?;
                for &number in numbers {
                    while number as usize - first >= pieces[piece].rows() {
                        first += pieces[piece].rows();
                        piece += 1;
                    }
                    sample.extend_from_slice(pieces[piece].row(number as usize - first));
                }
            }
            Ok::<_, Error>(sample)
        };
        Ok(match self {
            Self::Host(rows) => match rows.elements() {
                Elements::F32(values) if is_whole => Cow::Borrowed(values),
                _ => {
                    let (mut sample, mut wide) = (memory::with_room(numbers.len() * dim)?, vec![]);
                    for numbers in numbers.chunks(at_once) {
                        interrupt::check()?;
                        for &number in numbers {
                            let row = rows.slice(number as usize..number as usize + 1);
                            let bits = row.as_numbers()?;
                            let row = bits.as_ref().map_or(row, HostVectors::from);
                            sample.extend_from_slice(row.elements().widened_in(&mut wide));
                        }
                    }
                    Cow::Owned(sample)
                }
            },
            Self::Device([all]) if is_whole => Cow::Borrowed(all.on_host()?.values()),
            Self::Device(pieces) => {
                let pieces = pieces.iter().map(|piece| piece.on_host()).collect::<Result<Vec<_>>>()?;
                Cow::Owned(gathered(&pieces)?)
            }
        })
    }

    /// The rows with these numbers, which ascend, in buffers that can be bound.
    pub(crate) async fn to_pieces(
        self,
        gpu: &Arc<Gpu>,
        layout: RowLayout,
        numbers: &[u64],
    ) -> Result<Vec<Piece>> {
        // Training only reads its rows, so that matrices and the training can share buffers. Small ones are copied, because each piece
        // costs dispatches.
        if let Self::Device(matrices) = self
            && numbers.len() == self.rows()
            && (matrices.len() == 1 || matrices.len() * SHARED_ROWS <= numbers.len())
        {
            let filled = matrices.iter().filter(|matrix| matrix.rows() > 0);
            return filled
                .map(|matrix| Ok(Piece { rows: matrix.buffer()?.clone(), count: matrix.rows() }))
                .collect();
        }
        let row_bytes = layout.row_bytes();
        let most = (gpu.adapter.capabilities.max_binding_bytes / row_bytes).max(1) as usize;
        let (is_whole, mut pieces, mut first) = (numbers.len() == self.rows(), vec![], 0);
        for numbers in numbers.chunks(most) {
            let rows = gpu.create_storage("rows to train on", numbers.len() as u64 * row_bytes)?;
            match self {
                Self::Host(all) => {
                    let picked;
                    let part = match is_whole {
                        true => all.slice(first..first + numbers.len()),
                        false => {
                            let numbers = memory::collect(numbers.iter().map(|&number| number as usize))?;
                            picked = all.chosen(&numbers)?;
                            (&picked).into()
                        }
                    };
                    let bits = part.as_numbers()?;
                    let part = bits.as_ref().map_or(part, HostVectors::from);
                    gpu.upload_rows(&rows, 0, layout, part, &mut |_| ()).await?;
                }
                Self::Device(matrices) => gather(gpu, matrices, row_bytes, numbers, &rows).await?,
            }
            pieces.push(Piece { rows, count: numbers.len() });
            first += numbers.len();
        }
        Ok(pieces)
    }
}

/// Rows to train on that follow each other, f32.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) rows: Buffer,
    pub(crate) count: usize,
}

/// Matrices with at least this many rows on average are trained on where they lie.
const SHARED_ROWS: usize = 1 << 14;

/// Copies the rows with these numbers, which ascend, out of matrices that follow each other.
async fn gather(
    gpu: &Gpu,
    matrices: &[&DeviceMatrix],
    row_bytes: u64,
    numbers: &[u64],
    to: &Buffer,
) -> Result<()> {
    let list = gpu.create_storage("numbers of rows", numbers.len() as u64 * 4)?;
    let numbers = memory::collect(numbers.iter().map(|&number| number as u32))?;
    gpu.upload_bytes(&list, 0, bytemuck::cast_slice(&numbers)).await?;
    let mut commands = Commands::new(gpu, None);
    let mut first_slot = 0;
    for matrix in matrices {
        let rows = matrix.rows() as u32;
        let start = numbers.partition_point(|&number| number < first_slot);
        let end = numbers.partition_point(|&number| number < first_slot + rows);
        let moving = move_rows::Move {
            direction: Direction::Gather,
            row_bytes,
            slots: BufferSlice::all(&list),
            positions: start as u32..end as u32,
            first_slot,
            rows,
            in_blocks: None,
            from: matrix.as_slice()?,
            to: BufferSlice::all(to),
        };
        if start < end {
            move_rows::encode(&mut commands, &moving)?;
        }
        first_slot += rows;
    }
    commands.submit();
    Ok(())
}
