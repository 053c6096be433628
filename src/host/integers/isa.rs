//! The instruction sets that integer dot products are written for, and those of this machine.

use std::fmt;
use std::sync::LazyLock;

/// The instructions that compute the products.
#[expect(dead_code, reason = "each processor has some of them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instructions {
    /// `vpdpbusd` on 512 bits.
    Avx512Vnni,
    /// `vpdpbusd` on 256 bits.
    AvxVnni,
    /// `vpmaddwd` on 256 bits.
    Avx2,
    /// `pmaddwd` on 128 bits, which every x86-64 has.
    Sse2,
    /// `sdot`.
    NeonDot,
    /// `smull` and `sadalp`, which every aarch64 has.
    Neon,
    /// `i32x4.dot_i16x8_s`.
    Simd128,
    /// Plain Rust, left to the compiler.
    Portable,
    /// `vpshufb` on 256 bits, which counts common bits in place of products.
    Avx2Bits,
    /// Plain Rust that counts common bits.
    Bits,
}

/// Instructions that this machine has: only [`Isa::detect`] and [`Isa::all`] make one, so that kernels can rely on it.
#[derive(Clone, Copy)]
pub(crate) struct Isa(Instructions);

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Isa {
    /// The fastest set of this machine.
    pub(crate) fn detect() -> Self {
        static FASTEST: LazyLock<Isa> =
            LazyLock::new(|| Isa::all().pop().unwrap_or(Isa(Instructions::Portable)));
        *FASTEST
    }

    /// The fastest set of this machine that counts common bits.
    pub(crate) fn of_bits() -> Self {
        Self::all_of_bits().pop().unwrap_or(Self(Instructions::Bits))
    }

    /// All sets of this machine that count common bits, the fastest last.
    pub(super) fn all_of_bits() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            return vec![Self(Instructions::Bits), Self(Instructions::Avx2Bits)];
        }
        vec![Self(Instructions::Bits)]
    }

    /// All sets of this machine that multiply, the fastest last.
    pub(crate) fn all() -> Vec<Self> {
        #[cfg_attr(
            not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "wasm32")),
            expect(unused_mut, reason = "other processors add nothing")
        )]
        let mut all = vec![Instructions::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            all.push(Instructions::Sse2);
            if is_x86_feature_detected!("avx2") {
                all.push(Instructions::Avx2);
                all.extend(is_x86_feature_detected!("avxvnni").then_some(Instructions::AvxVnni));
            }
            let has_avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vnni");
            all.extend(has_avx512.then_some(Instructions::Avx512Vnni));
        }
        #[cfg(target_arch = "aarch64")]
        {
            all.push(Instructions::Neon);
            all.extend(std::arch::is_aarch64_feature_detected!("dotprod").then_some(Instructions::NeonDot));
        }
        // A browser without them refuses the whole module; `pulp` uses them in any case.
        #[cfg(target_arch = "wasm32")]
        all.push(Instructions::Simd128);
        all.into_iter().map(Self).collect()
    }

    /// The instructions, to choose a kernel.
    pub(super) fn instructions(self) -> Instructions {
        self.0
    }

    /// 32-bit words of a query in each step: `vpmaddwd` and its likes want its components widened to 16 bits beforehand, and lookups of four bits
    /// the lower ones and the higher ones apart.
    pub(super) fn words(self) -> usize {
        use Instructions::{Avx2, Avx2Bits, Simd128, Sse2};
        if matches!(self.0, Avx2 | Sse2 | Simd128 | Avx2Bits) { 2 } else { 1 }
    }

    /// Whether bits of queries are looked up four at a time.
    pub(super) fn looks_up_bits(self) -> bool {
        self.0 == Instructions::Avx2Bits
    }

    /// `vpdpbusd` takes one unsigned operand: rows get 128 added, and 128 times the query's sum is subtracted again.
    pub(super) fn unsigned_rows(self) -> bool {
        matches!(self.0, Instructions::Avx512Vnni | Instructions::AvxVnni)
    }
}
