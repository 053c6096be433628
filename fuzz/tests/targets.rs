//! Every target holds for its seeds, and for some mutations of each.

use nearfield_fuzz::TARGETS;
use nearfield_fuzz::mutate::Mutator;

#[test]
fn every_target_holds_for_its_seeds_and_their_neighbours() {
    for target in TARGETS {
        for (number, seed) in (target.seeds)().into_iter().enumerate() {
            (target.run)(&seed);
            let mut mutator = Mutator::new(number as u64);
            let mutations = if target.name == "life" { 1 } else { 50 };
            for _ in 0..mutations {
                let mut input = seed.clone();
                mutator.mutate(&mut input);
                (target.run)(&input);
            }
        }
    }
}
