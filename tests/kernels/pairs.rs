//! The kernels of all distances: `distance_pairs`, `pairs_scan` and `pairs_tile`.

use crate::common::bench::{Bench, Buffer, GUARD, floats_of, two_rows};
use half::f16;
use nearfield::internals::kernels::halve;
use nearfield::internals::kernels::pairs::reference;
use nearfield::recording::Pairs;
use nearfield::{BufferSlice, DistanceOptions, ElementKind, Metric, Output, Precision};
use nearfield_testing::{Random, view};

const PRECISIONS: [Precision; 2] = [Precision::Fast, Precision::Compensated];

/// Queries, rows and results, each at a stride.
struct Matrices {
    dim: usize,
    queries: Vec<f32>,
    rows: Vec<f32>,
    /// Elements beyond dim of queries and rows, and beyond the rows of distances.
    beyond: [usize; 3],
}

/// Vectors in a buffer, and their norms.
struct Normed {
    vectors: Buffer,
    norms: Buffer,
}

impl Normed {
    /// Vectors with NaN between them. Norms are only computed of vectors without anything between them.
    fn new(bench: Bench<'_>, values: &[f32], dim: usize, beyond: usize) -> Self {
        let spread: Vec<f32> =
            values.chunks_exact(dim).flat_map(|row| [row, &vec![f32::NAN; beyond]].concat()).collect();
        let vectors = bench.input(&spread);
        let count = values.len() / dim;
        let (norms, refused) = (bench.output(2 * count), bench.filled(&[u32::MAX; 2]));
        if dim.is_multiple_of(4) {
            let plain = bench.input(values);
            let quads = dim as u32 / 4;
            bench.run(|recorder| {
                let (kind, count) = (ElementKind::F32, count as u32);
                recorder.norms(plain.slice(), kind, quads, count, norms.slice(), refused.slice())
            });
        }
        Self { vectors, norms }
    }

    fn norms(&self) -> BufferSlice<'_> {
        self.norms.slice()
    }
}

impl Matrices {
    fn counts(&self) -> [usize; 2] {
        [self.queries.len() / self.dim, self.rows.len() / self.dim]
    }

    /// The kernel that computes fast sums.
    fn kernel(&self) -> &'static str {
        let is_whole = [self.dim, self.beyond[0], self.beyond[1]].iter().all(|count| count % 4 == 0);
        match self.counts()[0] {
            25.. if is_whole => "pairs_tile",
            _ if is_whole && self.dim >= 32 => "pairs_scan",
            _ => "distance_pairs",
        }
    }

    /// `[queries, rows]`. NaN lies between the vectors, and nothing may be written between results.
    fn run(&self, bench: Bench<'_>, options: DistanceOptions, unit_vectors: bool) -> Vec<f32> {
        let [query_count, row_count] = self.counts();
        let queries = Normed::new(bench, &self.queries, self.dim, self.beyond[0]);
        let rows = Normed::new(bench, &self.rows, self.dim, self.beyond[1]);
        let stride = row_count + self.beyond[2];
        let distances = bench.output(query_count * stride);
        let pairs = Pairs {
            options,
            unit_vectors,
            norms: self.dim.is_multiple_of(4).then(|| [queries.norms(), rows.norms()]),
            halves: None,
            queries: queries.vectors.slice(),
            query_count: query_count as u32,
            query_stride: (self.dim + self.beyond[0]) as u32,
            rows: rows.vectors.slice(),
            row_count: row_count as u32,
            row_stride: (self.dim + self.beyond[1]) as u32,
            dim: self.dim as u32,
            distances: distances.slice(),
            distance_stride: stride as u32,
        };
        let ran = bench.run_timed(|recorder| recorder.distances(&pairs));
        if let Some(ran) = ran
            && options.precision == Precision::Fast
        {
            assert_eq!(ran, [self.kernel()], "dim {}, {query_count} x {row_count}", self.dim);
        }
        let mut found = vec![];
        for row in bench.read(&distances).chunks_exact(stride) {
            found.extend(floats_of(&row[..row_count]));
            assert!(row[row_count..].iter().all(|&word| word == GUARD), "written between results");
        }
        found
    }

    /// Checks every distance against its bound, and of whole numbers that it is exact.
    fn check(&self, bench: Bench<'_>, whole: bool) {
        let (queries, rows) = (view(&self.queries, self.dim), view(&self.rows, self.dim));
        let row_count = rows.rows();
        for (metric, precision) in
            Metric::ALL.into_iter().flat_map(|metric| PRECISIONS.map(|one| (metric, one)))
        {
            let options = DistanceOptions::new(metric).precision(precision);
            let found = self.run(bench, options, false);
            for (place, (found, exact)) in found.iter().zip(reference(metric, queries, rows)).enumerate() {
                let (query, row) = (place / row_count, place % row_count);
                let bound = precision.error_bound(metric, queries.row(query), rows.row(row));
                let said = format!("{metric}, {precision:?}, dim {}, query {query}, row {row}", self.dim);
                let off = (f64::from(*found) - exact).abs();
                assert!(off <= bound, "{said}: {found:e}, not {exact:e} within {bound:e}");
                if whole && matches!(metric, Metric::L2Squared | Metric::InnerProduct) {
                    assert_eq!(f64::from(*found), exact, "{said}");
                }
            }
            if matches!(metric, Metric::Cosine | Metric::InnerProduct) {
                let similar = self.run(bench, options.output(Output::Similarity), false);
                for (distance, similarity) in found.iter().zip(similar) {
                    let want = if metric == Metric::Cosine { 1.0 - similarity } else { -similarity };
                    assert_eq!(*distance, want, "{metric}, dim {}", self.dim);
                }
            }
        }
    }
}

