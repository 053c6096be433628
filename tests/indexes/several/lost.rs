//! A device that is lost, of several.

use nearfield::{Error, Flat, Metric, Placement};

use super::devices;
use crate::common::Engine::Adapter;
use crate::common::living::bits;
use crate::common::{Random, view};

const DIM: usize = 16;

#[test]
fn replicas_go_on_without_a_lost_device_and_shards_say_which_it_is() {
    for placement in [Placement::Replicas, Placement::Shards] {
        let Some(three) = devices(Adapter, 3) else { return };
        let mut random = Random::new(0x105);
        let (rows, queries) = (random.integers(2000 * DIM, 3), random.integers(200 * DIM, 3));
        let (rows, queries) = (view(&rows, DIM), view(&queries, DIM));
        let mut index = Flat::builder(&three, Metric::L2, DIM).placement(placement).build().expect("an index");
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
    }
}
