//! The kernels of inverted lists: they group queries by list, score the rows of a list, and write the slots of lists.

use std::collections::BTreeSet;

use crate::common::bench::{Bench, GUARD, floats_of};
use crate::common::lists::{BLOCK, HEIGHT, PAGE, Tables, random_probes, two_rows, wide};
use crate::common::narrowed::packed;
use crate::common::{Random, gpu};
use nearfield::internals::certificate::Narrowing;
use nearfield::internals::kernels::{
    group, list_work, narrow, probe_slots, screen_lists_coop, screen_lists_i8,
};
use nearfield::{BufferSlice, Device, Element, Metric};

// group, list_work

#[test]
fn queries_are_grouped_by_list_and_blocks_are_numbered_list_by_list() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let mut random = Random::new(31);
    // Queries, probes, lists, height.
    for (queries, probes, lists, height) in [
        (1, 1, 1, 64),
        (300, 7, 40, 64),
        (97, 3, 3001, 64),
        (500, 2, 2, 3),
        (40, 20, 1025, 1),
        (700, 3, 4, 64),
        (5, 1, 5000, 64),
    ] {
        let tiles: Vec<usize> = (0..lists).map(|_| [0, 1, 1, 2, 7][random.below(5)]).collect();
        let mut tables = Tables { tiles: vec![], list_tiles: vec![0] };
        tiles
            .iter()
            .for_each(|&count| tables.list_tiles.push(tables.list_tiles.last().unwrap_or(&0) + count as u32));
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
        let buffers: [BufferSlice<'_>; 7] = [
            (&probed_buffer).into(),
            counts.slice(),
            ranks.slice(),
            starts.slice(),
            (&list_tiles).into(),
            grouped.slice(),
            pairs.slice(),
        ];
        let work = list_work::Params { lists: lists as u32, height };
        let work_buffers = [counts.slice(), (&list_tiles).into(), starts.slice()];
        let grid = two_rows(pair_count.div_ceil(256));
        bench.run(|recorder| {
            recorder.dispatch(&group::KERNEL, f32::KIND, &[0], &params, &buffers, grid)?;
            recorder.dispatch(&list_work::KERNEL, f32::KIND, &[], &work, &work_buffers, [1, 1])?;
            recorder.dispatch(&group::KERNEL, f32::KIND, &[1], &params, &buffers, grid)
        });
        let said = format!("{queries} queries, {probes} probes, {lists} lists, {height} high");
        assert_eq!(bench.read(&counts), counts_wanted, "{said}");
        let starts: Vec<[u32; 2]> =
            bench.read(&starts).chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        assert_eq!(starts, starts_wanted, "{said}");
        let (grouped, ranks, pairs) = (bench.read(&grouped), bench.read(&ranks), bench.read(&pairs));
        for (list, want) in want.iter().enumerate() {
            let mut found = grouped[starts[list][0] as usize..starts[list + 1][0] as usize].to_vec();
            found.sort_unstable();
            assert_eq!(found, *want, "{said}, list {list}");
        }
        let behind = starts[lists][0] as usize;
        assert!(
            grouped[behind..].iter().all(|&word| word == GUARD),
            "{said}: nothing is written behind the last pair"
        );
        for (pair, &list) in probed.iter().flatten().enumerate() {
            let found = &pairs[pair * 4..][..4];
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

#[test]
fn starts_are_sums_over_thousands_of_lists() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let mut random = Random::new(32);
    for lists in [1, 3, 4, 255, 1023, 1024, 1025, 2048, 9001] {
        for height in [64, 16] {
            let counts: Vec<u32> =
                (0..lists).map(|_| [0, 1, 63, 64, 65, random.below(5000) as u32][random.below(6)]).collect();
            let tiles: Vec<u32> =
                (0..lists).map(|_| [0, 1, random.below(900) as u32][random.below(3)]).collect();
            let mut list_tiles = vec![17];
            tiles.iter().for_each(|count| list_tiles.push(list_tiles[list_tiles.len() - 1] + count));
            let (count_buffer, tile_buffer) = (bench.input(&counts), bench.input(&list_tiles));
            let starts = bench.output(2 * (lists + 1));
            let params = list_work::Params { lists: lists as u32, height };
            let buffers = [(&count_buffer).into(), (&tile_buffer).into(), starts.slice()];
            bench.run(|recorder| {
                recorder.dispatch(&list_work::KERNEL, f32::KIND, &[], &params, &buffers, [1, 1])
            });
            let want: Vec<u32> =
                list_work::reference(&counts, &tiles, height).into_iter().flatten().collect();
            assert_eq!(bench.read(&starts), want, "{lists} lists");
        }
    }
}

// screen_lists_i8, screen_lists_coop

#[derive(Debug, Clone, Copy, PartialEq)]
enum Screen {
    Integers,
    Coop,
}

/// Lists with the numbers of queries that probe them and of their pages.
const LISTS: [(usize, usize); 9] =
    [(0, 2), (1, 1), (63, 2), (64, 3), (0, 0), (65, 4), (130, 5), (2, 0), (3, 9)];

fn check_blocks(
    bench: Bench<'_>,
    screen: Screen,
    dim: usize,
    lists: &[(usize, usize)],
    step: usize,
    wide: u32,
) {
    let mut random = Random::new((dim * 17 + step) as u64);
    let levels = Narrowing::of(Metric::L2, dim).levels as usize;
    let mut vectors = |count: usize| -> Vec<Vec<i32>> {
        let most = levels as i32;
        let mut one = |number: usize| match number % 5 {
            0 => vec![most; dim],
            1 => vec![-most; dim],
            _ => (0..dim).map(|_| random.below(2 * levels + 1) as i32 - most).collect(),
        };
        (0..count).map(&mut one).collect()
    };
    // A segment behind another one.
    let (queries, first_slot, row_count) = (150, 640u32, 9 * BLOCK);
    let (query_vectors, rows) = (vectors(queries), vectors(row_count));
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
    let inputs = [
        bench.input(&packed(&query_vectors, dim)),
        bench.input(&packed(&rows, dim)),
        bench.input(&starts),
        bench.input(&tables.list_tiles),
        bench.input(&tables.tiles),
        bench.input(&order),
    ];
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
        let kernel =
            if screen == Screen::Coop { &screen_lists_coop::KERNEL } else { &screen_lists_i8::KERNEL };
        let mut buffers: Vec<BufferSlice<'_>> = inputs.iter().map(BufferSlice::all).collect();
        buffers.push(scores.slice());
        bench.run(|recorder| recorder.dispatch(kernel, f32::KIND, &[], &params, &buffers, [wide, 1]));
        let words = bench.read(&scores);
        let here = total.saturating_sub(first).min(step);
        let behind = &words[here * HEIGHT as usize * BLOCK..];
        assert!(behind.iter().all(|&word| word == GUARD), "{screen:?}: no blocks behind the last");
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
                    let said = format!(
                        "{screen:?}, dim {dim}, list {list}, block {block}, query {query}, place {place}"
                    );
                    assert_eq!(found.to_bits(), want.to_bits(), "{said}: {found}, not {want}");
                }
            }
        }
    }
}