/// Numbers of queries and of rows, and elements beyond.
type Shape = (usize, usize, [usize; 3]);

/// Checks whole numbers in some shapes, and adversarial vectors in one.
fn check_all(bench: Bench<'_>, dims: &[usize], whole: &[Shape], adversarial: Shape) {
    for &dim in dims {
        let mut random = Random::new(dim as u64);
        for &(queries, rows, beyond) in whole {
            let [queries, rows] = [queries, rows].map(|count| random.integers(count * dim, 4));
            Matrices { dim, queries, rows, beyond }.check(bench, true);
        }
        let (queries, rows, beyond) = adversarial;
        let [queries, rows] = [queries, rows].map(|count| random.adversarial(count, dim));
        Matrices { dim, queries, rows, beyond }.check(bench, false);
    }
}

#[test]
fn pairs_of_every_dim_and_stride_are_correct() {
    let Some(bench) = Bench::open() else { return };
    let dims = [1, 2, 3, 4, 5, 6, 7, 8, 9, 255, 384, 512, 639, 768, 1536, 2049];
    check_all(
        bench,
        &dims,
        &[[0, 0, 0], [1, 3, 5], [3, 2, 1]].map(|beyond| (3, 67, beyond)),
        (3, 66, [0, 2, 0]),
    );
}

#[test]
fn scans_of_every_dim_and_count_are_correct() {
    for bench in Bench::both() {
        let whole = [(1, 1, [0; 3]), (2, 131, [4, 0, 3]), (3, 32, [0, 8, 0]), (24, 33, [0; 3])];
        check_all(bench, &[32, 36, 100, 128, 384, 1024], &whole, (5, 66, [0, 4, 1]));
    }
}

#[test]
fn tiles_of_every_dim_and_count_are_correct() {
    let Some(bench) = Bench::open() else { return };
    let whole = [(25, 1, [0; 3]), (129, 130, [4, 0, 3])];
    check_all(bench, &[4, 8, 12, 36, 100, 384], &whole, (60, 70, [0, 8, 1]));
}

