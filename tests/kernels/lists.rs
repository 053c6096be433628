//! The kernels of candidate lists: `collect` and `tighten`.

use std::collections::BTreeMap;

use crate::common::bench::{Bench, GUARD, PARTS, columns_of, score_place};
use crate::common::{Random, gpu};
use nearfield::internals::kernels::collect::{self, Form, GROUP, Margin, Terms};
use nearfield::internals::kernels::{ABSENT, BLOCK_ROWS, Part, key_of, tighten, value_of};
use nearfield::{BufferSlice, Element};

const BLOCK: usize = BLOCK_ROWS as usize;
const CAPACITY: u32 = 1000;

/// A margin wide enough that the interval matters and rounding does not.
fn wide(form: Form) -> Margin {
    // Only narrowed vectors have a centre.
    let [centre_length, centre_squared] = if form.is_narrowed() { [1.5, 2.0] } else { [0.0; 2] };
    Margin { relative: 0.03, floor: 0.25, centre_length, centre_squared }
}

const NONE: Margin = Margin { relative: 0.0, floor: 0.0, centre_length: 0.0, centre_squared: 0.0 };

const FORMS: [Form; 7] = [
    Form::Direct,
    Form::L2,
    Form::InnerProduct,
    Form::Cosine,
    Form::NarrowedL2,
    Form::NarrowedInnerProduct,
    Form::NarrowedCosine,
];

/// A call of `collect`, apart from its scores.
#[derive(Clone, Copy)]
struct Call<'a> {
    thresholds: &'a [u32],
    allowed: Option<&'a [u32]>,
    capacity: u32,
    /// Step and skip.
    round: [u32; 2],
    /// The number of places of a sample, if the call gives it.
    sample: Option<u32>,
}

/// Counts, and the words of the lists.
struct Lists {
    counts: Vec<u32>,
    words: Vec<u32>,
    capacity: usize,
}

impl Lists {
    /// Slot, lower and upper key.
    fn entry(&self, query: usize, place: usize) -> [u32; 3] {
        let plane = self.counts.len() * self.capacity;
        [0, 1, 2].map(|which| self.words[which * plane + query * self.capacity + place])
    }

    fn of(&self, query: usize) -> Vec<[u32; 3]> {
        let length = self.capacity.min(self.counts[query] as usize);
        (0..length).map(|place| self.entry(query, place)).collect()
    }
}

/// The scores that `collect` decides on, and the terms of queries and rows.
struct Scored {
    form: Form,
    rows: usize,
    /// Terms of queries and rows, as the kernel reads them.
    words: [Vec<f32>; 2],
    terms: [Vec<Terms>; 2],
    part: Part,
    /// Queries that scores have room for.
    room: usize,
    scores: Vec<f32>,
    first_slot: u32,
    margin: Margin,
}

impl Scored {
    fn new(form: Form, part: Part, queries: usize, rows: usize, margin: Margin) -> Self {
        let mut random = Random::new(form as u64 + 1);
        let (mut words, mut terms) = ([vec![], vec![]], [vec![], vec![]]);
        for (which, count) in [queries, rows.next_multiple_of(BLOCK)].into_iter().enumerate() {
            for _ in 0..count {
                let squared = random.below(90) as f32;
                let inverse = if squared > 0.0 { 1.0 / squared.sqrt() } else { 0.0 };
                if form.is_narrowed() {
                    let mut of = |most: usize, step: f32| random.below(most) as f32 * step;
                    let [scale, length, residual] = [of(50, 0.01), of(90, 0.1), of(20, 0.02)];
                    let bias = if form == Form::NarrowedL2 { length * length } else { of(60, 0.5) - 15.0 };
                    words[which].extend([scale, length, residual, bias]);
                    terms[which].push(Terms { scale, length, residual, bias });
                } else {
                    words[which].extend([squared, inverse]);
                    terms[which].push(Terms::of_norms(form, squared, inverse));
                }
            }
        }
        // One block more than needed, and room for more queries than there are.
        let (room, blocks) =
            ((queries + 4).next_multiple_of(4), part.column_first / BLOCK_ROWS + part.blocks + 1);
        let score = |random: &mut Random| match form.is_narrowed() {
            true => random.below(400) as f32 - 150.0,
            false => random.below(4000) as f32 / 40.0,
        };
        let scores = (0..blocks as usize * room * BLOCK).map(|_| score(&mut random)).collect();
        Self { form, rows, words, terms, part, room, scores, first_slot: 70, margin }
    }

