//! The kernels `norms` and `prefix_sum`.

use crate::common::bench::Bench;
use crate::common::padded;
use half::f16;
use nearfield::Element;
use nearfield::internals::kernels::{norms, prefix_sum};
use nearfield_testing::{Random, rounded, view};

/// Norms of rows, and the rows that are reported as not finite and as out of range.
fn norms_of<T: Element>(bench: Bench<'_>, values: &[T], dim: usize) -> (Vec<[f32; 2]>, [u32; 2]) {
    let count = values.len() / dim;
    let rows = bench.input(&padded(values, dim));
    let (found, refused) = (bench.output(2 * count), bench.filled(&[u32::MAX; 2]));
    bench.run(|recorder| {
        let vectors = dim.div_ceil(4) as u32;
        recorder.norms(rows.slice(), T::KIND, vectors, count as u32, found.slice(), refused.slice())
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
            bench.run(|recorder| recorder.prefix_sum(input.slice(), length as u32, limit, offsets.slice()));
            let want = prefix_sum::reference(&counts, limit);
            assert_eq!(bench.read(&offsets), want, "{length}, limit {limit}");
        }
    }
}
