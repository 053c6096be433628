//! The kernel `move_rows`: rows of any width, to and from the slots of one of several segments.

use crate::common::bench::{Bench, GUARD, two_rows};
use nearfield::internals::kernels::move_rows::{Direction, KERNEL, Params, WORDS_A_WORKGROUP, reference};
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
    let params =
        Params { words: words as u32, first_position: range[0], end_position: range[1], first_slot, rows };
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
