//! Rows of integers or of bits that are their own codes: they lie in groups of 16, as the kernels of products read them, and nowhere else.

use crate::elements::{ElementKind, Elements};
use crate::host::integers::packed::{GROUP, PackedRows, set_lane};

/// Rows by slot.
#[derive(Debug)]
pub(crate) struct WholeRows {
    pub(crate) codes: PackedRows,
    pub(crate) elements: ElementKind,
    dim: usize,
    /// Room for the code of a row.
    code: Vec<i8>,
}

impl WholeRows {
    pub(crate) fn new(elements: ElementKind, dim: usize) -> Self {
        Self { codes: PackedRows::new(dim), elements, dim, code: vec![0; dim] }
    }

    /// The bits in which the byte of an element differs from its code: the code of a u8 is less by 128.
    fn flipped(&self) -> u8 {
        if self.elements == ElementKind::U8 { 0x80 } else { 0 }
    }

    /// Writes a row of the same type into a slot.
    pub(crate) fn write(&mut self, slot: usize, row: Elements<'_>) {
        debug_assert_eq!(row.kind(), self.elements, "an index converts rows before");
        let flipped = self.flipped();
        let codes = self.code.iter_mut().zip(row.bytes());
        codes.for_each(|(code, byte)| *code = (byte ^ flipped).cast_signed());
        if let Some(lines) = self.codes.group_mut(slot / GROUP) {
            set_lane(lines, slot % GROUP, &self.code);
        }
    }

    /// The elements of the row in a slot, as bytes.
    pub(crate) fn bytes(&self, slot: usize) -> impl Iterator<Item = u8> {
        let flipped = self.flipped();
        self.codes.lane(slot).take(self.dim).map(move |code| code.cast_unsigned() ^ flipped)
    }

    /// Copies the row in a slot, in f32.
    pub(crate) fn widen(&self, slot: usize, wide: &mut [f32]) {
        let each = wide.iter_mut().zip(self.bytes(slot));
        match self.elements {
            ElementKind::I8 => each.for_each(|(wide, byte)| *wide = byte.cast_signed().into()),
            _ => each.for_each(|(wide, byte)| *wide = byte.into()),
        }
    }
}
