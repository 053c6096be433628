//! The smallest values of rows, on a GPU.

use std::mem::take;
use std::ops::Range;
use std::sync::Arc;

use crate::engine::device::values::ValueRows;
use crate::engine::pass::keys_and_ids;
use crate::engine::search::answers::Results;
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Gpu, Request, Scratch, budget_for, usable};
use crate::kernels::select_k::{self, SORTED_MAX, Select};
use crate::kernels::selection::{self, scratch_bytes};
use crate::kernels::value_of;
use crate::neighbors::{Neighbor, Neighbors};

/// A selection, and its scratch memory.
struct TopK<'a> {
    gpu: &'a Arc<Gpu>,
    rows: ValueRows<'a>,
    length: u64,
    /// At most the length of a row.
    k: u64,
    has_lists: bool,
}

/// The k smallest values of each row; rows have at least one value.
pub(crate) async fn top_k(gpu: &Arc<Gpu>, rows: ValueRows<'_>, k: usize) -> Result<Neighbors> {
    let (count, length) = (rows.rows(), rows.length() as u64);
    let mut selection = TopK { gpu, rows, length, k: length.min(k as u64), has_lists: true };
    let mut smallest = Neighbors::with_room(count, count * selection.k as usize)?;
    // A budget that is too small for the lists of one row goes without lists.
    let budget = gpu.options.budget_bytes;
    let fits = |bytes: u64| bytes <= gpu.adapter.capabilities.max_binding_bytes;
    selection.has_lists =
        usable(budget) >= selection.row_bytes() && selection.list_bytes(1).into_iter().all(fits);
    let at_once = selection.at_once(budget, count)?;
    let mut start = 0;
    while start < count {
        let end = count.min(start + at_once);
        selection.some_rows(start..end, &mut smallest).await?;
        start = end;
    }
    Ok(smallest)
}

impl TopK<'_> {
    fn is_large(&self) -> bool {
        self.k > u64::from(SORTED_MAX)
    }

    fn list_bytes(&self, rows: u64) -> [u64; 3] {
        if !self.has_lists {
            return [0; 3];
        }
        scratch_bytes(rows as u32, self.length as u32, self.k as u32)
    }

    fn row_bytes(&self) -> u64 {
        let staged = if self.rows.on_device().is_some() { 0 } else { self.length * 4 };
        let results = self.k * 12 * if self.is_large() { 2 } else { 1 } + 4;
        staged + results + self.list_bytes(1).iter().sum::<u64>()
    }

    fn at_once(&self, budget: u64, count: usize) -> Result<usize> {
        let limits = &self.gpu.adapter.capabilities;
        let largest_list = self.list_bytes(1).into_iter().fold(1, u64::max);
        let at_once = (usable(budget) / self.row_bytes())
            .min(limits.max_binding_bytes / (self.length * 4).max(self.k * 8))
            // Lists that no binding holds would leave the slowest kernel alone.
            .min(limits.max_binding_bytes / largest_list)
            .min(limits.max_workgroups.into())
            .min(count as u64);
        // Batches of rows on the device start where a binding may: at a multiple of 256 bytes.
        let unit = match self.rows.on_device() {
            Some((_, stride)) if at_once < count as u64 => 64 >> stride.trailing_zeros().min(6),
            _ => 1,
        };
        if at_once < unit && count > 0 {
            // More budget would not help where the adapter does not see so much at once.
            let widest = (self.length * 4).max(self.k * 8) * unit;
            self.gpu.check_binding(&format!("selecting {} of {} values", self.k, self.length), widest)?;
            return Err(Error::Budget {
                purpose: format!("selecting {} of {} values", self.k, self.length),
                needed: budget_for(self.row_bytes() * unit),
                budget,
            });
        }
        Ok((at_once / unit * unit) as usize)
    }

    async fn some_rows(&self, range: Range<usize>, smallest: &mut Neighbors) -> Result<()> {
        let (gpu, length, k, rows) = (self.gpu, self.length, self.k, range.len() as u64);
        let spare = if self.is_large() { rows * k } else { 0 };
        let staged = if self.rows.on_device().is_some() { 0 } else { rows * length * 4 };
        let lists = self.list_bytes(rows);
        let request = |purpose, bytes| Request { purpose, bytes };
        let scratch = gpu
            .reserve(&[
                request("values", staged),
                request("selected keys", rows * k * 4),
                request("selected ids", rows * k * 8),
                request("selected counts", rows * 4),
                request("spare keys", spare * 4),
                request("spare ids", spare * 8),
                request("thresholds", lists[0]),
                request("lists", lists[1]),
                request("samples", lists[2]),
            ])
            .await?;
        self.upload(&range, &scratch).await?;
        let (values, pitch) = match self.rows.on_device() {
            None => (BufferSlice::all(&scratch[0]), length),
            Some((buffer, stride)) => {
                let offset = (range.start * stride) as u64 * 4;
                (BufferSlice::range(buffer, offset, buffer.size() - offset), stride as u64)
            }
        };
        let select = Select {
            keys: values,
            ids: None,
            floats: true,
            rows: select_k::Rows::Equal { length: length as u32, pitch: pitch as u32 },
            count: rows as u32,
            k: k as u32,
            selected: keys_and_ids(&scratch[1], &scratch[2]),
            selected_pitch: k as u32,
            selected_counts: BufferSlice::all(&scratch[3]),
            spare: self.is_large().then(|| keys_and_ids(&scratch[4], &scratch[5])),
            scratch: self.has_lists.then(|| select_k::Scratch {
                states: BufferSlice::all(&scratch[6]),
                lists: BufferSlice::all(&scratch[7]),
                samples: BufferSlice::all(&scratch[8]),
            }),
        };
        let mut commands = Commands::new(gpu, None);
        selection::encode(&mut commands, &select)?;
        let ranges =
            [(&scratch[1], 0, rows * k * 4), (&scratch[2], 0, rows * k * 8), (&scratch[3], 0, rows * 4)];
        let mut parts = commands.read(&ranges).await?;
        // Keys stand for the values themselves.
        let found = Results::new([k as usize; 2], [0, 1, 2].map(|part| take(&mut parts[part])));
        let hit = |(key, id)| Neighbor { id, distance: value_of(key) };
        found.rows().for_each(|row| smallest.push_row(row.map(hit)));
        Ok(())
    }

    /// Copies rows on the host to the GPU, as f32.
    async fn upload(&self, range: &Range<usize>, scratch: &Scratch) -> Result<()> {
        let Some(vectors) = self.rows.host_vectors() else { return Ok(()) };
        let (vectors, mut wide) = (vectors.slice(range.clone()), vec![]);
        let wide = vectors.elements().widened_in(&mut wide);
        self.gpu.upload_bytes(&scratch[0], 0, bytemuck::cast_slice(wide)).await
    }
}
