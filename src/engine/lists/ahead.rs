//! The kernels that train lists and search in them, to be compiled before they are needed.

use crate::elements::ElementKind;
use crate::engine::search::ahead::{Searched, quantizing, reporting};
use crate::gpu::{Gpu, Wanted};
use crate::kernels::{
    average, collect_lists, collect_lists_coop, collect_tile_coop, collect_tile_i8, compact, group,
    list_work, probe_slots, probe_thresholds, screen_probes, screen_tile_coop, screen_tile_i8, tighten,
    winnow,
};
use crate::metric::{Form, Metric};

/// The kernels that find the nearest centroids, by the metric of centroids. Cooperative matrices score their quantised copy or not;
/// none without a copy.
pub(crate) fn coarse(metric: Metric, has_matrices: Option<bool>) -> Vec<Wanted> {
    let mut wanted = reporting(metric, ElementKind::F32);
    if let Some(has_matrices) = has_matrices {
        let [tile, collecting] = match has_matrices {
            true => [&screen_tile_coop::KERNEL, &collect_tile_coop::KERNEL],
            false => [&screen_tile_i8::KERNEL, &collect_tile_i8::KERNEL],
        };
        let form = Form::quantized(metric) as u32;
        wanted.insert(0, Wanted::of(tile));
        wanted.insert(1, Wanted::of(collecting).with("FORM", form).with("HAS_BITSET", 0));
        wanted.push(Wanted::of(&winnow::KERNEL).with("FORM", form));
        wanted.push(Wanted::of(&tighten::KERNEL).with("EXACT", 0));
        wanted.extend(quantizing(metric, ElementKind::F32));
    }
    wanted
}

pub(crate) fn training(gpu: &Gpu, metric: Metric, is_quantized: bool) -> Vec<Wanted> {
    // The test of matrices runs both kernels of tiles.
    let mut wanted = coarse(metric, is_quantized.then(|| screen_tile_coop::is_expected(gpu)));
    wanted.push(Wanted::of(&average::KERNEL));
    wanted
}

/// The kernels of searches in the lists of an index.
pub(crate) fn probing(searched: Searched) -> Vec<Wanted> {
    let Searched { metric, elements, has_matrices, keeps_rows } = searched;
    let mut wanted = vec![];
    if let Some(has_matrices) = has_matrices {
        let mut screens = vec![&collect_lists::KERNEL, &probe_thresholds::KERNEL, &screen_probes::KERNEL];
        if has_matrices {
            screens.push(&collect_lists_coop::KERNEL);
        }
        let form = Form::quantized(metric) as u32;
        wanted.extend(screens.into_iter().map(|kernel| Wanted::of(kernel).with("FORM", form)));
        wanted.extend([
            Wanted::of(&group::KERNEL),
            Wanted::of(&list_work::KERNEL),
            Wanted::of(&tighten::KERNEL),
        ]);
        wanted.extend(quantizing(metric, elements));
    }
    wanted.extend(coarse(metric.of_centroids(), has_matrices));
    wanted.push(Wanted::of(&probe_slots::KERNEL));
    wanted.extend(if keeps_rows { reporting(metric, elements) } else { vec![Wanted::of(&compact::KERNEL)] });
    wanted
}
