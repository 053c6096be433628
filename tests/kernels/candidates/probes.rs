//! The kernels that screen the rows of probed lists: `probe_thresholds`, `screen_probes`, `collect_lists` and
//! `collect_lists_coop`.

use std::collections::BTreeMap;

use super::{Lists, WIDE, random_terms, slack};
use crate::common::bench::{Bench, Bound, GUARD, two_rows};
use crate::common::lists::{BLOCK, PAGE, Tables, random_probes, wide};
use crate::common::narrowed::{integers, packed};
use nearfield::Metric;
use nearfield::internals::certificate::{Form, Narrowing, Terms};
use nearfield::internals::kernels::{
    Kernel, collect_lists, collect_lists_coop, group, key_of, narrow, probe_thresholds, screen_probes,
    screen_tile_i8, value_of,
};
use nearfield_testing::Random;

/// Room for the rows of the segment, which are fewer.
const ROOM: usize = 9 * BLOCK;
const ROWS: usize = ROOM - 50;
/// The segment lies behind another one.
const FIRST_SLOT: u32 = 640;
const FORMS: [Form; 3] = [Form::NarrowedL2, Form::NarrowedInnerProduct, Form::NarrowedCosine];

/// What a kernel reads: queries with the lists that they probe, and a segment with some of the rows of these lists.
struct Probed {
    form: Form,
    dim: usize,
    queries: Vec<Vec<i32>>,
    rows: Vec<Vec<i32>>,
    terms: [Vec<Terms>; 2],
    tables: Tables,
    /// Lists of each query; some are none.
    probed: Vec<Vec<u32>>,
    /// Which of them a kernel looks at.
    round: std::ops::Range<usize>,
    allowed: Option<Vec<u32>>,
}

/// Lower and upper key of rows by slot.
type Keys = BTreeMap<u32, [u32; 2]>;

impl Probed {
    fn new(form: Form, dim: usize, queries: usize, round: std::ops::Range<usize>, has_bits: bool) -> Self {
        let mut random = Random::new((dim * 31 + queries) as u64);
        // Small integers, so that intervals of `WIDE` overlap.
        let levels = (Narrowing::of(Metric::L2, dim).levels as usize).min(4);
        let [queries, rows] = [queries, ROOM].map(|count| integers(&mut random, count, dim, levels));
        let terms = [queries.len(), rows.len()]
            .map(|count| (0..count).map(|_| random_terms(&mut random, form)).collect());
        // Some pages lie in the segments before and after.
        let mut pages: Vec<u32> = (FIRST_SLOT / PAGE - 3..(FIRST_SLOT + ROOM as u32) / PAGE + 3).collect();
        let words = pages[pages.len() - 1] as usize + 1;
        let counts: Vec<usize> = (0..13).map(|list| [5, 0, 9, 1, 4, 3, 2][list % 7]).collect();
        let tables = Tables::of_pages(&mut random, &mut pages, &counts);
        let probed = random_probes(&mut random, queries.len(), round.end + 1, tables.lists());
        let allowed = has_bits.then(|| (0..words).map(|_| (random.next() | random.next()) as u32).collect());
        Self { form, dim, queries, rows, terms, tables, probed, round, allowed }
    }

    fn count(&self) -> usize {
        self.queries.len()
    }

    /// Distance between states.
    fn room(&self) -> usize {
        self.count() + 5
    }

    /// The slots of a tile whose rows can be found.
    fn slots_of(&self, tile: u32) -> Vec<u32> {
        let is_there = |slot: &u32| (FIRST_SLOT..FIRST_SLOT + ROWS as u32).contains(slot);
        let bit = |slot: u32, words: &[u32]| words[slot as usize / 32] >> (slot % 32) & 1 == 1;
        let is_allowed = |slot: &u32| self.allowed.as_deref().is_none_or(|words| bit(*slot, words));
        let slots = (0..BLOCK).filter_map(|place| self.tables.slot(tile, place));
        slots.filter(is_there).filter(is_allowed).collect()
    }

    /// The lists that a query probes in this round.
    fn lists_of(&self, query: usize) -> Vec<usize> {
        let own = self.probed[query][self.round.clone()].iter().map(|&list| list as usize);
        own.filter(|&list| list < self.tables.lists()).collect()
    }

    fn tiles_of(&self, list: usize) -> std::ops::Range<u32> {
        self.tables.list_tiles[list]..self.tables.list_tiles[list + 1]
    }

