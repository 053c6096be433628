//! Certificates on adapters that round as badly as WGSL and Vulkan allow. The host computes `quantize` and the interval ends
//! of `collect`: the test picks the neighbour to which each operation rounds, adds sums in the order that rounds most often,
//! and flushes subnormal numbers. The interval must contain every distance that `refine` may report under the promise of
//! `Metric`.

use crate::common::vectors::{Case, METRICS, dims};
use nearfield::Metric;
use nearfield::internals::certificate::{Form, Margin, Quantizing, Terms};
use nearfield::internals::kernels::screen_tile_i8;
use nearfield_testing::Random;
use proptest::prelude::*;

const UNIT: f64 = 1.0 / (1 << 23) as f64;

/// The neighbour that an operation is rounded to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Direction {
    Nearest,
    Up,
    Down,
    Away,
    Toward,
    Any,
}

const DIRECTIONS: [Direction; 6] =
    [Direction::Nearest, Direction::Up, Direction::Down, Direction::Away, Direction::Toward, Direction::Any];

struct Rounding {
    direction: Direction,
    random: Random,
}

impl Rounding {
    /// The result of an operation.
    fn of(&mut self, exact: f64) -> f32 {
        let nearest = exact as f32;
        if self.direction == Direction::Nearest {
            return nearest;
        }
        if exact.abs() < 2f64.powi(-126) {
            return 0.0;
        }
        let off = f64::from(nearest) - exact;
        if off == 0.0 {
            return nearest;
        }
        let is_up = match self.direction {
            Direction::Up => true,
            Direction::Down => false,
            Direction::Away => exact > 0.0,
            Direction::Toward => exact < 0.0,
            _ => self.random.below(2) == 0,
        };
        match (off > 0.0, is_up) {
            (true, false) => nearest.next_down(),
            (false, true) => nearest.next_up(),
            _ => nearest,
        }
    }

    /// The result of a root or a division, which may be off by several units.
    fn loose(&mut self, exact: f64, units: f64) -> f32 {
        let share = match self.direction {
            Direction::Nearest => 0.0,
            Direction::Up | Direction::Away => 1.0,
            Direction::Down | Direction::Toward => -1.0,
            Direction::Any => f64::from(self.random.unit()),
        };
        self.of(exact * (1.0 + share * units * UNIT * 0.5))
    }

    /// A sum of products, added one after the other.
    fn sum(&mut self, products: impl Iterator<Item = (f32, f32)>) -> f32 {
        products.fold(0.0, |sum, (a, b)| self.of(f64::from(a) * f64::from(b) + f64::from(sum)))
    }

    /// A vector quantised as `wgsl/screen/quantize.wgsl` does it: the integers of the planes, and the terms.
    fn quantize(
        &mut self,
        metric: Metric,
        vector: &[f32],
        centre: &[f32],
        planes: usize,
    ) -> (Vec<Vec<i32>>, Terms) {
        let Quantizing { levels, finer, inflation, step_error, unit_error, smallest, tiny } =
            Quantizing::of(metric, vector.len());
        let (levels, finer) = (levels as f32, finer as f32);
        let y: Vec<f32> = if metric == Metric::Cosine {
            let squared = self.sum(vector.iter().map(|&x| (x, x)));
            let root = self.loose(f64::from(squared).sqrt(), 9.0);
            let inverse = if squared > 0.0 { self.loose(1.0 / f64::from(root), 5.0) } else { 0.0 };
            vector.iter().map(|&x| self.of(f64::from(x) * f64::from(inverse))).collect()
        } else {
            vector.to_vec()
        };
        let left: Vec<f32> =
            y.iter().zip(centre).map(|(&y, &m)| self.of(f64::from(y) - f64::from(m))).collect();
        let most = left.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let is_tiny = most < smallest;
        let (mut scale, mut steps) = (0.0, 0.0);
        if !is_tiny {
            scale = self.loose(f64::from(most) / f64::from(levels), 5.0);
            steps = self.loose(f64::from(levels) / f64::from(most), 5.0);
        }
        let (mut fours, mut rests, mut integers) = (vec![], vec![], vec![vec![]; planes]);
        for &left in &left {
            let four = self.of(f64::from(left) * f64::from(steps));
            let whole = four.round_ties_even().clamp(-levels, levels);
            let mut rest = self.of(f64::from(four) - f64::from(whole));
            integers[0].push(whole as i32);
            if planes == 2 {
                let fine = self.of(f64::from(rest) * f64::from(finer)).round_ties_even();
                let fine = fine.clamp(-levels, levels);
                rest = self.of(f64::from(rest) - f64::from(fine) / f64::from(finer));
                integers[1].push(fine as i32);
            }
            fours.push((four, four));
            rests.push((rest, rest));
        }
        let [squares, residuals] = [fours, rests].map(|pairs| self.sum(pairs.into_iter()));
        let mut length_of = |squares: f32, added: f64| {
            let root = self.loose(f64::from(squares).sqrt(), 9.0);
            let length = self.of(f64::from(scale) * f64::from(root));
            let length = self.of(f64::from(length) * f64::from(inflation));
            self.of(f64::from(length) + added)
        };
        let mut length = length_of(squares, unit_error.into());
        let added = f64::from(step_error) * f64::from(length) + f64::from(unit_error);
        let mut residual = length_of(residuals, added);
        if is_tiny {
            length = self.of(f64::from(tiny) + f64::from(unit_error));
            residual = length;
        }
        let bias = if metric == Metric::L2Squared {
            let once = self.of(f64::from(scale) * f64::from(squares));
            self.of(f64::from(scale) * f64::from(once))
        } else {
            self.sum(y.into_iter().zip(centre.iter().copied()))
        };
        (integers, Terms { scale, length, residual, bias })
    }

