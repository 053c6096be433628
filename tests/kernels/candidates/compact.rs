//! The kernel `compact`: the entries of all queries' lists in one list.

use super::Lists;
use crate::common::bench::{Bench, two_rows};
use nearfield::internals::kernels::compact;
use nearfield_testing::Random;

#[test]
fn every_entry_is_copied_once_and_those_of_a_query_lie_together() {
    let Some(bench) = Bench::open() else { return };
    for (queries, capacity) in [(1, 1), (5, 100), (300, 77)] {
        let mut random = Random::new(queries as u64);
        let mut lists = Lists::new(queries, capacity);
        for query in 0..queries {
            let count = [0, 1, capacity / 2, capacity][random.below(4)];
            let list: Vec<[u32; 3]> =
                (0..count).map(|_| [random.next() as u32, random.next() as u32, 2]).collect();
            lists.put(query, &list);
        }
        // Lists that hold less than their queries had.
        let last = queries - 1;
        lists.put(last, &vec![[7, 8, 9]; capacity]);
        lists.counts[last] = capacity as u32 + 1;
        let (counts, candidates) = (bench.input(&lists.counts), bench.input(&lists.words));
        // Words behind the first lie one after another for each entry: with two of them apart from their slots.
        let pairs: Vec<u32> = (0..2 * queries as u32 * capacity as u32).map(|word| word ^ 0x55).collect();
        let pairs_buffer = bench.input(&pairs);
        for words in [1, 2, 3] {
            // The kernel adds to the first word, which `encode` clears.
            let starts = bench.filled(&[&[0][..], &vec![u32::MAX; queries]].concat());
            let compacted = bench.output(queries * capacity * words);
            let (rests, offset) =
                if words == 3 { (&pairs_buffer, 0) } else { (&candidates, (queries * capacity) as u32) };
            let [count, room, of_entry] = [queries, capacity, words].map(|number| number as u32);
            let params = compact::Params { queries: count, capacity: room, words: of_entry, offset };
            let buffers = [&counts, &candidates, rests, &starts, &compacted];
            bench.dispatch(&compact::KERNEL, &[], &params, &buffers, two_rows(queries));
            let (starts, compacted) = (bench.read(&starts), bench.read(&compacted));
            let copied = |query| -> Vec<u32> {
                let entry_of = |(place, entry): (usize, [u32; 3])| match words {
                    3 => [&entry[..1], &pairs[2 * (query * capacity + place)..][..2]].concat(),
                    _ => entry[..words].to_vec(),
                };
                lists.of(query).into_iter().enumerate().flat_map(entry_of).collect()
            };
            let all: Vec<Vec<u32>> = (0..queries).map(copied).collect();
            let all: Vec<&[u32]> = all.iter().map(Vec::as_slice).collect();
            let wanted = compact::reference(&all, &lists.counts, capacity as u32);
            let total: usize = wanted.iter().map(|list| list.len() / words).sum();
            assert_eq!(starts[0] as usize, total);
            let mut is_taken = vec![false; total];
            for (wanted, &start) in wanted.iter().zip(&starts[1..]) {
                let places = start as usize..start as usize + wanted.len() / words;
                assert_eq!(&compacted[places.start * words..places.end * words], wanted);
                places.for_each(|place| assert!(!std::mem::replace(&mut is_taken[place], true)));
            }
        }
    }
}
