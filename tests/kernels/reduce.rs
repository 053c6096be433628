//! The kernels of reductions, in every variant: exact on whole numbers; they read nothing beside the rows and write nothing
//! beside the results.

use crate::common::bench::{Bench, Buffer, GUARD};
use crate::common::covering::covering;
use crate::common::{gpu, is_nightly, without_subgroups};
use crate::compile_times::run_text;
use nearfield::internals::kernels::reduce_blocks::{self, Operation, Params, reference};
use nearfield::internals::kernels::{
    Driver, Kernel, Variant, deviations, locate, reduce_partials, reduce_rows,
};
use nearfield::{ElementKind, Matrix};
use nearfield_testing::Random;

/// The key of nothing.
const NOTHING: u32 = u32::MAX;

/// The variants of a kernel, each with a device that runs it, except redundant ones: compensation changes nothing in operations
/// that do not sum; and element types differ only in how a vector is loaded, so each combination of override constants runs on one
/// of them. Without the nightly tier a covering set stands for the rest.
fn variants(kernel: &Kernel) -> Vec<(Variant, Bench<'static>)> {
    let has_types = kernel.override_constants().iter().len() > 1
        && kernel.variants().iter().any(|variant| variant.elements == ElementKind::F16);
    let is_wanted = |variant: &Variant| {
        let adds = Operation::ALL[variant.constants[0] as usize].is_sum();
        let values = kernel.override_constants().iter().zip(&variant.constants);
        let places = values.clone().map(|((_, values), value)| values.iter().position(|one| one == value));
        let number = places.flatten().sum::<usize>() % ElementKind::NUMBERS.len();
        let compensated = values.clone().any(|((name, _), value)| *name == "COMPENSATED" && *value == 1);
        (adds || !compensated) && (!has_types || ElementKind::NUMBERS[number] == variant.elements)
    };
    let wanted: Vec<_> = kernel.variants().into_iter().filter(is_wanted).collect();
    let covering = covering(&wanted);
    let some =
        wanted.into_iter().zip(covering).filter(|(_, stands_for_others)| is_nightly() || *stands_for_others);
    some.filter_map(|(variant, _)| with_device(kernel, variant)).collect()
}

/// A variant with a device that runs it.
fn with_device(kernel: &Kernel, variant: Variant) -> Option<(Variant, Bench<'static>)> {
    let device =
        if variant.subgroups || !kernel.has_subgroup_variants() { gpu()? } else { without_subgroups()? };
    let there = device.capabilities().subgroup_sizes.is_some();
    (there || !variant.subgroups).then_some((variant, Bench::new(device)))
}

/// Where rows lie in a buffer.
#[derive(Clone, Copy)]
struct Layout {
    first: usize,
    stride: usize,
    length: usize,
    rows: usize,
}

/// Both operands: whole numbers, and between the rows numbers that would show in a result.
struct Data {
    values: Vec<f32>,
    others: Vec<f32>,
}

impl Layout {
    fn begin(self, row: usize) -> usize {
        self.first + row * self.stride
    }

    fn params(self) -> Params {
        let [first, stride, length, rows] =
            [self.first, self.stride, self.length, self.rows].map(|number| number as u32);
        Params { first, stride, length, rows, scale: 1.0, ..Params::default() }
    }

    fn data(self, random: &mut Random, operation: Operation, elements: ElementKind) -> Data {
        let outside = match operation {
            Operation::Min | Operation::ArgMin => f32::NEG_INFINITY,
            Operation::Max | Operation::ArgMax => f32::INFINITY,
            _ if elements.is_integer() => 77.0,
            _ => f32::NAN,
        };
        let count = (self.begin(self.rows - 1) + self.length).next_multiple_of(4);
        let operand = |random: &mut Random| {
            let mut operand = vec![outside; count];
            for row in 0..self.rows {
                let values = random.integers(self.length, 9).into_iter().map(|value| value + least(elements));
                operand[self.begin(row)..][..self.length].copy_from_slice(&values.collect::<Vec<f32>>());
            }
            Matrix::F32(operand, 1).to_kind(elements).into_f32()
        };
        Data { values: operand(random), others: operand(random) }
    }
}

