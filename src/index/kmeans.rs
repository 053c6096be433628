//! `KMeans`: trains centroids on the device.

use crate::engine::{Assigned, Device, DeviceMatrix, Sample, Training, Vectors, most_training_rows};
use crate::error::{Error, Result};
use crate::future::{Boxed, blocking_and_async};
use crate::index::clusters::{Clusters, nearest};
use crate::index::grouped::Grouped;
use crate::memory;
use crate::metric::Metric;
use crate::options::quantization::Quantization;
use crate::options::setters;
use crate::store::check_dim;

/// k-means clustering (S. P. Lloyd, *Least squares quantization in PCM*, IEEE Transactions on Information Theory 28, 1982).
///
/// Each row is assigned to its exact nearest centroid, and centroids are summed in a fixed order. On one adapter the same seed
/// gives the same centroids, bit for bit.
///
/// For [`Metric::Cosine`] and [`Metric::InnerProduct`] it is spherical k-means: only the direction of a row counts, and
/// centroids have length 1 unless their rows cancel out.
///
/// ```no_run
/// use nearfield::{Device, KMeans, MatrixView, Metric};
/// let device = Device::best()?;
/// let rows = [0.0f32, 1.0, 10.0, 11.0];
/// let clusters = KMeans::new(Metric::L2, 2).train(&device, MatrixView::new(&rows, 1)?)?;
/// let mut centroids = clusters.centroids.clone();
/// centroids.sort_by(f32::total_cmp);
/// assert_eq!(centroids, [0.5, 10.5]);
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Clone)]
pub struct KMeans<'a> {
    metric: Metric,
    clusters: usize,
    /// What the caller calls the number of clusters: an [`Ivf`](crate::Ivf) has lists.
    argument: &'static str,
    iterations: usize,
    tolerance: f64,
    rows_per_cluster: usize,
    balance: Option<f64>,
    quantization: Quantization,
    seed: u64,
    assign_all: bool,
    progress: Option<IterationProgress<'a>>,
}

/// A function to call after each iteration with its number, from 1, and the inertia before it.
type IterationProgress<'a> = &'a (dyn Fn(usize, f64) + Send + Sync);

impl std::fmt::Debug for KMeans<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { metric, clusters, .. } = self;
        f.debug_struct("KMeans").field("metric", metric).field("clusters", clusters).finish_non_exhaustive()
    }
}

/// The most centroids that k-means++ chooses. It reads all rows once per centroid.
const FEW: usize = 256;

impl<'a> KMeans<'a> {
    /// Prepares to train the centroids of this many clusters for a metric, with 10 iterations on up to 64 rows per cluster.
    pub fn new(metric: Metric, clusters: usize) -> Self {
        Self {
            metric,
            clusters,
            argument: "clusters",
            iterations: 10,
            tolerance: 1e-4,
            rows_per_cluster: 64,
            balance: None,
            quantization: Quantization::Auto,
            seed: 1,
            assign_all: true,
            progress: None,
        }
    }

    /// Sets the metric and the number of lists to those of an index.
    pub(crate) fn of(self, metric: Metric, lists: usize) -> Self {
        Self { metric, clusters: lists, argument: "lists", ..self }
    }

    setters! { options => options;
        /// Sets the largest number of iterations. Default: 10.
        iterations: usize;
        /// Ends training when an iteration lowers the inertia by less than this fraction. Default: 1e-4.
        tolerance: f64;
        /// Sets the number of training rows per cluster. If there are more rows, or more than the adapter can bind eight bytes each of, a seeded
        /// sample is used ([`Clusters::trained_on`] tells which). Default: 64.
        rows_per_cluster: usize;
        /// Splits clusters with more than this many times the average number of rows, and gives up the smallest in return. A ratio of
        /// 1.5 evens them out at the cost of some inertia. Default: none.
        balance: f64 => Some;
        /// Sets whether an 8-bit copy of the rows speeds up finding the nearest centroids. The result is the same either way.
        /// Default: [`Quantization::Auto`].
        quantization: Quantization;
        /// Sets the seed of all random choices. Default: 1.
        seed: u64;
        /// Sets whether training ends with the nearest centroid of every row ([`Clusters::assignments`]), also of those that are not
        /// in the sample. Rows beyond the sample are searched for it as those that are added to an [`Ivf`](crate::Ivf). Default: true.
        assign_all: bool;
        /// Calls `progress` after each iteration with its number, from 1, and the inertia before it.
        progress: &'a (dyn Fn(usize, f64) + Send + Sync) => Some;
    }

    blocking_and_async! { device;
        /// Trains on `rows`, `[rows, dim]`. While it runs, each training row takes 4 `dim` bytes on the device, in addition to the
        /// scratch budget.
        ///
        /// A cluster that loses all its rows gets a new centroid: the row of the largest cluster that is farthest from its centroid. If
        /// there are fewer distinct rows than clusters, some stay empty.
        ///
        /// # Errors
        /// [`Error::Argument`] for no rows, a dim above 2^20, no clusters, more clusters than rows, no rows per cluster, a balance below 1,
        /// or a tolerance that is NaN;
        /// [`Error::NotFinite`] and [`Error::NormOutOfRange`] with the row's number among the training rows; [`Error::Unsupported`]
        /// if the centroids do not fit one binding of the adapter; [`Error::OutOfMemory`]; [`Error::Budget`].
        pub fn train<'r>(&self, device: &Device, rows: impl Into<Vectors<'r>>) -> Result<Clusters> {
            self.train_on(device, rows.into())
        }
        async train_async;

