//! A reduction gives the same bits on every path: buffers, bindings, budgets, threads, futures. Also vectors past 2^32
//! numbers, and errors for operands that do not fit.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::bench::Bench;
use crate::common::reduce::{Call, floats, in_parts, run};
use crate::common::{confined, gpu, is_nightly};
use half::f16;
use nearfield::{Device, DeviceVector, Element, ElementKind, Error, Stages, Summation, Values, wgpu};
use nearfield_testing::{Random, rounded, view};
use test_case::test_matrix;

const UNIT: usize = DeviceVector::BUFFER_UNIT as usize;

/// The bits of the sums of these numbers, over one operand, two, and in several passes.
fn bits(device: &Device, values: Values<'_>, others: Values<'_>) -> Vec<u64> {
    let calls = [Call::Dot, Call::Sum, Call::L2, Call::Deviation].into_iter();
    let summed = calls.flat_map(|call| call.summations().iter().map(move |&summation| (call, summation)));
    summed
        .map(|(call, summation)| run(device, call, summation, values, others).expect("a result").to_bits())
        .collect()
}

/// Lengths in one block, in several, in many, and in blocks that are longer.
const LENGTHS: [usize; 4] = [3, 4097, 700_003, LONGER_BLOCKS];
const LONGER_BLOCKS: usize = 4 * (1 << 20) + 5;

/// Every way of holding these numbers gives the same bits, also on a device with little scratch memory and small buffers.
fn check<T: Element>(engine: Engine, values: &[T], others: &[T])
where
    for<'v> Values<'v>: From<&'v [T]>,
{
    let (Some(device), Some(small)) = (engine.device(), engine.confined(1 << 17, 300_000)) else { return };
    let length = values.len();
    let upload =
        |device: &Device| [values, others].map(|values| device.upload_vector(values).expect("a vector"));
    let want = bits(device, values.into(), others.into());
    let ([a, b], [small_a, small_b]) = (upload(device), upload(&small));
    for (said, device, a, b) in [
        ("on the device", device, (&a).into(), (&b).into()),
        ("on one side each", device, values.into(), (&b).into()),
        ("within a small budget", &small, values.into(), others.into()),
        ("in small segments", &small, (&small_a).into(), (&small_b).into()),
    ] {
        assert_eq!(bits(device, a, b), want, "{length} {said}");
    }
    // A product whose operands are cut at different places, and small bindings.
    let Some(quantize) = engine.with_bindings_of(1 << 18).filter(|_| length < LONGER_BLOCKS) else { return };
    let cuts = [1, 1, 3, 4, 20, 21].map(|units| units * UNIT);
    let cuts: Vec<usize> = cuts.into_iter().filter(|&cut| cut < length).collect();
    let (a, b) = (in_parts(device, values, &cuts), in_parts(device, others, &cuts[..cuts.len() / 2]));
    assert_eq!(bits(device, (&a).into(), (&b).into()), want, "{length} in {cuts:?}");
    let want = bits(engine.without_subgroups().expect("a device"), values.into(), others.into());
    assert_eq!(bits(&quantize, values.into(), others.into()), want, "{length} through small bindings");
    let [a, b] = upload(&quantize);
    assert_eq!(bits(&quantize, (&a).into(), (&b).into()), want, "{length} in small bindings");
    let (a, b) = (in_parts(&quantize, values, &[]), in_parts(&quantize, others, &cuts));
    assert_eq!(bits(&quantize, (&a).into(), (&b).into()), want, "{length}, seen in pieces");
}

#[test_matrix([Adapter, Host])]
fn a_sum_has_the_same_bits_wherever_its_numbers_are(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(0xb175);
    // A software driver takes ten seconds for the longest.
    let lengths = LENGTHS.into_iter().filter(|&one| one < LONGER_BLOCKS || engine == Host || is_nightly());
    for length in lengths {
        let (a, b) = (floats(&mut random, length), floats(&mut random, length));
        check(engine, &a, &b);
        if length < LONGER_BLOCKS {
            let ((a, wide_a), (b, wide_b)) = (rounded(&a), rounded(&b));
            check(engine, &a, &b);
            let want = bits(device, (&wide_a).into(), (&wide_b).into());
            assert_eq!(bits(device, (&a).into(), (&b).into()), want, "f16 are their widened numbers");
        }
    }
}

