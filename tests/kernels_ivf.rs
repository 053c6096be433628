//! The kernels of inverted lists, dispatched one by one: those that group queries by list, score a list's rows, keep those that
//! cannot be excluded, list the slots of lists, and average their rows.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::bench::{Bench, GUARD, floats_of};
use common::narrowed::packed;
use common::{Random, gpu, padded};
use nearfield::certificate::Narrowing;
use nearfield::certificate::Terms;
use nearfield::kernels::average::{self, Unit};
use nearfield::kernels::winnow::{self, Form, Margin};
use nearfield::kernels::{
    BLOCK_ROWS, group, list_work, narrow, probe_slots, screen_lists_coop, screen_lists_i8, value_of,
};
use nearfield::{BufferSlice, Device, Element, Metric};

const BLOCK: usize = BLOCK_ROWS as usize;
const NO_PAGE: u32 = u32::MAX;
const PAGE: u32 = 32;
const FORMS: [Form; 3] = [Form::NarrowedL2, Form::NarrowedInnerProduct, Form::NarrowedCosine];
const HEIGHT: u32 = screen_lists_i8::HEIGHT;

/// Two rows of workgroups, the second of which may be one too long.
fn two_rows(workgroups: usize) -> [u32; 2] {
    [workgroups.div_ceil(2) as u32, 2]
}

/// Of each list its tiles, four pages each.
struct Tables {
    tiles: Vec<[u32; 4]>,
    list_tiles: Vec<u32>,
}

impl Tables {
    fn new(lists: &[Vec<[u32; 4]>]) -> Self {
        let tiles: Vec<[u32; 4]> = lists.iter().flatten().copied().collect();
        let mut list_tiles = vec![0];
        lists.iter().for_each(|list| list_tiles.push(list_tiles[list_tiles.len() - 1] + list.len() as u32));
        Self { tiles, list_tiles }
    }

    /// Lists of so many pages each, shuffled, with holes between the pages of every third list.
    fn of_pages(random: &mut Random, pages: &mut Vec<u32>, counts: &[usize]) -> Self {
        for place in (1..pages.len()).rev() {
            pages.swap(place, random.below(place + 1));
        }
        let mut lists = vec![];
        for (list, &count) in counts.iter().enumerate() {
            let mut own: Vec<u32> = (0..count).filter_map(|_| pages.pop()).collect();
            if list % 3 == 2 && own.len() > 1 {
                own.insert(1, NO_PAGE);
            }
            let tile_of = |some: &[u32]| {
                let mut tile = [NO_PAGE; 4];
                tile[..some.len()].copy_from_slice(some);
                tile
            };
            lists.push(own.chunks(4).map(tile_of).collect::<Vec<_>>());
        }
        Self::new(&lists)
    }

    fn lists(&self) -> usize {
        self.list_tiles.len() - 1
    }

    fn counts(&self) -> Vec<u32> {
        self.list_tiles.windows(2).map(|ends| ends[1] - ends[0]).collect()
    }

    /// The slots of a tile's places.
    fn slot(&self, tile: u32, place: usize) -> Option<u32> {
        let page = self.tiles[tile as usize][place / PAGE as usize];
        (page != NO_PAGE).then(|| page * PAGE + place as u32 % PAGE)
    }

    fn slots_of(&self, list: usize) -> Vec<u32> {
        let tiles = self.list_tiles[list]..self.list_tiles[list + 1];
        tiles.flat_map(|tile| (0..BLOCK).filter_map(move |place| self.slot(tile, place))).collect()
    }
}

/// What `pairs` has to hold of queries that are grouped in order.
fn pairs_of(probed: &[Vec<u32>], tables: &Tables, height: u32) -> (Vec<[u32; 4]>, Vec<[u32; 2]>) {
    let lists = tables.lists();
    let tiles = tables.counts();
    let mut counts = vec![0; lists];
    probed
        .iter()
        .flatten()
        .filter(|&&list| (list as usize) < lists)
        .for_each(|&list| counts[list as usize] += 1);
    let starts = list_work::reference(&counts, &tiles, height);
    let mut ranks = vec![0; lists];
    let mut pair_of = |list: usize| {
        let rank = ranks[list];
        ranks[list] += 1;
        [starts[list][1] + rank / height * tiles[list], tiles[list], tables.list_tiles[list], rank % height]
    };
    let pairs = probed
        .iter()
        .flatten()
        .map(|&list| if (list as usize) < lists { pair_of(list as usize) } else { [0; 4] });
    (pairs.collect(), starts)
}

