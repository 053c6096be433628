//! The kernel `average`: the means of lists of rows.

use crate::common::bench::{Bench, Bound, GUARD, two_rows};
use crate::common::padded;
use nearfield::internals::kernels::average::{self, Normalize};
use nearfield_testing::Random;

/// Rows that lie in one buffer.
fn averages(
    bench: Bench<'_>,
    rows: &[f32],
    dim: usize,
    sizes: &[usize],
    order: &[u32],
    normalize: Normalize,
) -> Vec<f32> {
    let cuts = [0, rows.len() / dim];
    averages_of_pieces(bench, (rows, dim), &cuts, (sizes, order), normalize)
}

/// Rows that lie in several buffers, cut at these rows.
fn averages_of_pieces(
    bench: Bench<'_>,
    (rows, dim): (&[f32], usize),
    cuts: &[usize],
    (sizes, order): (&[usize], &[u32]),
    normalize: Normalize,
) -> Vec<f32> {
    let width = dim.next_multiple_of(4);
    let norms: Vec<[f32; 2]> = rows
        .chunks_exact(dim)
        .map(|row| {
            let squared: f32 = row.iter().map(|x| x * x).sum();
            [squared, if squared > 0.0 { 1.0 / squared.sqrt() } else { 0.0 }]
        })
        .collect();
    let mut offsets = vec![0u32];
    sizes.iter().for_each(|&size| offsets.push(offsets[offsets.len() - 1] + size as u32));
    // The last row is in no list.
    offsets.push(order.len() as u32 + 1);
    let order = [order, &[0]].concat();
    let (order, offsets) = (bench.input(&order), bench.input(&offsets));
    let means = bench.output(sizes.len() * width);
    for (first, end) in cuts.iter().zip(&cuts[1..]) {
        let (rows, norms) =
            (bench.input(&padded(&rows[first * dim..end * dim], dim)), bench.input(&norms[*first..*end]));
        let params = average::Params {
            lists: sizes.len() as u32,
            vectors: width as u32 / 4,
            first_row: *first as u32,
            end_row: *end as u32,
            is_last: (*end == cuts[cuts.len() - 1]).into(),
        };
        let (constants, grid) = ([normalize as u32], two_rows(sizes.len()));
        let buffers: [&dyn Bound; 5] = [&rows, &norms, &order, &offsets, &means];
        bench.dispatch(&average::KERNEL, &constants, &params, &buffers, grid);
    }
    bench.read_floats(&means)
}

#[test]
fn lists_get_the_means_of_their_rows_and_empty_lists_keep_theirs() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(51);
    for normalize in [Normalize::Nothing, Normalize::Means, Normalize::MeansAndRows] {
        for dim in [1, 4, 5, 513, 768] {
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
                let found = averages(bench, &rows, dim, sizes, &order, normalize);
                let (width, mut start) = (dim.next_multiple_of(4), 0);
                for (list, &size) in sizes.iter().enumerate() {
                    let found = &found[list * width..][..width];
                    let own = order[start..start + size].iter();
                    let own: Vec<&[f32]> = own.map(|&row| &rows[row as usize * dim..][..dim]).collect();
                    start += size;
                    let said = format!("{normalize:?}, dim {dim}, list {list} of {size}");
                    if size == 0 {
                        assert!(found.iter().all(|x| x.to_bits() == GUARD), "{said}: keeps its mean");
                        continue;
                    }
                    assert!(found[dim..].iter().all(|&x| x == 0.0), "{said}: padding stays 0");
                    check_mean(&found[..dim], &own, normalize, &said);
                }
            }
        }
    }
}

#[test]
fn rows_in_several_buffers_have_the_same_means_bit_for_bit() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(52);
    for normalize in [Normalize::Nothing, Normalize::Means, Normalize::MeansAndRows] {
        for dim in [3, 520] {
            let rows = random.floats(300 * dim);
            // The second list has rows of the first buffer only, the fourth one of the last, and the third none at all.
            let mut lists = vec![(0..300).step_by(3).collect::<Vec<u32>>(), vec![1, 2, 4], vec![], vec![299]];
            lists.push((0..299).filter(|row| row % 3 > 0 && *row > 4).collect());
            let (sizes, order): (Vec<usize>, Vec<u32>) =
                (lists.iter().map(Vec::len).collect(), lists.concat());
            let wanted = averages(bench, &rows, dim, &sizes, &order, normalize);
            for cuts in [&[0, 150, 300][..], &[0, 7, 8, 250, 300]] {
                let found = averages_of_pieces(bench, (&rows, dim), cuts, (&sizes, &order), normalize);
                let bits = |means: &[f32]| means.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&found), bits(&wanted), "{normalize:?}, dim {dim}, {cuts:?}");
            }
        }
    }
}

/// Compares a mean with the reference, up to the rounding of sequential addition.
fn check_mean(found: &[f32], rows: &[&[f32]], normalize: Normalize, said: &str) {
    let want = average::reference(rows, normalize);
    let length = |row: &[f32]| row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let count = rows.len() as f64;
    let scales: Vec<f64> = rows
        .iter()
        .map(|row| match normalize {
            Normalize::MeansAndRows if length(row) > 0.0 => 1.0 / length(row),
            _ => 1.0,
        })
        .collect();
    let sum = |of: &dyn Fn(&[f32]) -> f64| {
        rows.iter().zip(&scales).map(|(row, scale)| of(row) * scale).sum::<f64>() / count
    };
    // The length of the mean before it is normalised.
    let mean = |d: usize| sum(&|row| row[d].into());
    let norm = if normalize == Normalize::Nothing {
        1.0
    } else {
        (0..want.len()).map(|d| mean(d).powi(2)).sum::<f64>().sqrt()
    };
    if norm < 1e-3 {
        return;
    }
    let share = (count + want.len() as f64 / 4.0 + 64.0) * 2f64.powi(-23);
    for (d, (&found, want)) in found.iter().zip(&want).enumerate() {
        let size = sum(&|row| row[d].abs().into());
        let bound = share * (size / norm + want.abs());
        assert!((f64::from(found) - want).abs() <= bound, "{said}, element {d}: {found}, not {want}");
    }
}

#[test]
fn the_mean_of_opposite_rows_stays_zero_and_rows_are_added_in_their_order() {
    let Some(bench) = Bench::open() else { return };
    let rows = [3.0, -4.0, 0.5, 1.0, 2.0, -3.0, 4.0, -0.5, -1.0, -2.0];
    for normalize in [Normalize::Nothing, Normalize::Means, Normalize::MeansAndRows] {
        let found = averages(bench, &rows, 5, &[2], &[0, 1], normalize);
        assert_eq!(found, [0.0; 8], "{normalize:?}");
    }
    // 2^24 and ones: the result shows the order of additions.
    let mut rows = vec![1.0; 9];
    rows[8] = 16_777_216.0;
    let late: Vec<u32> = (0..9).collect();
    let early: Vec<u32> = (0..9).rev().collect();
    // 9 rows: with the ones first the sum is exact; with 2^24 first each one is lost or rounded up.
    let [late, early] =
        [late, early].map(|order| averages(bench, &rows, 1, &[9], &order, Normalize::Nothing)[0]);
    let share = 1.0f32 / 9.0;
    assert!((late - 16_777_224.0 * share).abs() <= 0.5, "{late}");
    assert!(early <= late, "{early}, {late}");
}
