//! Selections from rows whose ids are positions.

use nearfield::internals::kernels::select_k::{Rows, SORTED_MAX, Scratch, Select, Selected};
use nearfield::internals::kernels::selection::scratch_bytes;
use nearfield::internals::kernels::{ABSENT, key_of, select_row};
use nearfield::{BufferSlice, Device, Recorder};

use super::Random;
use super::bench::{Bench, GUARD, ids_of};

/// Rows that lie `pitch` apart on the device.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    /// Floats, or keys.
    pub(crate) words: &'a [u32],
    pub(crate) floats: bool,
    pub(crate) rows: usize,
    pub(crate) length: usize,
    pub(crate) pitch: usize,
    pub(crate) k: usize,
    pub(crate) has_scratch: bool,
}

impl<'a> Case<'a> {
    pub(crate) fn of(words: &'a [u32], length: usize, k: usize) -> Self {
        let rows = words.len() / length;
        Self { words, floats: true, rows, length, pitch: length, k, has_scratch: true }
    }

    pub(crate) fn keys(&self, row: usize) -> Vec<u32> {
        let row = &self.words[row * self.pitch..][..self.length];
        match self.floats {
            true => row.iter().map(|&word| key_of(f32::from_bits(word))).collect(),
            false => row.to_vec(),
        }
    }

    /// The results against the reference, and whether the lists or buckets, where there are some, held what was wanted of every row.
    pub(crate) fn check(&self, device: &Device) -> bool {
        self.check_rows(device).0.iter().all(|&held| held)
    }

    /// The results against the reference; whether the list or the buckets, where there are some, held what was wanted of each row;
    /// and the kernels that were recorded, where the adapter has timestamps.
    pub(crate) fn check_rows(&self, device: &Device) -> (Vec<bool>, Option<Vec<&'static str>>) {
        let bench = Bench::new(device);
        let values = bench.input(self.words);
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
                ids: None,
                floats: self.floats,
                rows: Rows::Equal { length: self.length as u32, pitch: self.pitch as u32 },
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
            let want = select_row::reference(&self.keys(row), k);
            let said = format!("row {row} of {}, {} elements, k {k}", self.rows, self.length);
            assert_eq!(counts[row] as usize, want.len(), "{said}");
            let (keys, ids) = (&keys[row * pitch..][..pitch], &ids[row * pitch..][..pitch]);
            let found: Vec<_> = keys.iter().copied().zip(ids.iter().copied()).collect();
            let place = (0..want.len()).find(|&place| found[place] != want[place]);
            assert_eq!(
                place,
                None,
                "{said}: {:?}, not {:?}",
                place.map(|at| found[at]),
                place.map(|at| want[at])
            );
            assert!(found[want.len()..k].iter().all(|&nothing| nothing == (ABSENT, u64::MAX)), "{said}");
            assert_eq!(found[k].0, GUARD, "{said}: written between results");
        }
        let capacity = needed[1] / (12 * rows as u64);
        let states = bench.read(&room[0]);
        let is_held = |state: &[u32]| {
            // Of buckets there is a mark, of lists what `select_row` looks at.
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

/// Rows of one kind each.
pub(crate) fn kinds(length: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut normal = |_: usize| random.unit() + random.unit() + random.unit();
    let mut values: Vec<f32> = (0..length).map(&mut normal).collect();
    values.extend((0..length).map(|column| column as f32 - 9.5));
    values.extend((0..length).map(|column| 9.5 - column as f32));
    values.extend(vec![-0.25; length]);
    for finite_in_1000 in [900, 100, 1, 0] {
        let mut random = Random::new(seed + finite_in_1000);
        let one =
            |_| if random.below(1000) < finite_in_1000 as usize { random.unit() } else { f32::INFINITY };
        values.extend((0..length).map(one));
    }
    let mut random = Random::new(seed + 1);
    values.extend((0..length).map(|_| if random.below(2) == 0 { f32::NAN } else { random.unit() }));
    values.extend((0..length).map(|column| if column % 997 == 5 { -1.0 } else { f32::NAN }));
    values.extend(vec![f32::NAN; length]);
    // One far off at either end, and both zeros.
    values.extend((0..length).map(|column| if column == 7 { f32::MIN } else { random.unit() }));
    values.extend((0..length).map(|column| if column == 7 { f32::INFINITY } else { random.unit().exp2() }));
    values.extend((0..length).map(|column| if column % 2 == 0 { 0.0 } else { -0.0 }));
    values.into_iter().map(f32::to_bits).collect()
}
