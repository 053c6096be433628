//! A screen changes no answer: `Quantization::Int8` and `Quantization::None` give the same ids and distances, bit for bit, and both are
//! right.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::has_kernels;
use crate::support::numbered;
use nearfield::{
    Device, ElementKind, Error, Flat, MatrixView, Metric, Neighbors, Quantization, Route, ScreenKernel,
    SearchOptions, Statistics,
};
use nearfield_testing::living::bits;
use nearfield_testing::truth::Truth;
use nearfield_testing::{Random, rounded, view};
use test_case::test_matrix;

const METRICS: [Metric; 3] = [Metric::L2, Metric::Cosine, Metric::InnerProduct];

/// Rows and queries with their truth.
struct Set {
    dim: usize,
    rows: Vec<f32>,
    queries: Vec<f32>,
    ids: Vec<u64>,
    /// Sums are exact in f32, so that ids and distances are known bit for bit.
    whole: bool,
    /// Of its indexes: lists are short where it is small.
    budget: Option<u64>,
    truth: Truth,
}

impl Set {
    fn new(dim: usize, rows: Vec<f32>, queries: Vec<f32>) -> Self {
        let whole = rows.iter().chain(&queries).all(|x| x.fract() == 0.0 && x.abs() <= 64.0);
        let truth = Truth::new(view(&queries, dim), view(&rows, dim));
        let ids = numbered(rows.len() / dim);
        Self { dim, rows, queries, ids, whole, budget: None, truth }
    }

    fn floats(seed: u64, rows: usize, dim: usize, queries: usize) -> Self {
        let mut random = Random::new(seed);
        Self::new(dim, random.floats(rows * dim), random.floats(queries * dim))
    }

    fn queries(&self, count: usize) -> MatrixView<'_, f32> {
        view(&self.queries[..count * self.dim], self.dim)
    }

    fn index(&self, device: &Device, metric: Metric, quantization: Quantization) -> Flat {
        let mut builder = Flat::builder(device, metric, self.dim).quantization(quantization);
        if let Some(budget) = self.budget {
            builder = builder.budget(budget);
        }
        let mut index = builder.build().expect("an index");
        index.add(view(&self.rows, self.dim)).expect("good rows");
        assert_eq!(index.is_quantized(), quantization == Quantization::Int8);
        index
    }

    /// Panics unless an index answers the first queries as the truth says.
    fn judge(&self, index: &Flat, found: &Neighbors, k: usize) {
        let (truth, metric) = (&self.truth, index.metric());
        let verdict = match self.whole {
            true => truth.judge_exact(metric, &self.ids, k, found),
            false => truth.judge(metric, &self.ids, k, found),
        };
        assert_eq!(verdict, Ok(()), "dim {}, {} rows, k {k}", self.dim, self.ids.len());
    }

    /// Compares searches with and without a screen; each takes a number of queries and a k. Returns the last statistics.
    fn check(&self, device: &Device, metric: Metric, searches: &[(usize, usize)]) -> Statistics {
        let [screened, plain] = [Quantization::Int8, Quantization::None]
            .map(|quantization| self.index(device, metric, quantization));
        self.compare(&screened, &plain, searches)
    }

    fn compare(&self, screened: &Flat, plain: &Flat, searches: &[(usize, usize)]) -> Statistics {
        let mut last = Statistics::default();
        for &(count, k) in searches {
            let (found, statistics) = search(screened, self.queries(count), k);
            let (want, _) = search(plain, self.queries(count), k);
            let metric = screened.metric();
            let said = format!("{metric}, dim {}, {} rows, {count} queries, k {k}", self.dim, self.ids.len());
            assert!(bits(&found) == bits(&want), "{said}: {found:?}, not {want:?}");
            self.judge(screened, &found, k);
            last = statistics;
        }
        last
    }
}

fn search(index: &Flat, queries: MatrixView<'_, f32>, k: usize) -> (Neighbors, Statistics) {
    let found = index.search_with(queries, &SearchOptions::new(k)).expect("an answer");
    (found.neighbors, found.statistics)
}

fn kernel(index: &Flat, queries: usize, k: usize) -> Option<ScreenKernel> {
    match index.plan(queries, k).expect("a plan").route() {
        Route::Screened { kernel, .. } => Some(kernel),
        _ => None,
    }
}

