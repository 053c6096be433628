//! Vectors in fewer bits: what an index does with rows that come in where it stores others, and what a caller does with signs.

use crate::elements::{Element, ElementKind, HostVectors, Matrix, PackedBits};
use crate::error::{Error, Result};
use crate::host;
use crate::interrupt;
use crate::memory;
use crate::metric::Metric;
use crate::parallel::*;

/// Whether an index may quantise rows to this type: to i8 where the scale of a row, which is forgotten, has no effect.
pub(crate) fn can_store(metric: Metric, kind: ElementKind) -> bool {
    let is_rounded = !kind.is_integer() && kind != ElementKind::Bits;
    is_rounded || kind == ElementKind::I8 && metric.compares_directions()
}

/// Writes the setters of element types, which the builders of indexes have. They are in the field at this path.
macro_rules! element_methods {
    ($settings:ident) => {
        /// Sets how rows are stored. An index takes rows of its own type, and of those whose numbers it holds exactly: f32 (the default) of
        /// all, f16 and bf16 also of i8 and u8.
        #[must_use]
        pub fn elements(mut self, elements: $crate::ElementKind) -> Self {
            (self.$settings.elements, self.$settings.quantizes) = (elements, false);
            self
        }

        /// Sets how rows are stored, and quantises the rows that come in:
        /// - i8, under [`Metric::Cosine`](crate::Metric::Cosine) alone: each row's numbers times 127 over its largest magnitude, rounded.
        ///   The row loses its length, which has no effect on cosines;
        /// - f16 and bf16: the nearest numbers. A number beyond their range is an error.
        ///
        /// Rows of this type already are stored as they are. The others of a call are quantised together, in the host's memory.
        ///
        /// Searches of the quantised rows are exact, and take queries as they are given. docs/performance.md tells how many neighbours are
        /// lost; [`Flat::refine`](crate::Flat::refine) finds them again by rows that were not quantised. A loaded index goes on quantising.
        ///
        /// ```
        /// use nearfield::{Device, ElementKind, Flat, Metric};
        /// let mut index = Flat::builder(&Device::host(), Metric::Cosine, 3).store(ElementKind::I8).build()?;
        /// index.add(&[[0.5f32, -1.0, 0.25], [0.0, 2.0, 0.0]])?;
        /// assert_eq!(index.get(&[0, 1])?, [64.0, -127.0, 32.0, 0.0, 127.0, 0.0]);
        /// # Ok::<(), nearfield::Error>(())
        /// ```
        #[must_use]
        pub fn store(mut self, elements: $crate::ElementKind) -> Self {
            (self.$settings.elements, self.$settings.quantizes) = (elements, true);
            self
        }
    };
}
pub(crate) use element_methods;

impl HostVectors<'_> {
    /// Copies of the vectors in fewer bits, `[rows, dim]`:
    /// - [`ElementKind::I8`]: each vector's numbers times 127 over its largest magnitude, rounded to whole numbers, ties to even. The
    ///   vector loses its length, which has no effect under [`Metric::Cosine`];
    /// - [`ElementKind::Bits`]: a bit for each number, 1 where it is above 0. A byte has eight of them, the first in its highest bit, as
    ///   numpy's `packbits` does. Zeros fill the last byte: `[rows, dim / 8]`, rounded up;
    /// - [`ElementKind::F16`] and [`ElementKind::BF16`]: the nearest numbers. A number beyond their range is an error.
    ///
    /// docs/performance.md tells how many neighbours are lost; [`Flat::refine`](crate::Flat::refine) finds them again.
    ///
    /// # Errors
    /// [`Error::Argument`] for bits and for other types; [`Error::NotFinite`] and [`Error::NormOutOfRange`] with the vector's number;
    /// [`Error::OutOfMemory`].
    ///
    /// ```
    /// use nearfield::{ElementKind, HostVectors, Matrix, MatrixView, PackedBits};
    ///
    /// let rows = HostVectors::from(MatrixView::new(&[0.5f32, -1.0, 0.25, 0.0], 4)?);
    /// assert_eq!(rows.quantized(ElementKind::I8)?, Matrix::I8(vec![64, -127, 32, 0], 4));
    /// assert_eq!(rows.quantized(ElementKind::Bits)?, Matrix::Bits(vec![PackedBits(0b1010_0000)], 1));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn quantized(&self, kind: ElementKind) -> Result<Matrix> {
        if self.kind() == ElementKind::Bits || matches!(kind, ElementKind::F32 | ElementKind::U8) {
            let needed = "numbers, and f16, bf16, i8 or bits to quantise them to";
            return Err(Error::argument("kind", needed, format!("{} and {kind}", self.kind())));
        }
        // Integers and bits hide a NaN, so the check comes first.
        host::checked("rows", *self)?;
        match kind {
            ElementKind::Bits => self.each_row(self.dim().div_ceil(8), signs),
            ElementKind::I8 => self.each_row(self.dim(), scaled),
            other => {
                let mut rounded = Matrix::with_room(other, self.rows(), self.dim())?;
                rounded.extend(*self)?;
                // Numbers that round to an infinity.
                host::checked("rows", (&rounded).into()).map_err(|error| match error {
                    Error::NotFinite { row, .. } => Error::argument(
                        "rows",
                        format!("numbers in the range of {other}"),
                        format!("others in row {row}"),
                    ),
                    other => other,
                })?;
                Ok(rounded)
            }
        }
    }

    /// The vectors that `quantize` makes of these, with `dim` elements each.
    fn each_row<T: Element>(&self, dim: usize, quantize: fn(&[f32], &mut [T])) -> Result<Matrix> {
        let mut values = memory::filled(self.rows() * dim, T::ZERO)?;
        let piece = (interrupt::WORK / self.dim()).max(1);
        for (number, values) in values.chunks_mut(piece * dim).enumerate() {
            interrupt::check()?;
            values.par_chunks_mut(dim).enumerate().for_each(|(row, values)| {
                let mut scratch = vec![];
                quantize(self.row(number * piece + row).widened_in(&mut scratch), values);
            });
        }
        Ok(Matrix::of(values, dim))
    }
}

fn signs(row: &[f32], bytes: &mut [PackedBits]) {
    for (byte, eight) in bytes.iter_mut().zip(row.chunks(8)) {
        let bits = eight.iter().enumerate().filter(|(_, value)| **value > 0.0);
        byte.0 = bits.fold(0, |byte, (place, _)| byte | 0x80 >> place);
    }
}

fn scaled(row: &[f32], integers: &mut [i8]) {
    let most = row.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    let steps = if most > 0.0 { 127.0 / f64::from(most) } else { 0.0 };
    let each = integers.iter_mut().zip(row);
    each.for_each(|(integer, &value)| *integer = (f64::from(value) * steps).round_ties_even() as i8);
}