    /// A product and a sum; `fma` need not be fused.
    fn multiply_add(&mut self, a: f32, b: f32, c: f32) -> f32 {
        let product = f64::from(a) * f64::from(b);
        let product = if self.random.below(2) == 0 { product } else { self.of(product).into() };
        self.of(product + f64::from(c))
    }

    fn times(&mut self, a: f32, b: f32) -> f32 {
        self.of(f64::from(a) * f64::from(b))
    }

    fn plus(&mut self, a: f32, b: f32) -> f32 {
        self.of(f64::from(a) + f64::from(b))
    }

    /// The interval of a pair of quantised vectors, as `wgsl/screen/collect.wgsl` computes it.
    fn interval(&mut self, margin: Margin, form: Form, score: f32, query: Terms, row: Terms) -> [f64; 2] {
        let Margin { relative, floor, centre_length, centre_squared } = margin;
        let square = |own: &mut Self, length: f32| {
            let once = own.times(relative, length);
            own.times(once, length)
        };
        let sum = self.plus(query.length, centre_length);
        let reach = self.times(relative, sum);
        let both = self.plus(query.length, query.residual);
        let (base, factor, along, across, slack, floor_x, slack_x);
        if form == Form::QuantizedL2 {
            (base, factor, along, across) = (query.bias, 2.0 * query.scale, 2.0 * query.residual, 2.0 * both);
            let own = square(self, query.length);
            slack = self.plus(floor, own);
            slack_x = square(self, row.length);
            floor_x = self.plus(row.bias, -slack_x);
        } else {
            let one = if form == Form::QuantizedCosine { 1.0 } else { 0.0 };
            let own = self.plus(query.bias, -centre_squared);
            base = self.plus(one, -own);
            factor = query.scale;
            along = self.plus(query.residual, reach);
            across = both;
            let centre = self.times(reach, centre_length);
            slack = self.plus(floor, centre);
            (slack_x, floor_x) = (0.0, -row.bias);
        }
        let from = self.plus(base, -slack);
        let rest = self.multiply_add(-along, row.length, floor_x);
        let rest = self.multiply_add(-across, row.residual, rest);
        let rest = self.plus(rest, from);
        let score = self.times(row.scale, score);
        let lower = self.multiply_add(-factor, score, rest);
        let widths = [self.times(along, row.length), self.times(across, row.residual)];
        let slacks = self.plus(slack_x, slack);
        let width = self.plus(widths[0], widths[1]);
        let width = self.plus(width, slacks);
        [lower.into(), self.plus(lower, 2.0 * width).into()]
    }
}