/// Added to numbers from -9 on: u8 has no negative ones.
fn least(elements: ElementKind) -> f32 {
    if elements == ElementKind::U8 { 9.0 } else { 0.0 }
}

/// A buffer with an operand in a variant's element type.
fn input(bench: Bench<'_>, elements: ElementKind, values: &[f32]) -> Buffer {
    match Matrix::F32(values.to_vec(), 1).to_kind(elements) {
        Matrix::F32(values, _) => bench.input(&values),
        Matrix::F16(values, _) => bench.input(&values),
        Matrix::BF16(values, _) => bench.input(&values),
        Matrix::I8(values, _) => bench.input(&values),
        Matrix::U8(values, _) => bench.input(&values),
        Matrix::Bits(..) => unreachable!("reductions take numbers"),
    }
}

/// Checks the result of a block or a row.
fn check(found: Option<f32>, operation: Operation, values: &[f32], others: &[f32], scale: f32, said: &str) {
    let factor = match operation {
        Operation::SumSquares => scale * scale,
        operation if operation.is_sum() => scale,
        _ => 1.0,
    };
    let wanted = reference(operation, values, others).map(|(value, _)| (value * f64::from(factor)) as f32);
    let is_right = found == wanted || found.is_some_and(f32::is_nan) && wanted.is_some_and(f32::is_nan);
    assert!(is_right, "{said}: {found:?}, not {wanted:?}");
}

#[test]
fn every_variant_of_reduce_blocks_writes_one_record_per_block_and_nothing_else() {
    let mut random = Random::new(0x4ed);
    for (variant, bench) in variants(&reduce_blocks::KERNEL) {
        let [number, _, coarsening, workgroup] = variant.constants[..] else { panic!("four constants") };
        let operation = Operation::ALL[number as usize];
        // Some invocations take a turn more than others.
        let block_vectors = (workgroup * coarsening + 37) as usize;
        let block = 4 * block_vectors;
        let layouts = [
            Layout { first: 7, stride: block + 150, length: block + 101, rows: 2 },
            // Some rows touch one vector more than others, and have a second block for it.
            Layout { first: 0, stride: block - 1, length: block - 2, rows: 4 },
            Layout { first: 1, stride: 3, length: 2, rows: 9 },
        ];
        for (scale, layout) in [1.0, 4.0, 0.5].into_iter().zip(layouts) {
            let data = layout.data(&mut random, operation, variant.elements);
            let blocks = (3 + layout.length).div_ceil(block);
            let (first_block, pitch) = (2, blocks + 3);
            let params = Params {
                blocks: blocks as u32,
                block_vectors: block_vectors as u32,
                first_block,
                pitch: pitch as u32,
                scale,
                ..layout.params()
            };
            let [values, others] =
                [&data.values, &data.others].map(|operand| input(bench, variant.elements, operand));
            let partials = bench.output(layout.rows * pitch * 2);
            // Two rows of workgroups: some of the last workgroups have nothing to do.
            let grid = [((layout.rows * blocks) as u32).div_ceil(2) + 1, 2];
            let (kernel, constants) = (&reduce_blocks::KERNEL, &variant.constants);
            let buffers = [&values, &others, &partials];
            bench.dispatch_on(variant.elements, kernel, constants, &params, &buffers, grid);
            for (place, record) in bench.read_records::<2>(&partials).into_iter().enumerate() {
                let (row, block_number) = (place / pitch, (place % pitch).wrapping_sub(2));
                let said = format!("{variant:?}, {} numbers, row {row}, block {block_number}", layout.length);
                if block_number >= blocks {
                    assert_eq!(record, [GUARD; 2], "{said}");
                    continue;
                }
                let begin = layout.begin(row);
                let start = (begin / 4 + block_number * block_vectors) * 4;
                let end = (start + block).min(begin + layout.length);
                let range = start.max(begin).min(end)..end;
                let (values, others) = (&data.values[range.clone()], &data.others[range]);
                check(operation.value(record), operation, values, others, scale, &said);
                let second = if operation.is_sum() { 0 } else { first_block + block_number as u32 };
                assert_eq!(record[1], second, "{said}");
            }
        }
    }
}