    fn queries(&self) -> usize {
        self.terms[0].len()
    }

    fn interval(&self, query: usize, column: usize, row: usize) -> [f64; 2] {
        let score = self.scores[score_place(query, column, self.room)];
        self.margin.interval(self.form, score.into(), self.terms[0][query], self.terms[1][row])
    }

    /// One round, on lists that already have `counts` entries.
    fn run(&self, bench: Bench<'_>, call: Call<'_>, counts: &[u32]) -> Lists {
        let plane = self.queries() * call.capacity as usize;
        let lists = vec![GUARD; 3 * plane];
        self.run_on(
            bench,
            call,
            Lists { counts: counts.to_vec(), words: lists, capacity: call.capacity as usize },
        )
    }

    fn run_on(&self, bench: Bench<'_>, call: Call<'_>, before: Lists) -> Lists {
        let [queries, rows] = [0, 1].map(|which| bench.input(&self.words[which]));
        let (scores, limits) = (bench.input(&self.scores), bench.input(call.thresholds));
        let bits = bench.input(call.allowed.unwrap_or(&[0]));
        let (counts, lists) = (bench.filled(&before.counts), bench.filled(&before.words));
        let [round_step, round_skip] = call.round;
        let number = self.part.column_first / GROUP;
        let groups = self.part.blocks * BLOCK_ROWS / GROUP;
        let round_start = number.next_multiple_of(round_step) - number;
        let params = collect::Params {
            queries: self.queries() as u32,
            room: self.room as u32,
            column_first: self.part.column_first,
            groups,
            block_first: self.part.block_first,
            block_step: self.part.block_step,
            rows: self.rows as u32,
            first_slot: self.first_slot,
            round_start,
            round_step,
            round_skip,
            sampled: call.sample.unwrap_or(0),
            capacity: call.capacity,
            plane: self.queries() as u32 * call.capacity,
            margin: self.margin.relative,
            margin_floor: self.margin.floor,
            centre_length: self.margin.centre_length,
            centre_squared: self.margin.centre_squared,
        };
        let buffers: [BufferSlice<'_>; 7] = [
            (&scores).into(),
            (&rows).into(),
            (&queries).into(),
            (&limits).into(),
            (&bits).into(),
            counts.slice(),
            lists.slice(),
        ];
        let columns = groups.saturating_sub(round_start).div_ceil(round_step).div_ceil(256);
        let grid = [columns, (self.queries() as u32).div_ceil(collect::queries_each(call.sample.is_some()))];
        bench.run(|recorder| {
            let constants = [self.form as u32, call.allowed.is_some().into(), call.sample.is_some().into()];
            recorder.dispatch(&collect::KERNEL, f32::KIND, &constants, &params, &buffers, grid)
        });
        Lists { counts: bench.read(&counts), words: bench.read(&lists), ..before }
    }

    /// Whether a row exists and may be found.
    fn is_usable(&self, row: usize, allowed: Option<&[u32]>) -> bool {
        let slot = self.first_slot as usize + row;
        row < self.rows && allowed.is_none_or(|words| words[slot / 32] >> (slot % 32) & 1 == 1)
    }

    /// Panics unless an entry holds the ends of this interval, up to the rounding of f32.
    fn check_ends(&self, entry: [u32; 3], query: usize, column: usize, row: usize) {
        let interval = self.interval(query, column, row);
        for (key, want) in entry[1..].iter().zip(interval) {
            let found = f64::from(value_of(*key));
            let form = self.form;
            assert!((found - want).abs() <= slack(interval), "{form:?}, row {row}: {found}, not {want}");
        }
    }
}

/// The most that computing an interval in f32 may round off.
fn slack(interval: [f64; 2]) -> f64 {
    interval[0].abs().max(interval[1].abs()).max(10.0) * 1e-5
}

fn bitset() -> Vec<u32> {
    (0..40u32).map(|word| word.wrapping_mul(0x9e37_79b9) | 0x1010).collect()
}