#[test_matrix([Adapter, Host])]
fn every_dim_element_type_and_metric_is_answered_alike(engine: Engine) {
    let (Some(device), Some(bare)) = (engine.device(), engine.without_subgroups()) else { return };
    let dims = [1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 64, 100, 129, 384, 768, 1040, 1041, 2049, 4096];
    for (turn, dim) in dims.into_iter().enumerate() {
        let mut random = Random::new(dim as u64);
        let count = (800_000 / dim).clamp(600, 3000);
        let (halves, rows) = rounded(&random.floats(count * dim));
        let set = Set::new(dim, rows, random.floats(33 * dim));
        let metric = Metric::ALL[turn % 4];
        let device = if turn % 3 == 0 { bare } else { device };
        let plain = set.index(device, metric, Quantization::None);
        let screened = if turn % 2 == 0 {
            set.index(device, metric, Quantization::Int8)
        } else {
            let builder = Flat::builder(device, metric, dim).elements(ElementKind::F16);
            let mut index = builder.quantization(Quantization::Int8).build().expect("an index");
            index.add(view(&halves, dim)).expect("good rows");
            index
        };
        let queries = if dim > 1000 { 7 } else { 33 };
        if has_kernels(device) {
            assert!(kernel(&screened, queries, 10).is_some_and(|kernel| kernel != ScreenKernel::Scan));
        }
        set.compare(&screened, &plain, &[(queries, 10), (7, 1), (7, 37)]);
    }
}

#[test_matrix([Adapter, Host])]
fn any_number_of_queries_and_any_k_are_answered_alike(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let set = Set::floats(0xc0, 5000, 20, 129);
    for metric in METRICS {
        let [screened, plain] = [Quantization::Int8, Quantization::None]
            .map(|quantization| set.index(device, metric, quantization));
        if has_kernels(device) {
            assert_eq!(kernel(&screened, 1, 10), Some(ScreenKernel::ScanI8));
            let tile = kernel(&screened, 129, 10).expect("tiles screen");
            assert!(matches!(tile, ScreenKernel::TileI8 | ScreenKernel::TileCoop));
        }
        if metric != Metric::L2 {
            set.compare(&screened, &plain, &[(2, 100), (33, 10)]);
            continue;
        }
        let counts = [1, 2, 3, 8, 9, 16, 17, 32, 33, 129].map(|count| (count, 10));
        set.compare(&screened, &plain, &counts);
        set.compare(&screened, &plain, &[(2, 1), (33, 1), (2, 100), (33, 100), (9, 312), (17, 313)]);
    }
}

/// A budget in which the lists of a dozen queries have no room for 5,000 rows.
const SHORT_LISTS: u64 = 12 << 20;

#[test_matrix([Adapter, Host])]
fn equal_rows_overflow_every_list_and_are_searched_exhaustively(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(0xa11);
    let row = random.integers(16, 4);
    let mut set = Set::new(16, row.repeat(6000), random.integers(34 * 16, 4));
    set.budget = Some(SHORT_LISTS);
    for (metric, count) in [(Metric::L2Squared, 12), (Metric::Cosine, 34), (Metric::InnerProduct, 34)] {
        let statistics = set.check(device, metric, &[(count, 10)]);
        let Statistics { searched_again, searched_exhaustively, .. } = statistics;
        if !has_kernels(device) {
            assert_eq!([searched_again, searched_exhaustively], [0, 0], "{metric}: there are no lists");
            continue;
        }
        // First without quantising, which is of no help either.
        assert_eq!([searched_again, searched_exhaustively], [2 * count as u64, count as u64], "{metric}");
    }
}

/// Two clusters, each within a step or two of the integers.
#[test_matrix([Adapter, Host])]
fn queries_whose_lists_overflow_are_searched_without_quantizing(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (dim, mut random) = (16, Random::new(0xc1));
    let mut cluster = |count: usize, middle: f32, noise: f32| -> Vec<f32> {
        random.floats(count * dim).iter().map(|x| middle + noise * x).collect()
    };
    let rows = [cluster(5000, 10.0, 0.2), cluster(5000, -10.0, 0.2)].concat();
    // Half of the queries are far from both, where lists do not overflow either way.
    let queries = [cluster(20, 10.0, 0.2), cluster(20, 0.0, 400.0)].concat();
    let mut set = Set::new(dim, rows, queries);
    set.budget = Some(SHORT_LISTS);
    let [screened, plain] = [Quantization::Int8, Quantization::None]
        .map(|quantization| set.index(device, Metric::L2Squared, quantization));
    let (found, statistics) = search(&screened, set.queries(40), 10);
    let (want, without) = search(&plain, set.queries(40), 10);
    assert_eq!(bits(&found), bits(&want));
    set.judge(&screened, &found, 10);
    assert_eq!(without.searched_again, 0);
    assert_eq!(statistics.searched_exhaustively, 0);
    if has_kernels(device) {
        assert!((20..=40).contains(&statistics.searched_again), "{statistics:?}");
    }
}

fn squared(row: &[f32]) -> f32 {
    row.iter().map(|x| x * x).sum()
}

/// A set, and the searches of it: each a number of queries and a k.
type Searched = (Set, [(usize, usize); 2]);

