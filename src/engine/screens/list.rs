//! The list of screens: which there are, and which of them search an index, in what order.

use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::float::{FLOATS, SCAN, TILE};
use crate::engine::screens::int8::codes::QuantizedRows;
use crate::engine::screens::int8::scores::{
    BITS, BITS_COOP, INTEGERS, INTEGERS_COOP, SCAN_BITS, SCAN_I8, TILE_BITS, TILE_BITS_COOP, TILE_COOP,
    TILE_I8,
};
use crate::engine::screens::int8::tiles::Tiles;
use crate::engine::screens::score::{ScoreKernel, ScreenKernel, ScreenKernels};
use crate::gpu::Gpu;
use crate::metric::Metric;

impl ScreenKernel {
    pub(crate) fn kernel(self) -> &'static ScoreKernel {
        match self {
            Self::Scan => &SCAN,
            Self::Tile => &TILE,
            Self::ScanI8 => &SCAN_I8,
            Self::TileI8 => &TILE_I8,
            Self::TileCoop => &TILE_COOP,
            Self::ScanBits => &SCAN_BITS,
            Self::TileBits => &TILE_BITS,
            Self::TileBitsCoop => &TILE_BITS_COOP,
        }
    }
}

/// The codes that an index keeps on a device beside its rows, or in their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codes {
    /// There are only rows.
    None,
    /// 8-bit integers, of which this multiplies tiles.
    Int8(Tiles),
    /// Bytes of bits, of which this compares tiles.
    Bits(Tiles),
}

impl Codes {
    /// The codes of an index on this device that is still to be made.
    pub(crate) fn expected(gpu: &Gpu, metric: Metric, is_quantized: bool) -> Self {
        Self::of_bits(gpu, is_quantized.then(|| metric.counts_bits()))
    }

    pub(crate) fn of(rows: &GpuRows) -> Self {
        Self::of_bits(&rows.gpu, rows.quantized.as_ref().map(QuantizedRows::of_bits))
    }

    /// Codes of bits or of integers; none without codes.
    fn of_bits(gpu: &Gpu, of_bits: Option<bool>) -> Self {
        match of_bits {
            Some(true) => Self::Bits(Tiles::expected(gpu)),
            Some(false) => Self::Int8(Tiles::expected(gpu)),
            None => Self::None,
        }
    }

    /// Those of the centroids of rows with these.
    pub(crate) fn of_numbers(self) -> Self {
        if let Self::Bits(tiles) = self { Self::Int8(tiles) } else { self }
    }

    pub(crate) fn are_bits(self) -> bool {
        matches!(self, Self::Bits(_))
    }

    /// The screens of an index with these codes, where the device has its rows or only these.
    pub(crate) fn screens(self, keeps_rows: bool) -> Vec<&'static ScreenKernels> {
        let of_codes = match self {
            Self::Int8(Tiles::Matrices) => Some(&INTEGERS_COOP),
            Self::Int8(Tiles::Bytes) => Some(&INTEGERS),
            Self::Bits(Tiles::Matrices) => Some(&BITS_COOP),
            Self::Bits(Tiles::Bytes) => Some(&BITS),
            Self::None => None,
        };
        let of_rows = (keeps_rows && !self.are_bits()).then_some(&FLOATS);
        of_codes.into_iter().chain(of_rows).collect()
    }
}

/// Where tiles of bytes take longer than those of floats, as on GPUs without an instruction for their products.
const INTEGERS_BUT_TILES: ScreenKernels = ScreenKernels { kernels: &[&SCAN_I8, &TILE], ..INTEGERS };

/// The screens of an index, fastest first. A query whose candidates overflow with one is searched again with the next. The last
/// one scores the rows as they are, where the device has them and they are no bits.
pub(crate) fn screens(rows: &GpuRows) -> Vec<&'static ScreenKernels> {
    let codes = Codes::of(rows);
    let mut screens = codes.screens(rows.keeps_rows);
    if rows.keeps_rows
        && codes == Codes::Int8(Tiles::Bytes)
        && rows.gpu.compiler.batches_take_floats(rows.dim, rows.layout.elements)
    {
        screens[0] = &INTEGERS_BUT_TILES;
    }
    screens
}

/// The screens behind that with this kernel. One that computes wrongly has been replaced by the first.
pub(crate) fn behind<'s>(
    screens: &'s [&'static ScreenKernels],
    kernel: ScreenKernel,
) -> &'s [&'static ScreenKernels] {
    let has_it = |screen: &&ScreenKernels| screen.kernels.iter().any(|one| one.name == kernel);
    screens.get(screens.iter().rposition(has_it).unwrap_or(0) + 1..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_that_its_test_replaced_is_followed_by_that_of_floats() {
        let names =
            |screens: &[&ScreenKernels]| screens.iter().map(|one| one.kernels[0].name).collect::<Vec<_>>();
        let follows = |codes: Codes, kernel| names(behind(&codes.screens(true), kernel));
        for tiles in [Tiles::Matrices, Tiles::Bytes] {
            for kernel in [ScreenKernel::TileCoop, ScreenKernel::TileI8] {
                assert_eq!(follows(Codes::Int8(tiles), kernel), names(&[&FLOATS]), "{tiles:?} {kernel:?}");
            }
        }
        assert!(
            follows(Codes::Int8(Tiles::Matrices), ScreenKernel::Tile).is_empty()
                && follows(Codes::None, ScreenKernel::Scan).is_empty()
        );
        assert!(behind(&[], ScreenKernel::Tile).is_empty());
    }
}
