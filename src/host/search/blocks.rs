//! Rows quantised by the host for a GPU: blocks of 128 rows in the layout of its kernels.

use std::ops::Range;

use crate::error::Result;
use crate::host::rows::quantizer::Quantizer;
use crate::host::rows::store::HostRows;
use crate::host::search::refining::THREADS;
use crate::kernels::BLOCK_ROWS;
use crate::kernels::quantize::{GRANULE, granules};
use crate::memory;
use crate::parallel::current_thread_index;
use crate::screen::certificate::Terms;

impl HostRows {
    /// The integers and the terms of neighbouring slots, the first of which starts a block. Slots without a row have integers of zeros.
    pub(crate) fn quantized_blocks(
        &self,
        quantizer: &Quantizer,
        slots: Range<usize>,
    ) -> Result<(Vec<u8>, Vec<Terms>)> {
        let block = BLOCK_ROWS as usize;
        let block_bytes = granules(self.dim()) as usize * GRANULE * block;
        let blocks = slots.len().div_ceil(block);
        // Kernels read integers with this added.
        let offset = quantizer.offset();
        let mut integers = memory::filled(blocks * block_bytes, offset)?;
        let mut terms = memory::filled(blocks * block, Terms::default())?;
        let quantize = |number: usize, integers: &mut [u8], terms: &mut [Terms]| {
            let (mut wide, mut row_integers) = (vec![0.0; self.dim()], vec![0i8; self.dim()]);
            let first = slots.start + number * block;
            for slot in first..slots.end.min(first + block) {
                if self.alive().is_some_and(|alive| !alive.get(slot)) {
                    continue;
                }
                let row = self.values.row(slot, &mut wide);
                let place = slot - first;
                terms[place] = quantizer.quantize(row, self.values.squared[slot], &mut row_integers);
                for (granule, from) in row_integers.chunks(GRANULE).enumerate() {
                    let start = (granule * block + place) * GRANULE;
                    let into = &mut integers[start..start + from.len()];
                    into.iter_mut()
                        .zip(from)
                        .for_each(|(into, &from)| *into = offset.wrapping_add_signed(from));
                }
            }
        };
        let parts = integers.chunks_mut(block_bytes).zip(terms.chunks_mut(block)).enumerate();
        // A thread of another pool would take up work of that pool while it waits.
        match THREADS.as_ref().filter(|_| blocks > 1 && current_thread_index().is_none()) {
            Some(threads) => threads.scope(|scope| {
                let quantize = &quantize;
                parts.for_each(|(number, (integers, terms))| {
                    scope.spawn(move |_| quantize(number, integers, terms));
                });
            }),
            None => parts.for_each(|(number, (integers, terms))| quantize(number, integers, terms)),
        }
        Ok((integers, terms))
    }
}
