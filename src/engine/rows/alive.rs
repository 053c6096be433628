//! The live slots, one bit each, on the host and on the device. They are kept only while there are tombstones.

use crate::bits::Bits;
use crate::error::Result;
use crate::gpu::{Buffer, Gpu};

/// Bits of the slots below the end. At least one is 0.
#[derive(Debug, Clone)]
pub(crate) struct Alive {
    pub(crate) bits: Bits,
    /// How many bits are 0.
    pub(crate) tombstones: u64,
    /// The same words for kernels. The buffer may be longer.
    pub(crate) buffer: Buffer,
}

/// The slots after a change. Searches do not see it before [`Change::apply`].
pub(crate) struct Change {
    /// One past the last slot with a row.
    pub(crate) end: u32,
    alive: Option<Alive>,
    /// Words of the current buffer that change.
    changed: Vec<usize>,
}

impl Change {
    /// The `filled` slots get rows, then the `freed` slots lose theirs.
    pub(crate) async fn new(
        gpu: &Gpu,
        current: Option<&Alive>,
        end: u32,
        filled: &[u32],
        freed: &[u32],
    ) -> Result<Self> {
        let (after, bits) = Bits::after(current.map(|alive| &alive.bits), end as usize, filled, freed)?;
        let Some(bits) = bits else {
            return Ok(Self { end: after as u32, alive: None, changed: vec![] });
        };
        let most = filled.iter().max().map_or(end, |&slot| end.max(slot + 1));
        let words_before = (end as usize).div_ceil(32).saturating_sub(1);
        let words = (most as usize).div_ceil(32);
        let end = after as u32;
        let tombstones = bits.len() as u64 - bits.count_ones() as u64;
        let bytes = bits.words().len() as u64 * 4;
        if let Some(Alive { buffer, .. }) = current.filter(|alive| alive.buffer.size() >= bytes) {
            // Words behind the old end change too: they hold bits of an earlier use.
            let behind = words_before..words;
            let slots = filled.iter().chain(freed).map(|&slot| slot as usize / 32);
            let mut changed: Vec<usize> =
                slots.chain(behind).filter(|&word| word * 4 < bytes as usize).collect();
            changed.sort_unstable();
            changed.dedup();
            return Ok(Self {
                end,
                alive: Some(Alive { bits, tombstones, buffer: buffer.clone() }),
                changed,
            });
        }
        let buffer = gpu.create_storage("alive", bytes + bytes / 2)?;
        gpu.upload_bytes(&buffer, 0, bytemuck::cast_slice(bits.words())).await?;
        Ok(Self { end, alive: Some(Alive { bits, tombstones, buffer }), changed: vec![] })
    }

    /// Makes the change visible. It cannot fail.
    pub(crate) fn apply(self, gpu: &Gpu, current: &mut Option<Alive>) {
        if let Some(alive) = &self.alive {
            let words = alive.bits.words();
            for (first, count) in runs(&self.changed) {
                let bytes = bytemuck::cast_slice(&words[first..first + count]);
                gpu.queue.write_buffer(&alive.buffer, first as u64 * 4, bytes);
            }
        }
        *current = self.alive;
    }
}

/// Joins changed words into writes of (first word, number of words): neighbours within a short distance are written together.
fn runs(changed: &[usize]) -> Vec<(usize, usize)> {
    // A separate write costs about as much as writing this many words.
    const NEAR: usize = 256;
    let mut runs: Vec<(usize, usize)> = vec![];
    for &word in changed {
        match runs.last_mut() {
            Some((first, count)) if word - (*first + *count - 1) <= NEAR => *count = word + 1 - *first,
            _ => runs.push((word, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn runs_cover_every_changed_word() {
        let changed = [0, 1, 5, 261, 518, 519, 10_000];
        assert_eq!(runs(&changed), [(0, 262), (518, 2), (10_000, 1)]);
        assert_eq!(runs(&[]), []);
    }
}
