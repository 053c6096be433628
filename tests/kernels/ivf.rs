//! The kernels of inverted lists that group queries by list and write the slots of lists.

use std::collections::BTreeSet;

use crate::common::bench::{Bench, GUARD, two_rows};
use crate::common::lists::{Tables, random_probes, wide};
use nearfield::internals::kernels::{group, list_work, probe_slots};
use nearfield_testing::Random;

// group, list_work

#[test]
fn queries_go_to_the_blocks_of_the_lists_that_they_probe() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(31);
    // Queries, lists that each probes, first of them and number of them in this round, lists, queries of a block.
    for (queries, stride, first, probes, lists, height) in [
        (1, 1, 0, 1, 1, 32),
        (300, 7, 0, 7, 40, 32),
        (97, 3, 1, 2, 3001, 128),
        (500, 2, 0, 1, 2, 3),
        (40, 20, 5, 9, 1025, 1),
        (700, 3, 2, 1, 4, 128),
        (2, 2, 0, 2, 1024, 32),
        (900, 9, 4, 5, 9001, 16),
    ] {
        // The tiles of the first list are not the first tiles.
        let mut tables = Tables { tiles: vec![], list_tiles: vec![17] };
        for list in 0..lists {
            let long = if lists > 2000 { 5 } else { 90 };
            tables.list_tiles.push(tables.list_tiles[list] + [0, 1, 1, 2, long][random.below(5)]);
        }
        tables.tiles =
            (0..tables.list_tiles[lists]).map(|tile| [1, 2, 3, 4].map(|page| tile * 7 + page)).collect();
        let probed = random_probes(&mut random, queries, stride, lists);
        let is_list = |list: &u32| (*list as usize) < lists;
        let usable: Vec<Vec<u32>> = probed
            .iter()
            .map(|own| own[first..first + probes].iter().copied().filter(is_list).collect())
            .collect();
        let grouped = group::reference(&usable, lists);
        let counts_wanted: Vec<u32> = grouped.iter().map(|list| list.len() as u32).collect();
        let starts_wanted = list_work::reference(&counts_wanted, &tables.counts(), height);
        let wanted = group::table(&grouped, &tables.by_list(), height as usize);
        let (words, tiles) = tables.words();
        let probed_buffer = bench.input(&wide(&probed, lists));
        let counts = bench.filled(&vec![0; lists]);
        let (ranks, starts) = (bench.output(queries * probes), bench.output(lists + 1));
        let (table_buffer, blocks) = (bench.input(&words), bench.output(wanted.len()));
        let params = group::Params {
            queries: queries as u32,
            first: first as u32,
            probes: probes as u32,
            stride: stride as u32,
            lists: lists as u32,
            tiles,
            height,
        };
        let grid = two_rows((queries * probes).div_ceil(256));
        let buffers = [&probed_buffer, &counts, &ranks, &starts, &table_buffer, &blocks];
        bench.dispatch(&group::KERNEL, &[0], &params, &buffers, grid);
        bench.dispatch(&list_work::KERNEL, &[], &params, &[&counts, &table_buffer, &starts], [1, 1]);
        bench.dispatch(&group::KERNEL, &[1], &params, &buffers, grid);
        let said = format!("{queries} queries, {probes} of {stride} probes, {lists} lists, {height} high");
        assert_eq!(bench.read(&counts), counts_wanted, "{said}");
        assert_eq!(bench.read(&starts), starts_wanted, "{said}");
        let found = bench.read(&blocks);
        assert_eq!(found[0], wanted[0], "{said}: blocks");
        for list in 0..lists {
            let tiles = tables.list_tiles[list + 1] - tables.list_tiles[list];
            let own = starts_wanted[list]..starts_wanted[list + 1];
            let [found, wanted] = [&found, &wanted]
                .map(|words| own.clone().map(|block| block_of(words, block, height)).collect::<Vec<_>>());
            // The queries of a list lie in any order, the same for all of its tiles.
            let queries_of = |blocks: &[Block]| {
                let firsts = blocks.iter().step_by(tiles.max(1) as usize);
                let mut all: Vec<u32> = firsts.flat_map(|block| block.0.clone()).collect();
                all.sort_unstable();
                all
            };
            assert_eq!(queries_of(&found), queries_of(&wanted), "{said}, list {list}");
            for (number, (block, wanted)) in found.iter().zip(&wanted).enumerate() {
                assert_eq!(block.1, wanted.1, "{said}, list {list}: pages");
                assert_eq!(block.0, found[number - number % tiles as usize].0, "{said}, list {list}");
            }
        }
    }
}

