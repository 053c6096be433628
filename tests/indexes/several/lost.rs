//! A device that is lost, of several.

use nearfield::{
    Device, Error, Flat, Index, Ivf, MemoryPlace, Metric, Placement, RowPlace, Screen, SearchOptions,
};
use test_case::test_matrix;

use super::devices;
use crate::common::Engine::Adapter;
use crate::support::few_iterations;
use nearfield_testing::living::{Kind, bits};
use nearfield_testing::{Random, view};

const DIM: usize = 16;

#[test]
fn replicas_go_on_without_a_lost_device_and_shards_say_which_it_is() {
    for placement in [Placement::Replicas, Placement::Shards] {
        let Some(three) = devices(Adapter, 3) else { return };
        let mut random = Random::new(0x105);
        let (rows, queries) = (random.integers(2000 * DIM, 3), random.integers(200 * DIM, 3));
        let (rows, queries) = (view(&rows, DIM), view(&queries, DIM));
        let mut index =
            Flat::builder(&three, Metric::L2, DIM).placement(placement).build().expect("an index");
        index.add(rows).expect("good rows");
        let want = bits(&index.search(queries, 5).expect("an answer"));
        three[1].wgpu_device().expect("a GPU").destroy();
        let found = index.search(queries, 5);
        if placement == Placement::Shards {
            let lost = found.expect_err("a third of the rows is gone");
            assert!(matches!(lost, Error::DeviceLost { .. }), "{lost}");
            assert!(lost.to_string().contains("device 1 of 3"), "{lost}");
            let error = index.add(rows).expect_err("no place");
            assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
            assert_eq!((index.len(), index.next_id()), (2000, 2000), "as it was");
            continue;
        }
        assert_eq!(bits(&found.expect("two are left")), want);
        index.add(rows).expect("two are left");
        index.remove(&(2000..4000).collect::<Vec<_>>()).expect("two are left");
        assert_eq!(bits(&index.search(queries, 5).expect("two are left")), want);
        three[0].wgpu_device().expect("a GPU").destroy();
        assert_eq!(bits(&index.search(queries, 5).expect("one is left")), want);
        three[2].wgpu_device().expect("a GPU").destroy();
        let lost = index.search(queries, 5).expect_err("none is left");
        assert!(matches!(lost, Error::DeviceLost { .. }), "{lost}");
        for refused in [index.add(rows), index.remove(&[1])] {
            assert!(matches!(refused, Err(Error::DeviceLost { .. })), "{refused:?}");
        }
        assert_eq!(index.len(), 2000);
    }
}

/// The ids and the bits of distances of each query.
type Answers = Vec<Vec<(u64, u32)>>;

/// An index of two devices with rows, one of which is lost, and the answers that it had.
fn with_one_lost(kind: Kind, placement: Placement, has_copy: bool) -> Option<(Index, Vec<u8>, Answers)> {
    let two = devices(Adapter, 2)?;
    let mut random = Random::new(0x106);
    let (rows, more) = (random.integers(1500 * DIM, 3), random.integers(1000 * DIM, 3));
    let mut index: Index = match kind {
        Kind::Flat => {
            let builder = Flat::builder(&two, Metric::L2, DIM).placement(placement).keep_host_copy(has_copy);
            builder.build().expect("an index").into()
        }
        Kind::Ivf => {
            let builder = Ivf::builder(&two, Metric::L2, DIM).placement(placement).keep_host_copy(has_copy);
            builder.lists(20).kmeans(few_iterations).train(view(&rows, DIM)).expect("trains").into()
        }
    };
    index.add(view(&rows, DIM)).expect("good rows");
    index.remove(&(100..400).collect::<Vec<_>>()).expect("they are there");
    let want = answers(&index);
    let file = index.to_bytes().expect("memory");
    let refused = index.recover(&two[0]).expect_err("none is lost");
    assert!(refused.to_string().contains("lost none"), "{refused}");
    two[1].wgpu_device().expect("a GPU").destroy();
    let added = index.add(view(&more, DIM));
    match placement {
        Placement::Shards => assert!(matches!(added, Err(Error::DeviceLost { .. })), "{added:?}"),
        _ => {
            added.expect("one is left");
            index.remove(&(1500..2500).collect::<Vec<_>>()).expect("they are there");
        }
    }
    Some((index, file, want))
}

