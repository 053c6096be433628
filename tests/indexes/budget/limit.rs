//! What counts, what is given back, and errors.

use nearfield::{Error, Flat, MemoryPlace, Metric, RowPlace, Screen};

use super::{DIM, NARROWED, STORED, add, answers, build, builder, device, held, values};
use nearfield_testing::view;

#[test]
fn a_limit_too_small_for_one_block_is_an_error_in_any_place() {
    let Some(device) = device(1000) else { return };
    for place in [RowPlace::Auto, RowPlace::Device, RowPlace::Host] {
        let mut index = build(&device, place.clone());
        let before = index.row_place();
        match index.add(view(&values(1, 1), DIM)) {
            Err(Error::MemoryLimit { needed, held: 0, limit: 1000, .. }) => assert!(needed > 1000),
            other => panic!("{place:?}: {other:?}"),
        }
        assert_eq!((index.len(), index.row_place(), held(&index)), (0, before, 0));
        assert!(answers(&index).is_empty());
    }
}

#[test]
fn what_rows_hold_is_counted_to_the_byte() {
    let bytes = 1024 * (STORED + NARROWED);
    for (limit, fits) in [(bytes, true), (bytes - 1, false)] {
        let Some(device) = device(limit) else { return };
        let mut index = build(&device, RowPlace::Device);
        let added = index.add(view(&values(2, 1024), DIM));
        assert_eq!(added.is_ok(), fits, "{added:?}");
        assert_eq!(held(&index), if fits { bytes } else { 0 });
    }
    let Some(device) = device(1024 * NARROWED) else { return };
    let mut index = build(&device, RowPlace::Host);
    add(&mut index, &values(2, 1024));
    assert_eq!(held(&index), 1024 * NARROWED);
}

#[test]
fn rows_on_the_device_that_outgrow_the_limit_are_an_error_that_changes_nothing() {
    let Some(device) = device(2000 * (STORED + NARROWED)) else { return };
    let mut index = build(&device, RowPlace::Device);
    add(&mut index, &values(3, 1000));
    let before = (answers(&index), held(&index));
    let error = index.add(view(&values(4, 1000), DIM)).expect_err("no room");
    assert!(matches!(error, Error::MemoryLimit { .. }), "{error}");
    let text = error.to_string();
    let told = format!("{} that indexes hold", before.1);
    assert!(text.starts_with("memory_bytes: ") && text.contains(&told), "{text}");
    assert_eq!((index.len(), index.row_place()), (1000, MemoryPlace::Device));
    assert_eq!((answers(&index), held(&index)), before);
    // An update takes new places for its rows.
    let ids: Vec<u64> = (0..1000).collect();
    index.update(&ids, view(&values(4, 1000), DIM)).expect_err("no room");
    assert_eq!((answers(&index), held(&index)), before);
}

#[test]
fn an_optional_copy_is_given_up_before_rows_that_stay() {
    let Some(device) = device(1024 * STORED) else { return };
    let flat = Flat::builder(&device, Metric::L2, DIM).rows(RowPlace::Device);
    let mut index = flat.screen(Screen::Auto).build().expect("an index");
    index.add(view(&values(5, 1024), DIM)).expect("rows alone fit");
    assert!(!index.is_screened());
}

#[test]
fn indexes_share_the_limit_of_their_device_and_give_it_back() {
    let Some(device) = device(3000 * (STORED + NARROWED)) else { return };
    let mut one = build(&device, RowPlace::Device);
    let mut other = build(&device.clone(), RowPlace::Device);
    add(&mut one, &values(6, 2048));
    other.add(view(&values(7, 2048), DIM)).expect_err("the first has them");
    add(&mut other, &values(7, 512));
    drop(one);
    let mut third = build(&device, RowPlace::Device);
    add(&mut third, &values(8, 2048));
    // Rows that are removed give back their memory when the index is compacted, also where the device is full.
    third.remove(&(256..2048).collect::<Vec<u64>>()).expect("there");
    third.compact().expect("compacted");
    assert!(held(&third) <= 512 * (STORED + NARROWED), "{}", third.memory());
    let mut fourth = build(&device, RowPlace::Device);
    add(&mut fourth, &values(9, 1536));
    assert_eq!(answers(&third).len(), 400);
}

#[test]
fn a_matrix_of_the_callers_and_scratch_memory_do_not_count() {
    let Some(device) = device(1024 * (STORED + NARROWED)) else { return };
    let rows = values(10, 20_000);
    let matrix = device.upload(view(&rows, DIM)).expect("a matrix");
    device.nearest(view(&rows[..DIM], DIM), &matrix, Metric::L2, 3).expect("an answer");
    let mut index = builder(&device).rows(RowPlace::Device).build().expect("an index");
    add(&mut index, &rows[..1024 * DIM]);
    assert_eq!(answers(&index).len(), 400);
}
