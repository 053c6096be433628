//! The scores of pairs of a query and a document on a GPU, as they are reported: products in f32, which the host adds up.

use crate::engine::rows::segments::GpuRows;
use crate::error::Result;
use crate::gpu::{Buffer, Commands, Profile, words};
use crate::host::documents::slots_of;
use crate::kernels::{maxsim_pairs, value_of};
use crate::memory;

/// Pairs that are multiplied at a time, and the bytes that describe one.
pub(super) const AT_ONCE: usize = 1 << 14;
pub(super) const PAIR_BYTES: u64 = 16;

/// Workgroups that keep a large device busy.
const WORKGROUPS: u32 = 2048;

/// Queries and documents of which pairs are multiplied.
pub(super) struct Pairs<'a> {
    pub(super) rows: &'a GpuRows,
    /// The tokens of the queries, f32, padded as rows are.
    pub(super) queries: &'a Buffer,
    /// Where the tokens of each query begin among those of the call, and the end of the last. The first is that of the buffer's first.
    pub(super) offsets: &'a [usize],
    /// The weight of each token from the first one on.
    pub(super) weights: &'a [f32],
    /// One past the last slot of each document.
    pub(super) ends: &'a [u32],
    /// Scratch memory for the description of [`AT_ONCE`] pairs, and for `room` products.
    pub(super) list: &'a Buffer,
    pub(super) nearest: &'a Buffer,
    pub(super) room: usize,
}

impl Pairs<'_> {
    /// Gives the score of each pair of a query's number and a document's place to `take`, in their order.
    pub(super) async fn score(
        &self,
        pairs: &[(usize, u32)],
        profile: &mut Option<Profile>,
        take: &mut (dyn FnMut((usize, u32), f32) + Send),
    ) -> Result<()> {
        let offsets = self.offsets;
        let pitch = offsets.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(1);
        let at_once = AT_ONCE.min(self.room / pitch).max(1);
        for some in pairs.chunks(at_once) {
            let list = memory::collect(some.iter().map(|pair| self.described(*pair)))?;
            let mut commands = Commands::new(&self.rows.gpu, profile.as_mut());
            commands.write((self.list, 0), bytemuck::cast_slice(&list)).await?;
            let bytes = (some.len() * pitch * 4) as u64;
            // Few pairs are shared by more workgroups, so that all of the device works.
            let longest = list.iter().map(|pair| pair[3]).max().unwrap_or(1);
            let parts = (WORKGROUPS / some.len() as u32).clamp(1, longest.div_ceil(maxsim_pairs::TOKENS));
            commands.clear(self.nearest, 0, bytes);
            commands.stage("maxsim_pairs");
            for segment in &self.rows.segments {
                let params = maxsim_pairs::Params {
                    vectors: (self.rows.layout.stride / 4) as u32,
                    pairs: some.len() as u32,
                    first_slot: segment.first_slot,
                    rows: segment.len,
                    pitch: pitch as u32,
                    parts,
                };
                let rows = &segment.stored()?.rows;
                let buffers = [self.queries, rows, self.list, self.nearest].map(|buffer| buffer.into());
                maxsim_pairs::encode(&mut commands, self.rows.layout, &params, buffers)?;
            }
            let read = commands.read(&[(self.nearest, 0, bytes)]).await?;
            for ((&pair, [first, tokens, ..]), nearest) in
                some.iter().zip(&list).zip(read[0].chunks_exact(pitch * 4))
            {
                let weights = &self.weights[*first as usize..][..*tokens as usize];
                let products = words::<u32>(nearest).zip(weights);
                let sum: f64 =
                    products.map(|(key, &weight)| f64::from(value_of(key)) * f64::from(weight)).sum();
                // Turns -0 into 0.
                take(pair, sum as f32 + 0.0);
            }
        }
        Ok(())
    }

    /// A pair as the kernel takes it.
    fn described(&self, (query, place): (usize, u32)) -> [u32; 4] {
        let ends = &self.offsets[query..query + 2];
        let slots = slots_of(self.ends, place);
        let [first, tokens] = [ends[0] - self.offsets[0], ends[1] - ends[0]].map(|number| number as u32);
        [first, tokens, slots.start, slots.len() as u32]
    }
}
