//! Seeded random numbers, the same on every machine.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): small, seedable, and the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The numbers of one of many things under one seed, like a piece of a set or a family.
    pub(super) fn of(seed: u64, kind: u64, number: u64) -> Self {
        // Mixed in between, so that neighbouring seeds, kinds and numbers start far apart.
        let kind = Self(seed ^ kind.wrapping_mul(0xd1b5_4a32_d192_ed03)).next();
        Self(Self(kind ^ number.wrapping_mul(0x9e6c_63d0_876a_68ee)).next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A whole number below `end`. `end` is at least 1 and far below 2^64, so the bias is negligible.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Uniform in [0, 1).
    pub(crate) fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 24) as f32
    }

    /// Uniform in [-1, 1).
    pub(super) fn signed(&mut self) -> f32 {
        2.0 * self.unit() - 1.0
    }

    /// Nearly normal with mean 0 and variance 1: the sum of four uniform 16-bit numbers, at most 3.5 in size.
    pub(crate) fn normal(&mut self) -> f32 {
        let bits = self.next();
        let sum: u64 = (0..4).map(|part| (bits >> (16 * part)) & 0xffff).sum();
        (sum as f32 / 65536.0 - 2.0) * 1.732
    }
}