/// So many different lists of each query; every fifth query's last are refused.
fn random_probes(random: &mut Random, queries: usize, probes: usize, lists: usize) -> Vec<Vec<u32>> {
    let one = |random: &mut Random, query: usize| {
        let mut seen = BTreeSet::new();
        let mut own = vec![];
        while own.len() < probes {
            let list = random.below(lists) as u32;
            if seen.insert(list) {
                own.push(list);
            }
        }
        if query % 5 == 3 {
            own[probes / 2..].fill(u32::MAX);
            own[probes - 1] = lists as u32;
        }
        own
    };
    (0..queries).map(|query| one(random, query)).collect()
}

/// Lists as `probed` has them.
fn wide(probed: &[Vec<u32>], lists: usize) -> Vec<u64> {
    let id = |&list: &u32| if list as usize > lists { u64::MAX } else { list.into() };
    probed.iter().flatten().map(id).collect()
}

// winnow

const WIDE: Margin = Margin { relative: 0.03, floor: 0.25, centre_length: 1.5, centre_squared: 2.0 };
const NONE: Margin = Margin { relative: 0.0, floor: 0.0, centre_length: 0.0, centre_squared: 0.0 };

/// A row that was scored for a query.
#[derive(Clone, Copy)]
struct Row {
    slot: u32,
    interval: [f64; 2],
}

struct Winnowing {
    form: Form,
    margin: Margin,
    terms: [Vec<Terms>; 2],
    rows: usize,
    first_slot: u32,
    /// Queries of a block.
    room: usize,
    blocks: usize,
    /// `[blocks, room, 128]`.
    scores: Vec<f32>,
    allowed: Vec<u32>,
    /// Pairs, probes a query, tables; none where every row was scored.
    probed: Option<(Vec<[u32; 4]>, usize, Tables)>,
}

#[derive(Clone)]
struct Lists {
    counts: Vec<u32>,
    words: Vec<u32>,
    capacity: usize,
}

impl Lists {
    fn new(queries: usize, capacity: usize) -> Self {
        Self { counts: vec![GUARD; queries], words: vec![GUARD; 3 * queries * capacity], capacity }
    }

    fn entry(&self, query: usize, place: usize) -> [u32; 3] {
        let plane = self.counts.len() * self.capacity;
        [0, 1, 2].map(|which| self.words[which * plane + query * self.capacity + place])
    }

    fn of(&self, query: usize) -> Vec<[u32; 3]> {
        (0..self.capacity.min(self.counts[query] as usize)).map(|place| self.entry(query, place)).collect()
    }
}

fn random_terms(random: &mut Random, form: Form, count: usize) -> Vec<Terms> {
    let one = |random: &mut Random| {
        let mut of = |most: usize, step: f32| random.below(most) as f32 * step;
        let [scale, length, residual] = [of(50, 0.01), of(90, 0.1), of(20, 0.02)];
        let bias = if form == Form::NarrowedL2 { length * length } else { of(60, 0.5) - 15.0 };
        Terms { scale, length, residual, bias }
    };
    (0..count).map(|_| one(random)).collect()
}

/// What computing an interval in f32 may round off.
fn slack(interval: [f64; 2]) -> f64 {
    interval[0].abs().max(interval[1].abs()).max(10.0) * 1e-5
}

impl Winnowing {
    /// Every row scored for every query.
    fn whole(form: Form, queries: usize, rows: usize) -> Self {
        let mut random = Random::new(form as u64 * 1000 + rows as u64);
        let blocks = rows.div_ceil(BLOCK);
        let room = queries + 3;
        let scores = (0..blocks * room * BLOCK).map(|_| random.below(400) as f32 - 150.0).collect();
        let terms = [queries, blocks * BLOCK].map(|count| random_terms(&mut random, form, count));
        let (probed, allowed) = (None, vec![0]);
        Self { form, margin: WIDE, terms, rows, first_slot: 70, room, blocks, scores, allowed, probed }
    }

