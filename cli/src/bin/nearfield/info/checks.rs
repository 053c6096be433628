//! What kernels answer, compared with the host engine.

use anyhow::Result;
use nearfield::{
    AdapterKind, Device, ElementKind, Flat, Index, Ivf, Matrix, Metric, Neighbor, Neighbors, Quantization,
    SearchOptions,
};
use serde_json::{Value, json};

use crate::build::Kind;
use nearfield_cli::given::arguments;
use nearfield_cli::terminal::output;
use nearfield_cli::terminal::progress::bar;

const DIM: usize = 64;
/// More than a sample, so that tiles collect the rows behind it as they score them.
const ROWS: usize = 10_000;
/// Rows that lists are trained on.
const TRAINED: usize = 1_000;
/// Each has a list. A query's nearest rows lie around its own, so the lists that are probed last do not count: their order may change with
/// the last bits of a distance.
const CENTRES: usize = 64;
const PROBES: usize = 8;
const ELEMENTS: [ElementKind; 3] = [ElementKind::F32, ElementKind::F16, ElementKind::I8];
const K: usize = 10;
/// One query and a few are scanned for.
const FEW: [usize; 2] = [1, 8];
/// Queries of a batch. Tiles take 70. Matrices multiply full tiles alone, and 600 queries fill those of lists.
const MANY: [usize; 2] = [70, 600];
/// The indexes. The second has no 8-bit copy. The first has none either on a software driver with subgroups, where the second is left out.
const INDEXES: [(Kind, Quantization); 3] =
    [(Kind::Flat, Quantization::Auto), (Kind::Flat, Quantization::None), (Kind::Ivf, Quantization::Auto)];
/// What roots and quotients may differ by, relative to a distance above 1. Other distances are whole numbers, and the same.
const ROUNDING: f32 = 1e-5;

/// One comparison.
pub(super) struct Check {
    pub(super) name: String,
    /// What differed first, or failed.
    pub(super) differed: Option<String>,
}

impl Check {
    pub(super) fn to_json(&self) -> Value {
        json!({ "name": self.name, "passed": self.differed.is_none(), "differed": self.differed })
    }
}

/// Compares each kind of index, element and metric. A host that runs no kernels has no checks.
pub(super) fn run(device: &Device) -> Result<Vec<Check>> {
    let mut checks = vec![];
    let Some(forms) = device.kernel_forms() else { return Ok(checks) };
    let many = MANY[usize::from(forms.matrix_side.is_some())];
    let has_copies = device.adapter().kind != AdapterKind::Software || !forms.subgroups;
    let is_needed = |quantization| quantization == Quantization::Auto || has_copies;
    let indexes: Vec<_> = INDEXES.into_iter().filter(|&(_, quantization)| is_needed(quantization)).collect();
    let bar = bar("test", indexes.len() * ELEMENTS.len() * Metric::ALL.len());
    for (kind, quantization) in indexes {
        for elements in ELEMENTS {
            for metric in Metric::ALL {
                let wanted = filled((kind, quantization), elements, metric)?;
                let differed =
                    compared(&wanted, device, many).unwrap_or_else(|error| Some(error.to_string()));
                let name = format!(
                    "{} {elements} {metric}, quantization {}",
                    arguments::name(kind),
                    quantization.name()
                );
                checks.push(Check { name, differed });
                bar.inc(1);
            }
        }
    }
    Ok(checks)
}

/// Whole numbers, so small that sums are exact in any order, with the signs of their centre but for one in eight. For cosine all
/// have the same length, 8, so that equal distances are equal bits.
fn vectors(metric: Metric, seed: u64, count: usize) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(1);
    let centres: Vec<bool> = (0..CENTRES * DIM).map(|_| random.bool()).collect();
    random.seed(seed);
    let value = |place: usize| {
        let is_positive = centres[place % centres.len()] != (random.u8(..8) == 0);
        let size = if metric == Metric::Cosine { 1.0 } else { f32::from(random.u8(4..=8)) };
        if is_positive { size } else { -size }
    };
    (0..count * DIM).map(value).collect()
}