    fn interval(&self, query: usize, slot: u32) -> [f64; 2] {
        let row = (slot - FIRST_SLOT) as usize;
        let score = screen_tile_i8::reference(&self.queries[query], &self.rows[row]) as f64;
        WIDE.interval(self.form, score, self.terms[0][query], self.terms[1][row])
    }

    /// Integers of the queries, then their terms; and where these start, in vectors of four words.
    fn queries_with_terms(&self) -> (Vec<u8>, u32) {
        let mut bytes = packed(&self.queries, self.dim);
        let start = bytes.len() as u32 / 16;
        bytes.extend(bytemuck::cast_slice::<Terms, u8>(&self.terms[0]));
        (bytes, start)
    }

    /// Counts, thresholds and flags.
    fn states(&self, thresholds: &[u32]) -> Vec<u32> {
        let room = self.room();
        let mut states = vec![GUARD; 3 * room];
        states[..self.count()].fill(0);
        states[room..][..self.count()].copy_from_slice(thresholds);
        states
    }

    /// Collects with this kernel from lists that hold `capacity` rows.
    fn collect(
        &self,
        bench: Bench<'_>,
        kernel: &'static Kernel,
        thresholds: &[u32],
        capacity: usize,
    ) -> Lists {
        let (queries, query_terms) = self.queries_with_terms();
        let (queries, rows) = (bench.input(&queries), bench.input(&packed(&self.rows, self.dim)));
        let row_terms = bench.input(&self.terms[1]);
        let allowed = bench.input(self.allowed.as_deref().unwrap_or(&[0]));
        let states = bench.filled(&self.states(thresholds));
        let lists = Lists { counts: vec![0; self.count()], ..Lists::new(self.count(), capacity) };
        let candidates = bench.filled(&lists.words);
        let constants = [self.form as u32, self.allowed.is_some().into()];
        let (granules, room) = (narrow::granules(self.dim), self.room() as u32);
        let count = self.count() as u32;
        let plane = count * capacity as u32;
        if kernel.name() == "screen_probes" {
            let (words, tiles) = self.tables.words();
            let (probed, tables) =
                (bench.input(&wide(&self.probed, self.tables.lists())), bench.input(&words));
            let params = screen_probes::Params {
                granules,
                queries: count,
                query_terms,
                room,
                first: self.round.start as u32,
                probes: self.round.len() as u32,
                stride: self.probed[0].len() as u32,
                lists: self.tables.lists() as u32,
                tiles,
                rows: ROWS as u32,
                first_slot: FIRST_SLOT,
                capacity: capacity as u32,
                plane,
                ..screen_probes::Params::of(WIDE)
            };
            let buffers: [&dyn Bound; 8] =
                [&queries, &rows, &row_terms, &allowed, &states, &probed, &tables, &candidates];
            // Two workgroups share a list.
            let grid = two_rows(self.count() * self.round.len() * 2);
            bench.dispatch(kernel, &constants, &params, &buffers, grid);
        } else {
            let probed: Vec<Vec<u32>> = (0..self.count())
                .map(|query| self.lists_of(query).iter().map(|&list| list as u32).collect())
                .collect();
            let mut grouped = group::reference(&probed, self.tables.lists());
            // In any order.
            grouped.iter_mut().for_each(|own| own.reverse());
            let height = if kernel.name() == "collect_lists_coop" { 128 } else { 8 };
            let blocks = bench.input(&group::table(&grouped, &self.tables.by_list(), height));
            let params = collect_lists::Params {
                granules,
                queries: count,
                query_terms,
                room,
                rows: ROWS as u32,
                first_slot: FIRST_SLOT,
                capacity: capacity as u32,
                plane,
                ..collect_lists::Params::of(WIDE)
            };
            let buffers: [&dyn Bound; 7] =
                [&queries, &rows, &row_terms, &allowed, &states, &blocks, &candidates];
            bench.dispatch(kernel, &constants, &params, &buffers, [5, 1]);
        }
        let mut after = bench.read(&states);
        after.truncate(self.count());
        Lists { counts: after, words: bench.read(&candidates), ..lists }
    }