    /// The rows of the lists that queries probe.
    fn probed(form: Form, queries: usize, probes: usize, height: u32, rows: usize) -> Self {
        let mut random = Random::new(form as u64 * 77 + rows as u64 + u64::from(height));
        let first_slot = 256;
        let room_for = rows.next_multiple_of(BLOCK);
        // Some pages lie in other segments, some behind the last row.
        let mut pages: Vec<u32> =
            (first_slot / PAGE - 3..(first_slot as usize + room_for + 96) as u32 / PAGE).collect();
        let words = pages[pages.len() - 1] as usize + 1;
        let counts: Vec<usize> = (0..13).map(|list| [5, 0, 9, 1, 4, 3, 13][list % 7]).collect();
        let tables = Tables::of_pages(&mut random, &mut pages, &counts);
        let probed = random_probes(&mut random, queries, probes, tables.lists());
        let (pairs, starts) = pairs_of(&probed, &tables, height);
        let blocks = starts[tables.lists()][1] as usize;
        let room = height as usize;
        let scores = (0..blocks * room * BLOCK).map(|_| random.below(400) as f32 - 150.0).collect();
        let terms = [queries, room_for].map(|count| random_terms(&mut random, form, count));
        let mut allowed: Vec<u32> = (0..words).map(|_| (random.next() | random.next()) as u32).collect();
        // A bit behind the last row is not set where it shares four with a row's.
        for row in rows..rows.next_multiple_of(4) {
            let slot = first_slot as usize + row;
            allowed[slot / 32] &= !(1 << (slot % 32));
        }
        let probed = Some((pairs, probes, tables));
        Self { form, margin: WIDE, terms, rows, first_slot, room, blocks, scores, allowed, probed }
    }

    fn queries(&self) -> usize {
        self.terms[0].len()
    }

    fn row(&self, query: usize, within: usize, block: usize, place: usize, row: usize) -> Row {
        let score = self.scores[(block * self.room + within) * BLOCK + place];
        let interval =
            self.margin.interval(self.form, score.into(), self.terms[0][query], self.terms[1][row]);
        Row { slot: self.first_slot + row as u32, interval }
    }

    /// The rows that can be found for a query in these blocks.
    fn rows_of(&self, query: usize, blocks: [usize; 2]) -> Vec<Row> {
        let mut found = vec![];
        let Some((pairs, probes, tables)) = &self.probed else {
            return (0..self.rows).map(|row| self.row(query, query, row / BLOCK, row % BLOCK, row)).collect();
        };
        for &[first, count, tile, within] in &pairs[query * probes..][..*probes] {
            for t in
                (0..count).filter(|t| (blocks[0]..blocks[0] + blocks[1]).contains(&((first + t) as usize)))
            {
                for place in 0..BLOCK {
                    let Some(slot) = tables.slot(tile + t, place) else { continue };
                    let is_here = (self.first_slot..self.first_slot + self.rows as u32).contains(&slot);
                    if is_here && self.allowed[slot as usize / 32] >> (slot % 32) & 1 == 1 {
                        let row = (slot - self.first_slot) as usize;
                        found.push(self.row(query, within as usize, (first + t) as usize, place, row));
                    }
                }
            }
        }
        found
    }

