//! Changes of rows on several devices. A change is prepared on all of them, and then taken over by steps that cannot fail: all devices have
//! it, or none.

use std::panic::resume_unwind;
use std::sync::Arc;

use crate::bits::Bits;
use crate::engine::parts::merging::all_or_first;
use crate::engine::parts::rows::Parts;
use crate::engine::parts::shares::{Sent, Share, shares};
use crate::engine::parts::together::{Work, together};
use crate::engine::rows::change::{PartsChange, Prepared, RowChange};
use crate::engine::rows::changing::apply;
use crate::engine::rows::edit::Edit;
use crate::engine::rows::hybrid::outgrown;
use crate::error::{Error, Result};
use crate::future::RowProgress;
use crate::options::distribution::Distribution;
use crate::options::residency::Residency;

impl Parts {
    /// Prepares a change on every device, in the host's memory if the rows leave their devices; after an error none has any of it. Distances
    /// of the host and of GPUs differ in the last bits, so rows that outgrow one device go to the host on all.
    pub(super) async fn prepared<'a>(
        &mut self,
        edit: Arc<Edit<'a>>,
        leaves: bool,
        progress: RowProgress<'_>,
    ) -> Result<Prepared<'a>> {
        let after = Bits::after(self.alive.as_ref(), self.end, &edit.filled, &edit.freed)?;
        let mut layout = self.layout.clone();
        if edit.rows().is_some() {
            let most = edit.filled.iter().max().map_or(0, |&slot| u64::from(slot) + 1);
            Error::check_slots(most)?;
            layout.iter_mut().for_each(|layout| layout.reach(most));
        }
        let owns = match &layout {
            Some(layout) => shares(layout, &edit)?,
            None => self.parts.iter().map(|_| Share::of_all(&edit)).collect(),
        };
        if leaves {
            // Each device sees what the host has free, and not what the others take of it.
            let moving = self.parts.iter().filter(|part| !part.is_hybrid());
            let rows = moving.map(|part| part.len()).sum::<u64>();
            outgrown::check_host_room(rows * self.shape.row_bytes() as u64)?;
        }
        let sent = Sent::new(self.parts.len(), layout.is_some(), progress);
        let mut places = vec![];
        let mut works: Vec<Work<'_, Prepared<'a>>> = vec![];
        for (place, engine, part) in self.changing()? {
            let own = &owns[place];
            if !leaves && own.edit.is_empty() {
                continue;
            }
            let sent = &sent;
            let work = async move {
                let mut progress = |rows| sent.note(place, rows);
                let prepared = match leaves {
                    true => part.prepare_on_host(own.edit.clone(), &mut progress).await.map(Prepared::Ready),
                    false => part.prepare(own.edit.clone(), &mut progress).await,
                };
                prepared.map_err(|error| error.with_rows(|row| own.number(row)))
            };
            places.push(place);
            works.push((engine, Box::pin(work)));
        }
        let prepared = together(works).await;
        if let Some(panic) = sent.panic() {
            for (place, one) in places.into_iter().zip(prepared) {
                if let Ok(Prepared::Ready(change)) = one {
                    self.parts[place].undo(&change);
                }
            }
            resume_unwind(panic);
        }
        Ok(match self.agreed(places, prepared)? {
            Ok(changes) => Prepared::Ready(RowChange::Parts(PartsChange { changes, layout, after, leaves })),
            Err(error) => Prepared::Outgrown(error),
        })
    }

    /// The changes of the devices, where all have prepared them; none where one could not, or has outgrown its device. Replicas that were
    /// lost meanwhile are left behind.
    fn agreed<'a>(
        &mut self,
        places: Vec<usize>,
        prepared: Vec<Result<Prepared<'a>>>,
    ) -> Result<std::result::Result<Vec<(usize, RowChange<'a>)>, Error>> {
        let prepared: Vec<(usize, Result<Prepared<'a>>)> =
            places.into_iter().zip(prepared).map(|(place, one)| (place, self.noted(place, one))).collect();
        let is_survived =
            self.distribution == Distribution::Replicated && prepared.iter().any(|(_, one)| one.is_ok());
        let (mut changes, mut errors, mut outgrown) = (vec![], vec![], None);
        for (place, one) in prepared {
            match one {
                Ok(Prepared::Ready(change)) => changes.push((place, change)),
                Ok(Prepared::Outgrown(error)) => outgrown = outgrown.or(Some(error)),
                Err(Error::DeviceLost { .. }) if is_survived => {}
                Err(error) => errors.push(Err(error)),
            }
        }
        if errors.is_empty() && outgrown.is_none() {
            return Ok(Ok(changes));
        }
        changes.iter().for_each(|(place, change)| self.parts[*place].undo(change));
        all_or_first::<()>(errors)?;
        Ok(Err(outgrown.unwrap_or_else(|| Error::internal("a change that no device refused"))))
    }

    pub(super) fn take_over(&mut self, change: PartsChange<'_>) -> Result<()> {
        let PartsChange { changes, layout, after, leaves } = change;
        for (place, change) in changes {
            apply(&mut self.parts[place], change)?;
        }
        self.layout = layout;
        (self.end, self.alive) = after;
        let is_there = |kept: Residency| match kept {
            Residency::Device | Residency::Auto => !self.parts.iter().any(|part| part.is_hybrid()),
            Residency::Host => !self.parts.iter().any(|part| part.kept() == Residency::Streamed),
            Residency::Streamed | Residency::Mapped => true,
        };
        let mut kept = self.shape.kept;
        while let (true, false, Some(next)) = (
            leaves,
            is_there(kept),
            outgrown::next(&crate::engine::rows::shape::RowShape { kept, ..self.shape }),
        ) {
            // A device that is recovered has its rows in the same place.
            kept = next;
        }
        self.shape.kept = kept;
        Ok(())
    }
}
