//! The kernels of inverted lists: they group queries by list, score the rows of a list, and write the slots of lists.

use std::collections::BTreeSet;

use crate::common::Random;
use crate::common::bench::{Bench, Bound, GUARD, floats_of, two_rows};
use crate::common::lists::{BLOCK, HEIGHT, PAGE, Tables, random_probes, wide};
use crate::common::narrowed::{integers, packed};
use nearfield::Metric;
use nearfield::internals::certificate::Narrowing;
use nearfield::internals::kernels::{
    Kernel, group, list_work, narrow, probe_slots, screen_lists_coop, screen_lists_i8,
};

// group, list_work

#[test]
fn queries_are_grouped_by_list_and_blocks_are_numbered_list_by_list() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(31);
    // Queries, probes, lists, height.
    for (queries, probes, lists, height) in [
        (1, 1, 1, 64),
        (300, 7, 40, 64),
        (97, 3, 3001, 64),
        (500, 2, 2, 3),
        (40, 20, 1025, 1),
        (700, 3, 4, 16),
        (5, 1, 5000, 64),
        (2, 2, 1024, 64),
        (900, 9, 9001, 16),
    ] {
        // The tiles of the first list are not the first tiles.
        let mut tables = Tables { tiles: vec![], list_tiles: vec![17] };
        for list in 0..lists {
            tables.list_tiles.push(tables.list_tiles[list] + [0, 1, 1, 2, 900][random.below(5)]);
        }
        let probed = random_probes(&mut random, queries, probes, lists);
        let usable: Vec<Vec<u32>> = probed
            .iter()
            .map(|lists_of| lists_of.iter().copied().filter(|&list| (list as usize) < lists).collect())
            .collect();
        let want = group::reference(&usable, lists);
        let counts_wanted: Vec<u32> = want.iter().map(|list| list.len() as u32).collect();
        let starts_wanted = list_work::reference(&counts_wanted, &tables.counts(), height);
        let pair_count = queries * probes;
        let probed_buffer = bench.input(&wide(&probed, lists));
        let counts = bench.filled(&vec![0; lists]);
        let (ranks, starts) = (bench.output(pair_count), bench.output(2 * (lists + 1)));
        let list_tiles = bench.input(&tables.list_tiles);
        let (grouped, pairs) = (bench.output(pair_count), bench.output(4 * pair_count));
        let params =
            group::Params { pairs: pair_count as u32, probes: probes as u32, lists: lists as u32, height };
        let work = list_work::Params { lists: lists as u32, height };
        let grid = two_rows(pair_count.div_ceil(256));
        let buffers: [&dyn Bound; 7] =
            [&probed_buffer, &counts, &ranks, &starts, &list_tiles, &grouped, &pairs];
        bench.dispatch(&group::KERNEL, &[0], &params, &buffers, grid);
        bench.dispatch(&list_work::KERNEL, &[], &work, &[&counts, &list_tiles, &starts], [1, 1]);
        bench.dispatch(&group::KERNEL, &[1], &params, &buffers, grid);
        let said = format!("{queries} queries, {probes} probes, {lists} lists, {height} high");
        assert_eq!(bench.read(&counts), counts_wanted, "{said}");
        let starts = bench.read_records::<2>(&starts);
        assert_eq!(starts, starts_wanted, "{said}");
        let (grouped, ranks) = (bench.read(&grouped), bench.read(&ranks));
        let pairs = bench.read_records::<4>(&pairs);
        for (list, want) in want.iter().enumerate() {
            let mut found = grouped[starts[list][0] as usize..starts[list + 1][0] as usize].to_vec();
            found.sort_unstable();
            assert_eq!(found, *want, "{said}, list {list}");
        }
        let behind = starts[lists][0] as usize;
        assert!(grouped[behind..].iter().all(|&word| word == GUARD), "{said}: behind the last pair");
        for (pair, &list) in probed.iter().flatten().enumerate() {
            let found = pairs[pair];
            if list as usize >= lists {
                assert_eq!(found, [0; 4], "{said}: a refused query has no blocks");
                assert_eq!(ranks[pair], GUARD);
                continue;
            }
            let (list, rank) = (list as usize, ranks[pair]);
            assert!(rank < counts_wanted[list], "{said}, rank {rank}");
            assert_eq!(grouped[(starts[list][0] + rank) as usize], (pair / probes) as u32, "{said}");
            let first_tile = tables.list_tiles[list];
            let tiles = tables.list_tiles[list + 1] - first_tile;
            let want = [starts[list][1] + rank / height * tiles, tiles, first_tile, rank % height];
            assert_eq!(found, want, "{said}, pair {pair}");
        }
    }
}

// screen_lists_i8, screen_lists_coop

/// Lists with the numbers of queries that probe them and of their pages.
const LISTS: [(usize, usize); 9] =
    [(0, 2), (1, 1), (63, 2), (64, 3), (0, 0), (65, 4), (130, 5), (2, 0), (3, 9)];

