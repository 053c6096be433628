//! The smallest elements of rows, on the host or on the device.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::device::handle::{Device, Engine};
use crate::engine::device::values::ValueRows;
use crate::engine::search::answers::Results;
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Gpu, Request, Scratch, budget_for, usable};
use crate::host::{self, Host};
use crate::kernels::select_k::{self, SORTED_MAX, Select, Selected, scratch_bytes};
use crate::matrix::Element;
use crate::metric::Metric;
use crate::neighbors::Neighbors;

impl Device {
    /// The k smallest values of each row with their column numbers as ids, ties by the smaller column, `[rows, up to k]`. NaN is
    /// never selected; infinities are values like others. Rows are a matrix on the host (f32 or f16), vectors on the device, or
    /// distances on the device.
    ///
    /// # Errors
    /// [`Error::Argument`] for k = 0, or rows on another device; [`Error::Budget`] when a row and its results exceed the device's
    /// scratch budget; [`Error::Unsupported`] when they exceed one binding of the adapter; [`Error::OutOfMemory`].
    ///
    /// ```no_run
    /// use nearfield::{Device, MatrixView};
    /// let device = Device::best()?;
    /// let smallest = device.top_k(MatrixView::new(&[3.0f32, 1.0, 2.0], 3)?, 2)?;
    /// let columns: Vec<u64> = smallest.row(0).iter().map(|hit| hit.id).collect();
    /// assert_eq!(columns, [1, 2]);
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn top_k<'v>(&self, rows: impl Into<ValueRows<'v>>, k: usize) -> Result<Neighbors> {
        self.block_on(self.top_k_async(rows, k))
    }

    /// [`Device::top_k`] without blocking.
    ///
    /// # Errors
    /// As there.
    pub async fn top_k_async<'v>(&self, rows: impl Into<ValueRows<'v>>, k: usize) -> Result<Neighbors> {
        let rows = rows.into();
        rows.check_device("rows", &self.engine)?;
        if k == 0 {
            return Err(Error::argument("k", "at least 1", k));
        }
        match &self.engine {
            _ if rows.length() == 0 => {
                let mut nothing = Neighbors::default();
                (0..rows.rows()).for_each(|_| nothing.push_row(vec![]));
                Ok(nothing)
            }
            Engine::Gpu(gpu) => top_k(gpu, rows, k).await,
            Engine::Host(host) => top_k_on_host(host, rows, k),
        }
    }
}

fn top_k_on_host(host: &Host, rows: ValueRows<'_>, k: usize) -> Result<Neighbors> {
    let most = u32::MAX as usize;
    if rows.length() > most {
        return Err(Error::Unsupported {
            what: format!("selecting {k} of {} values", rows.length()),
            needed: format!("rows of up to {most} values"),
            available: host.adapter.to_string(),
        });
    }
    let budget = host.options.budget_bytes;
    match rows.on_host()? {
        ValueRows::F32(rows) => host::top_k(rows, k, budget),
        ValueRows::F16(rows) => host::top_k(rows, k, budget),
        _ => Ok(Neighbors::default()),
    }
}

/// What is selected, and with how much scratch memory.
struct Selection<'a> {
    gpu: &'a Arc<Gpu>,
    rows: ValueRows<'a>,
    length: u64,
    /// No more than a row has.
    k: u64,
    has_lists: bool,
}

async fn top_k(gpu: &Arc<Gpu>, rows: ValueRows<'_>, k: usize) -> Result<Neighbors> {
    let (count, length) = (rows.rows(), rows.length() as u64);
    let mut selection = Selection { gpu, rows, length, k: length.min(k as u64), has_lists: true };
    let mut smallest = Neighbors::with_capacity(count, count * selection.k as usize);
    // Without room for lists where the budget has none for one row.
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

impl Selection<'_> {
    fn is_large(&self) -> bool {
        self.k > u64::from(SORTED_MAX)
    }

    fn list_bytes(&self, rows: u64) -> [u64; 3] {
        if !self.has_lists {
            return [0; 3];
        }
        scratch_bytes(rows as u32, self.length as u32, self.k as u32)
    }

    /// Scratch memory of one row.
    fn row_bytes(&self) -> u64 {
        let staged = if self.rows.on_device().is_some() { 0 } else { self.length * 4 };
        let results = self.k * 12 * if self.is_large() { 2 } else { 1 } + 4;
        staged + results + self.list_bytes(1).iter().sum::<u64>()
    }

    /// How many rows are selected from at a time.
    fn at_once(&self, budget: u64, count: usize) -> Result<usize> {
        let limits = &self.gpu.adapter.capabilities;
        let largest_list = self.list_bytes(1).into_iter().fold(1, u64::max);
        let at_once = (usable(budget) / self.row_bytes())
            .min(limits.max_binding_bytes / (self.length * 4).max(self.k * 8))
            // Lists that no binding holds would leave the slowest kernel alone.
            .min(limits.max_binding_bytes / largest_list)
            .min(limits.max_workgroups.into())
            .min(count as u64);
        // What is on the device is bound from a row on that starts where a binding may: at a multiple of 256 bytes.
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
        self.stage(&range, &scratch).await?;
        let (values, pitch) = match self.rows.on_device() {
            None => (BufferSlice::all(&scratch[0]), length),
            Some((buffer, stride)) => {
                let offset = (range.start * stride) as u64 * 4;
                (BufferSlice::range(buffer, offset, buffer.size() - offset), stride as u64)
            }
        };
        let place = |keys: usize, ids: usize| Selected {
            keys: BufferSlice::all(&scratch[keys]),
            ids: BufferSlice::all(&scratch[ids]),
        };
        let select = Select {
            keys: values,
            ids: None,
            floats: true,
            rows: select_k::Rows::Equal { length: length as u32, pitch: pitch as u32 },
            count: rows as u32,
            k: k as u32,
            selected: place(1, 2),
            selected_pitch: k as u32,
            selected_counts: BufferSlice::all(&scratch[3]),
            spare: self.is_large().then(|| place(4, 5)),
            scratch: self.has_lists.then(|| select_k::Scratch {
                states: BufferSlice::all(&scratch[6]),
                lists: BufferSlice::all(&scratch[7]),
                samples: BufferSlice::all(&scratch[8]),
            }),
        };
        let mut commands = Commands::new(gpu, None);
        select_k::encode(&mut commands, &select)?;
        let ranges =
            [(&scratch[1], 0, rows * k * 4), (&scratch[2], 0, rows * k * 8), (&scratch[3], 0, rows * 4)];
        let parts = commands.read(&ranges).await?;
        // Keys stand for the values themselves.
        let (k, as_they_are) = (k as usize, Metric::L2Squared);
        let found = Results::new(as_they_are, [k; 2], &parts[0], &parts[1], &parts[2]);
        found.rows().for_each(|row| smallest.push_row(row));
        Ok(())
    }

    /// Copies rows of the host to the device.
    async fn stage(&self, range: &Range<usize>, scratch: &Scratch) -> Result<()> {
        let length = self.length as usize;
        let part = range.start * length..range.end * length;
        match &self.rows {
            ValueRows::F32(view) => {
                let bytes = bytemuck::cast_slice(&view.values()[part]);
                self.gpu.upload_bytes(&scratch[0], 0, bytes).await
            }
            ValueRows::F16(view) => {
                let widened: Vec<f32> = view.values()[part].iter().map(|value| value.widen()).collect();
                self.gpu.upload_bytes(&scratch[0], 0, bytemuck::cast_slice(&widened)).await
            }
            _ => Ok(()),
        }
    }
}