#[test]
fn the_interval_decides_which_rows_are_kept() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    for form in FORMS {
        for part in PARTS {
            let scored = Scored::new(form, part, 37, 7 * BLOCK - 50, wide(form));
            // Each query's threshold lies near the middle of its lower ends: some rows survive, some do not.
            let thresholds: Vec<u32> = (0..37)
                .map(|query| {
                    let mut ends: Vec<f64> = columns_of(&part)
                        .map(|(column, row)| scored.interval(query, column, row)[0])
                        .collect();
                    ends.sort_by(f64::total_cmp);
                    key_of(ends[ends.len() * (query % 10) / 10] as f32)
                })
                .collect();
            let words = bitset();
            for allowed in [None, Some(&words[..])] {
                let call =
                    Call { thresholds: &thresholds, allowed, capacity: 900, round: [1, 0], sample: None };
                let lists = scored.run(bench, call, &[0; 37]);
                for (query, &threshold) in thresholds.iter().enumerate() {
                    let found: BTreeMap<u32, [u32; 3]> =
                        lists.of(query).iter().map(|entry| (entry[0], *entry)).collect();
                    assert_eq!(found.len(), lists.counts[query] as usize, "each row once");
                    let limit = f64::from(value_of(threshold));
                    let (mut kept, mut dropped) = (0, 0);
                    for (column, row) in columns_of(&part) {
                        let slot = scored.first_slot + row as u32;
                        if !scored.is_usable(row, allowed) {
                            assert!(!found.contains_key(&slot), "{form:?}, slot {slot} is not there");
                            continue;
                        }
                        let interval = scored.interval(query, column, row);
                        let slack = slack(interval);
                        let said = || format!("{form:?}, slot {slot}: {interval:?} and {limit}");
                        match found.get(&slot) {
                            Some(entry) => {
                                kept += 1;
                                assert!(interval[0] <= limit + slack, "{}", said());
                                scored.check_ends(*entry, query, column, row);
                            }
                            None => {
                                dropped += 1;
                                assert!(interval[0] >= limit - slack, "{}", said());
                            }
                        }
                    }
                    assert!(kept + dropped > 20, "the case decides something");
                    assert!(query % 10 == 0 || kept > 0 && dropped > 0, "{form:?}: both happen");
                }
            }
        }
    }
}

#[test]
fn rounds_take_every_group_once() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    for part in PARTS {
        let scored = Scored::new(Form::Direct, part, 3, 7 * BLOCK, NONE);
        let all = [key_of(f32::MAX); 3];
        let call = |round| Call { thresholds: &all, allowed: None, capacity: CAPACITY, round, sample: None };
        let whole = scored.run(bench, call([1, 0]), &[0; 3]);
        for rounds in
            [&[[8, 0], [2, 8], [1, 2]][..], &[[64, 0], [1, 64]], &[[1024, 0], [512, 1024], [1, 512]]]
        {
            let mut together: Vec<Vec<u32>> = vec![vec![]; 3];
            for &round in rounds {
                let lists = scored.run(bench, call(round), &[0; 3]);
                for (query, slots) in together.iter_mut().enumerate() {
                    slots.extend(lists.of(query).iter().map(|entry| entry[0]));
                }
            }
            for (query, mut together) in together.into_iter().enumerate() {
                let mut whole: Vec<u32> = whole.of(query).iter().map(|entry| entry[0]).collect();
                whole.sort_unstable();
                together.sort_unstable();
                assert_eq!(together, whole, "{part:?}, {rounds:?}");
            }
        }
    }
}