/// Whole numbers, of few values.
fn ties(random: &mut Random) -> Vec<Searched> {
    let (k_10_and_90, large_k) = ([(3, 10), (34, 90)], [(3, 1250), (34, 1025)]);
    let sets = [(3, 5000, 2, k_10_and_90), (20, 5000, 2, k_10_and_90), (16, 20_000, 5, large_k)];
    let mut made =
        |dim, rows, most| Set::new(dim, random.integers(rows * dim, most), random.integers(34 * dim, most));
    sets.map(|(dim, rows, most, searches)| (made(dim, rows, most), searches)).into()
}

/// Rows from far to near.
fn sorted(random: &mut Random) -> Vec<Searched> {
    let queries: Vec<f32> = random.floats(34 * 24).iter().map(|x| x * 0.01).collect();
    let mut rows: Vec<Vec<f32>> = (0..6000).map(|_| random.floats(24)).collect();
    rows.sort_by(|a, b| squared(b).total_cmp(&squared(a)));
    vec![(Set::new(24, rows.concat(), queries), [(3, 10), (34, 100)])]
}

/// 99 of 100 rows are one of a few.
fn duplicates(random: &mut Random) -> Vec<Searched> {
    let (few, mut values) = (random.floats(5 * 24), random.floats(6000 * 24));
    for (number, row) in values.chunks_exact_mut(24).enumerate().filter(|(number, _)| number % 100 != 0) {
        row.copy_from_slice(&few[number % 5 * 24..][..24]);
    }
    vec![(Set::new(24, values, [few, random.floats(29 * 24)].concat()), [(3, 10), (34, 100)])]
}

/// Norms from 2^-50 to 2^50.
fn norms(random: &mut Random) -> Vec<Searched> {
    let mut spread = |count: usize| {
        let mut values = random.floats(count * 24);
        for row in values.chunks_exact_mut(24) {
            let factor = 2f64.powf(f64::from(random.unit()) * 49.9) / f64::from(squared(row)).sqrt();
            row.iter_mut().for_each(|x| *x = (f64::from(*x) * factor) as f32);
        }
        values
    };
    vec![(Set::new(24, spread(6000), spread(34)), [(3, 10), (34, 100)])]
}

/// Rows far from the origin and close to each other: the test `TestRoundoff` of FAISS.
fn far_from_the_origin(random: &mut Random) -> Vec<Searched> {
    let mut made = |rows: usize, count: usize| {
        let mut values: Vec<f32> = (0..rows * 4).map(|_| random.unit().abs()).collect();
        values.iter_mut().step_by(4).enumerate().for_each(|(row, x)| *x = 12_345.0 + row as f32);
        let queries = values[..count * 4].iter().map(|x| x + 0.3).collect();
        (Set::new(4, values, queries), [(count, 1), (count, 10)])
    };
    vec![made(100, 25), made(6000, 3), made(6000, 40)]
}

/// All of that at once.
fn adversarial(random: &mut Random) -> Vec<Searched> {
    let mut made = |dim: usize, rows: usize| {
        (Set::new(dim, random.adversarial(rows, dim), random.adversarial(34, dim)), [(3, 10), (34, 10)])
    };
    vec![made(1, 6000), made(5, 300), made(17, 9000), made(768, 2100)]
}

#[test_matrix([Adapter, Host], [ties, sorted, duplicates, norms, far_from_the_origin, adversarial])]
fn hard_rows_are_answered_alike(engine: Engine, make: fn(&mut Random) -> Vec<Searched>) {
    let Some(device) = engine.device() else { return };
    for (set, searches) in make(&mut Random::new(0xd0b)) {
        for metric in METRICS {
            set.check(device, metric, &searches);
        }
    }
}

/// The mean is taken off, so one dimension in which all rows are alike costs nothing.
#[test_matrix([Adapter, Host])]
fn an_outlier_dimension_is_screened_as_well_as_others(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (dim, rows) = (64, 8000);
    let mut random = Random::new(0x071);
    let mut made = |count: usize| -> Vec<f32> {
        let mut values = random.floats(count * dim);
        values.iter_mut().skip(9).step_by(dim).for_each(|x| *x += 60.0);
        values
    };
    let set = Set::new(dim, made(rows), made(40));
    for metric in METRICS {
        let [screened, plain] = [Quantization::Int8, Quantization::None]
            .map(|quantization| set.index(device, metric, quantization));
        for count in [2, 16, 40] {
            let statistics = set.compare(&screened, &plain, &[(count, 10)]);
            let survivors = statistics.refined / count as u64;
            assert!(survivors < 100, "{metric}, {count} queries: {survivors} survivors a query");
            assert_eq!(statistics.searched_again, 0);
        }
    }
}

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn small_segments_bindings_and_budgets_change_nothing(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let set = Set::floats(0x5e6, 5000, 40, 70);
    let plain = METRICS.map(|metric| set.index(device, metric, Quantization::None));
    let small = [
        engine.confined(u64::MAX, 2 << 20),
        engine.confined(200 << 10, 64 << 20),
        engine.confined(640 * 160, 1500 << 10),
        engine.with_bindings_of(1 << 20),
    ];
    for (turn, device) in small.into_iter().enumerate() {
        let Some(device) = device else { return };
        for quantization in [Quantization::Int8, Quantization::None] {
            let small = set.index(&device, METRICS[turn % 3], quantization);
            set.compare(&small, &plain[turn % 3], &[(2, 10), (20, 10), (70, 100)]);
        }
    }
}

