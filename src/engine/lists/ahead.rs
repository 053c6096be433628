//! The kernels that train lists and search in them, to be compiled before they are needed.

use crate::elements::ElementKind;
use crate::engine::screens::int8::codes::quantizing;
use crate::engine::screens::list::Codes;
use crate::engine::search::ahead::{Searched, reporting, selecting};
use crate::gpu::{Gpu, Wanted};
use crate::kernels::select_k::Only;
use crate::kernels::{
    OF_BITS, average, collect_lists, compact, group, list_work, probe_slots, probe_thresholds, screen_probes,
    tighten, winnow,
};
use crate::metric::{Form, Metric};

/// The kernels that find the nearest centroids, by the metric of centroids and the codes that these have.
pub(crate) fn coarse(metric: Metric, codes: Codes) -> Vec<Wanted> {
    let mut wanted = reporting(metric, ElementKind::F32, false);
    // A search for few queries selects from the distances of all centroids, and waits for this kernel longest.
    wanted.insert(0, selecting(Only::Every));
    if let Codes::Int8(tiles) = codes {
        let form = Form::quantized(metric) as u32;
        let of_numbers = |kernel| Wanted::of(kernel).or_all(OF_BITS.0, 0);
        wanted.insert(0, of_numbers(tiles.scores()));
        wanted.insert(1, of_numbers(tiles.collects()).with("FORM", form).with("HAS_BITSET", 0));
        wanted.push(Wanted::of(&winnow::KERNEL).with("FORM", form).with("HAS_BITSET", 0));
        wanted.push(Wanted::of(&tighten::KERNEL).with("EXACT", 0));
        wanted.extend(quantizing(metric, ElementKind::F32, false));
    }
    wanted
}

pub(crate) fn training(gpu: &Gpu, metric: Metric, is_quantized: bool) -> Vec<Wanted> {
    // The test of matrices runs both kernels of tiles.
    let mut wanted = coarse(metric, Codes::expected(gpu, metric, is_quantized));
    wanted.push(Wanted::of(&average::KERNEL));
    wanted
}

/// The kernels of searches in the lists of an index.
pub(crate) fn probing(searched: Searched) -> Vec<Wanted> {
    let Searched { metric, elements, codes, in_blocks, keeps_rows } = searched;
    let mut wanted = vec![];
    if let Codes::Int8(tiles) = codes {
        let mut screens = vec![&collect_lists::KERNEL, &probe_thresholds::KERNEL, &screen_probes::KERNEL];
        screens.extend(tiles.of_shared_lists(0).map(|lists| lists.kernel));
        let form = Form::quantized(metric) as u32;
        wanted.extend(screens.into_iter().map(|kernel| Wanted::of(kernel).with("FORM", form)));
        wanted.extend([
            Wanted::of(&group::KERNEL),
            Wanted::of(&list_work::KERNEL),
            Wanted::of(&tighten::KERNEL),
        ]);
        wanted.extend(quantizing(metric, elements, in_blocks));
    }
    wanted.extend(coarse(metric.of_centroids(), codes.of_numbers()));
    wanted.push(Wanted::of(&probe_slots::KERNEL));
    wanted.extend(match keeps_rows {
        true => reporting(metric, elements, in_blocks),
        false => vec![Wanted::of(&compact::KERNEL)],
    });
    wanted
}
