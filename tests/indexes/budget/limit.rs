//! What counts, what is given back, and errors.

use nearfield::{Error, Flat, Metric, Quantization, Residency};

use super::{DIM, QUANTIZED, STORED, add, answers, build, builder, held, held_in, values};
use crate::common::{Engine, options};
use crate::support::{Limited, limited};
use nearfield_testing::view;

/// Room for 1,024 rows and their copies.
const LIMIT: u64 = 1024 * (STORED + QUANTIZED);

fn device() -> Option<Limited> {
    limited(LIMIT)
}

#[test]
fn a_limit_too_small_for_one_block_is_an_error_in_any_place() {
    let Some(device) = device() else { return };
    // A block of the 8-bit copy takes twice as much as there is.
    const WIDE: usize = 3072;
    for place in [Residency::Auto, Residency::Device, Residency::Host, Residency::Streamed] {
        let builder =
            Flat::builder(&*device, Metric::L2, WIDE).quantization(Quantization::Int8).residency(place);
        let mut index = builder.build().expect("an index");
        let before = index.residency();
        match index.add(&[1.0f32; WIDE]) {
            Err(Error::MemoryLimit { needed, held: 0, limit: LIMIT, .. }) => assert!(needed > LIMIT),
            other => panic!("{place:?}: {other:?}"),
        }
        assert_eq!((index.len(), index.residency(), held(&index)), (0, before, 0));
        assert!(index.search(&[1.0f32; WIDE], 1).expect("an answer").row(0).is_empty());
    }
}

#[test]
fn what_rows_hold_is_counted_to_the_byte() {
    let Some(device) = device() else { return };
    let mut index = build(&device, Residency::Device);
    add(&mut index, &values(2, 1024));
    assert_eq!(held(&index), LIMIT);
    build(&device, Residency::Host).add(&[1.0f32; DIM]).expect_err("there is no room for another block");
    drop(index);
    let mut index = build(&device, Residency::Host);
    add(&mut index, &values(2, 4096));
    assert_eq!((held(&index), LIMIT), (4096 * QUANTIZED, 4096 * QUANTIZED));
}

#[test]
fn rows_on_the_device_that_outgrow_the_limit_are_an_error_that_changes_nothing() {
    let Some(device) = device() else { return };
    let mut index = build(&device, Residency::Device);
    add(&mut index, &values(3, 600));
    let before = (answers(&index), held(&index));
    let error = index.add(view(&values(4, 600), DIM)).expect_err("no room");
    assert!(matches!(error, Error::MemoryLimit { .. }), "{error}");
    let text = error.to_string();
    let told = format!("{} that indexes hold", before.1);
    assert!(text.starts_with("memory_bytes: ") && text.contains(&told), "{text}");
    assert_eq!((index.len(), index.residency()), (600, Residency::Device));
    assert_eq!((answers(&index), held(&index)), before);
    // An update takes new places for its rows.
    let ids: Vec<u64> = (0..600).collect();
    index.update(&ids, view(&values(4, 600), DIM)).expect_err("no room");
    assert_eq!((answers(&index), held(&index)), before);
}

#[test]
fn an_optional_copy_is_given_up_before_rows_that_stay() {
    let Some(device) = device() else { return };
    // Only room for 1,024 rows is left.
    let mut other = build(&device, Residency::Host);
    add(&mut other, &values(5, 1024));
    let flat = Flat::builder(&*device, Metric::L2, DIM).residency(Residency::Device);
    let mut index = flat.quantization(Quantization::Auto).build().expect("an index");
    index.add(view(&values(5, 1024), DIM)).expect("rows alone fit");
    assert!(!index.is_quantized());
}

#[test]
fn indexes_share_the_limit_of_their_device_and_give_it_back() {
    let Some(device) = device() else { return };
    let mut one = build(&device, Residency::Device);
    let mut other = build(&device.clone(), Residency::Device);
    add(&mut one, &values(6, 640));
    other.add(view(&values(7, 640), DIM)).expect_err("the first has them");
    add(&mut other, &values(7, 256));
    drop(one);
    let mut third = build(&device, Residency::Device);
    add(&mut third, &values(8, 640));
    // Rows that are removed give back their memory when the index is compacted, also where the device is full.
    third.remove(&(128..640).collect::<Vec<u64>>()).expect("there");
    third.compact().expect("compacted");
    assert!(held(&third) <= 256 * (STORED + QUANTIZED), "{}", third.memory());
    let mut fourth = build(&device, Residency::Device);
    add(&mut fourth, &values(9, 384));
    assert_eq!(answers(&third).len(), 400);
}

#[test]
fn a_matrix_of_the_callers_and_scratch_memory_do_not_count() {
    let Some(device) = device() else { return };
    let rows = values(10, 20_000);
    let matrix = device.upload(view(&rows, DIM)).expect("a matrix");
    device.nearest(view(&rows[..DIM], DIM), &matrix, Metric::L2, 3).expect("an answer");
    let mut index = builder(&device).residency(Residency::Device).build().expect("an index");
    add(&mut index, &rows[..1024 * DIM]);
    assert_eq!(answers(&index).len(), 400);
}

#[test]
fn the_host_engine_holds_the_limit_too() {
    let open = |bytes: u64| Engine::Host.open(options().memory_bytes(bytes)).expect("the host");
    let held = |index: &Flat| held_in(index, Residency::Host);
    let measured = {
        let mut index = build(&open(u64::MAX), Residency::Auto);
        add(&mut index, &values(11, 1000));
        held(&index)
    };
    let device = open(measured);
    let mut index = build(&device, Residency::Auto);
    add(&mut index, &values(11, 1000));
    let before = answers(&index);
    for place in [Residency::Auto, Residency::Device, Residency::Host] {
        let refused = build(&device, place).add(&[1.0f32; DIM]);
        assert!(
            matches!(refused, Err(Error::MemoryLimit { held, limit, .. }) if (held, limit) == (measured, measured))
        );
    }
    let refused = index.add(&[1.0f32; DIM]);
    assert!(matches!(refused, Err(Error::MemoryLimit { .. })), "{refused:?}");
    assert_eq!((index.len(), answers(&index)), (1000, before));
    assert!(matches!(builder(&device).capacity(1001).build(), Err(Error::MemoryLimit { .. })));
    // A row that is removed makes room for another one, and many for another index.
    index.remove(&[7]).expect("a row");
    index.add(&[1.0f32; DIM]).expect("its place");
    index.remove(&(300..800).collect::<Vec<u64>>()).expect("rows");
    index.compact().expect("compacted");
    let mut other = build(&device, Residency::Auto);
    add(&mut other, &values(12, 400));
    assert!(held(&index) + held(&other) <= measured, "{}; {}", index.memory(), other.memory());
    drop((index, other));
    let mut index = build(&device, Residency::Auto);
    // It grows row by row, up to the limit, and no search has less than all rows.
    let added = (0..2000).take_while(|_| index.add(&[1.0f32; DIM]).is_ok()).count();
    assert!((900..=1000).contains(&added) && held(&index) <= measured, "{added}: {}", index.memory());
    assert_eq!(index.search(&[1.0f32; DIM], 2000).expect("an answer").row(0).len(), added);
}