/// The centre is the mean of more and more rows, and all rows are quantised again.
#[test_matrix([Host], [ElementKind::F32, ElementKind::F16])]
#[test_matrix([Adapter], [ElementKind::F32, ElementKind::F16] => ignore["nightly"])]
fn rows_added_in_pieces_are_answered_alike(engine: Engine, elements: ElementKind) {
    let Some(device) = engine.device() else { return };
    let (dim, rows) = (20, 6000);
    let add = |index: &mut Flat, values: &[f32]| match elements {
        ElementKind::F16 => index.add(view(&rounded(values).0, dim)),
        _ => index.add(view(values, dim)),
    };
    let mut random = Random::new(0xadd);
    let mut values: Vec<f32> = random.floats(rows * dim).iter().map(|x| x + 3.0).collect();
    // Later rows are of another kind.
    values[rows * dim / 2..].iter_mut().for_each(|x| *x -= 5.0);
    let (_, values) = rounded(&values);
    let set = Set::new(dim, values, random.floats(34 * dim));
    for metric in METRICS {
        let builder = Flat::builder(device, metric, dim).elements(elements).quantization(Quantization::Int8);
        let mut index = builder.build().expect("an index");
        let mut start = 0;
        for number in 0.. {
            let end = (start + 1 + random.below(1 + number * 8)).min(rows);
            add(&mut index, &set.rows[start * dim..end * dim]).expect("good rows");
            start = end;
            if start == rows {
                break;
            }
            if number % 15 != 7 {
                continue;
            }
            // A call that fails leaves the index as it was, centre and all.
            let queries = set.queries(if number % 2 == 0 { 3 } else { 34 });
            let (before, _) = search(&index, queries, 10);
            let mut rejected = vec![1e4; 700 * dim];
            rejected[555 * dim + 3] = [f32::NAN, f32::INFINITY][number % 2];
            let error = add(&mut index, &rejected).expect_err("a row that is not finite");
            assert!(matches!(error, Error::NotFinite { row: 555, .. }), "{error}");
            assert_eq!(bits(&search(&index, queries, 10).0), bits(&before), "{metric}, {start} rows");
        }
        let plain = set.index(device, metric, Quantization::None);
        set.compare(&index, &plain, &[(2, 10), (34, 10), (34, 100)]);
    }
}

/// Real embeddings, as they are and each vector by a factor of its own.
#[cfg(feature = "io")]
#[test_matrix([Adapter, Host])]
fn embeddings_are_answered_alike(engine: Engine) {
    use nearfield::io::{VectorFile, read_values};
    let Some(device) = engine.device() else { return };
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    // A step through the rows of the large set keeps it quick.
    for (folder, step, count) in [("cli/data", 1, 34), ("../shared/data", 9, 5)] {
        let folder = here.join(folder);
        if !folder.join("base.f16.npy").exists() {
            println!("skipped: no {}", folder.display());
            continue;
        }
        let read = |name: &str| VectorFile::open(folder.join(name)).expect("the file is there");
        let base = read("base.f16.npy").read_all().expect("rows");
        let (all, dim) = (base.rows(), base.dim());
        let rows: Vec<f32> = base.into_f32().chunks_exact(dim).step_by(step).flatten().copied().collect();
        let queries = read("query.f16.npy").read(0..count).expect("queries").into_f32();
        let scales = read_values(folder.join("scale.f32.npy")).expect("factors");
        let times = |values: &[f32], first: usize, step: usize| -> Vec<f32> {
            values.iter().enumerate().map(|(place, x)| x * scales[first + place / dim * step]).collect()
        };
        let scaled = Set::new(dim, times(&rows, 0, step), times(&queries, all, 1));
        for set in [Set::new(dim, rows, queries), scaled] {
            for metric in METRICS {
                let statistics = set.check(device, metric, &[(3, 10), (count, 10), (count, 100)]);
                assert_eq!(statistics.searched_again, 0);
                let (_, statistics) =
                    search(&set.index(device, metric, Quantization::Int8), set.queries(count), 10);
                let survivors = statistics.refined / count as u64;
                assert!(survivors < 100, "{}, {metric}: {survivors} survivors a query", folder.display());
            }
        }
    }
}
