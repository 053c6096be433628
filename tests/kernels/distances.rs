//! The kernels `distance_pairs`, `norms` and `prefix_sum`.

use crate::common::bench::{Bench, Bound, GUARD, floats_of};
use crate::common::{Random, padded, rounded, view};
use half::f16;
use nearfield::internals::kernels::distance_pairs::{Pairs, reference};
use nearfield::internals::kernels::{norms, prefix_sum};
use nearfield::{Element, Metric, Output};

/// Queries, rows and results, each at a stride.
struct Matrices {
    dim: usize,
    queries: Vec<f32>,
    rows: Vec<f32>,
    /// Elements beyond dim of queries and rows, and beyond the rows of distances.
    beyond: [usize; 3],
}

impl Matrices {
    fn counts(&self) -> [usize; 2] {
        [self.queries.len() / self.dim, self.rows.len() / self.dim]
    }

    /// `[queries, rows]`. NaN lies between the vectors, and nothing may be written between results.
    fn run(&self, bench: Bench<'_>, metric: Metric, unit_vectors: bool, output: Output) -> Vec<f32> {
        let [query_count, row_count] = self.counts();
        let spread = |values: &[f32], beyond: usize| -> Vec<f32> {
            values.chunks_exact(self.dim).flat_map(|row| [row, &vec![f32::NAN; beyond]].concat()).collect()
        };
        let queries = bench.input(&spread(&self.queries, self.beyond[0]));
        let rows = bench.input(&spread(&self.rows, self.beyond[1]));
        let stride = row_count + self.beyond[2];
        let distances = bench.output(query_count * stride);
        let pairs = Pairs {
            metric,
            unit_vectors,
            output,
            queries: queries.bound(),
            query_count: query_count as u32,
            query_stride: (self.dim + self.beyond[0]) as u32,
            rows: rows.bound(),
            row_count: row_count as u32,
            row_stride: (self.dim + self.beyond[1]) as u32,
            dim: self.dim as u32,
            distances: distances.slice(),
            distance_stride: stride as u32,
        };
        bench.run(|recorder| recorder.distances(&pairs));
        let mut found = vec![];
        for row in bench.read(&distances).chunks_exact(stride) {
            found.extend(floats_of(&row[..row_count]));
            assert!(row[row_count..].iter().all(|&word| word == GUARD), "written between results");
        }
        found
    }

    fn check(&self, bench: Bench<'_>, whole: bool) {
        let (queries, rows) = (view(&self.queries, self.dim), view(&self.rows, self.dim));
        let row_count = rows.rows();
        for metric in Metric::ALL {
            let found = self.run(bench, metric, false, Output::Distance);
            for (place, (found, exact)) in found.iter().zip(reference(metric, queries, rows)).enumerate() {
                let (query, row) = (place / row_count, place % row_count);
                let bound = metric.error_bound(queries.row(query), rows.row(row));
                let said = format!("{metric}, dim {}, query {query}, row {row}", self.dim);
                let off = (f64::from(*found) - exact).abs();
                assert!(off <= bound, "{said}: {found:e}, not {exact:e} within {bound:e}");
                if whole && matches!(metric, Metric::L2Squared | Metric::InnerProduct) {
                    assert_eq!(f64::from(*found), exact, "{said}");
                }
            }
            if matches!(metric, Metric::Cosine | Metric::InnerProduct) {
                let similar = self.run(bench, metric, false, Output::Similarity);
                for (distance, similarity) in found.iter().zip(similar) {
                    let want = if metric == Metric::Cosine { 1.0 - similarity } else { -similarity };
                    assert_eq!(*distance, want, "{metric}, dim {}", self.dim);
                }
            }
        }
    }
}

#[test]
fn pairs_of_every_dim_and_stride_are_correct() {
    let Some(bench) = Bench::open() else { return };
    for dim in (1..=9).chain([255, 384, 512, 639, 768, 1536, 2049]) {
        let mut random = Random::new(dim as u64);
        for beyond in [[0, 0, 0], [1, 3, 5], [4, 0, 1]] {
            let (queries, rows) = (random.integers(3 * dim, 4), random.integers(67 * dim, 4));
            Matrices { dim, queries, rows, beyond }.check(bench, true);
        }
        let (queries, rows) = (random.adversarial(3, dim), random.adversarial(66, dim));
        Matrices { dim, queries, rows, beyond: [0, 2, 0] }.check(bench, false);
    }
}

#[test]
fn a_zero_vector_is_similar_to_nothing() {
    let Some(bench) = Bench::open() else { return };
    for dim in [1, 6, 384] {
        let mut rows = Random::new(3).floats(4 * dim);
        rows[..dim].fill(0.0);
        rows[dim..2 * dim].fill(-0.0);
        let both = Matrices { dim, queries: rows.clone(), rows, beyond: [0; 3] };
        let similar = both.run(bench, Metric::Cosine, false, Output::Similarity);
        for (place, similarity) in similar.into_iter().enumerate() {
            if place / 4 < 2 || place % 4 < 2 {
                assert_eq!(similarity, 0.0, "dim {dim}, pair {place}");
            }
        }
        let distances = both.run(bench, Metric::Cosine, false, Output::Distance);
        assert_eq!(distances[0], 1.0, "dim {dim}");
    }
}