        /// [`KMeans::train`] on the rows of one or more matrices on the device.
        ///
        /// # Errors
        /// As there; [`Error::Argument`] also for matrices of another device or of different dims.
        pub fn train_device(&self, device: &Device, rows: &[&DeviceMatrix]) -> Result<Clusters> {
            self.clusters(device, Sample::Device(rows))
        }
        async train_device_async;
    }

    fn train_on<'s>(&'s self, device: &'s Device, rows: Vectors<'s>) -> Boxed<'s, Clusters> {
        Box::pin(async move { self.clusters(device, (&rows).into()).await })
    }

    fn clusters<'s>(&'s self, device: &'s Device, rows: Sample<'s>) -> Boxed<'s, Clusters> {
        Box::pin(async move {
            self.metric.check_numbers()?;
            rows.check_numbers()?;
            let mut trained = self.run(device, rows).await?;
            trained.training.assign(&mut trained.nearest).await?;
            let centroids = trained.training.centroids().await?;
            let (dim, metric) = (rows.dim(), self.metric.of_centroids());
            let is_sample = trained.rows.len() < rows.rows();
            let (assignments, inertia) = if self.assign_all && is_sample {
                nearest(device, (&centroids, dim), (metric, self.quantization), rows).await?
            } else {
                let last = if self.assign_all { &trained.nearest[..] } else { &[] };
                (
                    memory::collect(last.iter().map(|row| row.list))?,
                    last.iter().map(|row| f64::from(row.distance)).sum(),
                )
            };
            let Trained { rows: trained_on, inertia: history, .. } = trained;
            Ok(Clusters { centroids, dim, metric, assignments, inertia, history, trained_on })
        })
    }

    /// Trains centroids and leaves them on the device.
    pub(crate) fn run<'s>(&'s self, device: &'s Device, sample: Sample<'s>) -> Boxed<'s, Trained<'s>> {
        Box::pin(async move {
            if let Sample::Device([]) = sample {
                return Err(Error::argument("rows", "at least one matrix", 0));
            }
            let rows = sample.rows();
            check_dim(sample.dim())?;
            self.check(rows)?;
            let mut random = fastrand::Rng::with_seed(self.seed);
            let wanted = self.rows_per_cluster.saturating_mul(self.clusters).min(rows);
            let wanted = wanted.min(most_training_rows(device));
            if wanted < self.clusters {
                let needed = format!("at most {wanted}, the rows that can be trained on");
                return Err(Error::argument(self.argument, needed, self.clusters));
            }
            let numbers = match wanted < rows {
                true => {
                    memory::check_scratch((wanted * size_of::<u64>()) as u64)?;
                    let mut chosen = random.choose_multiple(0..rows as u64, wanted);
                    chosen.sort_unstable();
                    chosen
                }
                false => memory::collect((0..rows).map(|row| row as u64))?,
            };
            let (metric, lists) = (self.metric.of_centroids(), self.clusters as u32);
            // Errors name a row by its number among all.
            let number = |row: u64| numbers.get(row as usize).copied().unwrap_or(row);
            let training = Training::on(device, metric, sample, &numbers, lists, self.quantization).await;
            let training = training.map_err(|error| error.with_rows(number))?;
            let nearest = memory::filled(numbers.len(), Assigned::NOWHERE)?;
            let mut trained = Trained { training, rows: numbers, nearest, inertia: vec![] };
            let is_assigned = self.start(&mut trained, &mut random).await?;
            self.iterate(&mut trained, is_assigned).await?;
            Ok(trained)
        })
    }

    fn check(&self, rows: usize) -> Result<()> {
        if rows == 0 {
            return Err(Error::argument("rows", "at least one to train on", 0));
        }
        if self.clusters == 0 || self.clusters > rows {
            let needed = format!("1 to {rows}, the number of rows");
            return Err(Error::argument(self.argument, needed, self.clusters));
        }
        if self.rows_per_cluster == 0 {
            return Err(Error::argument("rows_per_cluster", "at least 1", 0));
        }
        if self.tolerance.is_nan() {
            return Err(Error::argument("tolerance", "a number", self.tolerance));
        }
        match self.balance.filter(|ratio| ratio.is_nan() || *ratio < 1.0) {
            Some(ratio) => Err(Error::argument("balance", "at least 1", ratio)),
            None => Ok(()),
        }
    }

    /// Chooses the first centroids: random rows if there are many, and k-means++ if there are few (D. Arthur, S. Vassilvitskii,
    /// *k-means++: the advantages of careful seeding*, SODA 2007). Returns whether it found each row's nearest centroid, as k-means++ does.
    async fn start(&self, trained: &mut Trained<'_>, random: &mut fastrand::Rng) -> Result<bool> {
        let (training, nearest, count) = (&mut trained.training, &mut trained.nearest, trained.rows.len());
        let rows = 0..count as u32;
        if self.clusters > FEW || self.clusters == count {
            let chosen = random.choose_multiple(rows, self.clusters);
            let seeds: Vec<(u32, u32)> = (0..).zip(chosen).collect();
            training.seed(&seeds).await?;
            return Ok(false);
        }
        let mut seeds = vec![];
        nearest.fill(Assigned { list: 0, distance: f32::INFINITY });
        for list in 0..self.clusters as u32 {
            let row = if list == 0 { random.u32(rows.clone()) } else { far_by_chance(nearest, random) };
            seeds.push((list, row));
            // Only the new centroid can be nearer than the nearest so far. The first of equally near ones counts.
            for (nearest, distance) in nearest.iter_mut().zip(training.distances(row).await?) {
                if distance < nearest.distance {
                    *nearest = Assigned { list, distance };
                }
            }
        }
        training.seed(&seeds).await?;
        Ok(true)
    }

    /// Iterates until the inertia settles. `is_assigned` tells whether each row's nearest first centroid is known.
    async fn iterate(&self, trained: &mut Trained<'_>, is_assigned: bool) -> Result<()> {
        let mut grouped = Grouped::default();
        for iteration in 1..=self.iterations {
            if iteration > 1 || !is_assigned {
                trained.training.assign(&mut trained.nearest).await?;
            }
            let assigned = &trained.nearest;
            let inertia: f64 = assigned.iter().map(|row| f64::from(row.distance)).sum();
            let before = trained.inertia.last().copied();
            trained.inertia.push(inertia);
            grouped.group(assigned.iter().map(|row| row.list), self.clusters)?;
            trained.training.update(&grouped.order, &grouped.offsets).await?;
            let seeds = restarts(&grouped, assigned, self.balance);
            if !seeds.is_empty() {
                trained.training.seed(&seeds).await?;
            }
            if let Some(progress) = self.progress {
                progress(iteration, inertia);
            }
            let settled = before.is_some_and(|before| before - inertia <= self.tolerance * before);
            if seeds.is_empty() && settled {
                break;
            }
        }
        Ok(())
    }
}

