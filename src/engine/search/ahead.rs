//! The kernels that searches and changes of an index run, to be compiled before they are needed.

use crate::engine::rows::segments::GpuRows;
use crate::engine::search::screens::screens_of;
use crate::gpu::{Gpu, Wanted};
use crate::kernels::metrics::metric_constant;
use crate::kernels::{collect, narrow, norms, rescore, screen_tile_coop, select_k, tighten};
use crate::matrix::ElementKind;
use crate::metric::Metric;

/// What the kernels of an index depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Searched {
    pub(crate) metric: Metric,
    pub(crate) elements: ElementKind,
    /// Whether cooperative matrices score the narrowed copy; none without a copy.
    pub(crate) has_matrices: Option<bool>,
}

impl Searched {
    /// What is known of an index before it is made.
    pub(crate) fn expected(gpu: &Gpu, metric: Metric, elements: ElementKind, is_narrowed: bool) -> Self {
        Self { metric, elements, has_matrices: is_narrowed.then(|| screen_tile_coop::is_expected(gpu)) }
    }

    /// What is known of the rows of an index.
    pub(crate) fn of(rows: &GpuRows, metric: Metric) -> Self {
        Self::expected(&rows.gpu, metric, rows.layout.elements, rows.narrowed.is_some())
    }

    /// The kernels of searches for up to [`select_k::SORTED_MAX`] neighbours, and of new rows: those first that new rows wait for, then
    /// tiles, which take longest to compile, then what every search runs. Last come those of filters and of queries whose
    /// candidates overflowed.
    pub(crate) fn kernels(self) -> Vec<Wanted> {
        let Self { metric, elements, has_matrices } = self;
        let mut wanted = vec![Wanted::of(&norms::KERNEL).rows(elements)];
        if has_matrices.is_some() {
            wanted.extend(narrowing(metric, elements));
        }
        let mut later = vec![];
        let kernels = screens_of(has_matrices).into_iter().flat_map(|screen| screen.kernels.iter().rev());
        for (number, kernel) in kernels.enumerate() {
            let form = (kernel.form)(metric) as u32;
            if let Some(collects) = kernel.collects {
                let collects = Wanted::of(collects).with("FORM", form);
                wanted.push(collects.clone().with("HAS_BITSET", 0));
                later.push(collects);
            }
            wanted.extend((kernel.scoring)(metric, elements));
            if number == 0 {
                wanted.extend(reporting(metric, elements));
                wanted.push(Wanted::of(&tighten::KERNEL));
            }
            wanted.push(Wanted::of(&collect::KERNEL).with("FORM", form));
        }
        wanted.extend(later);
        wanted
    }
}

/// The kernels that compute and select distances as they are reported, and the norms of queries and rows.
pub(crate) fn reporting(metric: Metric, elements: ElementKind) -> Vec<Wanted> {
    let select = Wanted::of(&select_k::KERNEL).with("POSITIONS", 0).with("FLOATS", 0).with("ONLY", 0);
    vec![
        Wanted::of(&rescore::KERNEL).rows(elements).with("METRIC", metric_constant(metric)),
        select,
        Wanted::of(&norms::KERNEL),
        Wanted::of(&norms::KERNEL).rows(elements),
    ]
}

/// The kernels that narrow rows, queries, and rows that go to the slots of a list.
pub(crate) fn narrowing(metric: Metric, elements: ElementKind) -> Vec<Wanted> {
    let metric = metric_constant(metric);
    let narrow = |planes, slots| {
        Wanted::of(&narrow::KERNEL).with("METRIC", metric).with("PLANES", planes).with("SLOTS", slots)
    };
    vec![narrow(1, 0).rows(elements), narrow(1, 0), narrow(2, 0), narrow(1, 1).rows(elements)]
}