    /// Every row of the probed lists that can be found, with the keys of its interval as the kernel computes them.
    fn all(&self, bench: Bench<'_>, kernel: &'static Kernel) -> Vec<Keys> {
        let thresholds = vec![key_of(f32::MAX); self.count()];
        let lists = self.collect(bench, kernel, &thresholds, ROOM);
        let of = |query: usize| {
            let found: Keys =
                lists.of(query).iter().map(|&[slot, lower, upper]| (slot, [lower, upper])).collect();
            assert_eq!(found.len(), lists.counts[query] as usize, "each row once");
            let tiles = self.lists_of(query).into_iter().flat_map(|list| self.tiles_of(list));
            let mut wanted: Vec<u32> = tiles.flat_map(|tile| self.slots_of(tile)).collect();
            wanted.sort_unstable();
            assert!(found.keys().eq(&wanted), "{}, {:?}, query {query}", kernel.name(), self.form);
            for (&slot, keys) in &found {
                let interval = self.interval(query, slot);
                for (&key, want) in keys.iter().zip(interval) {
                    let end = f64::from(value_of(key));
                    let said = || format!("{:?}, query {query}, slot {slot}: {end}, not {want}", self.form);
                    assert!((end - want).abs() <= slack(interval), "{}", said());
                }
            }
            found
        };
        (0..self.count()).map(of).collect()
    }

    /// Checks that thresholds drop exactly the rows whose lower end, as the kernel itself computes it, lies above them.
    fn check(&self, bench: Bench<'_>, kernel: &'static Kernel) {
        let all = self.all(bench, kernel);
        // In the middle of two lower ends that differ: a first test on matrices may round.
        let threshold = |(query, rows): (usize, &Keys)| {
            let mut lowers: Vec<f32> = rows.values().map(|keys| value_of(keys[0])).collect();
            lowers.sort_unstable_by(f32::total_cmp);
            let from = lowers.len() * (query % 5) / 7;
            let is_apart = |pair: &&[f32]| pair[1] - pair[0] > pair[0].abs().max(10.0) * 1e-4;
            let pair = lowers.windows(2).skip(from).find(is_apart);
            key_of(pair.map_or(-1e9, |pair| (pair[0] + pair[1]) / 2.0))
        };
        let thresholds: Vec<u32> = all.iter().enumerate().map(threshold).collect();
        for capacity in [ROOM, 9] {
            let lists = self.collect(bench, kernel, &thresholds, capacity);
            for (query, rows) in all.iter().enumerate() {
                let said = format!("{}, {:?}, query {query}", kernel.name(), self.form);
                let kept = |(_, keys): &(&u32, &[u32; 2])| keys[0] <= thresholds[query];
                let wanted: Vec<[u32; 3]> =
                    rows.iter().filter(kept).map(|(&slot, keys)| [slot, keys[0], keys[1]]).collect();
                assert_eq!(
                    lists.counts[query] as usize,
                    wanted.len(),
                    "{said}: a full list goes on counting"
                );
                let mut found = lists.of(query);
                found.sort_unstable();
                if capacity == ROOM {
                    assert_eq!(found, wanted, "{said}");
                } else {
                    assert!(found.iter().all(|entry| wanted.contains(entry)), "{said}");
                }
            }
        }
    }

    /// The states of queries after `probe_thresholds`.
    fn thresholds(&self, bench: Bench<'_>, [k, wanted, turns]: [u32; 3], before: Option<&[u32]>) -> Vec<u32> {
        let (queries, query_terms) = self.queries_with_terms();
        let (queries, rows) = (bench.input(&queries), bench.input(&packed(&self.rows, self.dim)));
        let row_terms = bench.input(&self.terms[1]);
        let allowed = bench.input(self.allowed.as_deref().unwrap_or(&[0]));
        let poisoned = vec![GUARD; self.count()];
        let states = bench.filled(&self.states(before.unwrap_or(&poisoned)));
        let (words, tiles) = self.tables.words();
        let (probed, tables) = (bench.input(&wide(&self.probed, self.tables.lists())), bench.input(&words));
        let params = probe_thresholds::Params {
            granules: narrow::granules(self.dim),
            queries: self.count() as u32,
            query_terms,
            room: self.room() as u32,
            k,
            probes: self.round.len() as u32,
            stride: self.probed[0].len() as u32,
            lists: self.tables.lists() as u32,
            tiles,
            wanted,
            turns,
            rows: ROWS as u32,
            first_slot: FIRST_SLOT,
            is_first: before.is_none().into(),
            ..probe_thresholds::Params::of(WIDE)
        };
        let buffers: [&dyn Bound; 7] = [&queries, &rows, &row_terms, &allowed, &states, &probed, &tables];
        let constants = [self.form as u32, self.allowed.is_some().into()];
        bench.dispatch(&probe_thresholds::KERNEL, &constants, &params, &buffers, two_rows(self.count()));
        bench.read(&states)
    }