/// Answers of enough queries for both devices.
fn answers(index: &Index) -> Answers {
    let queries = Random::new(0x107).integers(150 * DIM, 3);
    let options = match index.lists() {
        Some(_) => SearchOptions::new(6).probes(4),
        None => SearchOptions::new(6),
    };
    bits(&index.search_with(view(&queries, DIM), &options).expect("an answer").neighbors)
}

#[test_matrix([Kind::Flat, Kind::Ivf] => ignore["nightly"])]
fn a_lost_replica_is_copied_from_the_other(kind: Kind) {
    let Some((mut index, _, want)) = with_one_lost(kind, Placement::Replicas, false) else { return };
    assert_eq!(answers(&index), want);
    index
        .recover(&Adapter.open(crate::common::options()).expect("another device"))
        .expect("there is a replica");
    // The first is gone now: what answers is the recovered one.
    index.devices()[0].wgpu_device().expect("a GPU").destroy();
    assert_eq!(answers(&index), want);
}

#[test_matrix([Kind::Flat, Kind::Ivf])]
fn a_lost_shard_is_copied_from_the_host_or_from_a_saved_index(kind: Kind) {
    for has_copy in [true, false] {
        let Some((mut index, file, want)) = with_one_lost(kind, Placement::Shards, has_copy) else { return };
        let another = Adapter.open(crate::common::options()).expect("another device");
        if has_copy {
            index.recover(&another).expect("the copy has the rows");
        } else {
            let refused = index.recover(&another).expect_err("no rows");
            assert!(refused.to_string().contains("recover_from"), "{refused}");
            let other = Flat::builder(&Device::host(), Metric::L2, DIM + 1).build().expect("an index");
            let refused = index.recover_from(&another, &other.into()).expect_err("another dim");
            assert!(matches!(refused, Error::Argument { argument: "other", .. }), "{refused}");
            let empty = Flat::builder(&Device::host(), Metric::L2, DIM).build().expect("an index");
            let refused = index.recover_from(&another, &empty.into()).expect_err("no rows");
            assert!(matches!(refused, Error::UnknownId { .. }), "{refused}");
            let saved = Index::loader(&Device::host()).load_bytes(&file).expect("it is loaded");
            let taken = index.devices()[0].clone();
            let refused = index.recover_from(&taken, &saved).expect_err("it is there already");
            assert!(matches!(refused, Error::Argument { argument: "devices", .. }), "{refused}");
            index.recover_from(&another, &saved).expect("it has the rows");
        }
        assert_eq!(answers(&index), want);
        assert_eq!(index.to_bytes().expect("memory"), file);
    }
}