#[test]
fn every_variant_of_reduce_rows_writes_one_word_per_row_and_nothing_else() {
    let mut random = Random::new(0x404);
    for (variant, bench) in variants(&reduce_rows::KERNEL) {
        let operation = Operation::ALL[variant.constants[0] as usize];
        for (length, rows, first, gap) in
            [(1, 33, 0, 0), (2, 9, 3, 1), (3, 70, 1, 0), (4, 8, 4, 4), (31, 9, 0, 2), (1029, 11, 5, 1)]
        {
            let layout = Layout { first, stride: length + gap, length, rows };
            let mut data = layout.data(&mut random, operation, variant.elements);
            if length == 31 && !operation.is_sum() && !variant.elements.is_integer() {
                data.values[layout.begin(2)..][..length].fill(f32::NAN);
            }
            let scale = if length == 31 { 0.25 } else { 1.0 };
            let params = Params { scale, ..layout.params() };
            let [values, others] =
                [&data.values, &data.others].map(|operand| input(bench, variant.elements, operand));
            let results = bench.output(rows);
            // With groups of 128 lanes a workgroup takes two rows; with smaller groups the last workgroups have nothing to do.
            let grid = [(rows as u32).div_ceil(4), 2];
            let (kernel, constants) = (&reduce_rows::KERNEL, &variant.constants);
            let buffers = [&values, &others, &results];
            bench.dispatch_on(variant.elements, kernel, constants, &params, &buffers, grid);
            for (row, word) in bench.read(&results).into_iter().enumerate() {
                let said = format!("{variant:?}, row {row} of {rows} of {length}");
                let range = layout.begin(row)..layout.begin(row) + length;
                let (values, others) = (&data.values[range.clone()], &data.others[range]);
                if operation.is_place() {
                    let place = reference(operation, values, others).and_then(|(_, place)| place);
                    assert_eq!(word, place.map_or(NOTHING, |place| place as u32), "{said}");
                } else {
                    check(operation.value([word, 0]), operation, values, others, scale, &said);
                }
            }
        }
    }
}

#[test]
fn every_variant_of_reduce_partials_writes_one_record_per_row_and_nothing_else() {
    let mut random = Random::new(0x9a4);
    for (variant, bench) in variants(&reduce_partials::KERNEL) {
        let [number, compensated] = variant.constants[..] else { panic!("two constants") };
        let operation = Operation::ALL[number as usize];
        for pitch in [1, 2, 255, 256, 257, 2047, 2048, 2049, 5000] {
            let rows = 3;
            let record = |random: &mut Random| match operation.is_sum() {
                // Large enough that adding them rounds: the rest must be in the errors.
                true if compensated == 1 => {
                    let large = (random.below(1 << 24) as f32 - 2f32.powi(23)) * 8.0;
                    let sum = if random.below(2) == 0 { large } else { random.below(100) as f32 };
                    [sum, (random.below(200) as f32 - 100.0) / 64.0].map(f32::to_bits)
                }
                true => [random.below(2001) as f32 - 1000.0, 0.0].map(f32::to_bits),
                // Few keys, so that the smaller number must break ties.
                false => [NOTHING - random.below(1000) as u32, random.below(1 << 20) as u32],
            };
            let partials: Vec<[u32; 2]> = (0..rows * pitch).map(|_| record(&mut random)).collect();
            let (buffer, results) = (bench.input(&partials), bench.output(rows * 2));
            let params = Params { rows: rows as u32, pitch: pitch as u32, ..Params::default() };
            let (kernel, grid) = (&reduce_partials::KERNEL, [rows as u32, 2]);
            bench.dispatch(kernel, &variant.constants, &params, &[&buffer, &results], grid);
            let found = bench.read_records::<2>(&results);
            for (row, (found, partials)) in found.into_iter().zip(partials.chunks(pitch)).enumerate() {
                let said = format!("{variant:?}, row {row} of {pitch} records");
                let ([sum, error], least) = reduce_partials::reference(operation, partials);
                if let Some(least) = least {
                    assert_eq!(found, least, "{said}");
                    continue;
                }
                let [found_sum, found_error] = found.map(|word| f64::from(f32::from_bits(word)));
                if compensated == 1 {
                    assert_eq!(found_sum + found_error, sum + error, "{said}");
                } else {
                    assert_eq!([found_sum, found_error], [sum, 0.0], "{said}");
                }
            }
        }
    }
}

