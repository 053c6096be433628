//! The means of lists of rows: the update of k-means.

use crate::error::Result;
use crate::gpu::{Buffer, Commands, GRID, Grid, Kernel, buffers, params, wgsl};
use crate::kernels::lengths::VECTORS;

params! {
    pub struct Params {
        lists: u32,
        /// Vectors of four elements per row.
        vectors: u32,
        /// The first row of this buffer.
        first_row: u32,
        /// One past its last row.
        end_row: u32,
        /// 1: no rows follow in another buffer.
        is_last: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("average")
    .library(&[GRID])
    .source(wgsl!(
        "lists/average",
        NORMALIZE_NOTHING = Normalize::Nothing,
        NORMALIZE_MEANS_AND_ROWS = Normalize::MeansAndRows
    ))
    .buffers(BUFFERS)
    .overrides(&[(
        "NORMALIZE",
        &[Normalize::Nothing as u32, Normalize::Means as u32, Normalize::MeansAndRows as u32],
    )])
    .lengths(&[VECTORS])
    .workgroup(128, 128 * 4);

/// Which vectors are normalised to length 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalize {
    /// None.
    Nothing,
    /// Means.
    Means,
    /// Means, and rows before they are averaged.
    MeansAndRows,
}

buffers! {
    /// Rows, f32, and the lists they are in.
    pub(crate) struct Buffers<'a> {
        rows: Read &'a Buffer,
        row_norms: Read &'a Buffer,
        /// Rows, list by list.
        order: Read &'a Buffer,
        /// `[lists + 1]`.
        offsets: Read &'a Buffer,
        means: Write &'a Buffer,
    }
}

pub(crate) fn encode(
    commands: &mut Commands<'_>,
    normalize: Normalize,
    params: &Params,
    buffers: &Buffers<'_>,
) -> Result<()> {
    let pipeline = commands.gpu().pipeline(&KERNEL, &[normalize as u32])?;
    commands.dispatch(&pipeline, params, &buffers.slices(), Grid::Linear(params.lists.into()))
}

/// The mean of rows in f64.
pub fn reference(rows: &[&[f32]], normalize: Normalize) -> Vec<f64> {
    let length = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
    let dim = rows.first().map_or(0, |row| row.len());
    let mut mean = vec![0.0; dim];
    for row in rows {
        let row: Vec<f64> = row.iter().map(|&x| x.into()).collect();
        let norm = length(&row);
        let scale = if normalize == Normalize::MeansAndRows {
            if norm > 0.0 { 1.0 / norm } else { 0.0 }
        } else {
            1.0
        };
        mean.iter_mut().zip(&row).for_each(|(sum, x)| *sum += x * scale / rows.len() as f64);
    }
    let norm = length(&mean);
    if normalize != Normalize::Nothing && norm > 0.0 {
        mean.iter_mut().for_each(|x| *x /= norm);
    }
    mean
}