#[test_matrix([Placement::Shards, Placement::Replicas], [true, false] => ignore["nightly"])]
fn rows_that_the_host_keeps_are_still_there_when_a_device_is_lost(placement: Placement, is_file: bool) {
    const DIM: usize = 32;
    let Some(two) = devices(Adapter, 2) else { return };
    let mut random = Random::new(0x108);
    let (rows, queries) = (random.integers(3000 * DIM, 3), random.integers(150 * DIM, 3));
    let (rows, queries) = (view(&rows, DIM), view(&queries, DIM));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.nf");
    let builder = Flat::builder(&two, Metric::L2, DIM).placement(placement).screen(Screen::I8);
    let mut index = match is_file {
        true => {
            let mut saved = Flat::builder(&Device::host(), Metric::L2, DIM).build().expect("an index");
            saved.add(rows).expect("good rows");
            saved.save(&path).expect("saved");
            builder.rows(RowPlace::Mapped(path)).build().expect("an index")
        }
        false => {
            let mut index = builder.rows(RowPlace::Host).build().expect("an index");
            index.add(rows).expect("good rows");
            index
        }
    };
    index.remove(&(100..400).collect::<Vec<_>>()).expect("they are there");
    let (want, memory) = (bits(&index.search(queries, 6).expect("an answer")), index.memory());
    two[1].wgpu_device().expect("a GPU").destroy();
    let found = index.search(queries, 6);
    match placement {
        Placement::Shards => assert!(matches!(found, Err(Error::DeviceLost { .. })), "{found:?}"),
        _ => {
            assert_eq!(bits(&found.expect("one is left")), want);
            index.remove(&[400]).expect("one is left");
        }
    }
    index.recover(&Adapter.open(crate::common::options()).expect("another device")).expect("rows are left");
    let places = [MemoryPlace::File, MemoryPlace::Device];
    assert_eq!(places.map(|place| index.memory().at(place)), places.map(|place| memory.at(place)));
    let mut left = Flat::builder(&Device::host(), Metric::L2, DIM).build().expect("an index");
    left.add(rows).expect("good rows");
    left.remove(&(100..400 + u64::from(placement == Placement::Replicas)).collect::<Vec<_>>())
        .expect("there");
    // What answers is the recovered one.
    if placement == Placement::Replicas {
        two[0].wgpu_device().expect("a GPU").destroy();
    }
    let found = index.search_with(queries, &SearchOptions::new(6)).expect("an answer");
    assert!(!found.statistics.on_host);
    assert_eq!(bits(&found.neighbors), bits(&left.search(queries, 6).expect("an answer")));
}

/// The index notes the loss of a device, though the host answers in its place.
#[test_matrix([Placement::Shards, Placement::Replicas])]
fn a_device_that_the_host_stands_in_for_is_recovered(placement: Placement) {
    const DIM: usize = 32;
    let Some(two) = devices(Adapter, 2) else { return };
    let mut random = Random::new(0x109);
    let (rows, queries) = (random.integers(3000 * DIM, 3), random.integers(150 * DIM, 3));
    let builder = Flat::builder(&two, Metric::L2, DIM).placement(placement).rows(RowPlace::Host);
    let mut index = builder.keep_host_copy(true).fallback(true).build().expect("an index");
    index.add(view(&rows, DIM)).expect("good rows");
    let answer = |index: &Flat| {
        let found = index.search_with(view(&queries, DIM), &SearchOptions::new(6)).expect("somebody answers");
        (found.statistics.on_host, bits(&found.neighbors))
    };
    let (on_host, want) = answer(&index);
    assert!(!on_host);
    two[1].wgpu_device().expect("a GPU").destroy();
    assert_eq!(answer(&index), (true, want.clone()));
    index.recover(&Adapter.open(crate::common::options()).expect("another device")).expect("it was lost");
    assert_eq!(answer(&index), (false, want));
}

#[test]
#[ignore = "nightly"]
fn lists_come_back_when_all_devices_were_lost() {
    let Some(two) = devices(Adapter, 2) else { return };
    let mut random = Random::new(0x10a);
    let (rows, queries) = (random.integers(1500 * DIM, 3), random.integers(100 * DIM, 3));
    let builder = Ivf::builder(&two, Metric::L2, DIM).lists(8).kmeans(few_iterations);
    let builder = builder.rows(RowPlace::Host).screen(Screen::I8);
    let mut index = builder.train(view(&rows, DIM)).expect("trains");
    index.add(view(&rows, DIM)).expect("good rows");
    let answer = |index: &Ivf| index.search(view(&queries, DIM), 6, 3);
    let (want, bytes) = (answer(&index).expect("an answer"), index.to_bytes().expect("memory"));
    two.iter().for_each(|device| device.wgpu_device().expect("a GPU").destroy());
    for _ in 0..2 {
        let lost = answer(&index).expect_err("devices are lost");
        assert!(matches!(lost, Error::DeviceLost { .. }), "{lost}");
        index
            .recover(&Adapter.open(crate::common::options()).expect("another device"))
            .expect("rows are left");
    }
    assert_eq!(bits(&answer(&index).expect("two are back")), bits(&want));
    assert_eq!(index.to_bytes().expect("memory"), bytes);
}
