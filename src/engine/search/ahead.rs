//! The kernels that searches and changes of an index run, to be compiled before they are needed.

use crate::elements::ElementKind;
use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::int8::codes::quantizing;
use crate::engine::screens::int8::tiles::Tiles;
use crate::engine::screens::list::Codes;
use crate::engine::screens::score::ScoreKernel;
use crate::gpu::{Gpu, HEIGHT, Kernel, PAIRS, RowLayout, Wanted};
use crate::kernels::metrics::metric_constant;
use crate::kernels::select_k::Only;
use crate::kernels::tighten::RADIX;
use crate::kernels::{
    IN_BLOCKS, OF_BITS, collect, compact, gather, move_rows, norms, refine, select_k, tighten, winnow,
};
use crate::metric::{Form, Metric};

/// What the kernels of an index depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Searched {
    pub(crate) metric: Metric,
    pub(crate) elements: ElementKind,
    pub(crate) codes: Codes,
    /// Whether rows lie as their codes do.
    pub(crate) in_blocks: bool,
    /// Whether the device has the rows, and reports distances. Otherwise the host does.
    pub(crate) keeps_rows: bool,
}

impl Searched {
    /// Describes an index that is still to be made.
    pub(crate) fn expected(
        gpu: &Gpu,
        (metric, elements): (Metric, ElementKind),
        is_quantized: bool,
        in_blocks: bool,
    ) -> Self {
        Self {
            metric,
            elements,
            codes: Codes::expected(gpu, metric, is_quantized),
            in_blocks,
            keeps_rows: true,
        }
    }

    pub(crate) fn of(rows: &GpuRows, metric: Metric) -> Self {
        let is_quantized = rows.quantized.is_some();
        let RowLayout { elements, in_blocks, .. } = rows.layout;
        let expected = Self::expected(&rows.gpu, (metric, elements), is_quantized, in_blocks);
        Self { keeps_rows: rows.keeps_rows, ..expected }
    }

    /// The kernels of searches for up to [`select_k::SORTED_MAX`] neighbours, and of new rows. The order is that of need: what new rows
    /// wait for, then the kernels of a search for one query, of one for some more and of one for many. Last come those of queries whose
    /// candidates overflowed, of more neighbours, of filters and tombstones, and of graphs.
    pub(crate) fn kernels(self) -> Vec<Wanted> {
        let Self { metric, elements, codes, in_blocks, keeps_rows } = self;
        let form = |kernel: &ScoreKernel| (kernel.form)(metric) as u32;
        let of_form =
            |wanted: &'static Kernel, kernel: &ScoreKernel| Wanted::of(wanted).with("FORM", form(kernel));
        let quantizing = if codes == Codes::None { vec![] } else { quantizing(metric, elements, in_blocks) };
        let mut wanted = vec![Wanted::of(&norms::KERNEL).rows(elements)];
        wanted.extend(quantizing.first().cloned());
        // Norms and ids of rows that are their own codes go to their slots with them.
        wanted.extend(in_blocks.then(|| Wanted::of(&move_rows::KERNEL).with("GATHER", 0)));
        let screens = codes.screens(keeps_rows);
        match keeps_rows {
            true => wanted.extend(reporting(metric, elements, in_blocks)),
            false => wanted.extend([Wanted::of(&compact::KERNEL), Wanted::of(&norms::KERNEL)]),
        }
        let tightening = Wanted::of(&tighten::KERNEL);
        let tightening = if keeps_rows { tightening } else { tightening.with("EXACT", 0) };
        for (number, screen) in screens.into_iter().enumerate() {
            for &kernel in screen.kernels {
                if let Some(collects) = kernel.collects {
                    let collecting = of_form(collects.kernel, kernel);
                    let lowest = collects.kernel.heights().first();
                    wanted.extend(lowest.map(|&lowest| collecting.clone().with(HEIGHT, lowest)));
                    wanted.extend([tightening.clone(), collecting, of_form(&winnow::KERNEL, kernel)]);
                }
                wanted.extend((kernel.scoring)(metric, elements));
                if number == 0 {
                    wanted.extend(quantizing.iter().cloned());
                }
            }
            wanted.push(tightening.clone());
            wanted.extend(screen.kernels.iter().map(|&kernel| of_form(&collect::KERNEL, kernel)));
        }
        // Without bits and for a small k first, and then with them too.
        let without_bits = wanted.iter().map(|one| one.clone().or_all("HAS_BITSET", 0).or_all(RADIX.0, 0));
        let gathers = keeps_rows && codes != Codes::None;
        let gathering = gathers.then(|| Wanted::of(&gather::KERNEL));
        let selecting = keeps_rows.then(|| selecting(Only::Every));
        // Rows within a radius. Where the host has the rows, its candidates have asked for the kernel already.
        let compacting = keeps_rows.then(|| Wanted::of(&compact::KERNEL));
        let all =
            without_bits.chain(selecting).chain(wanted.iter().cloned()).chain(gathering).chain(compacting);
        let of_bits = codes.are_bits();
        let all = all.map(|one| {
            one.or_all(IN_BLOCKS.0, in_blocks.into()).or_all(OF_BITS.0, of_bits.into()).or_all(PAIRS, 0)
        });
        // On matrices alone.
        let tests = (codes == Codes::Bits(Tiles::Matrices)).then(Tiles::tested_first).flatten();
        let has_pairs = codes == Codes::Int8(Tiles::Matrices) && keeps_rows;
        let pairs = has_pairs.then(|| Tiles::of_pairs(Form::quantized(metric)));
        all.chain(tests).chain(pairs).collect()
    }
}

/// The kernel that selects from distances with their slots.
pub(crate) fn selecting(only: Only) -> Wanted {
    Wanted::of(&select_k::KERNEL).with("POSITIONS", 0).with("FLOATS", 0).with("ONLY", only as u32)
}

/// The kernels that compute distances as they are reported and select a few of them, and the norms of queries and rows.
pub(crate) fn reporting(metric: Metric, elements: ElementKind, in_blocks: bool) -> Vec<Wanted> {
    let refine = |integral| {
        let refine = Wanted::of(&refine::KERNEL).rows(elements).with("METRIC", metric_constant(metric));
        refine.with("INTEGRAL", integral).with(IN_BLOCKS.0, in_blocks.into())
    };
    let mut wanted = vec![
        selecting(Only::EveryOfFew),
        refine(elements.is_integer().into()),
        Wanted::of(&norms::KERNEL),
        Wanted::of(&norms::KERNEL).rows(elements),
    ];
    // Rows of integers are searched for floats, too.
    wanted.extend(elements.is_integer().then(|| refine(0)));
    wanted
}
