//! Folds the log of an index into its file.

use crate::error::Result;
use crate::files::mismatch;
use crate::index::durable::Durable;
use crate::index::file::Reader;
use crate::index::log::opening;
use crate::index::saved::Checkpoint;
use crate::index::saved::kept::Load;
use crate::lock::lock;

/// A log smaller than this is never folded into the file by itself.
const SMALL_LOG: u64 = 64 << 20;

impl<I: Load> Durable<I> {
    /// Writes the file anew and empties the log.
    pub(super) fn write_file(&self, rate: Option<u64>) -> Result<()> {
        let mut log = lock(&self.log);
        let (file, index) = (Reader::open(&self.path)?, log.index());
        let before = file.identity();
        // The file of a checkpoint that has not emptied the log is one of this index too.
        if before != index && opening::changes_of(&file)? != Some(index) {
            let needed = "the index that was opened, which no other program may replace";
            return Err(mismatch(&self.path, needed, "another"));
        }
        let device = &self.index.common().device;
        let of = Checkpoint { index, rate };
        let saved = device.block_on(async { self.index.saving().await?.checkpoint(&self.path, of).await });
        match saved.and_then(|()| opening::shape_of(&self.path, &self.index)) {
            Ok((shape, bytes)) => {
                *lock(&self.bytes) = bytes;
                log.reset(shape)
            }
            Err(error) => {
                // Readers pass over changes that this file has. Others must not follow them.
                if opening::identity(&self.path).ok() != Some(before) {
                    log.fail(format!("one whose index may have been replaced ({error})"));
                }
                Err(error)
            }
        }
    }

    /// Begins a checkpoint where the log has become long beside the file.
    pub(super) fn fold(&mut self) {
        let Some(part) = self.part else { return };
        let (log, file) = (self.log_bytes(), *lock(&self.bytes));
        let is_long = log > SMALL_LOG && log as f64 > part * file as f64;
        if !is_long || self.failed.as_ref().is_some_and(|&(_, before)| log < 2 * before) {
            return;
        }
        // The change is made, and the log has it.
        self.failed = self.write_file(None).err().map(|error| (error, log));
    }
}
