//! The kernels behind the ceilings of benchmarks do the work for which they are timed.

use crate::common::bench::Bench;
use approx::assert_relative_eq;
use nearfield::internals::ceilings::{copy, multiply_add, multiply_coop, multiply_integers, read_vectors};
use nearfield_testing::Random;

#[test]
fn a_copy_copies_every_vector_and_nothing_else() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(0xc0);
    for vectors in [1, 255, 1023, 1024, 1025, 5000] {
        let values = random.floats(vectors * 4);
        let (original, duplicate) = (bench.input(&values), bench.output(values.len()));
        let params = copy::Params { vectors: vectors as u32 };
        let workgroups = (vectors as u32).div_ceil(256 * copy::VECTORS_AN_INVOCATION);
        bench.dispatch(&copy::KERNEL, &[], &params, &[&original, &duplicate], [workgroups, 1]);
        assert_eq!(bench.read_floats(&duplicate), copy::reference(&values), "{vectors} vectors");
    }
}

#[test]
fn all_is_multiplied() {
    let Some(bench) = Bench::open() else { return };
    let side = bench.device.capabilities().matrix_side();
    for turns in [0, 1, 3] {
        let params = multiply_add::Params { turns, factor: 0.96875 };
        let sums = bench.output(2 * 256 * 4);
        bench.dispatch(&multiply_add::KERNEL, &[], &params, &[&sums], [2, 1]);
        for (place, sum) in bench.read_floats(&sums).into_iter().enumerate() {
            let want = multiply_add::reference(place as u32 / 4, &params);
            assert_relative_eq!(f64::from(sum), want, max_relative = 1e-5);
        }
        let params = multiply_integers::Params { turns, factors: 0x7f80_fe03 };
        let sums = bench.output(2 * 256);
        bench.dispatch(&multiply_integers::KERNEL, &[], &params, &[&sums], [2, 1]);
        let want: Vec<u32> = (0..512).map(|place| multiply_integers::reference(place, &params)).collect();
        assert_eq!(bench.read(&sums), want, "{turns} turns");
        let Some(side) = side else { continue };
        let params = multiply_coop::Params { turns };
        let want = multiply_coop::reference(side, &params);
        let sums = bench.output(2 * multiply_coop::SUBGROUPS as usize * want.len());
        bench.dispatch(&multiply_coop::KERNEL, &[], &params, &[&sums], [2, 1]);
        let found: Vec<f64> = bench.read_floats(&sums).into_iter().map(f64::from).collect();
        assert!(found.chunks_exact(want.len()).all(|found| found == want), "{turns} turns of matrices");
    }
}

#[test]
fn every_vector_is_read() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(0xc1);
    for vectors in [1, 255, 4095, 4096, 4097, 9000] {
        let values = random.floats(vectors * 4);
        let workgroups = (vectors as u32).div_ceil(read_vectors::VECTORS_A_WORKGROUP);
        let (input, sums) =
            (bench.input(&values), bench.output((workgroups * read_vectors::SUMS_A_WORKGROUP) as usize));
        let params = read_vectors::Params { vectors: vectors as u32 };
        bench.dispatch(&read_vectors::KERNEL, &[], &params, &[&input, &sums], [workgroups, 1]);
        for (place, sum) in (0u32..).zip(bench.read_floats(&sums)) {
            let want = read_vectors::reference(&values, place / 256, place % 256);
            assert_relative_eq!(f64::from(sum), want, max_relative = 1e-5, epsilon = 1e-4);
        }
    }
}
