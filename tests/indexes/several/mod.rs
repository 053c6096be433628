//! Indexes on several devices answer as on one, bit for bit, and change on all of them or on none.

mod answers;
mod lost;

use std::panic::{AssertUnwindSafe, catch_unwind};

use nearfield::{AddOptions, Device, DeviceOptions, Error, Flat, Metric, Placement};
use rayon::prelude::*;
use test_case::{test_case, test_matrix};

use crate::common::Engine::{self, Adapter, Host};
use crate::common::options;
use crate::living::live_on;
use crate::support::numbered;
use nearfield_testing::living::{Kind, bits};
use nearfield_testing::{Random, view};

/// As many devices of an engine, each with memory of its own.
fn devices(engine: Engine, count: usize) -> Option<Vec<Device>> {
    devices_with(engine, count, options())
}

fn devices_with(engine: Engine, count: usize, options: DeviceOptions) -> Option<Vec<Device>> {
    (0..count).map(|_| engine.open(options.clone())).collect()
}

#[test_matrix([Host], [Placement::Shards, Placement::Replicas], [Kind::Flat, Kind::Ivf])]
#[test_matrix([Adapter], [Placement::Shards, Placement::Replicas], [Kind::Flat, Kind::Ivf] => ignore["nightly"])]
fn after_any_life_on_several_devices_an_index_answers_as_on_one(
    engine: Engine,
    placement: Placement,
    kind: Kind,
) {
    let count = if engine == Host { 3 } else { 2 };
    live_on(count, placement, engine, kind, 0x5e7e);
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

#[test_case("shards", Some(Placement::Shards))]
#[test_case("replicas", Some(Placement::Replicas))]
#[test_case("Shards", None)]
#[test_case("", None)]
fn placements_are_read_from_their_names(text: &str, wanted: Option<Placement>) {
    let read = text.parse::<Placement>();
    assert_eq!(read.as_ref().ok(), wanted.as_ref());
    match read {
        Ok(placement) => assert_eq!(placement.to_string(), text),
        Err(error) => assert!(error.to_string().contains("shards or replicas"), "{error}"),
    }
}

#[test_matrix([Adapter, Host], [Placement::Shards, Placement::Replicas])]
fn a_progress_function_that_panics_leaves_all_devices_as_they_were(engine: Engine, placement: Placement) {
    let Some(two) = devices(engine, 2) else { return };
    let rows = Random::new(0x10b).integers(2000 * 8, 3);
    let queries = view(&rows[..40 * 8], 8);
    let mut index = Flat::builder(&two, Metric::L2, 8).placement(placement).build().expect("an index");
    // All of the first device's rows, and some of the second's.
    index.add(view(&rows[..200 * 8], 8)).expect("good rows");
    let before = bits(&index.search(queries, 250).expect("an answer"));
    for most in [0, 1000] {
        let fail = |rows: usize| assert!(rows < most, "the caller's own fault");
        let options = AddOptions::new().progress(&fail);
        let adding = AssertUnwindSafe(|| index.add_with(view(&rows, 8), &options));
        let panic = catch_unwind(adding).expect_err("it panics");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the caller's own fault"));
        assert_eq!(index.len(), 200);
        assert_eq!(bits(&index.search(queries, 250).expect("an answer")), before);
    }
    index.add(view(&rows, 8)).expect("the same rows, later");
    assert_eq!(index.ids().expect("memory"), numbered(2200));
}

/// The threads of the pool wait for devices whose work needs these threads.
#[test_matrix([Placement::Shards, Placement::Replicas])]
fn tasks_of_the_thread_pool_search_several_hosts(placement: Placement) {
    let hosts = devices(Host, 3).expect("the host is always there");
    let rows = Random::new(0x10c).integers(3000 * 32, 3);
    let mut index = Flat::builder(&hosts, Metric::L2, 32).placement(placement).build().expect("an index");
    index.add(view(&rows, 32)).expect("good rows");
    let queries = view(&rows[..200 * 32], 32);
    let want = index.search(queries, 5).expect("an answer");
    (0..16).into_par_iter().for_each(|_| assert_eq!(index.search(queries, 5).expect("an answer"), want));
    let add = || {
        let mut index = Flat::builder(&hosts, Metric::L2, 32).placement(placement).build().expect("an index");
        index.add(view(&rows, 32)).expect("good rows");
        index
    };
    let added: Vec<Flat> = (0..4).into_par_iter().map(|_| add()).collect();
    assert!(added.iter().all(|index| index.search(queries, 5).expect("an answer") == want));
}
