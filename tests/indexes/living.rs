//! After any sequence of changes, filtered searches, saves and loads, an index answers as f64 does, and bit for bit like a fresh index of
//! the remaining rows. `Flat` and `Ivf` go through the same sequences.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::{is_nightly, options};
use nearfield::{Distribution, Index, MultiVector};
use nearfield_testing::life::{Case, Life, Living};
use nearfield_testing::living::Kind;
use test_case::{test_case, test_matrix};

/// Operations from one check of everything to the next.
const EVERY: usize = 30;

fn live(engine: Engine, kind: Kind, seed: u64) {
    live_on::<Index>(1, Distribution::Sharded, engine, Case::confined(kind), seed);
}

/// Lives on this many devices.
pub(crate) fn live_on<L: Living>(
    count: usize,
    distribution: Distribution,
    engine: Engine,
    cases: Vec<Case>,
    seed: u64,
) {
    let folder = tempfile::tempdir().expect("a folder");
    // Every device compiles its own kernels, which takes a software driver most of the time: two cases will do for several.
    let most = if count > 1 && engine == Adapter { 2 } else { usize::MAX };
    for (case, seed) in cases.into_iter().zip(seed..).take(most) {
        let Some(roomy) = engine.device() else { return };
        let others = (1..count).filter_map(|_| engine.open(case.confine(options())));
        let first = engine.confined(case.segment_bytes, case.budget_bytes);
        let devices: Vec<_> = first.into_iter().chain(others).collect();
        if devices.len() < count {
            return;
        }
        let (mut life, mut index): (_, L) =
            Life::start(&devices, distribution, roomy, case, folder.path(), seed);
        // A software driver takes a second for an operation.
        let checks = if engine == Host || is_nightly() { 2 } else { 1 };
        for operation in 0..checks * EVERY {
            let choice = life.random.below(L::OPERATIONS.len());
            println!("{case:?}: operation {operation}, {}", L::OPERATIONS[choice]);
            life.operate(&mut index, choice);
            if operation % EVERY == EVERY - 1 {
                life.check(&index);
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn after_any_life_a_flat_answers_as_a_fresh_one(engine: Engine) {
    live(engine, Kind::Flat, 0x11fe);
}

#[test_matrix([Adapter, Host])]
fn after_any_life_an_ivf_answers_as_flat_and_as_a_fresh_one_of_its_centroids(engine: Engine) {
    live(engine, Kind::Ivf, 0x21fe);
}

#[test_matrix([Adapter, Host])]
fn after_any_life_documents_are_found_as_in_a_fresh_index(engine: Engine) {
    live_on::<MultiVector>(1, Distribution::Sharded, engine, Case::of_documents(), 0x31fe);
}

/// Changes that the model does not know of.
#[test_case(|index| index.remove(&[40]).expect("removed") => panics "ids"; "a row that left")]
#[test_case(|index| index.update(&[40], &[[9.0f32; 6]][..]).expect("updated") => panics "left == right"; "a row that differs")]
fn a_planted_fault_is_found(plant: fn(&mut Index)) {
    let folder = tempfile::tempdir().expect("a folder");
    let case = Case { rows: 60, ..Case::confined(Kind::Flat)[0] };
    let devices = [Host.open(case.confine(options())).expect("the host engine")];
    let (mut life, mut index) =
        Life::start(&devices, Distribution::Sharded, &devices[0], case, folder.path(), 1);
    life.check(&index);
    plant(&mut index);
    life.check(&index);
}

#[test_case(|index| index.remove(&[4]).expect("removed") => panics "ids"; "a document that left")]
#[test_case(|index| index.update(&[4], &(&[[9.0f32; 6]][..]).into()).expect("updated") => panics "left == right"; "a document that differs")]
fn a_planted_fault_among_documents_is_found(plant: fn(&mut MultiVector)) {
    let folder = tempfile::tempdir().expect("a folder");
    let case = Case { rows: 60, ..Case::of_documents()[0] };
    let devices = [Host.open(case.confine(options())).expect("the host engine")];
    let (mut life, mut index) =
        Life::start(&devices, Distribution::Sharded, &devices[0], case, folder.path(), 1);
    life.check(&index);
    plant(&mut index);
    life.check(&index);
}
