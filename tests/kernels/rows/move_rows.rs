//! The kernel `move_rows`: rows of any width, to and from the slots of one of several segments.

use crate::common::bench::{Bench, GUARD, two_rows};
use nearfield::internals::kernels::move_rows::{Direction, KERNEL, Params, WORDS_A_WORKGROUP, reference};
use nearfield::internals::kernels::quantize;
use nearfield_testing::Random;

/// Moves the positions `range` of the list, rows of `words` words, and returns the target's contents.
fn moved(
    bench: Bench<'_>,
    (direction, words): (Direction, usize),
    slots: &[u32],
    range: [u32; 2],
    [first_slot, rows]: [u32; 2],
    from: &[u32],
    places: usize,
) -> Vec<u32> {
    let (list, source) = (bench.input(slots), bench.input(from));
    let target = bench.output(places * words);
    let [first_position, end_position] = range;
    let params =
        Params { words: words as u32, first_position, end_position, first_slot, rows, ..Params::default() };
    let words = (range[1] - range[0]) as usize * words;
    let grid = two_rows(words.div_ceil(WORDS_A_WORKGROUP as usize));
    let constants = [(direction == Direction::Gather).into()];
    bench.dispatch(&KERNEL, &constants, &params, &[&list, &source, &target], grid);
    bench.read(&target)
}

#[test]
fn rows_go_to_their_slots_and_back_and_those_of_other_segments_stay() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(0x30e5);
    for words in [1, 2, 3, 8, 96, 511] {
        for (count, [first_slot, rows]) in
            [(1, [0u32, 1]), (300, [0, 700]), (257, [4096, 128]), (40, [7, 33])]
        {
            // Slots of the segment and of its neighbours, each once.
            let mut all: Vec<u32> = (first_slot.saturating_sub(200)..first_slot + rows + 300).collect();
            random.shuffle(&mut all);
            let mut slots = all[..count.min(all.len())].to_vec();
            // Slots of other segments are not mistaken for the segment's own, however far away.
            if slots.len() > 2 {
                slots[1] = u32::MAX;
            }
            let range = [slots.len() / 5, slots.len() - slots.len() / 7];
            for direction in [Direction::Scatter, Direction::Gather] {
                let (sources, targets) = match direction {
                    Direction::Scatter => (slots.len(), rows as usize),
                    Direction::Gather => (rows as usize, slots.len()),
                };
                let from: Vec<u32> = (0..sources * words).map(|_| random.next() as u32).collect();
                let mut looked_at = vec![u32::MAX; slots.len()];
                looked_at[range[0]..range[1]].copy_from_slice(&slots[range[0]..range[1]]);
                let poisoned = vec![GUARD; targets * words];
                let want = reference(direction, words, &looked_at, first_slot, rows, &from, &poisoned);
                let range = range.map(|place| place as u32);
                let found =
                    moved(bench, (direction, words), &slots, range, [first_slot, rows], &from, targets);
                assert!(found == want, "{direction:?}, {words} words, {count} slots from {first_slot}");
            }
        }
    }
}

/// Rows of integers lie as their codes do, signed ones with 128 added to each byte.
#[test]
fn rows_in_blocks_are_gathered_one_after_another() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(0xb10c);
    for words in [1, 2, 7, 8, 9, 96] {
        for flipped in [0, 0x8080_8080] {
            let granules = quantize::granules(4 * words);
            let (capacity, first_slot) = (300, 640u32);
            let values: Vec<u32> = (0..capacity * words).map(|_| random.next() as u32).collect();
            let mut blocks = vec![GUARD; quantize::plane_bytes(capacity as u64, 4 * words) as usize / 4];
            for (at, value) in values.iter().enumerate() {
                let place = quantize::place(at / words, at % words * 4, granules as usize) / 4;
                blocks[place] = value ^ flipped;
            }
            let slots: Vec<u32> = (0..200).map(|_| first_slot + random.below(capacity) as u32).collect();
            let (list, source, target) =
                (bench.input(&slots), bench.input(&blocks), bench.output(200 * words));
            let (end_position, rows) = (200, capacity as u32);
            let words_of_row = words as u32;
            let params = Params {
                words: words_of_row,
                first_position: 0,
                end_position,
                first_slot,
                rows,
                granules,
                flipped,
            };
            let grid = two_rows((200 * words).div_ceil(WORDS_A_WORKGROUP as usize));
            bench.dispatch(&KERNEL, &[1], &params, &[&list, &source, &target], grid);
            let want: Vec<u32> = slots
                .iter()
                .flat_map(|slot| &values[(slot - first_slot) as usize * words..][..words])
                .copied()
                .collect();
            assert!(bench.read(&target) == want, "{words} words, flipped {flipped:x}");
        }
    }
}
