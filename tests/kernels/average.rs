//! The kernel `average`: the means of lists of rows.

use crate::common::bench::{Bench, GUARD, two_rows};
use crate::common::padded;
use nearfield::internals::kernels::average::{self, Normalize};
use nearfield_testing::Random;

const NORMALIZES: [Normalize; 3] = [Normalize::Nothing, Normalize::Means, Normalize::MeansAndRows];

/// The means of lists of rows, which lie in buffers cut at these rows.
fn averages(
    bench: Bench<'_>,
    (rows, dim): (&[f32], usize),
    lists: &[Vec<u32>],
    cuts: &[usize],
    normalize: Normalize,
) -> Vec<f32> {
    let width = dim.next_multiple_of(4);
    let norm = |row: &[f32]| {
        let squared: f32 = row.iter().map(|x| x * x).sum();
        [squared, if squared > 0.0 { 1.0 / squared.sqrt() } else { 0.0 }]
    };
    let norms: Vec<[f32; 2]> = rows.chunks_exact(dim).map(norm).collect();
    // The last row is in no list.
    let mut offsets = vec![0u32];
    lists.iter().for_each(|list| offsets.push(offsets[offsets.len() - 1] + list.len() as u32));
    let order = [lists.concat(), vec![0]].concat();
    offsets.push(order.len() as u32);
    let (order, offsets) = (bench.input(&order), bench.input(&offsets));
    let means = bench.output(lists.len() * width);
    for (&first, &end) in cuts.iter().zip(&cuts[1..]) {
        let (rows, norms) =
            (bench.input(&padded(&rows[first * dim..end * dim], dim)), bench.input(&norms[first..end]));
        let params = average::Params {
            lists: lists.len() as u32,
            vectors: width as u32 / 4,
            first_row: first as u32,
            end_row: end as u32,
            is_last: (end == cuts[cuts.len() - 1]).into(),
        };
        let buffers = [&rows, &norms, &order, &offsets, &means];
        bench.dispatch(&average::KERNEL, &[normalize as u32], &params, &buffers, two_rows(lists.len()));
    }
    bench.read_floats(&means)
}

#[test]
fn lists_get_the_means_of_their_rows_and_empty_lists_keep_theirs() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(51);
    for (normalize, dim) in NORMALIZES.into_iter().flat_map(|one| [1, 4, 5, 513, 768].map(|dim| (one, dim))) {
        for sizes in [&[0, 1, 2, 3, 0, 4, 5, 7, 8, 0][..], &[500], &[0, 0], &[0, 333, 0]] {
            let count: usize = sizes.iter().sum();
            // Rows of different lengths, not centred at 0, and a zero row.
            let mut rows: Vec<f32> = random.floats(count.max(1) * dim);
            for (number, row) in rows.chunks_exact_mut(dim).enumerate() {
                let scale = 0.5 + random.below(8) as f32;
                row.iter_mut().for_each(|x| *x = if number == 2 { 0.0 } else { (*x + 0.75) * scale });
            }
            let mut order: Vec<u32> = (0..count as u32).collect();
            random.shuffle(&mut order);
            let lists: Vec<Vec<u32>> =
                sizes.iter().map(|&size| order.split_off(order.len() - size)).collect();
            let found = averages(bench, (&rows, dim), &lists, &[0, count.max(1)], normalize);
            let width = dim.next_multiple_of(4);
            for (list, found) in lists.iter().zip(found.chunks_exact(width)) {
                let said = format!("{normalize:?}, dim {dim}, list of {}", list.len());
                if list.is_empty() {
                    assert!(found.iter().all(|x| x.to_bits() == GUARD), "{said}: keeps its mean");
                    continue;
                }
                assert!(found[dim..].iter().all(|&x| x == 0.0), "{said}: padding stays 0");
                let own: Vec<&[f32]> = list.iter().map(|&row| &rows[row as usize * dim..][..dim]).collect();
                check_mean(&found[..dim], &own, normalize, &said);
            }
        }
    }
}

#[test]
fn rows_in_several_buffers_have_the_same_means_bit_for_bit() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(52);
    for (normalize, dim) in NORMALIZES.into_iter().flat_map(|one| [3, 520].map(|dim| (one, dim))) {
        let rows = random.floats(300 * dim);
        // The second list has rows of the first buffer only, the fourth one of the last, and the third none at all.
        let mut lists = vec![(0..300).step_by(3).collect::<Vec<u32>>(), vec![1, 2, 4], vec![], vec![299]];
        lists.push((0..299).filter(|row| row % 3 > 0 && *row > 4).collect());
        let [wanted, few, many] = [&[0, 300][..], &[0, 150, 300], &[0, 7, 8, 250, 300]].map(|cuts| {
            let means = averages(bench, (&rows, dim), &lists, cuts, normalize);
            means.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        });
        assert!(few == wanted && many == wanted, "{normalize:?}, dim {dim}");
    }
}

/// Compares a mean with the reference, up to the rounding of sequential addition.
fn check_mean(found: &[f32], rows: &[&[f32]], normalize: Normalize, said: &str) {
    let want = average::reference(rows, normalize);
    let length = |row: &[f32]| row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let count = rows.len() as f64;
    let scale = |row: &&[f32]| match normalize {
        Normalize::MeansAndRows if length(row) > 0.0 => 1.0 / length(row),
        _ => 1.0,
    };
    let scales: Vec<f64> = rows.iter().map(scale).collect();
    let sum = |of: &dyn Fn(&[f32]) -> f64| {
        rows.iter().zip(&scales).map(|(row, scale)| of(row) * scale).sum::<f64>() / count
    };
    // The length of the mean before it is normalised.
    let norm = match normalize {
        Normalize::Nothing => 1.0,
        _ => (0..want.len()).map(|d| sum(&|row| row[d].into()).powi(2)).sum::<f64>().sqrt(),
    };
    if norm < 1e-3 {
        return;
    }
    let share = (count + want.len() as f64 / 4.0 + 64.0) * 2f64.powi(-23);
    for (d, (&found, want)) in found.iter().zip(&want).enumerate() {
        let bound = share * (sum(&|row| row[d].abs().into()) / norm + want.abs());
        assert!((f64::from(found) - want).abs() <= bound, "{said}, element {d}: {found}, not {want}");
    }
}

#[test]
fn the_mean_of_opposite_rows_stays_zero_and_rows_are_added_in_their_order() {
    let Some(bench) = Bench::open() else { return };
    let rows = [3.0, -4.0, 0.5, 1.0, 2.0, -3.0, 4.0, -0.5, -1.0, -2.0];
    for normalize in NORMALIZES {
        let found = averages(bench, (&rows, 5), &[vec![0, 1]], &[0, 2], normalize);
        assert_eq!(found, [0.0; 8], "{normalize:?}");
    }
    // 2^24 and ones: with the ones first the sum is exact; with 2^24 first each one is lost or rounded up.
    let mut rows = vec![1.0; 9];
    rows[8] = 16_777_216.0;
    let [late, early] = [(0..9).collect(), (0..9).rev().collect()]
        .map(|list: Vec<u32>| averages(bench, (&rows, 1), &[list], &[0, 9], Normalize::Nothing)[0]);
    assert!((late - 16_777_224.0 / 9.0).abs() <= 0.5, "{late}");
    assert!(early <= late, "{early}, {late}");
}