#[test]
fn vectors_past_two_to_the_32_numbers_are_reduced_exactly() {
    let Some(device) = gpu() else { return };
    let (bench, length) = (Bench::new(device), 1u64 << 25);
    // Whole numbers and their opposites, over and over: every sum on the way is below 2^24.
    let mut random = Random::new(0x2_0032);
    let mut some = random.integers(30_011, 1);
    some.extend_from_within(..);
    some[30_011..].iter_mut().for_each(|value| *value = -*value);
    let some: Vec<f16> = some.into_iter().map(f16::from_f32).collect();
    let values: Vec<f16> = some.iter().copied().cycle().take(length as usize).collect();
    let rest = &some[..length as usize % some.len()];
    let one: f64 = rest.iter().map(|value| f64::from(value.to_f32())).sum();
    assert_ne!(one, 0.0);
    let most = [0.0, 1.0, -1.0, 0.0, 3.0, 3.0, -2.0].map(f16::from_f32);
    let (repeated, last) = (bench.input(&values), bench.input(&most));
    let of_parts = |parts: usize| {
        let mut buffers = vec![(repeated.clone(), length); parts];
        buffers.push((last.clone(), 7));
        DeviceVector::from_wgpu(device, ElementKind::F16, &buffers).expect("a vector")
    };
    // Past 2^31, and past 2^32.
    let (vector, reduce) = (of_parts(65), device.reduce());
    assert_eq!(vector.len(), 65 * length + 7);
    assert_eq!(f64::from(reduce.sum(&vector).expect("a sum")), 65.0 * one + 4.0);
    assert_eq!(reduce.argmax(&of_parts(129)).expect("a place"), 129 * length + 4);
}

fn send<F: Future + Send>(future: F) -> F {
    future
}

#[test_matrix([Adapter, Host])]
fn threads_and_futures_reduce_at_once_to_the_same_bits(engine: Engine) {
    let Some(device) = engine.device() else { return };
    // With the small budget calls wait for each other's scratch memory.
    let small = engine.confined(1 << 17, 1 << 20).expect("the adapter is there");
    let mut random = Random::new(0x7423);
    let (a, b) = (floats(&mut random, 150_001), floats(&mut random, 150_001));
    let want = bits(device, (&a).into(), (&b).into());
    let reduce = device.reduce();
    let compensated = reduce.summation(Summation::Compensated);
    let dot = reduce.dot(&a, &b).expect("a product").to_bits();
    let sum = compensated.sum(&a).expect("a sum").to_bits();
    let place = reduce.argmax(&a).expect("a place");
    let deviation = reduce.standard_deviation(&a).expect("a deviation");
    for device in [device, &small] {
        let [a_device, b_device] = [&a, &b].map(|values| device.upload_vector(values).expect("a vector"));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (a, b, want, a_device, b_device) = (&a, &b, &want, &a_device, &b_device);
                scope.spawn(move || {
                    for turn in 0..3 {
                        let on_device = (Values::from(a_device), Values::from(b_device));
                        let (values, others) =
                            if (thread + turn) % 2 == 0 { on_device } else { (a.into(), b.into()) };
                        if thread < 2 {
                            assert_eq!(bits(device, values, others), *want, "thread {thread}, turn {turn}");
                            continue;
                        }
                        // As a foreign executor runs it.
                        let reduce = device.reduce();
                        let compensated = reduce.summation(Summation::Compensated);
                        let found = pollster::block_on(send(reduce.dot_async(values, others)));
                        assert_eq!(found.expect("a product").to_bits(), dot, "thread {thread}");
                        let found = pollster::block_on(send(compensated.sum_async(values)));
                        assert_eq!(found.expect("a sum").to_bits(), sum, "thread {thread}");
                        let found = pollster::block_on(send(compensated.argmax_async(values)));
                        assert_eq!(found.expect("a place"), place, "thread {thread}");
                        let found = pollster::block_on(send(reduce.argmax_rows_async(view(a, a.len()))));
                        assert_eq!(found.expect("a place"), [place], "thread {thread}");
                        let found = pollster::block_on(send(reduce.standard_deviation_async(values)));
                        assert_eq!(found.expect("a deviation"), deviation, "thread {thread}");
                        let found = reduce.standard_deviation_rows_async(view(a, a.len()));
                        assert_eq!(pollster::block_on(send(found)).expect("deviations"), [deviation]);
                    }
                });
            }
        });
    }
}

#[test_matrix([Adapter, Host])]
fn a_dropped_future_gives_its_scratch_memory_back(engine: Engine) {
    let Some(device) = engine.confined(u64::MAX, 200_000) else { return };
    let values = floats(&mut Random::new(0xd0), 150_001);
    let reduce = device.reduce();
    let want = reduce.sum(&values).expect("a sum");
    for _ in 0..10 {
        let mut summing = Box::pin(reduce.sum_async(&values));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        drop(summing.as_mut().poll(&mut context));
        drop(summing);
        assert_eq!(reduce.sum(&values).expect("a sum").to_bits(), want.to_bits());
    }
}