    fn run(&self, bench: Bench<'_>, k: usize, blocks: [usize; 2], before: &Lists, is_first: bool) -> Lists {
        // Of the last wave some blocks are not there.
        let wave = (blocks[0] * self.room * BLOCK)..((blocks[0] + blocks[1]) * self.room * BLOCK);
        let scores =
            bench.input(&self.scores[wave.start.min(self.scores.len())..wave.end.min(self.scores.len())]);
        let [queries, rows] = [0, 1].map(|which| bench.input(&self.terms[which]));
        let allowed = bench.input(&self.allowed);
        let (pairs, probes, tiles) = match &self.probed {
            Some((pairs, probes, tables)) => (&pairs[..], *probes, &tables.tiles[..]),
            None => (&[[0; 4]][..], self.blocks, &[[0; 4]][..]),
        };
        let (pairs, tiles) = (bench.input(pairs), bench.input(tiles));
        let (counts, lists) = (bench.filled(&before.counts), bench.filled(&before.words));
        let capacity = before.capacity as u32;
        let params = winnow::Params {
            queries: self.queries() as u32,
            probes: probes as u32,
            k: k as u32,
            capacity,
            plane: self.queries() as u32 * capacity,
            is_first: is_first.into(),
            room: self.room as u32,
            block_first: blocks[0] as u32,
            blocks: blocks[1] as u32,
            rows: self.rows as u32,
            first_slot: self.first_slot,
            margin: self.margin.relative,
            margin_floor: self.margin.floor,
            centre_length: self.margin.centre_length,
            centre_squared: self.margin.centre_squared,
        };
        let buffers: [BufferSlice<'_>; 8] = [
            (&scores).into(),
            (&rows).into(),
            (&queries).into(),
            (&allowed).into(),
            (&pairs).into(),
            (&tiles).into(),
            counts.slice(),
            lists.slice(),
        ];
        let constants = [self.form as u32, self.probed.is_some().into()];
        let grid = two_rows(self.queries());
        bench.run(|recorder| {
            recorder.dispatch(&winnow::KERNEL, f32::KIND, &constants, &params, &buffers, grid)
        });
        Lists { counts: bench.read(&counts), words: bench.read(&lists), capacity: before.capacity }
    }

    /// Panics unless these entries are what must stay of these rows, and no others than of them. How many must stay.
    fn check(&self, rows: &[Row], found: &[[u32; 3]], k: usize, said: &str) -> usize {
        let form = self.form;
        let by_slot: BTreeMap<u32, Row> = rows.iter().map(|row| (row.slot, *row)).collect();
        assert_eq!(by_slot.len(), rows.len(), "a row is scored once");
        let kept: BTreeSet<u32> = found.iter().map(|entry| entry[0]).collect();
        assert_eq!(kept.len(), found.len(), "{form:?}, {said}: each row once");
        for entry in found {
            let row = by_slot.get(&entry[0]);
            let row = row.unwrap_or_else(|| panic!("{form:?}, {said}: slot {} cannot be found", entry[0]));
            for (&key, want) in entry[1..].iter().zip(row.interval) {
                let end = f64::from(value_of(key));
                let is_right = (end - want).abs() <= slack(row.interval);
                assert!(is_right, "{form:?}, {said}, slot {}: {end}, not {want}", row.slot);
            }
        }
        let intervals: Vec<[f64; 2]> = rows.iter().map(|row| row.interval).collect();
        let must = winnow::reference(&intervals, k);
        let mut uppers: Vec<f64> = intervals.iter().map(|ends| ends[1]).collect();
        uppers.sort_unstable_by(f64::total_cmp);
        for &row in &must {
            let Row { slot, interval } = rows[row];
            let is_close = uppers.len() >= k && interval[0] > uppers[k - 1] - slack(interval);
            assert!(kept.contains(&slot) || is_close, "{form:?}, {said}: slot {slot} must stay");
        }
        // The threshold lies below whatever was dropped, and above k upper ends; and not below what was kept.
        let lowest = |is_kept: bool| rows.iter().filter(move |row| kept.contains(&row.slot) == is_kept);
        let dropped = lowest(false).map(|row| row.interval[0] + slack(row.interval)).reduce(f64::min);
        if let Some(dropped) = dropped {
            let below = uppers.iter().filter(|&&upper| upper <= dropped).count();
            assert!(below >= k, "{form:?}, {said}: {below} upper ends below what was dropped, not {k}");
        }
        must.len()
    }
}

const KS: [usize; 4] = [1, 64, 65, 512];