/// Draws a row with a probability proportional to its distance from the nearest centroid.
fn far_by_chance(nearest: &[Assigned], random: &mut fastrand::Rng) -> u32 {
    let weight = |row: &Assigned| f64::from(row.distance.max(0.0));
    let mut left = random.f64() * nearest.iter().map(weight).sum::<f64>();
    let by_chance = nearest.iter().map(weight).position(|weight| {
        left -= weight;
        left < 0.0 && weight > 0.0
    });
    // If every row coincides with a centroid, any row will do.
    by_chance.unwrap_or_else(|| random.usize(0..nearest.len())) as u32
}

/// Trained centroids, and their training rows.
pub(crate) struct Trained<'a> {
    pub(crate) training: Training<'a>,
    rows: Vec<u64>,
    /// The nearest centroid of each training row, as far as it is known.
    nearest: Vec<Assigned>,
    inertia: Vec<f64>,
}

/// Lists that restart from another row, as (list, row): empty lists, and the smallest ones if others are too large.
fn restarts(grouped: &Grouped, assigned: &[Assigned], balance: Option<f64>) -> Vec<(u32, u32)> {
    let lists = grouped.offsets.len() - 1;
    let size = |list: usize| grouped.rows(list).len();
    let mut smallest: Vec<(u32, u32)> = (0..lists).map(|list| (size(list) as u32, list as u32)).collect();
    smallest.sort_unstable();
    // Expected sizes: a split list keeps half of its rows.
    let mut largest: std::collections::BinaryHeap<(usize, std::cmp::Reverse<usize>)> =
        (0..lists).map(|list| (size(list), std::cmp::Reverse(list))).collect();
    let most =
        balance.map_or(usize::MAX, |ratio| (ratio * assigned.len() as f64 / lists as f64).ceil() as usize);
    let mut taken = vec![vec![]; lists];
    let mut seeds = vec![];
    for (_, number) in smallest {
        let list = number as usize;
        let Some((rows, std::cmp::Reverse(donor))) = largest.pop() else { break };
        let is_needed =
            size(list) == 0 || (rows > most && size(list) * 2 < most && seeds.len() < lists / 4 + 1);
        if !is_needed || rows < 2 || donor == list {
            break;
        }
        // Takes the farthest row; the next one if a list is split again.
        let distance = |row: u32| assigned[row as usize].distance;
        let left = grouped.rows(donor).iter().copied().filter(|row| !taken[donor].contains(row));
        let farthest = left.max_by(|&a, &b| distance(a).total_cmp(&distance(b)).then(b.cmp(&a)));
        let Some(row) = farthest else { break };
        taken[donor].push(row);
        seeds.push((number, row));
        largest.push((rows / 2, std::cmp::Reverse(donor)));
    }
    seeds
}
