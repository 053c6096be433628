//! After any sequence of changes, filtered searches, saves and loads, an index answers bit for bit like a fresh index of
//! the remaining rows. `Flat` and `Ivf` go through the same sequences.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::life::{CASES, Case, DIM, EMPTY, Life, OPERATIONS};
use crate::common::living::Kind;
use test_case::test_matrix;

/// Operations of a life.
const LENGTH: usize = 120;

/// Operations from one check of everything to the next.
const EVERY: usize = 40;

/// The operation that was under way when a test panicked.
struct Said {
    case: Case,
    operation: usize,
    name: &'static str,
}

impl Drop for Said {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{:?}: operation {}, {}", self.case, self.operation, self.name);
        }
    }
}

fn live(engine: Engine, kind: Kind, least_budget: u64, seed: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    for (case, seed) in CASES.into_iter().zip(seed..) {
        let (metric, elements, screen, segment_rows, kib, _) = case;
        // Centroids are trained where there is room for it. Rows of both kinds take no more than 32 bytes each.
        let Some(roomy) = engine.device() else { return };
        let empty = kind.make(roomy, metric, DIM, elements, screen);
        empty.save(folder.path().join(EMPTY)).expect("it is saved");
        let Some(device) = engine.confined(segment_rows * 32, least_budget.max(kib << 10)) else { return };
        let mut said = Said { case, operation: 0, name: "add" };
        let (mut life, mut index) = Life::start(&device, case, folder.path(), seed);
        for operation in 0..LENGTH {
            (said.operation, said.name) = (operation, "after the one before");
            let choice = life.random.below(OPERATIONS);
            said.name = life.operate(&mut index, choice);
            if operation % EVERY == EVERY - 1 {
                life.check(&index);
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn after_any_life_a_flat_answers_as_a_fresh_one(engine: Engine) {
    live(engine, Kind::Flat, 0, 0x11fe);
}

#[test_matrix([Adapter, Host])]
fn after_any_life_an_ivf_answers_as_flat_and_as_a_fresh_one_of_its_centroids(engine: Engine) {
    live(engine, Kind::Ivf, 4 << 20, 0x21fe);
}