#[test]
fn every_variant_of_locate_finds_the_first_place_of_a_key_in_its_block_alone() {
    let mut random = Random::new(0x10c);
    for (variant, bench) in variants(&locate::KERNEL) {
        let operation = if variant.constants[0] == 5 { Operation::ArgMin } else { Operation::ArgMax };
        let (block_vectors, first_block) = (700, 5);
        let layout = Layout { first: 6, stride: 7001, length: 6998, rows: 8 };
        let data = layout.data(&mut random, operation, variant.elements);
        let blocks = (3 + layout.length).div_ceil(4 * block_vectors);
        let mut wanted = vec![];
        let mut records = vec![];
        for row in 0..layout.rows {
            let begin = layout.begin(row);
            // Each block has all numbers from -9 to 9, many times; only the named block counts. Two of those are in other buffers.
            let block = row % (blocks + 2);
            let key = operation.key((row % 19) as f32 - 9.0 + least(variant.elements));
            let from = ((begin / 4 + block * block_vectors) * 4).max(begin) - begin;
            let in_block = data.values.get(begin + from..begin + layout.length).filter(|_| block < blocks);
            let place = in_block.and_then(|values| locate::reference(operation, values, key));
            wanted.push(place.map_or(GUARD, |place| (from + place) as u32));
            assert_eq!(place.is_some(), block < blocks);
            let number = if block > blocks { first_block - 1 } else { first_block + block as u32 };
            records.push([key, number]);
        }
        let (blocks, block_vectors) = (blocks as u32, block_vectors as u32);
        let params = Params { blocks, block_vectors, first_block, ..layout.params() };
        let (values, results) = (input(bench, variant.elements, &data.values), bench.input(&records));
        let places = bench.output(layout.rows);
        let (kernel, constants) = (&locate::KERNEL, &variant.constants);
        let buffers = [&values, &results, &places];
        bench.dispatch_on(variant.elements, kernel, constants, &params, &buffers, [5, 2]);
        assert_eq!(bench.read(&places), wanted, "{variant:?}");
    }
}

