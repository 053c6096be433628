//! Lists of tokens, which nominate the documents of a search: those of the tokens nearest to the query's.

use crate::elements::{ElementKind, Matrix};
use crate::engine::{TokenVectors, Vectors, most_training_rows};
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::index::common::{Resources, Settings};
use crate::index::documents::MultiVector;
use crate::index::documents::options::MaxSimOptions;
use crate::index::ivf::Ivf;
use crate::index::kmeans::KMeans;
use crate::memory;
use crate::metric::Metric;
use crate::options::filter::Filter;
use crate::options::residency::Residency;
use crate::options::{AddOptions, SearchOptions};
use crate::parallel::*;

/// Tokens per list that centroids are trained on.
const TRAINED_ON: usize = 64;

/// What tokens are compared by: lists store 8-bit integers, each token by its largest magnitude.
const METRIC: Metric = Metric::OF_DIRECTIONS;

impl MultiVector {
    pub(super) fn boxed_build_lists(&mut self, lists: usize) -> Boxed<'_, ()> {
        Box::pin(async move {
            let slots = self.slots_of(&self.documents.places()?)?;
            if lists == 0 || lists > slots.len() {
                let needed = format!("1 to {}, the number of tokens", slots.len());
                return Err(Error::argument("lists", needed, lists));
            }
            let device = self.tokens.device.clone();
            let count = lists.saturating_mul(TRAINED_ON).min(slots.len()).min(most_training_rows(&device));
            let chosen =
                (0..count).map(|number| slots[(number as u64 * slots.len() as u64 / count as u64) as usize]);
            let sample = self.fetched(&memory::collect(chosen)?).await?;
            let trained = KMeans::new(METRIC.of_centroids(), 0).of(METRIC.of_centroids(), lists);
            let sample = Vectors::from(&sample);
            let centroids = trained.run(&device, (&sample).into()).await?.training.centroids().await?;
            self.attach_lists(&centroids).await
        })
    }

    /// Puts all tokens into lists around these centroids, `[lists, dim]`.
    pub(super) async fn attach_lists(&mut self, centroids: &[f32]) -> Result<()> {
        let slots = self.slots_of(&self.documents.places()?)?;
        let copy = Resources::of(self.tokens.devices.clone()).copy;
        let (residency, capacity) = (Residency::Device, slots.len());
        let resources = Resources { residency, capacity, copy, ..self.resources.clone() };
        let mut settings =
            Settings { resources, ..Settings::new(self.tokens.devices.clone(), METRIC, self.tokens.dim) };
        (settings.elements, settings.quantizes) = match self.tokens.elements {
            kind @ (ElementKind::I8 | ElementKind::U8) => (kind, false),
            _ => (ElementKind::I8, true),
        };
        self.lists = None;
        let mut lists = Ivf::around(settings.with_lists()?, centroids).await?;
        for slots in slots.chunks(self.tokens.piece()) {
            let tokens = self.fetched(slots).await?;
            put(&mut lists, (&tokens).into(), slots).await?;
        }
        self.lists = Some(lists);
        Ok(())
    }

    /// The tokens in these slots.
    async fn fetched(&self, slots: &[u32]) -> Result<Matrix> {
        let bytes = self.tokens.store.rows.fetch_bytes(slots).await?;
        Matrix::of_bytes(self.tokens.elements, &bytes, self.tokens.dim)
    }

    /// Puts new tokens into lists.
    pub(super) async fn list(&mut self, tokens: Vectors<'_>, slots: &[u32]) -> Result<()> {
        match &mut self.lists {
            Some(lists) => put(lists, tokens, slots).await,
            None => Ok(()),
        }
    }

    /// Takes tokens out of their lists. Lists that cannot follow a change are dropped: a search that wants them says so.
    pub(super) async fn unlist(&mut self, slots: &[u32]) {
        if let Some(lists) = &mut self.lists
            && let Ok(ids) = ids_of(slots)
            && lists.boxed_remove(&ids).await.is_ok()
        {
            return;
        }
        self.lists = None;
    }

    /// Moves tokens from one slot to another.
    pub(super) async fn relist(&mut self, from: &[u32], to: &[u32]) {
        if self.lists.is_none() {
            return;
        }
        self.unlist(from).await;
        for slots in to.chunks(self.tokens.piece()) {
            let listed = match self.fetched(slots).await {
                Ok(tokens) => self.list((&tokens).into(), slots).await,
                Err(error) => Err(error),
            };
            if listed.is_err() {
                self.lists = None;
            }
        }
    }

    /// The places of the documents that each query nominates, ascending, among those that are allowed: the best by what its tokens found. A
    /// document that a token did not find counts as the last that it did (J. Lee et al., *Rethinking the Role of Token Retrieval in
    /// Multi-Vector Retrieval*, NeurIPS 2023).
    pub(super) async fn nominated(
        &self,
        queries: &TokenVectors<'_>,
        (weights, allowed): (&[f32], Option<&[u32]>),
        options: &MaxSimOptions<'_>,
    ) -> Result<Vec<Vec<u32>>> {
        let Some(lists) = &self.lists else {
            return Err(Error::argument("probes", "an index with lists of tokens: build_lists", "none"));
        };
        for (argument, given) in
            [("candidates_per_token", options.candidates_per_token), ("candidates", options.candidates)]
        {
            if given == 0 {
                return Err(Error::argument(argument, "at least 1", given));
            }
        }
        let is_allowed = |slot: u64| {
            let place = self.documents.place_at(slot as u32);
            allowed.is_none_or(|allowed| allowed.binary_search(&place).is_ok())
        };
        let mut search = SearchOptions::new(options.candidates_per_token);
        search.probes = options.probes;
        search.filter = allowed.map(|_| Filter::by(&is_allowed));
        let found = lists.boxed_search(queries.vectors(), &search).await?.neighbors;
        let of = |query: usize| {
            let tokens = queries.offsets()[query]..queries.offsets()[query + 1];
            // What each token of the query adds to the score of a document: its best similarity, above that of the last token it found.
            let mut gains: Vec<(u32, f32)> = vec![];
            for (token, weight) in tokens.clone().zip(&weights[tokens]) {
                let own = found.row(token);
                let last = own.last().map_or(0.0, |hit| hit.distance);
                let first = gains.len();
                memory::reserve_more(&mut gains, own.len())?;
                gains.extend(own.iter().map(|hit| {
                    let place = self.documents.place_at(hit.id as u32);
                    (place, weight * (last - hit.distance))
                }));
                // Of the tokens of a document the nearest counts.
                gains[first..].sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
                let mut kept = first;
                for number in first..gains.len() {
                    if kept == first || gains[kept - 1].0 != gains[number].0 {
                        gains[kept] = gains[number];
                        kept += 1;
                    }
                }
                gains.truncate(kept);
            }
            gains.sort_unstable_by_key(|gain| gain.0);
            let mut scores: Vec<(u32, f32)> = memory::with_room(gains.len())?;
            for (place, gain) in gains {
                match scores.last_mut() {
                    Some(last) if last.0 == place => last.1 += gain,
                    _ => scores.push((place, gain)),
                }
            }
            if scores.len() > options.candidates {
                scores.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
                scores.truncate(options.candidates);
            }
            let mut places = memory::collect(scores.into_iter().map(|(place, _)| place))?;
            places.sort_unstable();
            Ok(places)
        };
        let all: Vec<Result<Vec<u32>>> = (0..queries.len()).into_par_iter().map(of).collect();
        all.into_iter().collect()
    }
}

/// The ids that tokens have in lists: the numbers of their slots.
fn ids_of(slots: &[u32]) -> Result<Vec<u64>> {
    memory::collect(slots.iter().map(|&slot| u64::from(slot)))
}

async fn put(lists: &mut Ivf, tokens: Vectors<'_>, slots: &[u32]) -> Result<()> {
    let ids = ids_of(slots)?;
    lists.boxed_add(tokens, &AddOptions::new().ids(&ids)).await
}