#[test]
fn compensated_sums_keep_what_plain_ones_round_off() {
    let Some(bench) = Bench::open() else { return };
    let dim = 512;
    // Large products that cancel, and small ones that plain sums lose among them.
    let query: Vec<f32> = (0..dim).map(|i| if i % 8 < 4 { 3000.0 } else { 0.1 }).collect();
    let row: Vec<f32> = (0..dim)
        .map(|i| [1000.0, -1000.0, 0.1][if i % 8 < 4 { i / 8 % 2 } else { 2 }] + 1e-3 * (i % 7) as f32)
        .collect();
    let exact = Metric::InnerProduct.exact(&query, &row);
    let matrices = Matrices { dim, queries: query, rows: row, beyond: [0; 3] };
    let off = |precision| {
        let options = DistanceOptions::new(Metric::InnerProduct).precision(precision);
        (f64::from(matrices.run(bench, options, false)[0]) - exact).abs() / exact.abs()
    };
    let (fast, compensated) = (off(Precision::Fast), off(Precision::Compensated));
    assert!(compensated <= 2f64.powi(-21), "{compensated:e}");
    assert!(compensated * 8.0 < fast, "{compensated:e} and {fast:e}");
}

#[test]
fn similarities_of_parallel_vectors_stay_within_1() {
    let Some(bench) = Bench::open() else { return };
    for dim in [2, 3, 7, 100, 384, 768, 1537] {
        let mut random = Random::new(dim as u64);
        let queries = random.floats(20 * dim);
        let rows = queries.iter().map(|x| x * 3.7).chain(queries.iter().map(|x| x * -0.3)).collect();
        let matrices = Matrices { dim, queries, rows, beyond: [0; 3] };
        let options = DistanceOptions::new(Metric::Cosine).output(Output::Similarity);
        let similar = matrices.run(bench, options, false);
        assert!(similar.iter().all(|similarity| (-1.0..=1.0).contains(similarity)), "dim {dim}");
        for query in 0..20 {
            assert!(similar[query * 40 + query] > 1.0 - 1e-5, "dim {dim}");
            assert!(similar[query * 40 + 20 + query] < 1e-5 - 1.0, "dim {dim}");
        }
        // Their norms are not 1, although the call says so: only the clamp keeps similarities in range.
        let similar = matrices.run(bench, options, true);
        assert!(similar.iter().all(|similarity| (-1.0..=1.0).contains(similarity)), "dim {dim}");
    }
}

#[test]
fn cosine_of_unit_vectors_needs_no_norms() {
    let Some(bench) = Bench::open() else { return };
    for dim in [1, 5, 384, 1000] {
        let mut values = Random::new(dim as u64).floats(30 * dim);
        for row in values.chunks_exact_mut(dim) {
            let norm = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
            row.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
        }
        let matrices = Matrices { dim, queries: values[..4 * dim].to_vec(), rows: values, beyond: [0; 3] };
        let found = matrices.run(bench, DistanceOptions::new(Metric::Cosine), true);
        let (queries, rows) = (view(&matrices.queries, dim), view(&matrices.rows, dim));
        for (found, exact) in found.into_iter().zip(reference(Metric::Cosine, queries, rows)) {
            let bound = (dim as f64 + 16.0) * 2f64.powi(-23);
            assert!((f64::from(found) - exact).abs() <= bound, "dim {dim}: {found}, not {exact}");
        }
    }
}

#[test]
fn more_vectors_than_a_dispatch_has_workgroups_are_all_computed() {
    let Some(bench) = Bench::open() else { return };
    let run = |queries: Vec<f32>, rows: Vec<f32>| {
        let matrices = Matrices { dim: 1, queries, rows, beyond: [0; 3] };
        matrices.run(bench, DistanceOptions::new(Metric::InnerProduct), false)
    };
    let queries: Vec<f32> = (0..65_536 + 3).map(|query| query as f32).collect();
    let wanted: Vec<f32> = queries.iter().flat_map(|query| [query * -2.0, *query]).collect();
    assert!(run(queries, vec![2.0, -1.0]) == wanted);
    let rows: Vec<f32> = (0..65_536 * 64).map(|row| (row % 1000) as f32).collect();
    let wanted: Vec<f32> = rows.iter().map(|row| -row).collect();
    assert!(run(vec![1.0], rows) == wanted);
}

