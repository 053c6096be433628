//! The kernels that score f32 rows: `distance_scan` and `distance_tile`.

use crate::common::bench::{Bench, PARTS, columns_of, floats_of, picked_scores};
use crate::common::{Random, gpu, padded, rounded, view, without_subgroups};
use nearfield::internals::kernels::{BLOCK_ROWS, Part, distance_scan, distance_tile, norms};
use nearfield::{BufferSlice, Element};

const BLOCK: usize = BLOCK_ROWS as usize;

#[derive(Clone, Copy, PartialEq)]
enum Kernel {
    Scan { direct: bool },
    Tile,
}

/// Scores of a part, `[queries, columns]`, after checking that nothing else was written.
fn scores<T: Element>(
    bench: Bench<'_>,
    kernel: Kernel,
    queries: &[f32],
    rows: &[T],
    dim: usize,
    part: &Part,
    workgroups: u32,
) -> Vec<f32> {
    let count = queries.len() / dim;
    let at_once = if kernel == Kernel::Tile { 128 } else { [1, 1, 2, 4][count.min(3)] };
    let written = count.next_multiple_of(at_once);
    // More room than the kernel needs: a multiple of four, as `collect` requires.
    let room = (written + 4).next_multiple_of(4);
    let blocks = (part.column_first / BLOCK_ROWS + part.blocks + 1) as usize;
    let mut query_values = padded(queries, dim);
    query_values.resize(room * dim.next_multiple_of(4), 0.0);
    let (query_buffer, row_buffer) = (bench.input(&query_values), bench.input(&padded(rows, dim)));
    let found = bench.output(blocks * room * BLOCK);
    let buffers: [BufferSlice<'_>; 3] = [(&query_buffer).into(), (&row_buffer).into(), found.slice()];
    let vectors = dim.div_ceil(4) as u32;
    let Part { block_first, block_step, column_first, .. } = *part;
    let groups = count.div_ceil(at_once) as u32;
    let room = room as u32;
    bench.run(|recorder| match kernel {
        Kernel::Scan { direct } => {
            let part_columns = part.blocks * BLOCK_ROWS;
            let params =
                distance_scan::Params { vectors, room, part_columns, column_first, block_first, block_step };
            let constants = [direct.into(), at_once as u32];
            let grid = [workgroups, groups];
            recorder.dispatch(&distance_scan::KERNEL, T::KIND, &constants, &params, &buffers, grid)
        }
        Kernel::Tile => {
            let params = distance_tile::Params { vectors, room, column_first, block_first, block_step };
            let grid = [groups, part.blocks];
            recorder.dispatch(&distance_tile::KERNEL, T::KIND, &[], &params, &buffers, grid)
        }
    });
    floats_of(&picked_scores(&bench.read(&found), part, room as usize, count, written))
}

fn check<T: Element>(
    bench: Bench<'_>,
    kernel: Kernel,
    queries: &[f32],
    rows: &[T],
    dim: usize,
    part: &Part,
    whole: bool,
) {
    let direct = kernel == Kernel::Scan { direct: true };
    let want = distance_scan::reference(view(queries, dim), view(rows, dim), direct);
    let row_count = rows.len() / dim;
    let query_norms: Vec<f64> =
        norms::reference(view(queries, dim)).iter().map(|one| one[0].sqrt()).collect();
    let row_norms: Vec<f64> = norms::reference(view(rows, dim)).iter().map(|one| one[0].sqrt()).collect();
    for workgroups in if kernel == Kernel::Tile { [1, 1] } else { [1, part.blocks * 4] } {
        let found = scores(bench, kernel, queries, rows, dim, part, workgroups);
        let places =
            (0..queries.len() / dim).flat_map(|query| columns_of(part).map(move |(_, row)| (query, row)));
        for ((query, row), found) in places.zip(found) {
            let (exact, found) = (want[query * row_count + row], f64::from(found));
            let said = || format!("dim {dim}, {part:?}, query {query}, row {row}: {found:e}, not {exact:e}");
            if whole {
                assert!(found == exact, "{}", said());
                continue;
            }
            let scale = if direct { exact } else { query_norms[query] * row_norms[row] };
            let bound = (dim as f64 + 8.0) * 2f64.powi(-23) * scale + dim as f64 * 2f64.powi(-126);
            assert!((found - exact).abs() <= bound, "{}", said());
        }
    }
}

fn check_all(kernels: &[Kernel], counts: &[usize], dims: &[usize]) {
    let (Some(device), Some(plain)) = (gpu(), without_subgroups()) else { return };
    for (turn, &dim) in dims.iter().enumerate() {
        for device in [device, plain] {
            let bench = Bench::new(device);
            for &count in counts {
                let mut random = Random::new((dim + count) as u64);
                let part = &PARTS[(turn + count) % 4];
                let (queries, rows) = (random.integers(count * dim, 4), random.integers(7 * BLOCK * dim, 4));
                let (float_queries, float_rows) =
                    (random.floats(count * dim), random.floats(7 * BLOCK * dim));
                for &kernel in kernels {
                    check(bench, kernel, &queries, &rows, dim, part, true);
                    check(bench, kernel, &queries, &rounded(&rows).0, dim, part, true);
                    check(bench, kernel, &float_queries, &float_rows, dim, part, false);
                    check(bench, kernel, &float_queries, &rounded(&float_rows).0, dim, part, false);
                }
            }
        }
    }
}

#[test]
fn scans_score_every_part_with_and_without_subgroups() {
    let kernels = [Kernel::Scan { direct: false }, Kernel::Scan { direct: true }];
    check_all(&kernels, &[1, 2, 3, 4, 9], &[1, 3, 4, 5, 17, 33, 129]);
    check_all(&kernels, &[3], &[768, 2049]);
}

#[test]
fn tiles_score_every_part() {
    check_all(&[Kernel::Tile], &[1, 130], &[1, 3, 4, 5, 9, 17]);
    check_all(&[Kernel::Tile], &[128], &[8]);
    check_all(&[Kernel::Tile], &[3], &[384, 2049]);
}
