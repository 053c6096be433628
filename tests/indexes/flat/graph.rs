//! Graphs on a GPU, where each pair of rows is scored once: their rows are what searches for all rows find. 45 s on lavapipe, because fewer rows
//! have no sample.

use nearfield::internals::slots::Slots;
use nearfield::{Metric, Neighbor, Quantization};
use nearfield_testing::{Random, view};

use crate::common::confined;

const DIM: usize = 5;

/// Enough for lists of all rows, and too little for them.
const BUDGETS: [u64; 2] = [64 << 20, 4 << 20];

#[test]
fn a_graph_by_pairs_is_that_of_searches() {
    let rows = 16_600;
    // Several segments.
    let Some(device) = confined(7_000 * 32, BUDGETS[0]) else { return };
    let mut random = Random::new(47);
    let (metric, k) = (Metric::L2Squared, 7);
    let mut values: Vec<f32> = (0..rows * DIM).map(|_| (1 + random.below(400)) as f32 - 200.0).collect();
    // More equal rows than a list has room for, and a few that no code tells from each other.
    values[2_000 * DIM..2_300 * DIM].chunks_exact_mut(DIM).for_each(|row| row.copy_from_slice(&[3.0; DIM]));
    values[9_000 * DIM..9_050 * DIM].iter_mut().for_each(|value| *value = 500.0 + *value / 100.0);
    // Some slots have no row, and ids do not ascend.
    let slots: Vec<u32> = (0..rows as u32).map(|row| row + row / 100).collect();
    let id_of = |slot: u32| u64::from(slot) ^ 0x155;
    let ids: Vec<u64> = slots.iter().map(|&slot| id_of(slot)).collect();
    let mut index = Slots::new(&device, metric, DIM, Quantization::Int8, rows as u64).expect("no rows");
    index.put(view(&values, DIM), (&slots, &ids), &[]).expect("rows");
    assert_eq!(index.graph(k, BUDGETS[1], &id_of).expect("an answer"), None, "lists do not fit");
    let graph = index.graph(k, BUDGETS[0], &id_of).expect("an answer").expect("a graph");
    assert_eq!(graph.queries(), rows);
    let some: Vec<usize> = (0..rows).filter(|row| row % 97 == 0 || (2_000..2_040).contains(row)).collect();
    let queries: Vec<f32> = some.iter().flat_map(|row| values[row * DIM..][..DIM].iter().copied()).collect();
    let found = index.search(view(&queries, DIM), k + 1).expect("an answer").neighbors;
    for (&row, hits) in some.iter().zip(&found) {
        let others: Vec<Neighbor> = hits.iter().filter(|hit| hit.id != ids[row]).take(k).copied().collect();
        assert_eq!(graph.row(row), others, "{metric}, row {row}");
    }
}
