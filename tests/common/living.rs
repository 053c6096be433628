//! One interface to `Flat` and `Ivf`, for tests that put both through the same changes.

use std::path::Path;

use nearfield::{
    Device, DeviceMatrix, Element, ElementKind, Error, Flat, Ivf, MatrixView, Metric, Neighbors, Screen,
    SearchOptions,
};

use super::{Random, view};

/// Lists of every `Ivf`.
pub(crate) const LISTS: usize = 12;

/// Values are from `-MOST` to `MOST`: so few that many distances are equal.
pub(crate) const MOST: usize = 3;

pub(crate) trait Living: Sized {
    /// Without rows. Of one metric all have the same centroids: they are trained on the same sample with the same seed.
    fn make(device: &Device, metric: Metric, dim: usize, elements: ElementKind, screen: Screen) -> Self;
    fn load(device: &Device, path: &Path) -> Result<Self, Error>;
    fn save(&self, path: &Path) -> Result<(), Error>;
    fn add<T: Element>(&mut self, rows: MatrixView<'_, T>, ids: Option<&[u64]>) -> Result<(), Error>;
    fn add_device(&mut self, rows: &DeviceMatrix, ids: Option<&[u64]>) -> Result<(), Error>;
    fn remove(&mut self, ids: &[u64]) -> Result<(), Error>;
    fn update<T: Element>(&mut self, id: u64, row: &[T]) -> Result<(), Error>;
    fn compact(&mut self) -> Result<(), Error>;
    fn get(&self, id: u64) -> Result<Vec<f32>, Error>;
    fn ids(&self) -> Vec<u64>;
    /// A `Flat` has no probes.
    fn answer(&self, queries: MatrixView<'_, f32>, options: &SearchOptions<'_>, probes: usize) -> Neighbors;
    /// Where there is such a search.
    fn within(&self, queries: MatrixView<'_, f32>, radius: f32) -> Option<Neighbors>;
}

/// What has the same name and the same arguments.
macro_rules! shared {
    () => {
        fn load(device: &Device, path: &Path) -> Result<Self, Error> {
            Self::load(device, path)
        }
        fn save(&self, path: &Path) -> Result<(), Error> {
            self.save(path)
        }
        fn add<T: Element>(&mut self, rows: MatrixView<'_, T>, ids: Option<&[u64]>) -> Result<(), Error> {
            match ids {
                Some(ids) => self.add_with_ids(rows, ids),
                None => self.add(rows),
            }
        }
        fn add_device(&mut self, rows: &DeviceMatrix, ids: Option<&[u64]>) -> Result<(), Error> {
            match ids {
                Some(ids) => self.add_device_with_ids(rows, ids),
                None => self.add_device(rows),
            }
        }
        fn remove(&mut self, ids: &[u64]) -> Result<(), Error> {
            self.remove(ids)
        }
        fn update<T: Element>(&mut self, id: u64, row: &[T]) -> Result<(), Error> {
            self.update(id, row)
        }
        fn compact(&mut self) -> Result<(), Error> {
            self.compact()
        }
        fn get(&self, id: u64) -> Result<Vec<f32>, Error> {
            self.get(id)
        }
    };
}

impl Living for Flat {
    shared!();

    fn make(device: &Device, metric: Metric, dim: usize, elements: ElementKind, screen: Screen) -> Self {
        Flat::builder(device, metric, dim).elements(elements).screen(screen).build().expect("an index")
    }

    fn ids(&self) -> Vec<u64> {
        assert_eq!(self.len(), self.ids().count());
        self.ids().collect()
    }

    fn answer(&self, queries: MatrixView<'_, f32>, options: &SearchOptions<'_>, _: usize) -> Neighbors {
        self.search_with(queries, options).expect("an answer").0
    }

    fn within(&self, queries: MatrixView<'_, f32>, radius: f32) -> Option<Neighbors> {
        Some(self.search_within(queries, radius).expect("an answer"))
    }
}

impl Living for Ivf {
    shared!();

    fn make(device: &Device, metric: Metric, dim: usize, elements: ElementKind, screen: Screen) -> Self {
        let sample = Random::new(0x5a).integers(400 * dim, MOST);
        let builder = Ivf::builder(device, metric, dim).lists(LISTS).elements(elements).screen(screen);
        builder.train(view(&sample, dim)).expect("trains")
    }

    fn ids(&self) -> Vec<u64> {
        assert_eq!(self.len(), self.ids().count());
        assert_eq!(self.len(), self.list_sizes().iter().sum::<usize>());
        self.ids().collect()
    }

    fn answer(&self, queries: MatrixView<'_, f32>, options: &SearchOptions<'_>, probes: usize) -> Neighbors {
        self.search_with(queries, &options.clone().probes(probes)).expect("an answer").0
    }

    fn within(&self, _: MatrixView<'_, f32>, _: f32) -> Option<Neighbors> {
        None
    }
}

/// Ids and the bits of distances.
pub(crate) fn bits(found: &Neighbors) -> Vec<Vec<(u64, u32)>> {
    found.iter().map(|row| row.iter().map(|hit| (hit.id, hit.distance.to_bits())).collect()).collect()
}