#[test_matrix([Adapter, Host])]
fn calls_note_their_time_where_the_adapter_has_timestamps(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let stages = Stages::new();
    device.reduce().stages(&stages).sum(&[1.0, 2.0]).expect("a sum");
    let rows = view(&[1.0f32, 2.0], 1);
    assert_eq!(device.reduce().stages(&stages).sum_rows(rows).expect("sums"), [1.0, 2.0]);
    let times = stages.take();
    assert_eq!(times.is_empty(), !device.capabilities().timestamps, "{times:?}");
    assert!(times.iter().all(|time| time.stage == "reduce"), "{times:?}");
    assert!(stages.take().is_empty());
    // In several submissions.
    let small = engine.confined(u64::MAX, 200_000).expect("the adapter is there");
    small.reduce().stages(&stages).sum(&vec![1.0; 200_001]).expect("a sum");
    assert_eq!(stages.take().is_empty(), !small.capabilities().timestamps);
}

#[test_matrix([Adapter, Host])]
fn operands_that_do_not_fit_each_other_are_refused(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let reduce = device.reduce();
    let said = |result: nearfield::Result<f32>| result.expect_err("no such product").to_string();
    let three = device.upload_vector(&[1.0f32; 3]).expect("a vector");
    let halves = [f16::ONE; 3];
    let said_of_two = "others: needed 3 numbers, as the values have, given 2";
    assert_eq!(said(reduce.dot(&[1.0; 3], &[1.0; 2])), said_of_two);
    assert_eq!(said(reduce.dot(&three, &[1.0; 2])), said_of_two);
    let said_of_halves = "others: needed F32, as the values are, given F16";
    assert_eq!(said(reduce.dot(&[1.0; 3], &halves[..])), said_of_halves);
    assert_eq!(said(reduce.dot(&three, &halves[..])), said_of_halves);
    // Host and device go together.
    assert_eq!(reduce.dot(&[1.0, 2.0, 3.0], &three).expect("a product"), 6.0);
    assert_eq!(reduce.dot(&three, &three).expect("a product"), 3.0);
}

#[test]
fn vectors_of_another_device_are_refused() {
    // All devices of the host engine are one.
    let Some(device) = gpu() else { return };
    let other = confined(u64::MAX, 1 << 20).expect("the adapter is there");
    let theirs = other.upload_vector(&[1.0f32, 2.0]).expect("a vector");
    for call in Call::ALL {
        let error = run(device, call, Summation::Plain, (&theirs).into(), (&[1.0, 2.0]).into());
        let said = error.expect_err("another device").to_string();
        assert!(said.starts_with("values: needed a vector on the same device"), "{call:?}: {said}");
    }
    let said = device.reduce().dot(&[1.0, 2.0], &theirs).expect_err("another device").to_string();
    assert!(said.starts_with("others: needed a vector on the same device"), "{said}");
    assert_eq!(other.reduce().sum(&theirs).expect("a sum"), 3.0);
}

#[test]
fn buffers_that_make_no_vector_are_refused() {
    let Some(device) = gpu() else { return };
    let buffer = |bytes: u64, usage: wgpu::BufferUsages| {
        device.wgpu_device().expect("a GPU").create_buffer(&wgpu::BufferDescriptor {
            label: Some("test"),
            size: bytes,
            usage,
            mapped_at_creation: false,
        })
    };
    let storage = wgpu::BufferUsages::STORAGE;
    let refused = |kind: ElementKind, buffers: &[(wgpu::Buffer, u64)]| {
        let error = DeviceVector::from_wgpu(device, kind, buffers).expect_err("no vector");
        assert!(matches!(error, Error::Argument { argument: "buffers", .. }), "{error}");
        error.to_string()
    };
    let large = buffer(1 << 18, storage);
    let said =
        refused(ElementKind::F32, &[(large.clone(), 1 << 15), (large.clone(), 100), (large.clone(), 1)]);
    assert_eq!(said, "buffers: needed a multiple of 32768 numbers in buffer 1, given 100");
    // 65,537 numbers are 65,540 in whole vectors.
    let said = refused(ElementKind::F32, &[(large.clone(), 65_537)]);
    assert!(said.contains("65537 numbers in buffer 0") && said.contains("262144 bytes"), "{said}");
    refused(ElementKind::F16, &[(buffer(6, storage), 3)]);
    refused(ElementKind::F32, &[(large.clone(), u64::MAX)]);
    refused(ElementKind::F16, &[(large.clone(), u64::MAX / 2)]);
    let said = refused(ElementKind::F32, &[(buffer(64, wgpu::BufferUsages::COPY_DST), 4)]);
    assert!(said.contains("STORAGE in buffer 0"), "{said}");
    for buffers in [&[][..], &[(large.clone(), 0)], &[(large.clone(), 0), (large.clone(), 0)]] {
        let empty = DeviceVector::from_wgpu(device, ElementKind::F32, buffers).expect("no numbers");
        assert!(empty.is_empty());
        assert_eq!(device.reduce().sum(&empty).expect("a sum"), 0.0);
    }
    let whole = DeviceVector::from_wgpu(device, ElementKind::F16, &[(large, 131_072)]).expect("a vector");
    assert_eq!(device.reduce().sum(&whole).expect("a sum"), 0.0);
}