#[test]
fn shapes_that_exceed_their_buffers_are_refused() {
    let Some(bench) = Bench::open() else { return };
    let (vectors, distances) = (bench.input(&[1.0f32; 30]), bench.input(&[0.0f32; 100]));
    let good = Pairs {
        options: DistanceOptions::new(Metric::L2),
        unit_vectors: false,
        norms: None,
        halves: None,
        queries: vectors.slice(),
        query_count: 10,
        query_stride: 3,
        rows: vectors.slice(),
        row_count: 10,
        row_stride: 3,
        dim: 3,
        distances: distances.slice(),
        distance_stride: 10,
    };
    bench.run(|recorder| recorder.distances(&good));
    let short = BufferSlice::range(&vectors, 0, 76);
    for (argument, pairs) in [
        ("queries", Pairs { query_count: 11, ..good }),
        ("rows", Pairs { row_count: 11, distance_stride: 11, ..good }),
        ("", Pairs { query_stride: 2, ..good }),
        ("rows", Pairs { row_stride: 4, ..good }),
        ("", Pairs { distance_stride: 9, ..good }),
        ("distances", Pairs { distance_stride: 11, ..good }),
        ("norms", Pairs { norms: Some([vectors.slice(), short]), ..good }),
        ("output", Pairs { options: good.options.output(Output::Similarity), ..good }),
    ] {
        bench.refuses(argument, |recorder| recorder.distances(&pairs));
    }
}

#[test]
fn halves_are_scaled_by_powers_of_two_and_lose_only_bits_of_f16() {
    let Some(bench) = Bench::open() else { return };
    for (dim, count) in [(4, 1), (36, 5), (100, 67), (384, 3)] {
        let mut vectors = Random::new(dim as u64).adversarial(count, dim);
        // Zeros, the edges of the range of norms, and an element beyond the largest f16.
        for (row, element) in
            [0.0, 2f32.powi(-50), 2f32.powi(50) * 0.99, 1e6].into_iter().enumerate().take(count)
        {
            vectors[row * dim..(row + 1) * dim].fill(0.0);
            vectors[row * dim] = element;
        }
        let normed = Normed::new(bench, &vectors, dim, 0);
        let (quads, pitch) = (dim as u32 / 4, halve::pitch_of(dim as u32 / 4));
        let (halves, factors) = (bench.output(count * pitch as usize * 2), bench.output(2 * count));
        let params =
            halve::Params { rows: count as u32, vectors: quads, row_pitch: quads, half_pitch: pitch };
        let buffers = [&normed.vectors, &normed.norms, &halves, &factors];
        let workgroups = two_rows((count * pitch as usize).div_ceil(256));
        bench.dispatch(&halve::KERNEL, &[], &params, &buffers, workgroups);
        let halves: Vec<f16> = bytemuck::cast_slice(&bench.read(&halves)).to_vec();
        let factors = bench.read_records::<2>(&factors);
        for (row, vector) in vectors.chunks_exact(dim).enumerate() {
            let found = &halves[row * 4 * pitch as usize..][..4 * pitch as usize];
            let (wanted, back) = halve::reference(vector);
            let [to_product, to_cosine] = factors[row].map(f32::from_bits);
            let norm = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            if norm > 0.0 {
                // Where the norm is next to a power of two, its exponent may be taken for the next one.
                let ratio = f64::from(to_product) / back;
                assert!([0.5, 1.0, 2.0].contains(&ratio), "dim {dim}, row {row}: {ratio}");
                let cosine = f64::from(to_product) / norm;
                assert!((f64::from(to_cosine) - cosine).abs() <= 1e-6 * cosine, "dim {dim}, row {row}");
                for (place, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                    let off = (f64::from(*found) * ratio - f64::from(*wanted)).abs();
                    let bound = f64::from(*wanted).abs() * 2f64.powi(-10) + 2f64.powi(-23);
                    assert!(off <= bound, "dim {dim}, row {row}, element {place}: {found}, not {wanted}");
                }
            } else {
                assert!(found.iter().all(|&half| half == f16::ZERO) && to_cosine == 0.0, "row {row}");
            }
            assert!(found[dim..].iter().all(|&half| half == f16::ZERO), "padding of row {row}");
        }
    }
}
