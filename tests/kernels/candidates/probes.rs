//! The kernels that screen the rows of probed lists: `probe_thresholds`, `screen_probes`, `collect_lists` and
//! `collect_lists_coop`.

use std::ops::Range;

use super::{FORMS, Lists, Quantized, WIDE, has};
use crate::common::bench::{Bench, Buffer, GUARD, two_rows};
use crate::common::lists::{BLOCK, PAGE, Tables, random_probes, wide};
use crate::common::quantized::packed;
use nearfield::internals::certificate::{Form, Terms};
use nearfield::internals::kernels::{
    Kernel, collect_lists, collect_lists_coop, group, key_of, probe_thresholds, quantize, screen_probes,
    value_of,
};
use nearfield_testing::Random;

/// Room for the rows of the segment, which are fewer.
const ROOM: usize = 9 * BLOCK;
const ROWS: usize = ROOM - 50;
/// The segment lies behind another one.
const FIRST_SLOT: u32 = 640;

/// What a kernel reads: queries with the lists that they probe, and a segment with some of the rows of these lists.
struct Probed {
    quantized: Quantized,
    tables: Tables,
    /// Lists of each query; some are none.
    probed: Vec<Vec<u32>>,
    /// Which of them a kernel looks at.
    round: Range<usize>,
    allowed: Option<Vec<u32>>,
}

/// Buffers that all of the kernels read.
struct Inputs {
    queries: Buffer,
    rows: Buffer,
    row_terms: Buffer,
    allowed: Buffer,
    probed: Buffer,
    tables: Buffer,
}

impl Probed {
    fn new(form: Form, dim: usize, queries: usize, round: Range<usize>, has_bits: bool) -> Self {
        let mut random = Random::new((dim * 31 + queries) as u64);
        let quantized = Quantized::new(&mut random, form, dim, [queries, ROOM]);
        // Some pages lie in the segments before and after.
        let mut pages: Vec<u32> = (FIRST_SLOT / PAGE - 3..(FIRST_SLOT + ROOM as u32) / PAGE + 3).collect();
        let words = pages[pages.len() - 1] as usize + 1;
        let counts: Vec<usize> = (0..13).map(|list| [5, 0, 9, 1, 4, 3, 2][list % 7]).collect();
        let tables = Tables::of_pages(&mut random, &mut pages, &counts);
        let probed = random_probes(&mut random, queries, round.end + 1, tables.lists());
        let allowed = has_bits.then(|| (0..words).map(|_| (random.next() | random.next()) as u32).collect());
        Self { quantized, tables, probed, round, allowed }
    }

    fn count(&self) -> usize {
        self.probed.len()
    }

    /// Distance between states.
    fn room(&self) -> usize {
        self.count() + 5
    }

    /// The slots of a tile whose rows can be found.
    fn slots_of(&self, tile: u32) -> Vec<u32> {
        let is_there = |slot: &u32| (FIRST_SLOT..FIRST_SLOT + ROWS as u32).contains(slot);
        let is_allowed = |slot: &u32| self.allowed.as_deref().is_none_or(|words| has(words, *slot));
        let slots = (0..BLOCK).filter_map(|place| self.tables.slot(tile, place));
        slots.filter(is_there).filter(is_allowed).collect()
    }

    /// The lists that a query probes in this round.
    fn lists_of(&self, query: usize) -> Vec<usize> {
        let own = self.probed[query][self.round.clone()].iter().map(|&list| list as usize);
        own.filter(|&list| list < self.tables.lists()).collect()
    }

    fn tiles_of(&self, list: usize) -> Range<u32> {
        self.tables.list_tiles[list]..self.tables.list_tiles[list + 1]
    }

    /// Buffers, and the parameters that follow from them: integers of the queries lie before their terms.
    fn inputs(&self, bench: Bench<'_>) -> (Inputs, screen_probes::Params) {
        let Quantized { dim, queries, rows, terms, .. } = &self.quantized;
        let mut bytes = packed(queries, *dim, 128);
        let query_terms = bytes.len() as u32 / 16;
        bytes.extend(bytemuck::cast_slice::<Terms, u8>(&terms[0]));
        let (words, tiles) = self.tables.words();
        let inputs = Inputs {
            queries: bench.input(&bytes),
            rows: bench.input(&packed(rows, *dim, 128)),
            row_terms: bench.input(&terms[1]),
            allowed: bench.input(self.allowed.as_deref().unwrap_or(&[0])),
            probed: bench.input(&wide(&self.probed, self.tables.lists())),
            tables: bench.input(&words),
        };
        let params = screen_probes::Params {
            granules: quantize::granules(*dim),
            queries: self.count() as u32,
            query_terms,
            room: self.room() as u32,
            first: self.round.start as u32,
            probes: self.round.len() as u32,
            stride: self.probed[0].len() as u32,
            lists: self.tables.lists() as u32,
            tiles,
            rows: ROWS as u32,
            first_slot: FIRST_SLOT,
            ..screen_probes::Params::of(WIDE)
        };
        (inputs, params)
    }

    fn constants(&self) -> [u32; 2] {
        [self.quantized.form as u32, self.allowed.is_some().into()]
    }

    /// Counts, thresholds and flags.
    fn states(&self, thresholds: &[u32]) -> Vec<u32> {
        let room = self.room();
        let mut states = vec![GUARD; 3 * room];
        states[..self.count()].fill(0);
        states[room..][..self.count()].copy_from_slice(thresholds);
        states
    }

