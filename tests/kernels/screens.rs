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

/// Rows of integers that lie as their codes do: kernels that load rows read the same numbers as where rows lie one after another.
mod in_blocks {
    use crate::common::bench::{Bench, PARTS};
    use crate::common::padded;
    use nearfield::internals::kernels::refine::{Candidates, Refine};
    use nearfield::internals::kernels::{BLOCK_ROWS, Part, distance_scan, distance_tile, quantize};
    use nearfield::{Element, Metric};
    use nearfield_testing::Random;

    /// Rows of every block that a part of [`PARTS`] reads.
    const ROWS: usize = 7 * BLOCK_ROWS as usize;

    /// Rows with numbers over the whole range of their type.
    fn random<T: Element>(dim: usize) -> Vec<T> {
        let mut random = Random::new(dim as u64);
        (0..ROWS * dim).map(|_| T::nearest(random.below(400) as f32 - 140.0)).collect()
    }

    /// The rows as their codes: in blocks, signed ones with 128 added. What lies between rows would show in a sum.
    fn in_blocks<T: Element>(rows: &[T], dim: usize) -> Vec<u8> {
        let granules = quantize::granules(dim);
        let flipped = if T::nearest(-1.0).widen() < 0.0 { 0x80 } else { 0 };
        let mut bytes = vec![0x55; quantize::plane_bytes(ROWS as u64, dim) as usize];
        for (at, byte) in bytemuck::cast_slice::<T, u8>(&padded(rows, dim)).iter().enumerate() {
            let (row, dimension) = (at / dim.next_multiple_of(4), at % dim.next_multiple_of(4));
            bytes[quantize::place(row, dimension, granules as usize)] = byte ^ flipped;
        }
        bytes
    }

    fn check<T: Element>(bench: Bench<'_>, dim: usize) {
        let rows = random::<T>(dim);
        let queries = bench.input(&padded(&Random::new(3).integers(4 * dim, 100), dim));
        // Tiles read a whole tile of queries.
        let tile = bench.input(&padded(&Random::new(3).integers(BLOCK_ROWS as usize * dim, 100), dim));
        let buffers = [bench.input(&padded(&rows, dim)), bench.input(&in_blocks(&rows, dim))];
        let vectors = dim.div_ceil(4) as u32;
        let said = format!("{}, dim {dim}", T::KIND);
        for metric in Metric::ALL {
            for integral in [false, true] {
                let [one, other] = [0, 1].map(|place| {
                    let (keys, found_ids) = (bench.output(4 * ROWS), bench.output(8 * ROWS));
                    let ids = bench.input(&(0..ROWS as u64).collect::<Vec<u64>>());
                    let (count, first) = (ROWS as u32, 0);
                    let candidates =
                        Candidates::Dense { first, count, found_pitch: count, found_first: 0, allowed: None };
                    bench.run(|recorder| {
                        recorder.refine(&Refine {
                            metric,
                            queries: queries.slice(),
                            count: 4,
                            rows: buffers[place].slice(),
                            elements: T::KIND,
                            in_blocks: place == 1,
                            integral,
                            vectors,
                            row_count: count,
                            first_slot: 0,
                            ids: ids.slice(),
                            candidates,
                            keys: keys.slice(),
                            found_ids: found_ids.slice(),
                            mark_absent: true,
                        })
                    });
                    (bench.read(&keys), bench.read(&found_ids))
                });
                assert!(one == other, "refine, {metric}, integral {integral}, {said}");
            }
        }
        let Part { blocks, block_first, block_step, .. } = PARTS[1];
        let (part_columns, column_first) = (blocks * BLOCK_ROWS, 0);
        for (kernel, constants, room, grid) in [
            (&distance_scan::KERNEL, vec![1, 4], 4, [2, 1]),
            (&distance_tile::KERNEL, vec![], BLOCK_ROWS, [1, blocks]),
        ] {
            let params =
                distance_scan::Params { vectors, room, part_columns, column_first, block_first, block_step };
            let [one, other] = [0, 1].map(|place| {
                let found = bench.output((room * part_columns) as usize);
                let constants = [&constants[..], &[place as u32]].concat();
                let buffers = [if room == 4 { &queries } else { &tile }, &buffers[place], &found];
                bench.dispatch_on(T::KIND, kernel, &constants, &params, &buffers, grid);
                bench.read(&found)
            });
            assert!(one == other, "{}, {said}", kernel.name());
        }
    }

    #[test]
    fn rows_in_blocks_are_loaded_as_rows_one_after_another() {
        let Some(bench) = Bench::open() else { return };
        for dim in [1, 6, 32, 63, 385] {
            check::<i8>(bench, dim);
            check::<u8>(bench, dim);
        }
    }
}