#[test]
fn similarities_of_parallel_vectors_stay_within_1() {
    let Some(bench) = Bench::open() else { return };
    for dim in [2, 3, 7, 100, 384, 768, 1537] {
        let mut random = Random::new(dim as u64);
        let queries = random.floats(20 * dim);
        let rows = queries.iter().map(|x| x * 3.7).chain(queries.iter().map(|x| x * -0.3)).collect();
        let matrices = Matrices { dim, queries, rows, beyond: [0; 3] };
        let similar = matrices.run(bench, Metric::Cosine, false, Output::Similarity);
        assert!(similar.iter().all(|similarity| (-1.0..=1.0).contains(similarity)), "dim {dim}");
        for query in 0..20 {
            assert!(similar[query * 40 + query] > 1.0 - 1e-5, "dim {dim}");
            assert!(similar[query * 40 + 20 + query] < 1e-5 - 1.0, "dim {dim}");
        }
        // Their norms are not 1, although the call says so: only the clamp keeps similarities in range.
        let similar = matrices.run(bench, Metric::Cosine, true, Output::Similarity);
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
        let found = matrices.run(bench, Metric::Cosine, true, Output::Distance);
        let (queries, rows) = (view(&matrices.queries, dim), view(&matrices.rows, dim));
        for (found, exact) in found.into_iter().zip(reference(Metric::Cosine, queries, rows)) {
            let bound = (dim as f64 + 16.0) * 2f64.powi(-23);
            assert!((f64::from(found) - exact).abs() <= bound, "dim {dim}: {found}, not {exact}");
        }
    }
}

#[test]
fn more_queries_than_rows_of_workgroups_are_all_computed() {
    let Some(bench) = Bench::open() else { return };
    let count = 65_536 + 3;
    let queries: Vec<f32> = (0..count).map(|query| query as f32).collect();
    let matrices = Matrices { dim: 1, queries, rows: vec![2.0, -1.0], beyond: [0; 3] };
    let found = matrices.run(bench, Metric::InnerProduct, false, Output::Distance);
    assert!(found.chunks_exact(2).enumerate().all(|(query, row)| row == [query as f32 * -2.0, query as f32]));
}

#[test]
fn more_rows_than_columns_of_workgroups_are_all_computed() {
    let Some(bench) = Bench::open() else { return };
    let count = 65_536 * 64;
    let rows: Vec<f32> = (0..count).map(|row| (row % 1000) as f32).collect();
    let matrices = Matrices { dim: 1, queries: vec![1.0], rows, beyond: [0; 3] };
    let found = matrices.run(bench, Metric::InnerProduct, false, Output::Distance);
    assert!(found.iter().enumerate().all(|(row, &distance)| distance == -((row % 1000) as f32)));
}

#[test]
fn shapes_that_exceed_their_buffers_are_refused() {
    let Some(bench) = Bench::open() else { return };
    let (vectors, distances) = (bench.input(&[1.0f32; 30]), bench.input(&[0.0f32; 100]));
    let good = Pairs {
        metric: Metric::L2,
        unit_vectors: false,
        output: Output::Distance,
        queries: vectors.bound(),
        query_count: 10,
        query_stride: 3,
        rows: vectors.bound(),
        row_count: 10,
        row_stride: 3,
        dim: 3,
        distances: distances.bound(),
        distance_stride: 10,
    };
    bench.run(|recorder| recorder.distances(&good));
    for (argument, pairs) in [
        ("queries", Pairs { query_count: 11, ..good }),
        ("rows", Pairs { row_count: 11, distance_stride: 11, ..good }),
        ("", Pairs { query_stride: 2, ..good }),
        ("rows", Pairs { row_stride: 4, ..good }),
        ("", Pairs { distance_stride: 9, ..good }),
        ("distances", Pairs { distance_stride: 11, ..good }),
    ] {
        bench.refuses(argument, |recorder| recorder.distances(&pairs));
    }
}

/// Norms of rows, and the rows that are reported as not finite and as out of range.
fn norms_of<T: Element>(bench: Bench<'_>, values: &[T], dim: usize) -> (Vec<[f32; 2]>, [u32; 2]) {
    let count = values.len() / dim;
    let rows = bench.input(&padded(values, dim));
    let (found, refused) = (bench.output(2 * count), bench.filled(&[u32::MAX; 2]));
    bench.run(|recorder| {
        let vectors = dim.div_ceil(4) as u32;
        recorder.norms((&rows).into(), T::KIND, vectors, count as u32, found.slice(), refused.slice())
    });
    let found = bench.read_records(&found).into_iter().map(|pair: [u32; 2]| pair.map(f32::from_bits));
    (found.collect(), bench.read(&refused).try_into().expect("two words"))
}

