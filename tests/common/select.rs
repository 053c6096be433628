//! Selections from rows whose ids are positions.

use nearfield::internals::kernels::select_k::{Rows, SORTED_MAX, Scratch, Select, Selected};
use nearfield::internals::kernels::selection::scratch_bytes;
use nearfield::internals::kernels::{ABSENT, key_of, select_k, select_row};
use nearfield::{BufferSlice, Device, Recorder};

use super::bench::{Bench, GUARD, ids_of};
use nearfield_testing::Random;

/// Rows to select from: `pitch` apart on the device, with a count each if they are lists, or the segments between offsets.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    /// Floats, or keys.
    pub(crate) words: &'a [u32],
    pub(crate) floats: bool,
    /// Without them, elements have their positions as ids.
    pub(crate) ids: Option<&'a [u64]>,
    pub(crate) rows: usize,
    pub(crate) length: usize,
    pub(crate) pitch: usize,
    pub(crate) offsets: Option<&'a [u32]>,
    /// More than `pitch` in a list that overflowed.
    pub(crate) counts: Option<&'a [u32]>,
    pub(crate) k: usize,
    pub(crate) has_scratch: bool,
}

impl<'a> Case<'a> {
    /// Rows of floats, one behind the other.
    pub(crate) fn of(words: &'a [u32], length: usize, k: usize) -> Self {
        let (rows, pitch) = (words.len() / length, length);
        let (floats, has_scratch) = (true, true);
        Self { words, floats, ids: None, rows, length, pitch, offsets: None, counts: None, k, has_scratch }
    }

    /// Rows of keys that have ids, one behind the other.
    pub(crate) fn with_ids(words: &'a [u32], ids: &'a [u64], length: usize, k: usize) -> Self {
        Self { floats: false, ids: Some(ids), has_scratch: false, ..Self::of(words, length, k) }
    }

    /// The k smallest elements of a row.
    fn wanted(&self, row: usize) -> Vec<(u32, u64)> {
        let first = row * self.pitch;
        let range = match (self.offsets, self.counts) {
            (Some(offsets), _) => offsets[row] as usize..offsets[row + 1] as usize,
            (None, Some(counts)) => first..first + self.pitch.min(counts[row] as usize),
            (None, None) => first..first + self.length,
        };
        let key = |&word: &u32| if self.floats { key_of(f32::from_bits(word)) } else { word };
        let keys: Vec<u32> = self.words[range.clone()].iter().map(key).collect();
        match self.ids {
            Some(ids) => select_k::reference(&keys, &ids[range], self.k),
            None => select_row::reference(&keys, self.k),
        }
    }

    /// Compares with the reference. Returns whether the lists or buckets held the wanted elements of every row.
    pub(crate) fn check(&self, device: &Device) -> bool {
        self.check_rows(device).0.iter().all(|&held| held)
    }

