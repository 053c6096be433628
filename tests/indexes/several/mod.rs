//! Indexes on several devices answer as on one, bit for bit, and change on all of them or on none.

mod answers;
mod lost;

use nearfield::{Device, DeviceOptions, Error, Flat, Metric, Placement};
use test_case::{test_case, test_matrix};

use crate::common::Engine::{self, Adapter, Host};
use crate::common::living::Kind;
use crate::common::options;
use crate::living::live_on;

/// As many devices of an engine, each with memory of its own.
fn devices(engine: Engine, count: usize) -> Option<Vec<Device>> {
    devices_with(engine, count, options())
}

fn devices_with(engine: Engine, count: usize, options: DeviceOptions) -> Option<Vec<Device>> {
    (0..count).map(|_| engine.open(options.clone())).collect()
}

#[test_matrix([Adapter, Host], [Placement::Shards, Placement::Replicas], [Kind::Flat, Kind::Ivf])]
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