/// The judge: returns the first fault in the intervals of the first query and some rows.
fn judge(case: &Case, direction: Direction, edit: impl Fn(Margin) -> Margin) -> Result<(), String> {
    let metric = case.metric;
    let mut rounding = Rounding { direction, random: Random::new(case.dim as u64) };
    let form = Form::quantized(metric);
    let margin = edit(Margin::around(form, &case.centre));
    let finer = f64::from(Quantizing::of(metric, case.dim).finer);
    let rows = if case.dim > 5000 { 2 } else { 6 };
    for planes in [1, 2] {
        let (q_integers, q) = rounding.quantize(metric, case.query(0), &case.centre, planes);
        for row in 0..rows {
            let (x_integers, x) = rounding.quantize(metric, case.row(row), &case.centre, 1);
            let dot = |plane: &[i32]| screen_tile_i8::reference(plane, &x_integers[0]) as f64;
            let mut score = dot(&q_integers[0]);
            if let Some(second) = q_integers.get(1) {
                score = rounding.of(score + dot(second) / finer).into();
            }
            let [lower, upper] = rounding.interval(margin, form, score as f32, q, x);
            let (query, row_values) = (case.query(0), case.row(row));
            let exact = metric.exact(query, row_values);
            let is_zero = [query, row_values].into_iter().any(|vector| vector.iter().all(|&x| x == 0.0));
            // A zero vector has distance 1 from every vector.
            let is_known = metric == Metric::Cosine && is_zero;
            let bound = if is_known { 0.0 } else { metric.error_bound(query, row_values) };
            if !(lower <= exact - bound && exact + bound <= upper) {
                return Err(format!(
                    "{metric}, dim {}, {direction:?}, {planes} planes, row {row}: [{lower:e}, {upper:e}] does not hold \
                     {exact:e} within {bound:e}; {q:?}, {x:?}, {margin:?}",
                    case.dim,
                ));
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn intervals_hold_whatever_the_rounding(seed: u64, dim in dims(), centre in 0usize..3) {
        for (turn, metric) in METRICS.into_iter().enumerate() {
            let case = Case::new(seed, metric, dim, centre);
            for direction in [DIRECTIONS[(seed as usize + turn) % 6], DIRECTIONS[(seed as usize + turn + 3) % 6]] {
                prop_assert_eq!(judge(&case, direction, |margin| margin), Ok(()));
            }
        }
    }
}

#[test]
fn intervals_of_long_vectors_hold_whatever_the_rounding() {
    for (dim, direction) in
        [16_384, 10_007, 8192].into_iter().zip([Direction::Down, Direction::Away, Direction::Up])
    {
        for metric in METRICS {
            let case = Case::new(dim as u64, metric, dim, dim % 3);
            assert_eq!(judge(&case, direction, |margin| margin), Ok(()));
        }
    }
}

/// Differences so small that a product of two scales is subnormal.
#[test]
fn intervals_of_the_shortest_vectors_around_a_centre_hold_whatever_the_rounding() {
    for dim in [1, 2, 4, 16, 100, 768, 4096] {
        for exponent in 51..66 {
            for metric in [Metric::L2Squared, Metric::InnerProduct] {
                let mut random = Random::new(dim as u64);
                let mut centre = vec![0.0; dim];
                centre[0] = 2f32.powi(-49);
                // Query and row have nearly the same direction, so that there is a product to lose.
                let common = random.floats(dim);
                let mut vectors = |count: usize| -> Vec<f32> {
                    let own = random.floats(count * dim);
                    let near = own.iter().enumerate().map(|(i, x)| common[i % dim] + 0.1 * x);
                    let noise = near.map(|x| x * 2f32.powi(-exponent) / (dim as f32).sqrt());
                    noise.enumerate().map(|(i, x)| centre[i % dim] + x).collect()
                };
                let (queries, rows) = (vectors(1), vectors(6));
                let case = Case { metric, dim, queries, rows, centre };
                for direction in DIRECTIONS {
                    assert_eq!(judge(&case, direction, |margin| margin), Ok(()), "2^-{exponent}");
                }
            }
        }
    }
}

/// No term of such a pair is as long as 1, yet its distance is 1.
#[test]
fn intervals_of_zero_vectors_around_a_centre_hold_whatever_the_rounding() {
    for dim in [1, 3, 16, 100] {
        for (turn, length) in [1.0 / 64.0, 0.02, 0.1, 0.3, 1.0].into_iter().enumerate() {
            let direction = Random::new((dim + turn) as u64).floats(dim);
            let unit = direction.iter().map(|x| x * x).sum::<f32>().sqrt();
            let centre: Vec<f32> = direction.iter().map(|x| x * length / unit).collect();
            let rows = [vec![0.0; 3 * dim], centre.repeat(3)].concat();
            let case = Case { metric: Metric::Cosine, dim, queries: vec![0.0; dim], rows, centre };
            for direction in DIRECTIONS {
                assert_eq!(judge(&case, direction, |margin| margin), Ok(()));
            }
        }
    }
}

#[test]
fn the_judge_finds_a_margin_without_rounding() {
    let dim = 2000;
    for metric in METRICS {
        let mut random = Random::new(3);
        // Whole steps, so that no residual hides the rounding.
        let levels = Quantizing::of(metric, dim).levels;
        let mut vectors = || -> Vec<f32> {
            let mut values = random.integers(8 * dim, levels as usize);
            values.iter_mut().step_by(dim).for_each(|x| *x = levels as f32);
            values.iter().map(|x| x * 0.3).collect()
        };
        let (queries, rows) = (vectors(), vectors());
        let centre = vec![if metric == Metric::L2Squared { 0.0 } else { 100.0 }; dim];
        let mut case = Case { metric, dim, queries, rows, centre };
        if metric != Metric::L2Squared {
            case.queries.iter_mut().chain(&mut case.rows).for_each(|x| *x += 100.0);
        }
        if metric == Metric::Cosine {
            case.centre.fill(1.0 / (dim as f32).sqrt());
        }
        let faults = |edit: &dyn Fn(Margin) -> Margin| {
            DIRECTIONS.into_iter().filter(|&direction| judge(&case, direction, edit).is_err()).count()
        };
        assert_eq!(faults(&|margin| margin), 0, "{metric}");
        assert!(faults(&|margin| Margin { relative: 0.0, ..margin }) > 0, "{metric}");
    }
}
