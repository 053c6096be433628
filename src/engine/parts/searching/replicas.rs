//! Divides queries among replicas, which all have the same rows.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::engine::parts::merging::all_or_first;
use crate::engine::parts::rows::Parts;
use crate::engine::parts::together::{Work, together};
use crate::error::{Error, Result};
use crate::future::Boxed;

/// Counts a search among those that a device runs.
struct Busy<'a>(&'a AtomicUsize);

impl<'a> Busy<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Parts {
    /// Divides queries among the devices that are left, `least` or more for each of several. `work` is told a device and its queries; its
    /// results come in the order of the queries. Where a device is lost meanwhile, the others answer its queries.
    pub(super) async fn on_replicas<'f, T: Send + 'f>(
        &'f self,
        (count, least): (usize, usize),
        work: impl Fn(usize, Range<usize>) -> Boxed<'f, T>,
    ) -> Result<Vec<T>> {
        let live = self.live();
        let mut open = match live.len() {
            0 => return Err(self.none_left()),
            devices if count < least * devices.min(2) => {
                // The one with the least to do.
                let busy = |place: &&usize| self.busy[**place].load(Ordering::Relaxed);
                let place = live.iter().min_by_key(busy).copied().unwrap_or(0);
                vec![(place, 0..count)]
            }
            devices => {
                let used = devices.min(count / least);
                let start = |part: usize| count * part / used;
                let parts = live[..used].iter().enumerate();
                parts.map(|(part, &place)| (place, start(part)..start(part + 1))).collect()
            }
        };
        let mut done: Vec<(usize, T)> = vec![];
        loop {
            let works = open.iter().map(|(device, range)| -> Work<'_, T> {
                let (busy, own) = (Busy::new(&self.busy[*device]), work(*device, range.clone()));
                let work = async move {
                    let _busy = busy;
                    own.await
                };
                (self.engine(*device), Box::pin(work))
            });
            let results = together(works.collect()).await;
            let (mut again, mut errors) = (vec![], vec![]);
            for ((device, range), result) in open.into_iter().zip(results) {
                match self.noted(device, result) {
                    Ok(found) => done.push((range.start, found)),
                    Err(error @ Error::DeviceLost { .. }) if self.live().is_empty() => {
                        errors.push(Err(error))
                    }
                    Err(Error::DeviceLost { .. }) => again.push(range),
                    Err(error) => errors.push(Err(error.with_rows(|row| range.start as u64 + row))),
                }
            }
            all_or_first::<()>(errors)?;
            if again.is_empty() {
                break;
            }
            let left = self.live();
            if left.is_empty() {
                return Err(self.none_left());
            }
            open = again.into_iter().enumerate().map(|(n, range)| (left[n % left.len()], range)).collect();
        }
        done.sort_by_key(|(start, _)| *start);
        Ok(done.into_iter().map(|(_, found)| found).collect())
    }
}
