//! Searches for documents on several devices. All tokens of a document lie on one of them, or on each.

use std::ops::Range;

use crate::engine::documents::cache::DeviceDocuments;
use crate::engine::documents::request::{DocumentRequest, Found, Scored};
use crate::engine::documents::tokens::TokenVectors;
use crate::engine::parts::layout::Layout;
use crate::engine::parts::merging::{Counts, all_or_first, slowest};
use crate::engine::parts::rows::Parts;
use crate::engine::parts::searching::notes;
use crate::engine::parts::together::{Work, together};
use crate::error::Result;
use crate::future::Boxed;
use crate::memory;

impl Parts {
    /// Searches for documents on all devices.
    pub(in crate::engine::parts) async fn documents(
        &self,
        queries: &TokenVectors<'_>,
        request: &DocumentRequest<'_>,
    ) -> Result<Found> {
        let queries = queries.fetched().await?;
        match &self.layout {
            Some(layout) => self.documents_of_shards(layout, &queries, request).await,
            None => self.documents_of_replicas(&queries, request).await,
        }
    }

    async fn documents_of_shards(
        &self,
        layout: &Layout,
        queries: &TokenVectors<'_>,
        request: &DocumentRequest<'_>,
    ) -> Result<Found> {
        let divided = request.cache.divided(|| self.divided(layout, request))?;
        let allowed = request.allowed.map(|places| documents_by_device(layout, places, (divided, request)));
        let allowed = allowed.transpose()?;
        let mut nominated = vec![vec![]; self.parts.len()];
        for places in request.nominated.into_iter().flatten() {
            let own = documents_by_device(layout, places, (divided, request))?;
            nominated.iter_mut().zip(own).for_each(|(lists, own)| lists.push(own));
        }
        let counts = Counts::new(self.parts.len(), |all| all.into_iter().min().unwrap_or(0));
        let notes = notes(self.parts.len(), &counts, request.progress);
        let works = self.parts.iter().enumerate().map(|(device, rows)| -> Work<'_, Found> {
            let own = &divided[device];
            let allowed = allowed.as_ref().map(|allowed| &allowed[device][..]);
            let request = DocumentRequest {
                ends: &own.ends,
                places: &own.places,
                allowed,
                nominated: request.nominated.map(|_| &nominated[device][..]),
                cache: &own.cache,
                k: request.k.min(allowed.unwrap_or(&own.places).len()).max(1),
                progress: request.progress.map(|_| &notes[device] as _),
                ..*request
            };
            let work = async move { rows.search_documents(queries, &request).await };
            (self.engine(device), Box::pin(work))
        });
        let found = together(works.collect()).await;
        let found = found.into_iter().enumerate().map(|(device, found)| self.noted(device, found));
        let mut found = all_or_first(found.collect())?;
        let mut all = work_of(&mut found);
        all.by_query = memory::collect(queries.offsets()[1..].iter().map(|_| vec![]))?;
        for (found, own) in found.into_iter().zip(divided) {
            for (list, found) in all.by_query.iter_mut().zip(found.by_query) {
                memory::reserve_more(list, found.len())?;
                list.extend(found.into_iter().map(|one| Scored { place: own.document(one.place), ..one }));
            }
        }
        Ok(all)
    }

    /// The documents of each device. Those of one lie there in the same order.
    fn divided(&self, layout: &Layout, request: &DocumentRequest<'_>) -> Result<Vec<DeviceDocuments>> {
        let mut divided: Vec<_> = self.parts.iter().map(|_| DeviceDocuments::default()).collect();
        for &place in request.places {
            let slots = request.slots(place);
            let (device, first) = layout.place(slots.start);
            divided[device].push(place, first..first + slots.len() as u32)?;
        }
        Ok(divided)
    }

    async fn documents_of_replicas(
        &self,
        queries: &TokenVectors<'_>,
        request: &DocumentRequest<'_>,
    ) -> Result<Found> {
        let kept =
            request.cache.divided(|| Ok(self.parts.iter().map(|_| DeviceDocuments::default()).collect()))?;
        let counts = Counts::new(self.parts.len(), |all| all.into_iter().sum());
        let notes = notes(self.parts.len(), &counts, request.progress);
        let work = |device: usize, range: Range<usize>| -> Boxed<'_, Found> {
            let progress = request.progress.map(|_| &notes[device] as _);
            Box::pin(async move {
                let offsets = queries.offsets();
                let weights = &request.weights[offsets[range.start]..offsets[range.end]];
                let (cache, queries) = (&kept[device].cache, queries.slice(range.clone())?);
                let nominated = request.nominated.map(|lists| &lists[range.clone()]);
                let request = DocumentRequest { weights, nominated, cache, progress, ..*request };
                let found = self.parts[device].search_documents(&queries, &request).await;
                // The caller adds the number of the first query to those of tokens.
                found.map_err(|error| {
                    error.with_rows(|token| token + (offsets[range.start] - range.start) as u64)
                })
            })
        };
        let mut found = self.on_replicas((queries.len(), 1), work).await?;
        let mut all = work_of(&mut found);
        found.into_iter().for_each(|found| all.by_query.extend(found.by_query));
        Ok(all)
    }
}

/// The work of all devices, with the stages of the one that took longest.
fn work_of(found: &mut [Found]) -> Found {
    Found {
        by_query: vec![],
        bounded: found.iter().map(|found| found.bounded).sum(),
        computed: found.iter().map(|found| found.computed).sum(),
        stages: slowest(found.iter_mut().map(|found| std::mem::take(&mut found.stages))),
    }
}

/// Some documents, device by device.
fn documents_by_device(
    layout: &Layout,
    places: &[u32],
    (divided, request): (&[DeviceDocuments], &DocumentRequest<'_>),
) -> Result<Vec<Vec<u32>>> {
    let mut allowed: Vec<Vec<u32>> = vec![vec![]; divided.len()];
    for &place in places {
        let (device, _) = layout.place(request.slots(place).start);
        memory::reserve_more(&mut allowed[device], 1)?;
        allowed[device].extend(divided[device].place_of(place));
    }
    Ok(allowed)
}
