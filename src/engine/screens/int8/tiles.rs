//! What multiplies tiles of codes on a device. Plans, recordings and lists of kernels to compile ahead ask this file, and it alone chooses.

use crate::error::Result;
use crate::gpu::{Gpu, HEIGHT, PAIRS, Wanted};
use crate::kernels::collect_lists::ListKernel;
use crate::kernels::{
    Kernel, OF_BITS, collect_lists_coop, collect_tile_coop, collect_tile_i8, maxsim_tile_coop,
    maxsim_tile_i8, screen_tile_coop, screen_tile_i8,
};
use crate::metric::{Form, Metric};

/// What multiplies tiles of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tiles {
    /// Products of four bytes, `dot4I8Packed`.
    Bytes,
    /// Cooperative matrices.
    Matrices,
}

impl Tiles {
    /// What [`Tiles::tested`] says, or will say by what the adapter lists.
    pub(crate) fn expected(gpu: &Gpu) -> Self {
        if screen_tile_coop::is_expected(gpu) { Self::Matrices } else { Self::Bytes }
    }

    /// What computes correctly. The first call on a device tests it, with kernels of this form, and waits for their compiler. Without
    /// `scores` tiles are only collected from.
    pub(crate) async fn tested(gpu: &Gpu, form: Form, scores: bool) -> Result<Self> {
        Ok(if screen_tile_coop::is_usable(gpu, form, scores).await? { Self::Matrices } else { Self::Bytes })
    }

    /// Whether cooperative matrices, which compute correctly, also collect pairs correctly. None as long as threads compile these tiles,
    /// unless the caller waits for them.
    pub(crate) async fn collect_pairs(gpu: &Gpu, form: Form, can_wait: bool) -> Result<Option<bool>> {
        collect_tile_coop::are_pairs_right(gpu, form, can_wait).await
    }

    /// The kernel that finds the tokens of documents that are nearest to this many tokens of queries, and its height if it has several. The
    /// first call on a device tests it, and waits for its compiler.
    pub(crate) async fn of_documents(gpu: &Gpu, tokens: u32) -> Result<(&'static Kernel, Option<u32>)> {
        if Self::tested(gpu, Form::quantized(Metric::OF_TOKENS), false).await? == Self::Matrices
            && let Some(height) = maxsim_tile_coop::height_for(gpu, tokens).await?
        {
            return Ok((&maxsim_tile_coop::KERNEL, Some(height)));
        }
        Ok((&maxsim_tile_i8::KERNEL, None))
    }

    /// The tiles of pairs that [`Tiles::collect_pairs`] tests.
    pub(crate) fn of_pairs(form: Form) -> Wanted {
        collect_tile_coop::of_pairs(form)
    }

    /// The kernel that tests matrices with integers before tiles of bits are tested.
    pub(crate) fn tested_first() -> Option<Wanted> {
        let kernel = Self::Matrices.collects();
        let wanted = Wanted::of(kernel).with("FORM", Form::OF_INTEGERS as u32).with("HAS_BITSET", 0);
        Some(wanted.with(HEIGHT, *kernel.heights().first()?).with(OF_BITS.0, 0).with(PAIRS, 0))
    }

    /// Whether what [`Tiles::tested`] needs without `scores` is compiled.
    pub(crate) fn are_compiled(gpu: &Gpu, form: Form) -> bool {
        let kernel = Self::expected(gpu).collects();
        let lowest = kernel.heights().first().copied();
        let has = |form: Form, lowest: u32| {
            gpu.has_pipeline(kernel, &[form as u32, 0, lowest, form.counts_bits().into(), 0])
        };
        // Before tiles of bits, those of integers are tested.
        let is_tested = |lowest| {
            !form.counts_bits() || gpu.collects_on_matrices.get().is_some() || has(Form::OF_INTEGERS, lowest)
        };
        lowest.is_none_or(|lowest| has(form, lowest) && is_tested(lowest))
    }

    /// The kernel that scores tiles.
    pub(crate) const fn scores(self) -> &'static Kernel {
        match self {
            Self::Bytes => &screen_tile_i8::KERNEL,
            Self::Matrices => &screen_tile_coop::KERNEL,
        }
    }

    /// The kernel that scores tiles and collects at once.
    pub(crate) const fn collects(self) -> &'static Kernel {
        match self {
            Self::Bytes => &collect_tile_i8::KERNEL,
            Self::Matrices => &collect_tile_coop::KERNEL,
        }
    }

    /// The queries of the tiles that collect, ascending, where there are several forms.
    pub(crate) fn heights(self) -> &'static [u32] {
        self.collects().heights()
    }

    /// The kernel for lists that many queries probe, about this many each, where there is one besides that for few.
    pub(crate) fn of_shared_lists(self, queries_a_list: u32) -> Option<ListKernel> {
        (self == Self::Matrices).then(|| collect_lists_coop::for_queries(queries_a_list))
    }
}