    /// Collects with this kernel, of this height where it has several, from lists that hold `capacity` rows.
    fn collect(
        &self,
        bench: Bench<'_>,
        (kernel, height): (&'static Kernel, Option<u32>),
        thresholds: &[u32],
        capacity: usize,
    ) -> Lists {
        let (Inputs { queries, rows, row_terms, allowed, probed, tables }, params) = self.inputs(bench);
        let states = bench.filled(&self.states(thresholds));
        let lists = Lists::empty(self.count(), capacity);
        let candidates = bench.filled(&lists.words);
        let plane = (self.count() * capacity) as u32;
        let params = screen_probes::Params { capacity: capacity as u32, plane, ..params };
        if kernel.name() == "screen_probes" {
            let buffers = [&queries, &rows, &row_terms, &allowed, &states, &probed, &tables, &candidates];
            // Two workgroups share a list.
            let grid = two_rows(self.count() * self.round.len() * 2);
            bench.dispatch(kernel, &self.constants(), &params, &buffers, grid);
        } else {
            let probed: Vec<Vec<u32>> = (0..self.count())
                .map(|query| self.lists_of(query).iter().map(|&list| list as u32).collect())
                .collect();
            let mut grouped = group::reference(&probed, self.tables.lists());
            // In any order.
            grouped.iter_mut().for_each(|own| own.reverse());
            let most = height.unwrap_or(8) as usize;
            let blocks = bench.input(&group::table(&grouped, &self.tables.by_list(), most));
            let constants: Vec<u32> = self.constants().into_iter().chain(height).collect();
            let buffers = [&queries, &rows, &row_terms, &allowed, &states, &blocks, &candidates];
            bench.dispatch(kernel, &constants, &params, &buffers, [5, 1]);
        }
        let mut counts = bench.read(&states);
        counts.truncate(self.count());
        Lists { counts, words: bench.read(&candidates), ..lists }
    }

    fn check(&self, bench: Bench<'_>, kernel: (&'static Kernel, Option<u32>)) {
        self.quantized.check_collecting(
            FIRST_SLOT,
            |query| {
                let tiles = self.lists_of(query).into_iter().flat_map(|list| self.tiles_of(list));
                tiles.flat_map(|tile| self.slots_of(tile)).collect()
            },
            |thresholds, capacity| self.collect(bench, kernel, thresholds, capacity),
            // In the middle of two lower ends that differ: a first test on matrices may round.
            |query, lowers| {
                let lowers: Vec<f32> = lowers.iter().map(|&key| value_of(key)).collect();
                let from = lowers.len() * (query % 5) / 7;
                let is_apart = |pair: &&[f32]| pair[1] - pair[0] > pair[0].abs().max(10.0) * 1e-4;
                let pair = lowers.windows(2).skip(from).find(is_apart);
                key_of(pair.map_or(-1e9, |pair| (pair[0] + pair[1]) / 2.0))
            },
        );
    }

    /// The states of queries after `probe_thresholds`.
    fn thresholds(&self, bench: Bench<'_>, [k, wanted, turns]: [u32; 3], before: Option<&[u32]>) -> Vec<u32> {
        let (Inputs { queries, rows, row_terms, allowed, probed, tables }, params) = self.inputs(bench);
        let poisoned = vec![GUARD; self.count()];
        let states = bench.filled(&self.states(before.unwrap_or(&poisoned)));
        let is_first = before.is_none().into();
        let params = probe_thresholds::Params { k, wanted, turns, is_first, ..params };
        let buffers = [&queries, &rows, &row_terms, &allowed, &states, &probed, &tables];
        let grid = two_rows(self.count());
        bench.dispatch(&probe_thresholds::KERNEL, &self.constants(), &params, &buffers, grid);
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
        seen.iter().map(|&slot| self.quantized.interval(query, (slot - FIRST_SLOT) as usize)[1]).collect()
    }
}

fn check_all(bench: Bench<'_>, kernel: (&'static Kernel, Option<u32>)) {
    for (turn, form) in FORMS.into_iter().enumerate() {
        for (number, (dim, queries, round)) in
            [(1, 3, 0..1), (33, 130, 0..9), (100, 40, 2..7), (384, 5, 1..12)].into_iter().enumerate()
        {
            let probed = Probed::new(form, dim, queries, round, (turn + number) % 2 == 1);
            probed.check(bench, kernel);
        }
    }
    // More granules than workgroup memory holds of a query.
    Probed::new(Form::QuantizedL2, 1100, 3, 0..4, false).check(bench, kernel);
}

#[test]
fn probes_keep_exactly_the_rows_of_lists_that_thresholds_do_not_exclude() {
    let Some(bench) = Bench::open() else { return };
    check_all(bench, (&screen_probes::KERNEL, None));
}

#[test]
fn blocks_keep_exactly_the_rows_of_lists_that_thresholds_do_not_exclude() {
    let Some(bench) = Bench::open() else { return };
    check_all(bench, (&collect_lists::KERNEL, None));
    if bench.device.capabilities().matrix_side().is_none() {
        return println!("skipped: no cooperative matrices of f16");
    }
    let kernel = &collect_lists_coop::KERNEL;
    kernel.heights().iter().for_each(|&height| check_all(bench, (kernel, Some(height))));
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
