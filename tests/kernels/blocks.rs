//! Rows of integers that lie as their codes do: kernels that load rows read the same numbers as where rows lie one after another.

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
