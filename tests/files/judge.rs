//! The judge of answers accepts right answers and finds every planted fault.

use nearfield::{Metric, Neighbor};
use nearfield_testing::truth::Truth;
use nearfield_testing::{Random, view};

const DIM: usize = 5;
const ROWS: usize = 60;
const K: usize = 6;

/// A query, and its neighbours by the truth.
struct Case {
    metric: Metric,
    truth: Truth,
    ids: Vec<u64>,
    /// Nearest first.
    all: Vec<Neighbor>,
}

fn case(metric: Metric, queries: &[f32], rows: &[f32]) -> Case {
    let truth = Truth::new(view(queries, DIM), view(rows, DIM));
    let ids: Vec<u64> = (0..ROWS as u64).map(|row| 900 - row).collect();
    let distance = |row: usize| truth.distance(metric, 0, row) as f32;
    let mut all: Vec<Neighbor> =
        (0..ROWS).map(|row| Neighbor { id: ids[row], distance: distance(row) }).collect();
    all.sort_by(|a, b| a.distance.total_cmp(&b.distance).then(a.id.cmp(&b.id)));
    Case { metric, truth, ids, all }
}

impl Case {
    fn judge(&self, hits: &[Neighbor]) -> Result<(), String> {
        self.truth.judge(self.metric, &self.ids, K, [hits])
    }

    fn judge_exact(&self, hits: &[Neighbor]) -> Result<(), String> {
        self.truth.judge_exact(self.metric, &self.ids, K, [hits])
    }
}

#[test]
fn the_truth_agrees_with_the_metric_of_the_crate() {
    let mut random = Random::new(1);
    let (queries, rows) = (random.floats(3 * 17), random.adversarial(9, 17));
    let (queries, rows) = (view(&queries, 17), view(&rows, 17));
    let truth = Truth::new(queries, rows);
    for metric in Metric::ALL {
        for query in 0..3 {
            for row in 0..9 {
                let (q, x) = (queries.row(query), rows.row(row));
                let found = [truth.distance(metric, query, row), truth.bound(metric, query, row)];
                for (a, b) in found.into_iter().zip([metric.exact(q, x), metric.error_bound(q, x)]) {
                    assert!((a - b).abs() <= 1e-9 * b.abs() + 1e-15, "{metric} {query} {row}: {a}, not {b}");
                }
            }
        }
    }
}

#[test]
fn every_planted_fault_is_found() {
    let mut random = Random::new(2);
    let (query, rows) = (random.floats(DIM), random.floats(ROWS * DIM));
    for metric in Metric::ALL {
        let case = case(metric, &query, &rows);
        let Case { truth, ids, all, .. } = &case;
        let right = &all[..K];
        assert_eq!(case.judge(right), Ok(()));
        let finds = |word: &str, plant: &dyn Fn(&mut Vec<Neighbor>)| {
            let mut hits = right.to_vec();
            plant(&mut hits);
            let fault = case.judge(&hits).expect_err(word);
            assert!(fault.contains(word), "{metric}: {word}: {fault}");
        };
        finds("but it is", &|hits| (hits[1].id, hits[2].id) = (right[2].id, right[1].id));
        finds("but it is", &|hits| hits[3].distance += 1e-4);
        finds("but it is", &|hits| hits[3].distance = f32::NAN);
        finds("before", &|hits| hits.swap(1, 4));
        finds("neighbours", &|hits| hits.truncate(K - 1));
        finds("neighbours", &|hits| hits.push(all[K]));
        finds("was found", &|hits| {
            hits.remove(2);
            hits.push(all[K]);
        });
        finds("twice", &|hits| hits[5] = hits[4]);
        finds("unknown", &|hits| hits[0].id = 1000);
        let none: [&[Neighbor]; 0] = [];
        assert!(truth.judge(metric, ids, K, none).is_err(), "no answer at all");
        assert!(truth.judge(metric, ids, K, [right, right]).is_err(), "too many answers");
    }
}

#[test]
fn the_order_of_ties_is_judged() {
    let rows = [1.0; ROWS * DIM];
    for metric in [Metric::L2Squared, Metric::InnerProduct] {
        let case = case(metric, &[2.0; DIM], &rows);
        assert_eq!(case.judge(&case.all[..K]), Ok(()));
        let mut hits = case.all[..K].to_vec();
        hits.swap(0, 1);
        assert!(case.judge(&hits).is_err(), "{metric}");
        // Rows as near as the last one are no fault by the bounds; on whole numbers they are.
        assert_eq!(case.judge(&case.all[1..=K]), Ok(()));
        assert!(case.judge_exact(&case.all[1..=K]).is_err(), "{metric}");
    }
}

#[test]
fn on_whole_numbers_one_bit_is_a_fault() {
    let mut random = Random::new(7);
    let (query, rows) = (random.integers(DIM, 4), random.integers(ROWS * DIM, 4));
    for metric in [Metric::L2Squared, Metric::L2, Metric::InnerProduct] {
        let case = case(metric, &query, &rows);
        let all = &case.all;
        assert_eq!(case.judge_exact(&all[..K]), Ok(()));
        for place in 0..K {
            let mut hits = all[..K].to_vec();
            hits[place].distance = f32::from_bits(hits[place].distance.to_bits() + 1);
            assert!(case.judge_exact(&hits).is_err(), "{metric}: one bit of hit {place}");
            let mut hits = all[..K].to_vec();
            hits[place].id = all[K + place].id;
            assert!(case.judge_exact(&hits).is_err(), "{metric}: another id at {place}");
        }
    }
}
