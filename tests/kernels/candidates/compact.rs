//! The kernel `compact`: candidates of all queries in one list.

use super::Lists;
use crate::common::bench::{Bench, two_rows};
use nearfield::internals::kernels::compact;
use nearfield_testing::Random;

#[test]
fn every_candidate_is_copied_once_and_those_of_a_query_lie_together() {
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
        for words in [1, 2] {
            // The kernel adds to the first word, which `encode` clears.
            let starts = bench.filled(&[&[0][..], &vec![u32::MAX; queries]].concat());
            let compacted = bench.output(queries * capacity * words);
            let params =
                compact::Params { queries: queries as u32, capacity: capacity as u32, words: words as u32 };
            let buffers = [&counts, &candidates, &starts, &compacted];
            bench.dispatch(&compact::KERNEL, &[], &params, &buffers, two_rows(queries));
            let (starts, compacted) = (bench.read(&starts), bench.read(&compacted));
            let copied = |query| -> Vec<u32> {
                lists.of(query).iter().flat_map(|entry| entry[..words].to_vec()).collect()
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