fn check_blocks(
    bench: Bench<'_>,
    kernel: &'static Kernel,
    dim: usize,
    lists: &[(usize, usize)],
    step: usize,
    wide: u32,
) {
    let mut random = Random::new((dim * 17 + step) as u64);
    let levels = Narrowing::of(Metric::L2, dim).levels as usize;
    // A segment behind another one.
    let (queries, first_slot, row_count) = (150, 640u32, 9 * BLOCK);
    let [query_vectors, rows] = [queries, row_count].map(|count| integers(&mut random, count, dim, levels));
    let mut pages: Vec<u32> = (first_slot / PAGE..(first_slot + row_count as u32) / PAGE).collect();
    let page_counts: Vec<usize> = lists.iter().map(|list| list.1).collect();
    let mut tables = Tables::of_pages(&mut random, &mut pages, &page_counts);
    if let Some(last) = tables.tiles.last_mut() {
        // Pages of the segments before and after.
        last[3] = if step.is_multiple_of(2) {
            first_slot / PAGE - 1
        } else {
            (first_slot + row_count as u32) / PAGE
        };
    }
    // The same queries in several lists.
    let mut probed: Vec<Vec<u32>> = vec![vec![]; queries];
    for (list, &(count, _)) in (0..).zip(lists) {
        for query in 0..count {
            probed[(query * 7 + list as usize * 3) % queries].push(list);
        }
    }
    let mut grouped = group::reference(&probed, lists.len());
    // In any order.
    grouped.iter_mut().for_each(|own| own.reverse());
    let counts: Vec<u32> = grouped.iter().map(|own| own.len() as u32).collect();
    let starts = list_work::reference(&counts, &tables.counts(), HEIGHT);
    let total = starts[lists.len()][1] as usize;
    let order: Vec<u32> = grouped.iter().flatten().copied().collect();
    let vectors = [&query_vectors, &rows].map(|vectors| bench.input(&packed(vectors, dim)));
    let (start_buffer, order) = (bench.input(&starts), bench.input(&order));
    let (list_tiles, tiles) = (bench.input(&tables.list_tiles), bench.input(&tables.tiles));
    for first in (0..total + 1).step_by(step) {
        let scores = bench.output(step * HEIGHT as usize * BLOCK);
        let params = screen_lists_i8::Params {
            lists: lists.len() as u32,
            granules: narrow::granules(dim),
            block_first: first as u32,
            blocks: step as u32,
            first_slot,
            rows: row_count as u32,
        };
        let buffers: [&dyn Bound; 7] =
            [&vectors[0], &vectors[1], &start_buffer, &list_tiles, &tiles, &order, &scores];
        bench.dispatch(kernel, &[], &params, &buffers, [wide, 1]);
        let words = bench.read(&scores);
        let here = total.saturating_sub(first).min(step);
        let behind = &words[here * HEIGHT as usize * BLOCK..];
        assert!(behind.iter().all(|&word| word == GUARD), "no blocks behind the last");
        let found = floats_of(&words);
        for block in first..first + here {
            let list = (0..lists.len())
                .rfind(|&list| starts[list][1] as usize <= block)
                .expect("blocks are of lists");
            let tiles = tables.list_tiles[list + 1] - tables.list_tiles[list];
            let rest = block as u32 - starts[list][1];
            let tile = tables.list_tiles[list] + rest % tiles;
            let own = &grouped[list][(rest / tiles * HEIGHT) as usize..];
            for (within, &query) in own.iter().take(HEIGHT as usize).enumerate() {
                for place in 0..BLOCK {
                    let Some(slot) = tables.slot(tile, place) else { continue };
                    let Some(row) = rows.get(slot.wrapping_sub(first_slot) as usize) else { continue };
                    let want = screen_lists_i8::reference(&query_vectors[query as usize], row) as f32;
                    let found = found[((block - first) * HEIGHT as usize + within) * BLOCK + place];
                    let said = || format!("dim {dim}, list {list}, block {block}, query {query}, {place}");
                    assert_eq!(found.to_bits(), want.to_bits(), "{}: {found}, not {want}", said());
                }
            }
        }
    }
}

fn check_screen(bench: Bench<'_>, kernel: &'static Kernel) {
    for (dim, step, wide) in [(16, 100, 100), (31, 5, 2), (33, 4, 4), (128, 1, 1)] {
        check_blocks(bench, kernel, dim, &LISTS, step, wide);
    }
    check_blocks(bench, kernel, 1000, &[(1, 3), (0, 1), (65, 1)], 2, 2);
}

#[test]
fn blocks_of_lists_have_exact_scores() {
    let Some(bench) = Bench::open() else { return };
    check_screen(bench, &screen_lists_i8::KERNEL);
    match bench.device.capabilities().matrix_side() {
        Some(_) => check_screen(bench, &screen_lists_coop::KERNEL),
        None => println!("skipped: no cooperative matrices of f16"),
    }
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
            let buffers: [&dyn Bound; 6] =
                [&probed_buffer, &list_tiles, &tiles, &allowed_buffer, &counts, &slots];
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
