//! The kernels of candidate lists: `collect` and `tighten`.

use super::{Lists, NONE, WIDE, bitset, check_ends, has, random_terms, slack};
use crate::common::bench::{Bench, GUARD, PARTS, columns_of, score_place, two_rows};
use nearfield::internals::kernels::collect::{self, Form, GROUP, Margin, Terms};
use nearfield::internals::kernels::{ABSENT, BLOCK_ROWS, Part, key_of, tighten, value_of};
use nearfield_testing::Random;

const BLOCK: usize = BLOCK_ROWS as usize;
const CAPACITY: usize = 1000;

/// The wide margin of a form: only quantised vectors have a centre.
fn wide(form: Form) -> Margin {
    if form.is_quantized() { WIDE } else { Margin { centre_length: 0.0, centre_squared: 0.0, ..WIDE } }
}

const FORMS: [Form; 7] = [
    Form::Direct,
    Form::L2,
    Form::InnerProduct,
    Form::Cosine,
    Form::QuantizedL2,
    Form::QuantizedInnerProduct,
    Form::QuantizedCosine,
];

/// A call of `collect`, apart from its scores.
#[derive(Clone, Copy)]
struct Call<'a> {
    thresholds: &'a [u32],
    allowed: Option<&'a [u32]>,
    /// Step and skip.
    round: [u32; 2],
    /// The number of places of a sample, if the call gives it.
    sample: Option<u32>,
}

impl<'a> Call<'a> {
    /// One round over all groups.
    fn new(thresholds: &'a [u32]) -> Self {
        Self { thresholds, allowed: None, round: [1, 0], sample: None }
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
        let counts = [queries, rows.next_multiple_of(BLOCK)];
        let (words, terms) = if form.is_quantized() {
            let terms = random_terms(&mut random, form, counts);
            (terms.each_ref().map(|terms| bytemuck::cast_slice(terms).to_vec()), terms)
        } else {
            let mut norms = || -> [f32; 2] {
                let squared = random.below(90) as f32;
                [squared, if squared > 0.0 { 1.0 / squared.sqrt() } else { 0.0 }]
            };
            let norms = counts.map(|count| (0..count).map(|_| norms()).collect::<Vec<_>>());
            let of_norms = |&[squared, inverse]: &[f32; 2]| Terms::of_norms(form, squared, inverse);
            let terms = norms.each_ref().map(|norms| norms.iter().map(of_norms).collect());
            (norms.map(|norms| norms.concat()), terms)
        };
        // One block more than needed, and room for more queries than there are.
        let (room, blocks) =
            ((queries + 4).next_multiple_of(4), part.column_first / BLOCK_ROWS + part.blocks + 1);
        let score = |random: &mut Random| match form.is_quantized() {
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

    /// One round on lists with this capacity and these counts.
    fn run(&self, bench: Bench<'_>, call: Call<'_>, capacity: usize, counts: &[u32]) -> Lists {
        let before = Lists { counts: counts.to_vec(), ..Lists::new(self.queries(), capacity) };
        self.run_on(bench, call, before)
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
            capacity: before.capacity as u32,
            plane: (self.queries() * before.capacity) as u32,
            ..collect::Params::of(self.margin)
        };
        let columns = groups.saturating_sub(round_start).div_ceil(round_step).div_ceil(256);
        let grid = [columns, (self.queries() as u32).div_ceil(collect::queries_each(call.sample.is_some()))];
        let constants = [self.form as u32, call.allowed.is_some().into(), call.sample.is_some().into()];
        let buffers = [&scores, &rows, &queries, &limits, &bits, &counts, &lists];
        bench.dispatch(&collect::KERNEL, &constants, &params, &buffers, grid);
        Lists { counts: bench.read(&counts), words: bench.read(&lists), ..before }
    }

    /// Whether a row exists and may be found.
    fn is_usable(&self, row: usize, allowed: Option<&[u32]>) -> bool {
        row < self.rows && allowed.is_none_or(|words| has(words, self.first_slot + row as u32))
    }

    /// Panics unless an entry holds the ends of this interval.
    fn check_ends(&self, entry: [u32; 3], query: usize, column: usize, row: usize) {
        check_ends(entry, self.interval(query, column, row), format_args!("{:?}, row {row}", self.form));
    }
}

#[test]
fn the_interval_decides_which_rows_are_kept() {
    let Some(bench) = Bench::open() else { return };
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
            let words = bitset(40);
            for allowed in [None, Some(&words[..])] {
                let call = Call { allowed, ..Call::new(&thresholds) };
                let lists = scored.run(bench, call, 900, &[0; 37]);
                for (query, &threshold) in thresholds.iter().enumerate() {
                    let found = lists.by_slot(query);
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
    let Some(bench) = Bench::open() else { return };
    for part in PARTS {
        let scored = Scored::new(Form::Direct, part, 3, 7 * BLOCK, NONE);
        let all = [key_of(f32::MAX); 3];
        let slots = |round| {
            let lists = scored.run(bench, Call { round, ..Call::new(&all) }, CAPACITY, &[0; 3]);
            [0, 1, 2].map(|query| lists.slots(query))
        };
        let whole = slots([1, 0]);
        for rounds in
            [&[[8, 0], [2, 8], [1, 2]][..], &[[64, 0], [1, 64]], &[[1024, 0], [512, 1024], [1, 512]]]
        {
            let taken: Vec<[Vec<u32>; 3]> = rounds.iter().map(|&round| slots(round)).collect();
            for (query, whole) in whole.iter().enumerate() {
                let mut together = taken.iter().map(|round| &round[query][..]).collect::<Vec<_>>().concat();
                together.sort_unstable();
                assert_eq!(together, *whole, "{part:?}, {rounds:?}");
            }
        }
    }
}

/// Two parts of a chunk, of segments whose last blocks are not full, so that some places of a sample have no row.
#[test]
fn a_sample_keeps_every_row_at_a_place_of_its_own() {
    let Some(bench) = Bench::open() else { return };
    let words = bitset(40);
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
            let mut lists = Lists::new(35, CAPACITY);
            // In either order; only the first part gives the number of places.
            for which in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
                let sample = Some(if which == 0 { sampled } else { 0 });
                let call = Call { allowed, round: [step, 0], sample, ..Call::new(&thresholds) };
                lists = parts[which].run_on(bench, call, lists);
            }
            assert_eq!(lists.counts, [sampled; 35], "{form:?}, step {step}");
            for query in 0..35 {
                let mut is_written = vec![false; CAPACITY];
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
                let untouched = (0..CAPACITY).filter(|&place| !is_written[place]);
                untouched.for_each(|place| assert_eq!(lists.entry(query, place), [GUARD; 3]));
            }
        }
    }
}