#[test]
fn winnow_keeps_every_row_that_may_be_among_the_nearest_of_all() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    for form in FORMS {
        for rows in [1, 3, 30, 127, 130, 2556, 3200] {
            let winnowing = Winnowing::whole(form, 5, rows);
            for k in KS {
                let blocks = [0, winnowing.blocks];
                let lists = winnowing.run(bench, k, blocks, &Lists::new(5, 3300), true);
                for query in 0..5 {
                    let said = format!("{rows} rows, k {k}, query {query}");
                    let found = lists.of(query);
                    assert_eq!(found.len(), lists.counts[query] as usize);
                    let scored = winnowing.rows_of(query, blocks);
                    let must = winnowing.check(&scored, &found, k, &said);
                    if rows <= k {
                        assert_eq!(found.len(), rows, "{said}: all stay");
                    }
                    // Few more than must: k and half as many again would let them all stay.
                    if rows > 2000 && k != 512 {
                        let intervals: Vec<_> = scored.iter().map(|row| row.interval).collect();
                        let most = if k == 1 {
                            must + 1
                        } else {
                            winnow::reference(&intervals, k * 3 / 2 + 8).len()
                        };
                        assert!(found.len() <= most, "{form:?}, {said}: {} kept, not {most}", found.len());
                        assert!(k > 65 || most < rows, "the case decides something");
                    }
                }
            }
        }
    }
}

/// Intervals without width, a third of them the nearest: the threshold is their distance.
#[test]
fn winnow_keeps_rows_at_the_threshold_and_drops_what_is_just_above() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let mut random = Random::new(5);
    for form in FORMS {
        for k in KS {
            let mut winnowing = Winnowing::whole(form, 3, 2560);
            winnowing.margin = NONE;
            let one = Terms { scale: 1.0, length: 0.0, residual: 0.0, bias: 0.0 };
            winnowing.terms.iter_mut().for_each(|terms| terms.fill(one));
            for query in 0..3 {
                for row in 0..2560 {
                    let score = -8.0 - random.below(3) as f32;
                    let place = (row / BLOCK * winnowing.room + query) * BLOCK + row % BLOCK;
                    winnowing.scores[place] = score;
                }
            }
            let lists = winnowing.run(bench, k, [0, 20], &Lists::new(3, 2560), true);
            for query in 0..3 {
                let scored = winnowing.rows_of(query, [0, 20]);
                let found = lists.of(query);
                winnowing.check(&scored, &found, k, &format!("k {k}, query {query}"));
                // About 850 rows are at the smallest distance, in every invocation's place.
                let intervals: Vec<_> = scored.iter().map(|row| row.interval).collect();
                let mut want: Vec<u32> =
                    winnow::reference(&intervals, k).into_iter().map(|row| scored[row].slot).collect();
                let mut slots: Vec<u32> = found.iter().map(|entry| entry[0]).collect();
                want.sort_unstable();
                slots.sort_unstable();
                assert_eq!(slots, want, "{form:?}, k {k}: ties stay, and nothing above");
            }
        }
    }
}

/// An invocation looks at four neighbouring rows of every eighth block, in two turns: where the nearest are all looked at apart, the
/// threshold is the k-th smallest upper end of all.
#[test]
fn winnow_keeps_k_rows_where_the_nearest_are_scattered() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    for form in FORMS {
        for k in [1, 2, 63, 64, 65, 66, 511, 512] {
            let mut winnowing = Winnowing::whole(form, 2, 2560);
            winnowing.margin = NONE;
            let one = Terms { scale: 1.0, length: 0.0, residual: 0.0, bias: 0.0 };
            winnowing.terms.iter_mut().for_each(|terms| terms.fill(one));
            let blocks = if k <= 64 { 8 } else { 16 };
            let nearest = |number: usize| {
                let (block, row) = (number % blocks, number / blocks * 4 + number % 4);
                // Those of the second query lie in other lanes.
                [block * BLOCK + row, (blocks - 1 - block) * BLOCK + BLOCK - 1 - row]
            };
            for number in 0..blocks * 32 {
                for (query, row) in nearest(number).into_iter().enumerate() {
                    let place = (row / BLOCK * winnowing.room + query) * BLOCK + row % BLOCK;
                    winnowing.scores[place] = 2000.0 - number as f32;
                }
            }
            let lists = winnowing.run(bench, k, [0, 20], &Lists::new(2, 2560), true);
            for query in 0..2 {
                let mut found: Vec<u32> = lists.of(query).iter().map(|entry| entry[0]).collect();
                let mut want: Vec<u32> =
                    (0..k).map(|number| winnowing.first_slot + nearest(number)[query] as u32).collect();
                found.sort_unstable();
                want.sort_unstable();
                assert_eq!(found, want, "{form:?}, k {k}: the k nearest and no others");
            }
        }
    }
}

