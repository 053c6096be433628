//! Graphs on a GPU, where each pair of rows is scored once: their rows are what searches for all rows find. 45 s on lavapipe, because fewer rows
//! have no sample.

use nearfield::internals::slots::Slots;
use nearfield::{ElementKind, Flat, Matrix, Metric, Neighbor, Quantization, SearchOptions};
use nearfield_testing::{Random, view};

use crate::common::{confined, is_nightly};

const DIM: usize = 5;

/// Rows that have a sample, as few as may be.
const ROWS: usize = 16_600;

/// Scratch memory: so little that lists are tightened on the way, enough for long lists, and too little for a sample.
const BUDGETS: [u64; 3] = [28 << 20, 64 << 20, 4 << 20];

fn values(random: &mut Random, rows: usize) -> Vec<f32> {
    let mut values: Vec<f32> = (0..rows * DIM).map(|_| (1 + random.below(400)) as f32 - 200.0).collect();
    // More equal rows than a list has room for, and a few that no code tells from each other.
    values[2_000 * DIM..2_300 * DIM].chunks_exact_mut(DIM).for_each(|row| row.copy_from_slice(&[3.0; DIM]));
    values[9_000 * DIM..9_050 * DIM].iter_mut().for_each(|value| *value = 500.0 + *value / 100.0);
    values
}

#[test]
fn a_graph_by_pairs_is_that_of_searches() {
    // Several segments.
    let Some(device) = confined(7_000 * 32, BUDGETS[1]) else { return };
    let (metric, k) = (Metric::L2Squared, 7);
    let values = values(&mut Random::new(47), ROWS);
    // Some slots have no row, and ids do not ascend.
    let slots: Vec<u32> = (0..ROWS as u32).map(|row| row + row / 100).collect();
    let id_of = |slot: u32| u64::from(slot) ^ 0x155;
    let ids: Vec<u64> = slots.iter().map(|&slot| id_of(slot)).collect();
    let mut index = Slots::new(&device, metric, DIM, Quantization::Int8, ROWS as u64).expect("no rows");
    index.put(view(&values, DIM), (&slots, &ids), &[]).expect("rows");
    assert_eq!(index.graph(k, BUDGETS[2], &id_of).expect("an answer"), None, "there is no sample");
    let some: Vec<usize> = (0..ROWS).filter(|row| row % 97 == 0 || (2_000..2_040).contains(row)).collect();
    let queries: Vec<f32> = some.iter().flat_map(|row| values[row * DIM..][..DIM].iter().copied()).collect();
    let found = index.search(view(&queries, DIM), k + 1).expect("an answer").neighbors;
    let budgets = if is_nightly() { &BUDGETS[..2] } else { &BUDGETS[..1] };
    for &budget in budgets {
        let graph = index.graph(k, budget, &id_of).expect("an answer").expect("a graph");
        assert_eq!(graph.queries(), ROWS);
        for (&row, hits) in some.iter().zip(&found) {
            let others: Vec<Neighbor> =
                hits.iter().filter(|hit| hit.id != ids[row]).take(k).copied().collect();
            assert_eq!(graph.row(row), others, "{metric}, {budget} bytes, row {row}");
        }
    }
}

#[test]
fn graphs_of_allowed_rows_of_every_type_are_those_of_searches() {
    use ElementKind::{BF16, F16, F32, I8, U8};
    if !is_nightly() {
        return;
    }
    let Some(device) = confined(7_000 * 32, BUDGETS[1]) else { return };
    let rows = ROWS + ROWS / 19;
    let mut random = Random::new(48);
    let floats = values(&mut random, rows);
    let bytes: Vec<f32> = floats.iter().map(|value| (value / 4.0).round().rem_euclid(100.0)).collect();
    for (metric, k, kind) in [
        (Metric::Cosine, 70, F32),
        (Metric::L2, 1, F16),
        (Metric::InnerProduct, 3, BF16),
        (Metric::Cosine, 5, I8),
        (Metric::L2Squared, 15, U8),
    ] {
        let values = if kind.is_integer() { &bytes } else { &floats };
        let values = Matrix::F32(values.clone(), DIM).to_kind(kind);
        let index = Flat::from_rows(&device, metric, &values).expect("an index");
        let allowed = |id: u64| id % 20 != 3;
        let options = SearchOptions::new(k).filter(&allowed);
        let graph = index.knn_graph_with(&options).expect("a graph");
        let some: Vec<u64> = (0..rows as u64).filter(|&id| id % 101 == 0 && allowed(id)).collect();
        let queries = index.get(&some).expect("rows");
        let queries = Matrix::F32(queries, DIM).to_kind(kind);
        let options = SearchOptions::new(k + 1).filter(&allowed);
        let found = index.search_with(&queries, &options).expect("an answer").neighbors;
        for (&id, hits) in some.iter().zip(&found) {
            let place = graph.ids().binary_search(&id).expect("the row is allowed");
            let others: Vec<Neighbor> = hits.iter().filter(|hit| hit.id != id).take(k).copied().collect();
            assert_eq!(graph.neighbors().row(place), others, "{metric}, {kind}, row {id}");
        }
    }
}
