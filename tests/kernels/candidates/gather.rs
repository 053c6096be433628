//! The kernel `gather`: codes of rows in slots of several segments, side by side.

use crate::common::bench::{Bench, two_rows};
use nearfield::internals::kernels::gather::{KERNEL, Params, reference};
use nearfield_testing::Random;

const BLOCK: u32 = 128;

#[test]
fn codes_lie_in_the_order_of_the_list_and_zeros_behind_them() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(0x6a7);
    // Rows of two segments.
    let segments = [[0u32, 256], [256, 300]];
    for granules in [1, 3, 8] {
        let words = |rows: u32| (rows.div_ceil(BLOCK) * BLOCK * granules * 4) as usize;
        let codes =
            segments.map(|[_, rows]| (0..words(rows)).map(|_| random.next() as u32).collect::<Vec<_>>());
        let terms = segments.map(|[_, rows]| (0..4 * rows).map(|_| random.next() as u32).collect::<Vec<_>>());
        for share in [1, 2, 7, 300] {
            let slots: Vec<u32> = (0..556).filter(|_| random.below(share) == 0).chain([555]).collect();
            let count = slots.len() as u32;
            let places = count.next_multiple_of(BLOCK);
            let list = bench.input(&slots);
            let into = [bench.output(words(count)), bench.output(4 * places as usize)];
            let mut want = vec![[0u32; 4]; words(count) / 4];
            let mut want_terms = vec![[0u32; 4]; places as usize];
            let first_place = slots.partition_point(|&slot| slot < 256) as u32;
            for (number, [first, end]) in [[0, first_place], [first_place, places]].into_iter().enumerate() {
                let [first_slot, rows] = segments[number];
                let params =
                    Params { granules, first_place: first, end_place: end, entries: count, first_slot, rows };
                let from = [bench.input(&codes[number]), bench.input(&terms[number])];
                let grid = two_rows((((end - first) * granules).div_ceil(128)) as usize);
                let buffers = [&list, &from[0], &from[1], &into[0], &into[1]];
                if end > first {
                    bench.dispatch(&KERNEL, &[], &params, &buffers, grid);
                }
                let vectors = |words: &[u32]| -> Vec<[u32; 4]> { words.as_chunks::<4>().0.to_vec() };
                let range = first as usize..end as usize;
                let of = (&slots[..], first_slot);
                reference(granules as usize, of, range.clone(), &vectors(&codes[number]), &mut want);
                let terms = vectors(&terms[number]);
                for place in range {
                    want_terms[place] =
                        slots.get(place).map_or([0; 4], |&slot| terms[(slot - first_slot) as usize]);
                }
            }
            let said = format!("{granules} granules, {count} rows");
            assert!(bench.read(&into[0]) == want.concat(), "{said}: codes");
            assert!(bench.read(&into[1]) == want_terms.concat(), "{said}: terms");
        }
    }
}