/// The queries and the pages of a block.
type Block = (Vec<u32>, Vec<u32>);

/// A block of the table.
fn block_of(table: &[u32], number: u32, height: u32) -> Block {
    let height = height as usize;
    let words = &table[4 + number as usize * (height + 5)..][..height + 5];
    (words[..words[height + 4] as usize].to_vec(), words[height..height + 4].to_vec())
}

// probe_slots

#[test]
fn slots_of_probed_lists_are_appended_segment_by_segment() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(41);
    let lists = 14;
    let counts: Vec<usize> = (0..lists).map(|list| [5, 0, 9, 1, 4, 3, 2][list % 7]).collect();
    let mut tables = vec![];
    for pages in [0..64u32, 64..140] {
        tables.push(Tables::of_pages(&mut random, &mut pages.collect(), &counts));
    }
    let allowed: Vec<u32> =
        (0..140).map(|page| if page % 9 == 0 { 0 } else { random.next() as u32 }).collect();
    for (queries, probes, capacity) in [(7, 1, 800), (23, 9, 4096), (23, 14, 100), (6, 8, 1)] {
        let probed = random_probes(&mut random, queries, probes, lists);
        let probed_buffer = bench.input(&wide(&probed, lists));
        let allowed_buffer = bench.input(&allowed);
        let (counts, slots) = (bench.output(queries), bench.output(queries * capacity));
        for (number, tables) in tables.iter().enumerate() {
            // The tiles behind those of the last list belong to no list.
            let behind = [tables.tiles.len() as u32 + 1];
            let list_tiles = bench.input(&[&tables.list_tiles[..], &behind].concat());
            let tiles = bench.input(&[&tables.tiles[..], &[[0, 1, 2, 3]]].concat());
            let params = probe_slots::Params {
                queries: queries as u32,
                probes: probes as u32,
                lists: lists as u32,
                capacity: capacity as u32,
                is_first: u32::from(number == 0),
            };
            let buffers = [&probed_buffer, &list_tiles, &tiles, &allowed_buffer, &counts, &slots];
            bench.dispatch(&probe_slots::KERNEL, &[], &params, &buffers, two_rows(queries));
        }
        let (counts, words) = (bench.read(&counts), bench.read(&slots));
        for (query, probed) in probed.iter().enumerate() {
            let usable: Vec<u32> = probed.iter().copied().filter(|&list| (list as usize) < lists).collect();
            let of_segment = |tables: &Tables| -> Vec<u32> {
                let slots: Vec<Vec<u32>> = (0..lists).map(|list| tables.slots_of(list)).collect();
                let is_allowed = |slot: &u32| allowed[*slot as usize / 32] >> (slot % 32) & 1 == 1;
                probe_slots::reference(&usable, &slots).into_iter().filter(is_allowed).collect()
            };
            let [mut first, mut second] = [0, 1].map(|number| of_segment(&tables[number]));
            let said = format!("{probes} probes, capacity {capacity}, query {query}");
            assert_eq!(counts[query] as usize, first.len() + second.len(), "{said}");
            let own = &words[query * capacity..][..capacity];
            let length = capacity.min(counts[query] as usize);
            assert!(own[length..].iter().all(|&word| word == GUARD), "{said}: nothing behind the count");
            first.sort_unstable();
            second.sort_unstable();
            let (found, behind) = own[..length].split_at(first.len().min(length));
            let [mut found, mut behind] = [found, behind].map(<[u32]>::to_vec);
            found.sort_unstable();
            behind.sort_unstable();
            if length == counts[query] as usize {
                assert_eq!((found, behind), (first, second), "{said}");
            } else {
                let all: BTreeSet<u32> = first.into_iter().chain(second).collect();
                let different: BTreeSet<u32> = found.into_iter().chain(behind).collect();
                assert!(different.len() == length && different.is_subset(&all), "{said}: each slot once");
            }
        }
    }
}