/// Two parts of a chunk, of segments whose last blocks are not full, so that some places of a sample have no row.
#[test]
fn a_sample_keeps_every_row_at_a_place_of_its_own() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let words = bitset();
    let first = Part { segment: 0, block_first: 0, block_step: 2, blocks: 3, column_first: 0 };
    let second = Part { segment: 1, block_first: 1, block_step: 2, blocks: 2, column_first: 384 };
    let chunk = (first.blocks + second.blocks) * BLOCK_ROWS / GROUP;
    // Thresholds below every lower end: a sample must ignore them.
    let thresholds = vec![key_of(-1e30); 35];
    for (turn, form) in FORMS.into_iter().enumerate() {
        for (step, allowed) in [(1, None), (2, Some(&words[..])), (16, None), (256, Some(&words[..]))] {
            let mut parts = [
                Scored::new(form, first, 35, 5 * BLOCK - 51 - turn, wide(form)),
                Scored::new(form, second, 35, 4 * BLOCK - 30, wide(form)),
            ];
            parts[1].first_slot = 710;
            let sampled = chunk.div_ceil(step) * GROUP;
            let mut lists = Lists {
                counts: vec![GUARD; 35],
                words: vec![GUARD; 3 * 35 * CAPACITY as usize],
                capacity: CAPACITY as usize,
            };
            // In either order; only the first part gives the number of places.
            for which in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
                let sample = Some(if which == 0 { sampled } else { 0 });
                let call =
                    Call { thresholds: &thresholds, allowed, capacity: CAPACITY, round: [step, 0], sample };
                lists = parts[which].run_on(bench, call, lists);
            }
            assert_eq!(lists.counts, [sampled; 35], "{form:?}, step {step}");
            for query in 0..35 {
                let mut is_written = vec![false; CAPACITY as usize];
                for scored in &parts {
                    for (column, row) in columns_of(&scored.part) {
                        let (group, lane) = (column / GROUP as usize, column % GROUP as usize);
                        if group % step as usize != 0 {
                            continue;
                        }
                        let place = group / step as usize * GROUP as usize + lane;
                        let entry = lists.entry(query, place);
                        is_written[place] = true;
                        if scored.is_usable(row, allowed) {
                            assert_eq!(entry[0], scored.first_slot + row as u32, "{form:?}, place {place}");
                            scored.check_ends(entry, query, column, row);
                        } else {
                            assert_eq!(entry, [0, ABSENT, ABSENT], "{form:?}, place {place} has no row");
                        }
                    }
                }
                let written = is_written.iter().filter(|&&is_written| is_written).count();
                assert_eq!(written, sampled as usize, "every place that was announced");
                let untouched = (0..CAPACITY as usize).filter(|&place| !is_written[place]);
                untouched.for_each(|place| assert_eq!(lists.entry(query, place), [GUARD; 3]));
            }
        }
    }
}

#[test]
fn an_overflowing_list_still_counts_and_is_flagged() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let scored = Scored::new(Form::Direct, PARTS[0], 5, 7 * BLOCK, NONE);
    let mut thresholds = [key_of(f32::MAX); 5];
    thresholds[3] = key_of(-1.0);
    let call = Call { thresholds: &thresholds, allowed: None, capacity: 64, round: [1, 0], sample: None };
    // The last query's list has 5 entries already.
    let lists = scored.run(bench, call, &[0, 0, 0, 0, 5]);
    assert_eq!(lists.counts, [896, 896, 896, 0, 901]);
    let slots = 70..70 + 896;
    let real = (0..3).flat_map(|query| lists.of(query)).all(|entry| slots.contains(&entry[0]));
    assert!(real, "overflow still leaves real rows");
    assert_eq!(lists.of(4)[..5], [[GUARD; 3]; 5], "entries from before stay");
    // A sample that is larger than the list is flagged, too, and writes nothing behind the list.
    let lists = scored.run(bench, Call { sample: Some(896), ..call }, &[0; 5]);
    assert_eq!(lists.counts, [896; 5]);
    assert!((0..5).flat_map(|query| lists.of(query)).all(|entry| (70..70 + 64).contains(&entry[0])));

    let mut case = Tightened::new(64, 5);
    case.thresholds.copy_from_slice(&thresholds);
    case.counts = vec![896, 64, 0, 65, 3];
    case.flags[2] = 1;
    case.run(bench, 10, None);
    assert_eq!(case.flags, [1, 0, 1, 1, 0], "flags stay once they are set");
    assert!(case.counts.iter().all(|&count| count <= 64), "{:?}", case.counts);
}

/// The inputs and outputs of `tighten`.
struct Tightened {
    capacity: usize,
    thresholds: Vec<u32>,
    counts: Vec<u32>,
    lists: Vec<u32>,
    flags: Vec<u32>,
    /// Whether thresholds and flags are not set yet.
    is_first: bool,
}

impl Tightened {
    fn new(capacity: usize, queries: usize) -> Self {
        Self {
            capacity,
            thresholds: vec![key_of(f32::MAX); queries],
            counts: vec![0; queries],
            lists: vec![GUARD; 3 * queries * capacity],
            flags: vec![0; queries],
            is_first: false,
        }
    }