#[test]
fn an_overflowing_list_still_counts_and_is_flagged() {
    let Some(bench) = Bench::open() else { return };
    let scored = Scored::new(Form::Direct, PARTS[0], 5, 7 * BLOCK, NONE);
    let mut thresholds = [key_of(f32::MAX); 5];
    thresholds[3] = key_of(-1.0);
    // The last query's list has 5 entries already.
    let lists = scored.run(bench, Call::new(&thresholds), 64, &[0, 0, 0, 0, 5]);
    assert_eq!(lists.counts, [896, 896, 896, 0, 901]);
    let slots = 70..70 + 896;
    let real = (0..3).flat_map(|query| lists.of(query)).all(|entry| slots.contains(&entry[0]));
    assert!(real, "overflow still leaves real rows");
    assert_eq!(lists.of(4)[..5], [[GUARD; 3]; 5], "entries from before stay");
    // A sample that is larger than the list is flagged, too, and writes nothing behind the list.
    let lists = scored.run(bench, Call { sample: Some(896), ..Call::new(&thresholds) }, 64, &[0; 5]);
    assert_eq!(lists.counts, [896; 5]);
    assert!((0..5).flat_map(|query| lists.of(query)).all(|entry| (70..70 + 64).contains(&entry[0])));

    let mut case = Tightened::new(64, 5);
    case.thresholds.copy_from_slice(&thresholds);
    case.lists.counts = vec![896, 64, 0, 65, 3];
    case.flags[2] = 1;
    case.run(bench, 10, None);
    assert_eq!(case.flags, [1, 0, 1, 1, 0], "flags stay once they are set");
    assert!(case.lists.counts.iter().all(|&count| count <= 64), "{:?}", case.lists.counts);
}

/// The inputs and outputs of `tighten`.
struct Tightened {
    thresholds: Vec<u32>,
    lists: Lists,
    flags: Vec<u32>,
    /// Whether thresholds and flags are not set yet.
    is_first: bool,
}

impl Tightened {
    fn new(capacity: usize, queries: usize) -> Self {
        Self {
            thresholds: vec![key_of(f32::MAX); queries],
            lists: Lists::new(queries, capacity),
            flags: vec![0; queries],
            is_first: false,
        }
    }

    /// With exact keys for each place of each list, or without.
    fn run(&mut self, bench: Bench<'_>, k: u32, exact: Option<&[u32]>) {
        let (queries, capacity) = (self.thresholds.len() as u32, self.lists.capacity as u32);
        let [limits, counts, lists, flags] =
            [&self.thresholds, &self.lists.counts, &self.lists.words, &self.flags]
                .map(|words| bench.filled(words));
        let exact_keys = bench.input(exact.unwrap_or(&[]));
        let is_first = self.is_first.into();
        let params = tighten::Params { queries, k, capacity, plane: queries * capacity, is_first };
        let buffers = [&limits, &counts, &lists, &flags, &exact_keys];
        let grid = two_rows(queries as usize);
        bench.dispatch(&tighten::KERNEL, &[exact.is_some().into(), (k > 64).into()], &params, &buffers, grid);
        self.thresholds = bench.read(&limits);
        self.lists.counts = bench.read(&counts);
        self.lists.words = bench.read(&lists);
        self.flags = bench.read(&flags);
    }
}