#[test]
fn winnow_keeps_what_may_be_among_the_nearest_of_probed_lists() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    for form in FORMS {
        for (probes, height, rows) in [(1, 64, 1920), (9, 3, 2046), (13, 64, 1500), (11, 16, 130)] {
            let winnowing = Winnowing::probed(form, 21, probes, height, rows);
            for k in KS {
                let blocks = [0, winnowing.blocks];
                let lists = winnowing.run(bench, k, blocks, &Lists::new(21, 2100), true);
                let mut all = 0;
                for query in 0..21 {
                    let said = format!("{rows} rows, {probes} probes, k {k}, query {query}");
                    let (scored, found) = (winnowing.rows_of(query, blocks), lists.of(query));
                    assert_eq!(found.len(), lists.counts[query] as usize);
                    winnowing.check(&scored, &found, k, &said);
                    if scored.len() <= k {
                        assert_eq!(found.len(), scored.len(), "{said}: all stay");
                    }
                    if scored.len() > 1000 && k == 1 {
                        assert!(found.len() < scored.len(), "the case decides something");
                    }
                    all += scored.len();
                }
                assert!(all > 0);
            }
        }
    }
}

#[test]
fn waves_of_blocks_keep_what_one_wave_keeps() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    for (turn, form) in FORMS.into_iter().enumerate() {
        for (k, step) in [(1, 1), (10, 5), (64, 7), (65, 2), (512, 11)] {
            let winnowing = Winnowing::probed(form, 21, 9, [3, 64, 10][turn], 1918);
            let whole = [0, winnowing.blocks];
            let one = winnowing.run(bench, k, whole, &Lists::new(21, 2100), true);
            let mut lists = Lists::new(21, 2100);
            // And one wave behind the last block.
            let behind = winnowing.blocks.next_multiple_of(step);
            for first in (0..=behind).step_by(step) {
                let wave = [first, step];
                let before = lists.clone();
                lists = winnowing.run(bench, k, wave, &before, first == 0);
                for query in 0..21 {
                    let known = if first == 0 { 0 } else { before.counts[query] as usize };
                    let all = lists.of(query);
                    assert_eq!(all[..known], before.of(query)[..known], "what was there stays");
                    let scored = winnowing.rows_of(query, wave);
                    winnowing.check(
                        &scored,
                        &all[known..],
                        k,
                        &format!("blocks {wave:?}, k {k}, query {query}"),
                    );
                }
            }
            for query in 0..21 {
                let scored = winnowing.rows_of(query, whole);
                let found = lists.of(query);
                winnowing.check(&scored, &found, k, &format!("waves of {step}, k {k}, query {query}"));
                let kept: BTreeSet<[u32; 3]> = found.into_iter().collect();
                // Thresholds of fewer rows are not lower; above 64 rows take turns by what came before in a wave.
                if k <= 64 {
                    assert!(one.of(query).iter().all(|entry| kept.contains(entry)), "{form:?}, k {k}");
                }
            }
        }
    }
}

