//! The kernel `widen_rows`: rows of every type, in f32 and in the order of a list.

use crate::common::bench::{Bench, GUARD, two_rows};
use crate::common::padded;
use half::{bf16, f16};
use nearfield::internals::kernels::quantize;
use nearfield::internals::kernels::widen_rows::{FOURS_A_WORKGROUP, KERNEL, Params, reference};
use nearfield::{Element, ElementKind, MatrixView, PackedBits};
use nearfield_testing::Random;

const FIRST_SLOT: u32 = 640;

/// The words of rows that lie in blocks, those of i8 with 128 added to each byte.
fn in_blocks<T: Element>(rows: &[T], width: usize) -> Vec<u32> {
    let bytes: &[u8] = bytemuck::cast_slice(rows);
    let flipped = if T::KIND == ElementKind::I8 { 0x80 } else { 0 };
    let count = rows.len() / width;
    let mut blocks = vec![0xaau8; quantize::plane_bytes(count as u64, width) as usize];
    for (at, byte) in bytes.iter().enumerate() {
        let place = quantize::place(at / width, at % width, quantize::granules(width) as usize);
        blocks[place] = byte ^ flipped;
    }
    bytemuck::pod_collect_to_vec(&blocks)
}

fn check<T: Element>(bench: Bench<'_>, may_be_in_blocks: bool, of: impl Fn(&mut Random) -> T) {
    let mut random = Random::new(0x71de);
    for dim in [1, 4, 5, 130, 771] {
        let capacity = 300;
        let rows: Vec<T> = (0..capacity * dim).map(|_| of(&mut random)).collect();
        let places: Vec<usize> = (0..217).map(|_| random.below(capacity)).collect();
        let mut slots: Vec<u32> = places.iter().map(|&place| FIRST_SLOT + place as u32).collect();
        // Of other segments.
        let others = [(3, FIRST_SLOT - 1), (57, FIRST_SLOT + capacity as u32), (216, 0)];
        others.iter().for_each(|&(position, slot)| slots[position] = slot);
        let (width, list) = (dim.next_multiple_of(4), bench.input(&slots));
        let lying = padded(&rows, dim);
        let want = reference(MatrixView::new(&rows, dim).expect("rows"), &places);
        let want: Vec<u32> = padded(&want, dim).iter().map(|x| x.to_bits()).collect();
        for blocks in [false, true] {
            if blocks && !may_be_in_blocks {
                continue;
            }
            let source = if blocks { bench.input(&in_blocks(&lying, width)) } else { bench.input(&lying) };
            let target = bench.output(slots.len() * width);
            let params = Params {
                vectors: width as u32 / 4,
                positions: slots.len() as u32,
                first_slot: FIRST_SLOT,
                rows: capacity as u32,
            };
            let grid = two_rows((slots.len() * width / 4).div_ceil(FOURS_A_WORKGROUP as usize));
            let buffers = [&source, &list, &target];
            bench.dispatch_on(T::KIND, &KERNEL, &[blocks.into()], &params, &buffers, grid);
            for (position, (found, want)) in
                bench.read(&target).chunks_exact(width).zip(want.chunks_exact(width)).enumerate()
            {
                let said = format!("{}, dim {dim}, in blocks: {blocks}, position {position}", T::KIND);
                if others.iter().any(|other| other.0 == position) {
                    assert!(found.iter().all(|&word| word == GUARD), "{said}: of another segment");
                } else {
                    assert_eq!(found, want, "{said}");
                }
            }
        }
    }
}

#[test]
fn rows_of_every_type_are_copied_in_f32_and_those_of_other_segments_are_not() {
    let Some(bench) = Bench::open() else { return };
    check(bench, false, |random| random.normal());
    check(bench, false, |random| f16::from_f32(random.normal()));
    check(bench, false, |random| bf16::from_f32(random.normal()));
    check(bench, true, |random| random.next() as i8);
    check(bench, true, |random| random.next() as u8);
    check(bench, true, |random| PackedBits(random.next() as u8));
}