/// Lengths around the counts of keys that are compared, the entries that a workgroup holds, and the capacity.
const LENGTHS: [usize; 19] =
    [0, 1, 9, 10, 11, 127, 128, 129, 255, 256, 257, 700, 1000, 4095, 4096, 4097, 4352, 4353, 8200];

/// The last list overflowed: it is tightened like a full one, and flagged.
#[test]
fn thresholds_become_the_kth_upper_bound_and_lists_are_thinned() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(21);
    // Numbers of both signs; with a larger `far` they share their first bits, or all bits.
    let cases = [
        (1, 1000, 0, 0.0),
        (10, 1000, 7, 0.0),
        (10, 3, 0, 0.0),
        (40, 5000, 3, 0.0),
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
            let mut lists = vec![];
            let mut exact = vec![GUARD; LENGTHS.len() * 8200];
            for (query, &length) in LENGTHS.iter().enumerate() {
                let mut list = vec![];
                let mut read = vec![];
                for place in 0..length {
                    let middle = far + (random.below(spread) as f32 - spread as f32 / 3.0) * 0.5;
                    let width = random.below(4) as f32;
                    let is_absent = absent > 0 && random.below(absent) == 0;
                    let slot = if is_absent { 0 } else { place as u32 * 3 + 1 };
                    let [lower, distance, upper] = [middle - width, middle, middle + width]
                        .map(|end| if is_absent { ABSENT } else { key_of(end) });
                    list.push([slot, lower, upper]);
                    exact[query * 8200 + place] = distance;
                    read.push(if is_exact { (slot, distance, distance) } else { (slot, lower, upper) });
                }
                case.lists.put(query, &list);
                // Some thresholds are lower than the lists' k-th upper ends.
                if query % 3 == 2 {
                    case.thresholds[query] = key_of(1.0);
                }
                lists.push(read);
            }
            case.lists.counts[18] = 9000;
            let before = case.thresholds.clone();
            case.run(bench, k, is_exact.then_some(&exact));
            assert_eq!(case.flags[..18], [0; 18]);
            assert_eq!(case.flags[18], 1);
            for (query, list) in lists.iter().enumerate() {
                let said = format!("case {turn}, exact {is_exact}, k {k}, list of {}", list.len());
                let (limit, _) = tighten::reference(before[query], list, k as usize);
                let stays = list.iter().filter(|entry| entry.1 <= limit);
                let mut stays: Vec<_> = stays.map(|&(slot, lower, upper)| [slot, lower, upper]).collect();
                let mut found = case.lists.of(query);
                stays.sort_unstable();
                found.sort_unstable();
                assert_eq!(case.thresholds[query], limit, "{said}");
                assert_eq!(found, stays, "{said}");
            }
        }
    }
}

#[test]
fn the_first_tightening_needs_no_thresholds_and_no_flags() {
    let Some(bench) = Bench::open() else { return };
    let mut case = Tightened::new(700, 3);
    for (query, length) in [3u32, 40, 700].into_iter().enumerate() {
        let list = (0..length).map(|slot| [slot, key_of(slot as f32), key_of(slot as f32 + 1.0)]);
        case.lists.put(query, &list.collect::<Vec<_>>());
    }
    case.lists.counts[2] = 701;
    case.thresholds = vec![GUARD, 0, 0];
    case.flags = vec![GUARD, 7, 0];
    case.is_first = true;
    case.run(bench, 10, None);
    assert_eq!(case.flags, [0, 0, 1]);
    assert_eq!(case.thresholds[0], key_of(f32::MAX), "fewer than k rows give no threshold");
    assert_eq!(case.thresholds[1], key_of(10.0));
    assert_eq!(case.lists.counts[..2], [3, 11]);
}

/// A row at the threshold may come before others by its id.
#[test]
fn a_row_at_the_threshold_is_kept() {
    let Some(bench) = Bench::open() else { return };
    let mut scored = Scored::new(Form::Direct, PARTS[1], 3, 7 * BLOCK, NONE);
    scored.scores.iter_mut().for_each(|score| *score = score.floor());
    let limits = [0.0, 40.0, 99.0];
    let lists = scored.run(bench, Call::new(&limits.map(key_of)), CAPACITY, &[0; 3]);
    for (query, limit) in limits.into_iter().enumerate() {
        let scores: Vec<f32> = columns_of(&scored.part)
            .map(|(column, _)| scored.scores[score_place(query, column, scored.room)])
            .collect();
        assert!(scores.contains(&limit), "the case decides something");
        let up_to = scores.iter().filter(|&&score| score <= limit).count();
        assert_eq!(lists.counts[query] as usize, up_to, "up to {limit}");
    }
}