#[test]
fn winnow_counts_what_it_has_no_room_for_and_writes_none_of_it() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    for is_probed in [false, true] {
        let winnowing = match is_probed {
            true => Winnowing::probed(Form::NarrowedL2, 12, 9, 4, 1920),
            false => Winnowing::whole(Form::NarrowedL2, 12, 1500),
        };
        let blocks = [0, winnowing.blocks];
        let enough = winnowing.run(bench, 512, blocks, &Lists::new(12, 2000), true);
        for capacity in [1, 100, 399] {
            let lists = winnowing.run(bench, 512, blocks, &Lists::new(12, capacity), true);
            assert_eq!(lists.counts, enough.counts);
            assert!(lists.counts.iter().any(|&count| count as usize > capacity));
            for query in 0..12 {
                let all: BTreeSet<[u32; 3]> = enough.of(query).into_iter().collect();
                let found = lists.of(query);
                assert!(found.iter().all(|entry| all.contains(entry)), "query {query}");
                let different: BTreeSet<u32> = found.iter().map(|entry| entry[0]).collect();
                assert_eq!(different.len(), found.len());
            }
        }
        // Behind what is there.
        let mut before = Lists::new(12, 700);
        before.counts = (0..12).map(|query| query * 70).collect();
        let lists = winnowing.run(bench, 512, blocks, &before, false);
        for query in 0..12 {
            let had = query * 70;
            assert_eq!(lists.counts[query], had as u32 + enough.counts[query]);
            let found = lists.of(query);
            let had = had.min(700);
            assert!(found[..had].iter().all(|entry| *entry == [GUARD; 3]), "query {query}: left as it was");
            let all: BTreeSet<[u32; 3]> = enough.of(query).into_iter().collect();
            assert!(found[had..].iter().all(|entry| all.contains(entry)), "query {query}");
        }
    }
}

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
        assert!(grouped[behind..].iter().all(|&word| word == GUARD), "{said}: no more than there are");
        for (pair, &list) in probed.iter().flatten().enumerate() {
            let found = &pairs[pair * 4..][..4];
            if list as usize >= lists {
                assert_eq!(found, [0; 4], "{said}: a list that is none has no blocks");
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

/// Lists that so many queries probe, with so many pages.
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
    // A segment behind another.
    let (queries, first_slot, row_count) = (150, 640u32, 9 * BLOCK);
    let (query_vectors, rows) = (vectors(queries), vectors(row_count));
    let mut pages: Vec<u32> = (first_slot / PAGE..(first_slot + row_count as u32) / PAGE).collect();
    let page_counts: Vec<usize> = lists.iter().map(|list| list.1).collect();
    let mut tables = Tables::of_pages(&mut random, &mut pages, &page_counts);
    if let Some(last) = tables.tiles.last_mut() {
        // Pages of the segments before and behind.
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
            // What lies behind the last list's tiles is not of a list.
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
                assert!(found.len() == length && found.is_subset(&all), "{said}: each once, and of those");
            }
        }
    }
}

// average

fn averages(
    bench: Bench<'_>,
    rows: &[f32],
    dim: usize,
    sizes: &[usize],
    order: &[u32],
    unit: Unit,
) -> Vec<f32> {
    let width = dim.next_multiple_of(4);
    let norms: Vec<[f32; 2]> = rows
        .chunks_exact(dim)
        .map(|row| {
            let squared: f32 = row.iter().map(|x| x * x).sum();
            [squared, if squared > 0.0 { 1.0 / squared.sqrt() } else { 0.0 }]
        })
        .collect();
    let mut offsets = vec![0u32];
    sizes.iter().for_each(|&size| offsets.push(offsets[offsets.len() - 1] + size as u32));
    // Behind the last list comes a row that is in none.
    offsets.push(order.len() as u32 + 1);
    let order = [order, &[0]].concat();
    let inputs =
        [bench.input(&padded(rows, dim)), bench.input(&norms), bench.input(&order), bench.input(&offsets)];
    let means = bench.output(sizes.len() * width);
    let params = average::Params { lists: sizes.len() as u32, vectors: width as u32 / 4 };
    let mut buffers: Vec<BufferSlice<'_>> = inputs.iter().map(BufferSlice::all).collect();
    buffers.push(means.slice());
    let (constants, grid) = ([unit as u32], two_rows(sizes.len()));
    bench.run(|recorder| recorder.dispatch(&average::KERNEL, f32::KIND, &constants, &params, &buffers, grid));
    floats_of(&bench.read(&means))
}

