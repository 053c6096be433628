//! Indexes on several devices answer as on one, bit for bit, and change on all of them or on none.

mod answers;

use std::panic::{AssertUnwindSafe, catch_unwind};

use nearfield::{AddOptions, Device, Distribution, Error, Flat, Index, Metric, MultiVector, Quantization};
use rayon::prelude::*;
use test_case::{test_case, test_matrix};

use crate::common::Engine::{self, Adapter, Host};
use crate::living::live_on;
use crate::support::devices;
use nearfield_testing::life::Case;
use nearfield_testing::living::{Kind, bits};
use nearfield_testing::{Random, view};

#[test_matrix([Host], [Distribution::Sharded, Distribution::Replicated], [Kind::Flat, Kind::Ivf])]
#[test_matrix([Adapter], [Distribution::Sharded, Distribution::Replicated], [Kind::Flat, Kind::Ivf] => ignore["nightly"])]
fn after_any_life_on_several_devices_an_index_answers_as_on_one(
    engine: Engine,
    distribution: Distribution,
    kind: Kind,
) {
    let count = if engine == Host { 3 } else { 2 };
    live_on::<Index>(count, distribution, engine, Case::confined(kind), 0x5e7e);
}

#[test_matrix([Host], [Distribution::Sharded, Distribution::Replicated])]
#[test_matrix([Adapter], [Distribution::Sharded, Distribution::Replicated] => ignore["nightly"])]
fn after_any_life_on_several_devices_documents_are_found_as_on_one(
    engine: Engine,
    distribution: Distribution,
) {
    let count = if engine == Host { 3 } else { 2 };
    live_on::<MultiVector>(count, distribution, engine, Case::of_documents(), 0x6e7e);
}

#[test]
fn devices_that_cannot_share_an_index_are_refused() {
    let none: &[Device] = &[];
    let refusal = |devices: &[Device]| {
        let refused = Flat::builder(devices, Metric::L2, 2).build().expect_err("no such devices");
        assert!(matches!(refused, Error::Argument { argument: "devices", .. }), "{refused}");
        refused.to_string()
    };
    assert!(refusal(none).contains("at least one"));
    let host = Device::host();
    assert!(Flat::builder(&[host.clone(), host.clone()], Metric::L2, 2).build().is_ok());
    let Some(gpu) = Adapter.device() else { return };
    assert!(refusal(&[gpu.clone(), host]).contains("GPUs alone"));
    assert!(refusal(&[gpu.clone(), gpu.clone()]).contains("each GPU once"));
}

#[test_case("sharded", Some(Distribution::Sharded))]
#[test_case("replicated", Some(Distribution::Replicated))]
#[test_case("Shards", None)]
#[test_case("", None)]
fn distributions_are_read_from_their_names(text: &str, wanted: Option<Distribution>) {
    let read = text.parse::<Distribution>();
    assert_eq!(read.as_ref().ok(), wanted.as_ref());
    match read {
        Ok(distribution) => assert_eq!(distribution.to_string(), text),
        Err(error) => assert!(error.to_string().contains("sharded or replicated"), "{error}"),
    }
}

#[test_matrix([Adapter, Host], [None, Some(Distribution::Sharded), Some(Distribution::Replicated)], [Quantization::None, Quantization::Int8])]
fn a_progress_function_that_panics_leaves_all_devices_as_they_were(
    engine: Engine,
    distribution: Option<Distribution>,
    quantization: Quantization,
) {
    let Some(devices) = devices(engine, if distribution.is_some() { 2 } else { 1 }) else { return };
    let rows = Random::new(0x10b).integers(20_000 * 8, 3);
    let queries = view(&rows[..40 * 8], 8);
    let builder =
        Flat::builder(&devices, Metric::L2, 8).distribution(distribution.unwrap_or(Distribution::Sharded));
    let mut index = builder.quantization(quantization).build().expect("an index");
    // All of the first device's rows, and some of the second's; with two tombstones, into which some rows go.
    index.add(view(&rows[..200 * 8], 8)).expect("good rows");
    index.remove(&[3, 4]).expect("they are there");
    let before = bits(&index.search(queries, 250).expect("an answer"));
    for most in [0, 10_000] {
        let fail = |rows: usize| assert!(rows < most, "the caller's own fault");
        let options = AddOptions::new().progress(&fail);
        let adding = AssertUnwindSafe(|| index.add_with(view(&rows, 8), &options));
        let panic = catch_unwind(adding).expect_err("it panics");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the caller's own fault"));
        assert_eq!(index.len(), 198);
        assert_eq!(bits(&index.search(queries, 250).expect("an answer")), before);
    }
    index.add(view(&rows, 8)).expect("the same rows, later");
    let ids: Vec<u64> = (0..20_200).filter(|id| ![3, 4].contains(id)).collect();
    assert_eq!(index.ids().expect("memory"), ids, "no number was used up");
    assert_eq!(index.get(&[250]).expect("a row"), rows[50 * 8..51 * 8]);
}

/// The threads of the pool wait for devices whose work needs these threads.
#[test_matrix([Distribution::Sharded, Distribution::Replicated])]
fn tasks_of_the_thread_pool_search_several_hosts(distribution: Distribution) {
    let hosts = devices(Host, 3).expect("the host is always there");
    let rows = Random::new(0x10c).integers(3000 * 32, 3);
    let mut index =
        Flat::builder(&hosts, Metric::L2, 32).distribution(distribution).build().expect("an index");
    index.add(view(&rows, 32)).expect("good rows");
    let queries = view(&rows[..200 * 32], 32);
    let want = index.search(queries, 5).expect("an answer");
    (0..16).into_par_iter().for_each(|_| assert_eq!(index.search(queries, 5).expect("an answer"), want));
    let add = || {
        let mut index =
            Flat::builder(&hosts, Metric::L2, 32).distribution(distribution).build().expect("an index");
        index.add(view(&rows, 32)).expect("good rows");
        index
    };
    let added: Vec<Flat> = (0..4).into_par_iter().map(|_| add()).collect();
    assert!(added.iter().all(|index| index.search(queries, 5).expect("an answer") == want));
}
