//! The kernels that score f32 rows: `distance_scan` and `distance_tile`.

use crate::common::bench::{Bench, PARTS, columns_of, floats_of, picked_scores};
use crate::common::padded;
use nearfield::Element;
use nearfield::internals::kernels::{BLOCK_ROWS, Part, distance_scan, distance_tile, norms};
use nearfield_testing::{Random, rounded, view};

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
    let columns = (part.column_first / BLOCK_ROWS + part.blocks + 1) as usize;
    let mut query_values = padded(queries, dim);
    query_values.resize(room * dim.next_multiple_of(4), 0.0);
    let (query_buffer, row_buffer) = (bench.input(&query_values), bench.input(&padded(rows, dim)));
    let found = bench.output(columns * room * BLOCK);
    let buffers = [&query_buffer, &row_buffer, &found];
    let Part { blocks, block_first, block_step, column_first, .. } = *part;
    let params = distance_scan::Params {
        vectors: dim.div_ceil(4) as u32,
        room: room as u32,
        part_columns: blocks * BLOCK_ROWS,
        column_first,
        block_first,
        block_step,
    };
    let groups = count.div_ceil(at_once) as u32;
    let (kernel, constants, grid) = match kernel {
        Kernel::Scan { direct } => {
            (&distance_scan::KERNEL, vec![direct.into(), at_once as u32, 0], [workgroups, groups])
        }
        Kernel::Tile => (&distance_tile::KERNEL, vec![0], [groups, blocks]),
    };
    bench.dispatch_on(T::KIND, kernel, &constants, &params, &buffers, grid);
    floats_of(&picked_scores(&bench.read(&found), part, room, count, written))
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
    let (query_norms, row_norms) = (norms::reference(view(queries, dim)), norms::reference(view(rows, dim)));
    for workgroups in [1, part.blocks * 4] {
        // Only a scan's grid is free.
        if kernel == Kernel::Tile && workgroups > 1 {
            break;
        }
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
            let scale = if direct { exact } else { (query_norms[query][0] * row_norms[row][0]).sqrt() };
            let bound = (dim as f64 + 8.0) * 2f64.powi(-23) * scale + dim as f64 * 2f64.powi(-126);
            assert!((found - exact).abs() <= bound, "{}", said());
        }
    }
}

fn check_all(kernels: &[Kernel], counts: &[usize], dims: &[usize]) {
    for bench in Bench::both() {
        for (turn, &dim) in dims.iter().enumerate() {
            for &count in counts {
                let mut random = Random::new((dim + count) as u64);
                let part = &PARTS[(turn + count) % 4];
                let sizes = [count * dim, 7 * BLOCK * dim];
                for whole in [true, false] {
                    let [queries, rows] =
                        sizes.map(|size| if whole { random.integers(size, 4) } else { random.floats(size) });
                    for &kernel in kernels {
                        check(bench, kernel, &queries, &rows, dim, part, whole);
                        check(bench, kernel, &queries, &rounded(&rows).0, dim, part, whole);
                    }
                }
            }
        }
    }
}

#[test]
fn scans_score_every_part_with_and_without_subgroups() {
    let kernels = [Kernel::Scan { direct: false }, Kernel::Scan { direct: true }];
    check_all(&kernels, &[1, 2, 4, 9], &[1, 3, 4, 5, 33, 129]);
    check_all(&kernels, &[3], &[2049]);
}

#[test]
fn tiles_score_every_part() {
    check_all(&[Kernel::Tile], &[1, 130], &[1, 3, 4, 5, 9, 17]);
    check_all(&[Kernel::Tile], &[128], &[8]);
    check_all(&[Kernel::Tile], &[3], &[384, 2049]);
}