    fn put(&mut self, query: usize, list: &[(u32, u32, u32)]) {
        self.counts[query] = list.len() as u32;
        let plane = self.counts.len() * self.capacity;
        for (place, entry) in list.iter().enumerate() {
            let at = query * self.capacity + place;
            (self.lists[at], self.lists[plane + at], self.lists[2 * plane + at]) = *entry;
        }
    }

    /// The entries of a list, by slot.
    fn list(&self, query: usize) -> Vec<(u32, u32, u32)> {
        let plane = self.counts.len() * self.capacity;
        let entries = (0..self.counts[query] as usize).map(|place| query * self.capacity + place);
        let mut list: Vec<_> =
            entries.map(|at| (self.lists[at], self.lists[plane + at], self.lists[2 * plane + at])).collect();
        list.sort_unstable();
        list
    }

    /// With exact keys, those of all lists one after the other, or without.
    fn run(&mut self, bench: Bench<'_>, k: u32, exact: Option<&[u32]>) {
        let queries = self.counts.len() as u32;
        // Each list's keys start where its entries do.
        let mut keys = vec![GUARD; self.counts.len() * self.capacity];
        let mut rest = exact.unwrap_or(&[]);
        for (query, &count) in self.counts.iter().enumerate().filter(|_| exact.is_some()) {
            let (own, others) = rest.split_at((count as usize).min(self.capacity));
            keys[query * self.capacity..][..own.len()].copy_from_slice(own);
            rest = others;
        }
        let [limits, counts] = [&self.thresholds, &self.counts].map(|words| bench.filled(words));
        let [lists, flags] = [&self.lists, &self.flags].map(|words| bench.filled(words));
        let exact_keys = bench.input(&keys);
        let capacity = self.capacity as u32;
        let is_first = self.is_first.into();
        let params = tighten::Params { queries, k, capacity, plane: queries * capacity, is_first };
        let buffers =
            [limits.slice(), counts.slice(), lists.slice(), flags.slice(), BufferSlice::all(&exact_keys)];
        let constants = [exact.is_some().into()];
        // Two rows of workgroups, with one workgroup too many in the second.
        let grid = [queries.div_ceil(2), 2];
        bench.run(|recorder| {
            recorder.dispatch(&tighten::KERNEL, f32::KIND, &constants, &params, &buffers, grid)
        });
        self.thresholds = bench.read(&limits);
        self.counts = bench.read(&counts);
        self.lists = bench.read(&lists);
        self.flags = bench.read(&flags);
    }
}

/// Lengths around the count that is compared all with all, the entries that a workgroup holds, and the capacity.
const LENGTHS: [usize; 19] =
    [0, 1, 9, 10, 11, 255, 256, 257, 511, 512, 513, 700, 1000, 4095, 4096, 4097, 4352, 4353, 8200];

#[test]
fn thresholds_become_the_kth_upper_bound_and_lists_are_thinned() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let mut random = Random::new(21);
    // Numbers of both signs; with a larger `far` they share their first bits, or all bits.
    let cases = [
        (1, 1000, 0, 0.0),
        (10, 1000, 7, 0.0),
        (10, 3, 0, 0.0),
        (256, 50, 3, 0.0),
        (512, 1 << 20, 5, 0.0),
        (1000, 1 << 20, 0, 0.0),
        (10, 200, 4, 1500.0),
        (600, 5000, 2, 3e4),
        (10, 5000, 0, -7e5),
        (10, 40, 3, 1e9),
        (10, 1 << 20, 0, 524_288.0),
    ];
    for (turn, (k, spread, absent, far)) in cases.into_iter().enumerate() {
        for is_exact in [false, true] {
            let mut case = Tightened::new(8200, LENGTHS.len());
            let (mut lists, mut exact) = (vec![], vec![]);
            for (query, &length) in LENGTHS.iter().enumerate() {
                let mut list = vec![];
                let mut read = vec![];
                for place in 0..length {
                    let middle = far + (random.below(spread) as f32 - spread as f32 / 3.0) * 0.5;
                    let width = random.below(4) as f32;
                    let is_absent = absent > 0 && random.below(absent) == 0;
                    let slot = if is_absent { 0 } else { place as u32 * 3 + 1 };
                    let ends = [middle - width, middle + width];
                    let [lower, upper] = ends.map(|end| if is_absent { ABSENT } else { key_of(end) });
                    list.push((slot, lower, upper));
                    let distance = if is_absent { ABSENT } else { key_of(middle) };
                    exact.push(distance);
                    read.push(if is_exact { (slot, distance, distance) } else { (slot, lower, upper) });
                }
                case.put(query, &list);
                // Some thresholds are lower than the lists' k-th upper ends.
                if query % 3 == 2 {
                    case.thresholds[query] = key_of(1.0);
                }
                lists.push(read);
            }
            let before = case.thresholds.clone();
            case.run(bench, k, is_exact.then_some(&exact));
            assert_eq!(case.flags, [0; LENGTHS.len()]);
            for (query, list) in lists.iter().enumerate() {
                let said = format!("case {turn}, exact {is_exact}, k {k}, list of {}", list.len());
                let (limit, _) = tighten::reference(before[query], list, k as usize);
                let mut stays: Vec<_> = list.iter().filter(|entry| entry.1 <= limit).copied().collect();
                stays.sort_unstable();
                assert_eq!(case.thresholds[query], limit, "{said}");
                assert_eq!(case.list(query), stays, "{said}");
            }
        }
    }
}

