//! The copy on the host that an index on a GPU may have. `lost.rs` has what it answers when the GPU is lost.

use crate::common::gpu;
use crate::support::few_iterations;
use nearfield::{AddOptions, Filter, Flat, Index, Ivf, Metric, Quantization, SearchOptions};
use nearfield_testing::living::Kind;
use nearfield_testing::{Random, view};
use test_case::test_matrix;

const DIM: usize = 20;

#[test_matrix([Kind::Flat, Kind::Ivf])]
fn a_copy_has_what_the_gpu_has_after_any_change(kind: Kind) {
    let Some(device) = gpu() else { return };
    let values = Random::new(7).integers(900 * DIM, 10);
    let rows = view(&values, DIM);
    let mut index: Index = match kind {
        Kind::Flat => {
            let builder = Flat::builder(device, Metric::L2, DIM).quantization(Quantization::Int8);
            builder.keep_host_copy(true).build().expect("an index").into()
        }
        Kind::Ivf => {
            let builder = Ivf::builder(device, Metric::L2, DIM).quantization(Quantization::Int8).lists(12);
            builder.keep_host_copy(true).kmeans(few_iterations).train(rows).expect("trains").into()
        }
    };
    index.add(rows).expect("rows");
    let queries = rows.slice(0..3);
    let found = index.search_with(queries, &SearchOptions::new(15)).expect("an answer");
    assert!(found.statistics.on_host, "three queries of 900 rows are over before a launch is");
    let there = device.upload(queries).expect("fits");
    let odd = |id: u64| id % 2 == 1;
    let probes = if matches!(kind, Kind::Ivf) { &[Some(1), Some(5), Some(12)][..] } else { &[None] };
    let agree = |index: &Index, what: &str| {
        for (&probes, filter) in
            probes.iter().flat_map(|probes| [None, Some(Filter::by(&odd))].map(|filter| (probes, filter)))
        {
            let mut options = SearchOptions::new(15);
            (options.probes, options.filter) = (probes, filter);
            let found = index.search_with(queries, &options).expect("an answer");
            let on_gpu = index.search_with(&there, &options).expect("an answer");
            assert!(!on_gpu.statistics.on_host, "queries on the GPU stay there");
            assert_eq!(
                found.neighbors, on_gpu.neighbors,
                "{what}, {options:?}: integers have the same distances everywhere"
            );
        }
    };
    agree(&index, "added");
    index.remove(&[3, 4, 5, 899]).expect("there");
    agree(&index, "removed");
    index.update(&[7], &values[..DIM]).expect("there");
    agree(&index, "another row for one");
    let more = device.upload(rows.slice(100..140)).expect("fits");
    index.add(&more).expect("rows");
    index.add(&device.upload(rows.slice(0..0)).expect("nothing")).expect("no rows");
    index.add_with(rows.slice(0..1), &AddOptions::new().ids(&[5])).expect("an id that is free again");
    agree(&index, "added from the GPU");
    let refused = [f32::NAN; DIM];
    assert!(index.add(view(&refused, DIM)).is_err());
    assert!(index.update(&[8], &refused).is_err());
    assert!(index.add_with(rows.slice(0..2), &AddOptions::new().ids(&[2000, 6])).is_err(), "6 is there");
    agree(&index, "refused");
    let most: Vec<u64> = index.ids().expect("memory").into_iter().filter(|id| id % 3 != 0).collect();
    index.remove(&most).expect("there");
    index.compact().expect("compacted");
    agree(&index, "compacted");
}