#[test]
fn means_are_those_of_their_lists_and_empty_lists_keep_what_they_had() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let mut random = Random::new(51);
    for unit in [Unit::Any, Unit::Means, Unit::MeansAndRows] {
        for dim in [1, 4, 5, 513, 768] {
            for sizes in [&[0, 1, 2, 3, 0, 4, 5, 7, 8, 0][..], &[500], &[0, 0], &[0, 333, 0]] {
                let count: usize = sizes.iter().sum();
                // Of different lengths, not around 0, and one of none.
                let mut rows: Vec<f32> = random.floats(count.max(1) * dim);
                for (number, row) in rows.chunks_exact_mut(dim).enumerate() {
                    let scale = 0.5 + random.below(8) as f32;
                    row.iter_mut().for_each(|x| *x = if number == 2 { 0.0 } else { (*x + 0.75) * scale });
                }
                let mut order: Vec<u32> = (0..count as u32).collect();
                (1..count).rev().for_each(|place| order.swap(place, random.below(place + 1)));
                let found = averages(bench, &rows, dim, sizes, &order, unit);
                let (width, mut start) = (dim.next_multiple_of(4), 0);
                for (list, &size) in sizes.iter().enumerate() {
                    let found = &found[list * width..][..width];
                    let own: Vec<&[f32]> = order[start..start + size]
                        .iter()
                        .map(|&row| &rows[row as usize * dim..][..dim])
                        .collect();
                    start += size;
                    let said = format!("{unit:?}, dim {dim}, list {list} of {size}");
                    if size == 0 {
                        assert!(found.iter().all(|x| x.to_bits() == GUARD), "{said}: kept");
                        continue;
                    }
                    assert!(found[dim..].iter().all(|&x| x == 0.0), "{said}: padding stays 0");
                    check_mean(&found[..dim], &own, unit, &said);
                }
            }
        }
    }
}

/// Up to what adding one after the other rounds off.
fn check_mean(found: &[f32], rows: &[&[f32]], unit: Unit, said: &str) {
    let want = average::reference(rows, unit);
    let length = |row: &[f32]| row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let count = rows.len() as f64;
    let scales: Vec<f64> = rows
        .iter()
        .map(|row| match unit {
            Unit::MeansAndRows if length(row) > 0.0 => 1.0 / length(row),
            _ => 1.0,
        })
        .collect();
    let sum = |of: &dyn Fn(&[f32]) -> f64| {
        rows.iter().zip(&scales).map(|(row, scale)| of(row) * scale).sum::<f64>() / count
    };
    // Lengths before they become 1: those of what `reference` divides.
    let mean = |d: usize| sum(&|row| row[d].into());
    let norm =
        if unit == Unit::Any { 1.0 } else { (0..want.len()).map(|d| mean(d).powi(2)).sum::<f64>().sqrt() };
    if norm < 1e-3 {
        return;
    }
    let share = (count + want.len() as f64 / 4.0 + 64.0) * 2f64.powi(-23);
    for (d, (&found, want)) in found.iter().zip(&want).enumerate() {
        let size = sum(&|row| row[d].abs().into());
        let bound = share * (size / norm + want.abs());
        assert!((f64::from(found) - want).abs() <= bound, "{said}, element {d}: {found}, not {want}");
    }
}

#[test]
fn the_mean_of_opposite_rows_stays_zero_and_rows_are_added_in_their_order() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let rows = [3.0, -4.0, 0.5, 1.0, 2.0, -3.0, 4.0, -0.5, -1.0, -2.0];
    for unit in [Unit::Any, Unit::Means, Unit::MeansAndRows] {
        let found = averages(bench, &rows, 5, &[2], &[0, 1], unit);
        assert_eq!(found, [0.0; 8], "{unit:?}");
    }
    // 2^24 and ones: what comes out says in which order they were added.
    let mut rows = vec![1.0; 9];
    rows[8] = 16_777_216.0;
    let late: Vec<u32> = (0..9).collect();
    let early: Vec<u32> = (0..9).rev().collect();
    // 9 rows: the sum of ones first is exact, the other one loses each of them or rounds up in some.
    let [late, early] = [late, early].map(|order| averages(bench, &rows, 1, &[9], &order, Unit::Any)[0]);
    let share = 1.0f32 / 9.0;
    assert!((late - 16_777_224.0 * share).abs() <= 0.5, "{late}");
    assert!(early <= late, "{early}, {late}");
}