#[test]
fn an_overflowed_list_is_tightened_by_its_exact_keys_like_a_full_one() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let mut random = Random::new(22);
    let mut case = Tightened::new(600, 3);
    let mut lists = vec![];
    let mut exact = vec![];
    for query in 0..3 {
        let list: Vec<_> = (0..600u32).map(|slot| (slot, key_of(-9.0), key_of(9.0))).collect();
        case.put(query, &list);
        let keys: Vec<u32> = (0..600).map(|_| key_of(random.below(100) as f32)).collect();
        exact.extend(&keys);
        lists.push((0..600).zip(keys).map(|(slot, key)| (slot, key, key)).collect::<Vec<_>>());
    }
    case.counts[1] = 5000;
    case.run(bench, 20, Some(&exact));
    assert_eq!(case.flags, [0, 1, 0]);
    for (query, list) in lists.iter().enumerate() {
        let (limit, stays) = tighten::reference(key_of(f32::MAX), list, 20);
        assert_eq!(case.thresholds[query], limit);
        assert_eq!(case.list(query).len(), stays.len());
    }
}

#[test]
fn the_first_tightening_needs_no_thresholds_and_no_flags() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let mut case = Tightened::new(700, 3);
    for (query, length) in [3u32, 40, 700].into_iter().enumerate() {
        let list: Vec<_> =
            (0..length).map(|slot| (slot, key_of(slot as f32), key_of(slot as f32 + 1.0))).collect();
        case.put(query, &list);
    }
    case.counts[2] = 701;
    case.thresholds = vec![GUARD, 0, 0];
    case.flags = vec![GUARD, 7, 0];
    case.is_first = true;
    case.run(bench, 10, None);
    assert_eq!(case.flags, [0, 0, 1]);
    assert_eq!(case.thresholds[0], key_of(f32::MAX), "fewer than k rows give no threshold");
    assert_eq!(case.thresholds[1], key_of(10.0));
    assert_eq!(case.counts[..2], [3, 11]);
}

/// A row at the threshold may come before others by its id.
#[test]
fn a_row_at_the_threshold_is_kept() {
    let Some(device) = gpu() else { return };
    let mut scored = Scored::new(Form::Direct, PARTS[1], 3, 7 * BLOCK, NONE);
    scored.scores.iter_mut().for_each(|score| *score = score.floor());
    let thresholds = [key_of(0.0), key_of(40.0), key_of(99.0)];
    let call =
        Call { thresholds: &thresholds, allowed: None, capacity: CAPACITY, round: [1, 0], sample: None };
    let lists = scored.run(Bench::new(device), call, &[0; 3]);
    for (query, limit) in [0.0, 40.0, 99.0].into_iter().enumerate() {
        let scores = columns_of(&scored.part)
            .map(|(column, _)| scored.scores[score_place(query, column, scored.room)]);
        let (at, below) = scores.fold((0, 0), |(at, below), score| {
            (at + u32::from(score == limit), below + u32::from(score < limit))
        });
        assert!(at > 0, "the case decides something");
        assert_eq!(lists.counts[query], at + below, "up to {limit}");
    }
}
