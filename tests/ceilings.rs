//! The kernels that benchmarks measure ceilings with do the work they are timed for.

mod common;

use approx::assert_relative_eq;
use common::bench::{Bench, floats_of};
use common::{Random, gpu};
use nearfield::ElementKind;
use nearfield::kernels::{copy, multiply_add};

#[test]
fn a_copy_copies_every_vector_and_nothing_else() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let mut random = Random::new(0xc0);
    for vectors in [1, 255, 1023, 1024, 1025, 5000] {
        let values = random.floats(vectors * 4);
        let (original, duplicate) = (bench.input(&values), bench.output(values.len()));
        let params = copy::Params { vectors: vectors as u32 };
        let workgroups = (vectors as u32).div_ceil(256 * copy::VECTORS_AN_INVOCATION);
        bench.run(|recorder| {
            let slices = [(&original).into(), duplicate.slice()];
            recorder.dispatch(&copy::KERNEL, ElementKind::F32, &[], &params, &slices, [workgroups, 1])
        });
        assert_eq!(floats_of(&bench.read(&duplicate)), copy::reference(&values), "{vectors} vectors");
    }
}

#[test]
fn multiply_adds_are_all_done() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    for turns in [0, 1, 3] {
        let params = multiply_add::Params { turns, factor: 0.96875 };
        let sums = bench.output(2 * 256 * 4);
        bench.run(|recorder| {
            let slices = [sums.slice()];
            recorder.dispatch(&multiply_add::KERNEL, ElementKind::F32, &[], &params, &slices, [2, 1])
        });
        for (place, sum) in floats_of(&bench.read(&sums)).into_iter().enumerate() {
            let want = multiply_add::reference(place as u32 / 4, &params);
            assert_relative_eq!(f64::from(sum), want, max_relative = 1e-5);
        }
    }
}