    /// Compares with the reference. Returns for each row whether its list or buckets held the wanted elements, and the names of
    /// the recorded kernels where the adapter has timestamps.
    pub(crate) fn check_rows(&self, device: &Device) -> (Vec<bool>, Option<Vec<&'static str>>) {
        let bench = Bench::new(device);
        let (values, ids_there) = (bench.input(self.words), self.ids.map(|ids| bench.input(ids)));
        let offsets = bench.input(self.offsets.or(self.counts).unwrap_or(&[]));
        let (rows, k, pitch) = (self.rows, self.k, self.k + 1);
        let place = || (bench.output(rows * pitch), bench.output(2 * rows * pitch));
        let ((keys, ids), (spare_keys, spare_ids)) = (place(), place());
        let counts = bench.output(rows);
        let needed = scratch_bytes(rows as u32, self.length as u32, k as u32);
        let room = needed.map(|bytes| bench.output(bytes as usize / 4));
        let spare = Selected { keys: spare_keys.slice(), ids: spare_ids.slice() };
        let record = |recorder: &mut Recorder<'_>| {
            recorder.select(&Select {
                // Not a word more than the rows have.
                keys: BufferSlice::range(&values, 0, (self.words.len() as u64 * 4).max(16)),
                ids: ids_there.as_ref().map(|ids| ids.slice()),
                floats: self.floats,
                rows: match (self.offsets, self.counts, self.pitch as u32) {
                    (Some(_), ..) => Rows::Csr { offsets: BufferSlice::all(&offsets) },
                    (_, Some(_), pitch) => Rows::Lists { counts: BufferSlice::all(&offsets), pitch },
                    (None, None, pitch) => Rows::Equal { length: self.length as u32, pitch },
                },
                count: rows as u32,
                k: k as u32,
                selected: Selected { keys: keys.slice(), ids: ids.slice() },
                selected_pitch: pitch as u32,
                selected_counts: counts.slice(),
                spare: (k > SORTED_MAX as usize).then_some(spare),
                scratch: self.has_scratch.then(|| Scratch {
                    states: room[0].slice(),
                    lists: room[1].slice(),
                    samples: room[2].slice(),
                }),
            })
        };
        let kernels = bench.run_timed(record);
        room.iter().chain([&spare_keys, &spare_ids]).for_each(|output| drop(bench.read(output)));
        let (keys, ids, counts) = (bench.read(&keys), ids_of(&bench.read(&ids)), bench.read(&counts));
        for row in 0..rows {
            let want = self.wanted(row);
            let said = format!("row {row} of {}, {} elements, k {k}", self.rows, self.length);
            assert_eq!(counts[row] as usize, want.len(), "{said}");
            let (keys, ids) = (&keys[row * pitch..][..pitch], &ids[row * pitch..][..pitch]);
            let found: Vec<_> = keys.iter().copied().zip(ids.iter().copied()).collect();
            if let Some(at) = (0..want.len()).find(|&at| found[at] != want[at]) {
                panic!("{said}: {:?}, not {:?} at {at}", found[at], want[at]);
            }
            assert!(found[want.len()..k].iter().all(|&nothing| nothing == (ABSENT, u64::MAX)), "{said}");
            assert_eq!(found[k].0, GUARD, "{said}: written between results");
        }
        let capacity = needed[1] / (12 * rows as u64);
        let states = bench.read(&room[0]);
        let is_held = |state: &[u32]| {
            // Buckets have a mark; lists have the numbers at which `select_row` looks.
            let everything = state[0] == ABSENT - 1 && state[1] == u32::MAX;
            let held = match needed[2] > 0 {
                true => state[3] == 0,
                false => u64::from(state[2]) <= capacity && (state[2] as usize >= k || everything),
            };
            if !held {
                println!("a row of {} elements, k {k}: {state:x?} of {capacity}", self.length);
            }
            held
        };
        let states = states.chunks_exact(4).take(rows).filter(|_| self.has_scratch);
        (states.map(is_held).collect(), kernels)
    }
}

/// The share in [0, 1) by which a sample moves within the stratum `i`, as `wgsl/lib/select` scatters it.
pub(crate) fn scattered(i: u32) -> f32 {
    let mut x = i.wrapping_mul(0x9e37_79b9);
    x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
    x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
    ((x ^ x >> 16) >> 8) as f32 * 5.960_464_5e-8
}

/// Rows of one kind each: normal, sorted, equal; mostly infinities or another value; NaN; extremes and zeros.
pub(crate) fn kinds(length: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut values: Vec<f32> = random.floats(length);
    values.extend((0..length).map(|column| column as f32 - 9.5));
    values.extend((0..length).map(|column| 9.5 - column as f32));
    values.extend(vec![-0.25; length]);
    for (common, others_in_1000) in [(f32::INFINITY, 900), (f32::INFINITY, 100), (f32::INFINITY, 1)]
        .into_iter()
        .chain([(f32::INFINITY, 0), (f32::NEG_INFINITY, 100), (-3.5, 1), (f32::NAN, 1)])
    {
        let mut one = || if random.below(1000) < others_in_1000 { random.unit() } else { common };
        values.extend((0..length).map(|_| one()));
    }
    let nans = [0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0xffff_ffff].map(f32::from_bits);
    values.extend((0..length).map(|_| [nans[random.below(4)], random.unit()][random.below(2)]));
    values.extend((0..length).map(|column| nans[column % 4]));
    // One far off at either end.
    values.extend((0..length).map(|column| if column == 7 { f32::MIN } else { random.unit() }));
    values.extend((0..length).map(|column| if column == 7 { f32::INFINITY } else { random.unit().exp2() }));
    let (least, normal) = (f32::from_bits(1), f32::MIN_POSITIVE);
    let extremes = [f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, least, -least, normal, 1.0, -1.0];
    values.extend((0..length).map(|_| extremes[random.below(9)]));
    // Zeros of both signs tie.
    values.extend((0..length).map(|column| if column % 2 == 0 { 0.0 } else { -0.0 }));
    values.into_iter().map(f32::to_bits).collect()
}