fn check_screen(device: &Device, screen: Screen) {
    let bench = Bench::new(device);
    for (dim, step, wide) in [(16, 100, 100), (31, 5, 2), (33, 4, 4), (128, 1, 1)] {
        check_blocks(bench, screen, dim, &LISTS, step, wide);
    }
    check_blocks(bench, screen, 1000, &[(1, 3), (0, 1), (65, 1)], 2, 2);
}

#[test]
fn blocks_of_lists_have_exact_scores() {
    let Some(device) = gpu() else { return };
    check_screen(device, Screen::Integers);
}

#[test]
fn blocks_of_lists_have_exact_scores_on_cooperative_matrices() {
    let Some(device) = gpu() else { return };
    match device.capabilities().matrix_side() {
        Some(side) => {
            println!("matrices of {side} x {side}");
            check_screen(device, Screen::Coop);
        }
        None => println!("skipped: no cooperative matrices of f16"),
    }
}

// probe_slots

#[test]
fn slots_of_probed_lists_are_appended_segment_by_segment() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
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
            let buffers: [BufferSlice<'_>; 6] = [
                (&probed_buffer).into(),
                (&list_tiles).into(),
                (&tiles).into(),
                (&allowed_buffer).into(),
                counts.slice(),
                slots.slice(),
            ];
            let grid = two_rows(queries);
            bench.run(|recorder| {
                recorder.dispatch(&probe_slots::KERNEL, f32::KIND, &[], &params, &buffers, grid)
            });
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
            if length == counts[query] as usize {
                let (mut found, mut behind) =
                    (own[..first.len()].to_vec(), own[first.len()..length].to_vec());
                [&mut found, &mut behind, &mut first, &mut second]
                    .into_iter()
                    .for_each(|slots| slots.sort_unstable());
                assert_eq!((found, behind), (first, second), "{said}");
            } else {
                let all: BTreeSet<u32> = first.into_iter().chain(second).collect();
                let found: BTreeSet<u32> = own[..length].iter().copied().collect();
                assert!(
                    found.len() == length && found.is_subset(&all),
                    "{said}: each slot once, and only from these lists"
                );
            }
        }
    }
}