    /// The intervals' upper ends of the rows that give a query's threshold: turns of four pages of its lists.
    fn sampled(&self, query: usize, [wanted, turns]: [u32; 2]) -> Vec<f64> {
        let each = 4 / self.round.len();
        let mut seen = vec![];
        let pages: u32 =
            self.lists_of(query).into_iter().map(|list| self.tiles_of(list).len() as u32 * 4).sum();
        let share = (pages * 32 / probe_thresholds::SHARE).min(probe_thresholds::UPPERS);
        let wanted = if pages * 32 > probe_thresholds::LONG { wanted.max(share) } else { wanted };
        let turns = turns.max(wanted / 128 * 2);
        for turn in 0..turns as usize {
            for list in self.lists_of(query) {
                let pages = (turn * each..(turn + 1) * each).map(|page| (page / 4, page % 4));
                for (tile, page) in pages {
                    let tile = self.tiles_of(list).start + tile as u32;
                    if tile < self.tiles_of(list).end {
                        let (places, slots) = (page * 32..(page + 1) * 32, self.slots_of(tile));
                        let of_page = places.filter_map(|place| self.tables.slot(tile, place));
                        seen.extend(of_page.filter(|slot| slots.contains(slot)));
                    }
                }
            }
            if seen.len() >= wanted as usize {
                break;
            }
        }
        seen.iter().map(|&slot| self.interval(query, slot)[1]).collect()
    }
}

fn check_all(bench: Bench<'_>, kernel: &'static Kernel) {
    for (turn, form) in FORMS.into_iter().enumerate() {
        for (number, (dim, queries, round)) in
            [(1, 3, 0..1), (33, 130, 0..9), (100, 40, 2..7), (384, 5, 1..12)].into_iter().enumerate()
        {
            let probed = Probed::new(form, dim, queries, round, (turn + number) % 2 == 1);
            probed.check(bench, kernel);
        }
    }
    // More granules than workgroup memory holds of a query.
    Probed::new(Form::NarrowedL2, 1100, 3, 0..4, false).check(bench, kernel);
}

#[test]
fn probes_keep_exactly_the_rows_of_lists_that_thresholds_do_not_exclude() {
    let Some(bench) = Bench::open() else { return };
    check_all(bench, &screen_probes::KERNEL);
}

#[test]
fn blocks_keep_exactly_the_rows_of_lists_that_thresholds_do_not_exclude() {
    let Some(bench) = Bench::open() else { return };
    check_all(bench, &collect_lists::KERNEL);
    if bench.device.capabilities().matrix_side().is_none() {
        return println!("skipped: no cooperative matrices of f16");
    }
    check_all(bench, &collect_lists_coop::KERNEL);
}

#[test]
fn first_thresholds_are_the_kth_upper_ends_of_the_nearest_lists() {
    let Some(bench) = Bench::open() else { return };
    let mut missing = 0;
    for (turn, form) in FORMS.into_iter().enumerate() {
        let probed = Probed::new(form, 33, 23, 0..[1, 4, 2][turn], turn == 1);
        for [k, wanted, turns] in
            [[1, 1, 100], [10, 40, 100], [10, 300, 2], [100, 1024, 100], [512, 1024, 100]]
        {
            let first = probed.thresholds(bench, [k, wanted, turns], None);
            // Queries with an even number have a lower threshold already, the others a higher one.
            let before: Vec<u32> =
                (0..probed.count()).map(|query| key_of(if query % 2 == 0 { -1e6 } else { 1e30 })).collect();
            let second = probed.thresholds(bench, [k, wanted, turns], Some(&before));
            let room = probed.room();
            for query in 0..probed.count() {
                let said = format!("{form:?}, k {k} of {wanted}, {turns} turns, query {query}");
                let mut uppers = probed.sampled(query, [wanted, turns]);
                uppers.sort_unstable_by(f64::total_cmp);
                let found = value_of(first[room + query]);
                match uppers.get(k as usize - 1) {
                    Some(&upper) => {
                        let slack = upper.abs().max(10.0) * 1e-5;
                        let found = f64::from(found);
                        let most = upper + upper.abs() * 2f64.powi(-12) + slack;
                        assert!((upper - slack..most).contains(&found), "{said}: {found}, not {upper}");
                    }
                    None => {
                        missing += 1;
                        assert_eq!(found, f32::MAX, "{said}: too few rows for a threshold");
                    }
                }
                assert_eq!((first[query], first[2 * room + query]), (0, 0), "{said}: nothing yet");
                assert_eq!(second[room + query], first[room + query].min(before[query]), "{said}");
            }
            for kind in 0..3 {
                let behind = &first[kind * room + probed.count()..(kind + 1) * room];
                assert!(behind.iter().all(|&word| word == GUARD), "nothing behind the last query");
            }
        }
    }
    assert!(missing > 20, "some queries see fewer than k rows");
}