#[test]
fn every_variant_of_deviations_writes_one_record_per_block_and_nothing_else() {
    let mut random = Random::new(0x5d);
    let kernel = &deviations::KERNEL;
    for (variant, bench) in kernel.variants().into_iter().filter_map(|variant| with_device(kernel, variant)) {
        let is_of_lanes = variant.constants[0] == 0;
        let block = if is_of_lanes { 4096 } else { variant.constants[0] as usize * 16 };
        let layouts = [
            Layout { first: 0, stride: block, length: block, rows: 301 },
            Layout { first: 3, stride: block + 9, length: block - 3, rows: 2 },
            Layout { first: 5, stride: 2 * block + 1, length: 2 * block - 2, rows: 3 },
            Layout { first: 1, stride: 3, length: 2, rows: 9 },
        ];
        for (layout, (words, scale)) in layouts.into_iter().zip([(1, 1.0), (3, 4.0), (3, 0.5), (1, 1.0)]) {
            // NaN lie between the rows.
            let data = layout.data(&mut random, Operation::Sum, variant.elements).values;
            // Rows that groups of lanes take, and rows of one word, have one block.
            if is_of_lanes && layout.length > block {
                continue;
            }
            let (first_block, spare) = if words == 1 { (0, 0) } else { (1, 2) };
            let blocks = if words == 1 || is_of_lanes { 1 } else { (3 + layout.length).div_ceil(block) };
            let pitch = first_block + blocks + spare;
            let params = Params {
                blocks: blocks as u32,
                first_block: first_block as u32,
                pitch: pitch as u32,
                words: words as u32,
                scale,
                ..layout.params()
            };
            let (values, records) =
                (input(bench, variant.elements, &data), bench.output(layout.rows * pitch * words));
            // With groups of 128 lanes a workgroup takes two rows.
            let grid = [((layout.rows * blocks) as u32).div_ceil(2) + 1, 2];
            let buffers = [&values, &records];
            bench.dispatch_on(variant.elements, kernel, &variant.constants, &params, &buffers, grid);
            for (place, record) in bench.read(&records).chunks(words).enumerate() {
                let (row, number) = (place / pitch, (place % pitch).wrapping_sub(first_block));
                let said = format!("{variant:?}, {} numbers, row {row}, block {number}", layout.length);
                if number >= blocks {
                    assert_eq!(record, [GUARD; 3], "{said}");
                    continue;
                }
                let begin = layout.begin(row);
                let start = begin / 4 * 4 + number * block;
                let end = if is_of_lanes { usize::MAX } else { start + block }.min(begin + layout.length);
                let scaled: Vec<f32> =
                    data[start.max(begin).min(end)..end].iter().map(|value| value * scale).collect();
                let wanted = deviations::reference(&scaled);
                let found: Vec<f32> = record.iter().map(|&word| f32::from_bits(word)).collect();
                let off = (f64::from(found[0]) - wanted.squares).abs();
                assert!(off <= 1e-6 * wanted.squares, "{said}: {found:?}, not {wanted:?}");
                if words == 3 {
                    let spread = deviations::spread([found[0], found[1], found[2]], scaled.len() as u64);
                    assert_eq!(spread.count, wanted.count, "{said}");
                    // The rest of the mean has the rounding errors of differences from its first part.
                    let off = (spread.mean - wanted.mean).abs();
                    let deviation = (wanted.squares / wanted.count.max(1.0)).sqrt();
                    assert!(off <= 1e-6 * deviation, "{said}: {found:?}, not {wanted:?}");
                }
            }
        }
    }
}

/// A driver may leave lanes of a subgroup empty. Here the last lane of each ends before the others count themselves, as if it were not there.
#[test]
fn lanes_that_are_absent_leave_no_element_out() {
    let sum = Operation::ALL.iter().position(|operation| *operation == Operation::Sum).expect("a sum") as u32;
    let variant = Variant { subgroups: true, constants: vec![sum, 0, 0], ..Variant::default() };
    let Some((variant, bench)) = with_device(&reduce_rows::KERNEL, variant) else { return };
    let text = reduce_rows::KERNEL.wgsl(&variant, Driver::Hardware).expect("a text");
    let [counts, begins] = ["if (groups * size != WORKGROUP)", "let lanes = lanes_here("];
    assert!(text.contains(counts) && text.contains(begins));
    let leaves = format!("if (subgroup_invocation_id + 1u == subgroup_size) {{ return; }}\n  {begins}");
    let text = text.replace(counts, "if (true)").replace(begins, &leaves);
    let layout = Layout { first: 1, stride: 4000, length: 3990, rows: 70 };
    let data = layout.data(&mut Random::new(77), Operation::Sum, ElementKind::F32);
    let [values, others] = [&data.values, &data.others].map(|values| bench.input(values));
    let (params, results) = (bench.uniform(&layout.params()), bench.output(layout.rows));
    let buffers = [&params, &*values, &*others, &*results];
    run_text(bench.device, (&reduce_rows::KERNEL, &variant), text, &buffers, layout.rows as u32);
    for (row, word) in bench.read(&results).into_iter().enumerate() {
        let begin = layout.begin(row);
        let wanted: f32 = data.values[begin..begin + layout.length].iter().sum();
        assert_eq!(f32::from_bits(word), wanted, "row {row}");
    }
}