fn check_norms<T: Element>(bench: Bench<'_>, values: &[T], dim: usize) {
    let (found, refused) = norms_of(bench, values, dim);
    assert_eq!(refused, [u32::MAX; 2], "dim {dim}");
    for (row, (found, want)) in found.into_iter().zip(norms::reference(view(values, dim))).enumerate() {
        for (found, want) in found.into_iter().zip(want) {
            let close = (f64::from(found) - want).abs() <= (dim as f64 + 8.0) * 2f64.powi(-23) * want;
            assert!(close, "dim {dim}, row {row}: {found:e}, not {want:e}");
        }
    }
}

#[test]
fn norms_are_correct_at_every_dim_and_element_type() {
    let Some(bench) = Bench::open() else { return };
    for dim in [1, 3, 4, 5, 17, 63, 64, 65, 384, 2049] {
        for rows in [0, 1, 7, 8, 9, 129] {
            let values = Random::new(dim as u64).adversarial(rows, dim);
            check_norms(bench, &values, dim);
            let (halves, _) = rounded(&Random::new(dim as u64).floats(rows * dim));
            check_norms(bench, &halves, dim);
        }
    }
    // More rows than one row of workgroups takes.
    let many: Vec<f32> = (0..600_000).map(|row| (row % 4093) as f32).collect();
    check_norms(bench, &many, 1);
}

#[test]
fn zeros_and_the_edges_of_the_range_have_exact_norms() {
    let Some(bench) = Bench::open() else { return };
    let (low, high) = (2f32.powi(-50), 2f32.powi(50));
    let rows = [0.0, -0.0, -0.0, 0.0, 3.0, -4.0, low, 0.0, 0.0, -high];
    let norms = [[0.0, 0.0], [0.0, 0.0], [25.0, 0.2], [low * low, high], [high * high, low]];
    assert_eq!(norms_of(bench, &rows, 2), (norms.to_vec(), [u32::MAX; 2]));
}

#[test]
fn the_first_bad_row_of_each_kind_is_reported() {
    let Some(bench) = Bench::open() else { return };
    let (none, dim) = (u32::MAX, 70);
    // Elements whose squares underflow to 0 or to a subnormal, and sums that overflow.
    let kinds = [
        (f32::NAN, false),
        (f32::INFINITY, false),
        (f32::NEG_INFINITY, false),
        (f32::from_bits(1), true),
        (-f32::from_bits(0x0040_0000), true),
        (1e-30, true),
        (2f32.powi(-51), true),
        (2f32.powi(51), true),
        (-f32::MAX, true),
    ];
    for (bad, is_finite) in kinds {
        for at in [[0, 0], [5, 69], [13, 64], [199, 17]] {
            let mut rows = Random::new(at[0] as u64).floats(200 * dim);
            rows[at[0] * dim..][..dim].fill(0.0);
            rows[at[0] * dim + at[1]] = bad;
            let (_, refused) = norms_of(bench, &rows, dim);
            let number = at[0] as u32;
            assert_eq!(refused, if is_finite { [none, number] } else { [number, none] }, "{bad:e} at {at:?}");
        }
    }
    let mut rows = vec![1.0f32; 200 * dim];
    rows[150 * dim] = f32::NAN;
    rows[151 * dim] = f32::NAN;
    rows[30 * dim..31 * dim].fill(1e-20);
    rows[29 * dim] = 1e30;
    assert_eq!(norms_of(bench, &rows, dim).1, [150, 29]);
}

#[test]
fn f16_rows_are_checked() {
    let Some(bench) = Bench::open() else { return };
    let mut rows = vec![f16::ONE; 20 * 3];
    rows[7] = f16::MAX;
    rows[12 * 3 + 1] = f16::NAN;
    rows[11 * 3 + 2] = f16::NEG_INFINITY;
    let (found, refused) = norms_of(bench, &rows, 3);
    assert_eq!(refused, [11, u32::MAX]);
    assert_eq!(found[2][0], 65504.0 * 65504.0 + 2.0);
    // The smallest subnormal of f16 is a normal f32.
    let least = f16::from_bits(1);
    let (found, refused) = norms_of(bench, &[least, f16::ZERO], 1);
    assert_eq!((found[0][0], refused), (2f32.powi(-48), [u32::MAX; 2]));
}

#[test]
fn prefix_sums_of_every_length_are_correct() {
    let Some(bench) = Bench::open() else { return };
    for length in [0, 1, 3, 4, 5, 1023, 1024, 1025, 5000] {
        for limit in [0, 1, 50, u32::MAX] {
            let mut random = Random::new(length as u64);
            let counts: Vec<u32> = (0..length).map(|_| random.below(120) as u32).collect();
            let (input, offsets) = (bench.input(&counts), bench.output(length + 1));
            bench.run(|recorder| recorder.prefix_sum((&input).into(), length as u32, limit, offsets.slice()));
            let want = prefix_sum::reference(&counts, limit);
            assert_eq!(bench.read(&offsets), want, "{length}, limit {limit}");
        }
    }
}
