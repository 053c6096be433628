//! Seeded values, and views of them.

use half::f16;
use nearfield::{Element, MatrixView};

/// Seeded numbers. The seed is printed when the test that made them panics.
#[derive(Debug)]
pub struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// The numbers of one of many things under one seed, like a piece of a set. They are mixed in between, so that neighbouring seeds,
    /// kinds and numbers start far apart.
    pub fn of(seed: u64, kind: u64, number: u64) -> Self {
        let kind = Self::new(seed ^ kind.wrapping_mul(0xd1b5_4a32_d192_ed03)).next();
        Self::new(Self::new(kind ^ number.wrapping_mul(0x9e6c_63d0_876a_68ee)).next())
    }

    /// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an iterator would wrap each number in an option")]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    #[inline]
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        (1..values.len()).rev().for_each(|place| values.swap(place, self.below(place + 1)));
    }

    /// In [0, 1).
    #[inline]
    pub fn part(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 24) as f32
    }

    /// Nearly normal with mean 0 and variance 1: the sum of four uniform 16-bit numbers, at most 3.5 in size.
    #[inline]
    pub fn normal(&mut self) -> f32 {
        let bits = self.next();
        let sum: u64 = (0..4).map(|part| (bits >> (16 * part)) & 0xffff).sum();
        (sum as f32 / 65536.0 - 2.0) * 1.732
    }

    /// In [-1, 1).
    #[inline]
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Whole numbers from `-most` to `most`: every sum of their products is exact in f32.
    pub fn integers(&mut self, count: usize, most: usize) -> Vec<f32> {
        (0..count).map(|_| self.below(2 * most + 1) as f32 - most as f32).collect()
    }

    /// Nearly normally distributed: mean 0, variance 1.
    pub fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| (0..3).map(|_| self.unit()).sum()).collect()
    }

    /// Rows at which a screen may go wrong: a large common part, norms from 2^-40 to 2^40, near duplicates of another
    /// row, single elements that outweigh the others, zeros.
    pub fn adversarial(&mut self, rows: usize, dim: usize) -> Vec<f32> {
        let mut values: Vec<f32> = vec![];
        for row in 0..rows {
            let mut one = self.floats(dim);
            match self.below(8) {
                0 => one.iter_mut().for_each(|x| *x += 1000.0),
                1 => {
                    let scale = 2f32.powi(self.below(70) as i32 - 35);
                    one.iter_mut().for_each(|x| *x *= scale);
                }
                2 if row > 0 => {
                    let other = self.below(row) * dim;
                    one.copy_from_slice(&values[other..other + dim]);
                    let place = self.below(dim);
                    one[place] *= 1.0 + f32::EPSILON;
                }
                3 => one[0] = 30_000.0,
                4 if row % 32 == 0 => one.fill(0.0),
                _ => {}
            }
            values.extend(one);
        }
        values
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {:#x}", self.seed);
        }
    }
}

/// A view that cannot fail.
pub fn view<T: Element>(values: &[T], dim: usize) -> MatrixView<'_, T> {
    MatrixView::new(values, dim).expect("whole rows")
}

/// Values rounded to f16, and the same widened to f32.
pub fn rounded(values: &[f32]) -> (Vec<f16>, Vec<f32>) {
    let halves: Vec<f16> = values.iter().map(|&x| f16::from_f32(x)).collect();
    let widened = halves.iter().map(|x| x.to_f32()).collect();
    (halves, widened)
}