/// An index on the host.
fn filled(
    (kind, quantization): (Kind, Quantization),
    elements: ElementKind,
    metric: Metric,
) -> Result<Index> {
    let host = Device::host();
    let rows = |count: usize| Matrix::F32(vectors(metric, 2, count), DIM).to_kind(elements);
    let mut index = match kind {
        Kind::Flat => Index::from(
            Flat::builder(&host, metric, DIM).quantization(quantization).elements(elements).build()?,
        ),
        Kind::Ivf => {
            let builder =
                Ivf::builder(&host, metric, DIM).quantization(quantization).elements(elements).lists(CENTRES);
            builder.kmeans(|means| means.iterations(1)).train(&rows(TRAINED))?.into()
        }
    };
    index.add(&rows(ROWS))?;
    Ok(index)
}

/// What differs first between the answers of the host's index and of its copy on a device.
fn compared(wanted: &Index, device: &Device, many: usize) -> Result<Option<String>> {
    let index = wanted.clone_to(device)?;
    // Tells of all kernels which forms the driver refuses.
    index.warm_up()?;
    let mut options = SearchOptions::new(K);
    options.probes = index.lists().map(|_| PROBES);
    for count in FEW.into_iter().chain([many]) {
        let queries = Matrix::F32(vectors(wanted.metric(), 3, count), DIM);
        let is_integer = wanted.elements().is_integer();
        let queries = if is_integer { queries.to_kind(wanted.elements()) } else { queries };
        let [wanted, found] = [wanted, &index].map(|index| index.search_with(&queries, &options));
        if let Some(differed) = difference(&wanted?.neighbors, &found?.neighbors, index.metric()) {
            return Ok(Some(format!("of {}, {differed}", output::queries(count))));
        }
    }
    Ok(None)
}

fn difference(wanted: &Neighbors, found: &Neighbors, metric: Metric) -> Option<String> {
    let rounding = if matches!(metric, Metric::L2 | Metric::Cosine) { ROUNDING } else { 0.0 };
    let are_same = |one: &Neighbor, other: &Neighbor| {
        let between = (one.distance - other.distance).abs();
        one.id == other.id && between <= rounding * one.distance.abs().max(1.0)
    };
    let told = |hit: Option<&Neighbor>| {
        hit.map_or("nothing".to_owned(), |hit| format!("id {} at {}", hit.id, hit.distance))
    };
    wanted.iter().zip(found).enumerate().find_map(|(query, (wanted, found))| {
        let differs = |&place: &usize| match (wanted.get(place), found.get(place)) {
            (Some(one), Some(other)) => !are_same(one, other),
            _ => true,
        };
        let place = (0..wanted.len().max(found.len())).find(differs)?;
        let [wanted, found] = [wanted, found].map(|hits| told(hits.get(place)));
        Some(format!("query {query}, place {place}: needed {wanted}, found {found}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_id_distance_or_number_of_rows_is_a_difference() -> Result<()> {
        let found = |rows: &[f32], metric| -> Result<Neighbors> {
            let mut index = Flat::builder(&Device::host(), metric, 1).build()?;
            index.add(&Matrix::F32(rows.to_vec(), 1))?;
            Ok(index.search(&Matrix::F32(vec![0.0], 1), 2)?)
        };
        for (metric, rows, differed) in [
            (Metric::L2Squared, &[1.0, 3.0][..], None),
            (Metric::L2Squared, &[1.0, 3.000_001], Some("place 1: needed id 1 at 9, found id 1 at 9.0000")),
            (Metric::L2, &[1.0, 3.000_001], None),
            (Metric::L2, &[3.0, 1.0], Some("place 0: needed id 0 at 1, found id 1 at 1")),
            (Metric::L2, &[1.0], Some("place 1: needed id 1 at 3, found nothing")),
        ] {
            let told = difference(&found(&[1.0, 3.0], metric)?, &found(rows, metric)?, metric);
            assert_eq!(told.is_some(), differed.is_some(), "{told:?}");
            let text = told.unwrap_or_default();
            assert!(text.contains(differed.unwrap_or_default()), "{text}");
        }
        Ok(())
    }
}
