//! Finds the largest errors of distances.

use nearfield::Metric;
use rayon::prelude::*;
use serde_json::{Value, json};

use nearfield_cli::terminal::output;

/// A reported distance of a query and a row, by their numbers, and the vectors.
pub(super) type Compared<'a> = ([usize; 2], f32, [&'a [f32]; 2]);

/// A pair with its distances.
#[derive(Debug, Clone, Copy)]
struct Deviation {
    query: usize,
    row: usize,
    reported: f32,
    exact: f64,
    /// Infinite for NaN.
    error: f64,
    bound: f64,
}

impl Deviation {
    fn new(metric: Metric, &([query, row], reported, vectors): &Compared<'_>) -> Self {
        let exact = metric.exact(vectors[0], vectors[1]);
        let error = (f64::from(reported) - exact).abs();
        let error = if error.is_nan() { f64::INFINITY } else { error };
        Self { query, row, reported, exact, error, bound: metric.error_bound(vectors[0], vectors[1]) }
    }

    fn share(&self) -> f64 {
        if self.error == 0.0 { 0.0 } else { self.error / self.bound }
    }

    fn to_json(self) -> Value {
        let Self { query, row, reported, exact, error, bound } = self;
        json!({
            "query": query, "row": row, "reported": output::number(reported), "exact": output::number(exact),
            "error": output::number(error), "bound": output::number(bound),
        })
    }
}

/// The pairs of the largest errors so far.
pub(super) struct Worst {
    metric: Metric,
    pub(super) compared: u64,
    exceeded: u64,
    largest: Option<Deviation>,
    nearest_bound: Option<Deviation>,
}

impl Worst {
    pub(super) fn new(metric: Metric) -> Self {
        Self { metric, compared: 0, exceeded: 0, largest: None, nearest_bound: None }
    }

    /// Compares more pairs.
    pub(super) fn add(&mut self, pairs: &[Compared<'_>]) {
        let deviations: Vec<Deviation> =
            pairs.par_iter().map(|one| Deviation::new(self.metric, one)).collect();
        self.compared += deviations.len() as u64;
        for one in deviations {
            self.exceeded += u64::from(one.error > one.bound);
            keep(&mut self.largest, one, |one| one.error);
            keep(&mut self.nearest_bound, one, Deviation::share);
        }
    }

    /// The error text, if a bound is exceeded.
    pub(super) fn fault(&self) -> Option<String> {
        let one = self.nearest_bound.filter(|_| self.exceeded > 0)?;
        let Deviation { query, row, reported, exact, bound, .. } = one;
        let (exceeded, compared) = (self.exceeded, self.compared);
        Some(format!(
            "{exceeded} of {compared} distances exceed the bound: of query {query} and row {row} needed {exact} within {bound:.3e}, found {reported}"
        ))
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "compared": self.compared,
            "exceeded": self.exceeded,
            "largest": self.largest.map(Deviation::to_json),
            "nearest_bound": self.nearest_bound.map(Deviation::to_json),
        })
    }

    pub(super) fn describe(&self) -> String {
        let mut text = format!("{} distances compared, {} exceed the bound", self.compared, self.exceeded);
        let percent = |one: &Deviation| format!("{:.3} %", 100.0 * one.share());
        for (one, name, figure) in [
            (self.largest, "error", self.largest.map(|one| format!("{:.3e}", one.error))),
            (self.nearest_bound, "of bound", self.nearest_bound.as_ref().map(percent)),
        ] {
            let Some((one, figure)) = one.zip(figure) else { continue };
            let Deviation { query, row, reported, exact, bound, .. } = one;
            text += &format!(
                "\n  largest {name:<8} {figure:<10} query {query}, row {row}: {reported}, in f64 {exact}, bound {bound:.3e}"
            );
        }
        text
    }
}

/// Keeps the larger one, and the first of equal ones.
fn keep(kept: &mut Option<Deviation>, one: Deviation, size: impl Fn(&Deviation) -> f64) {
    if kept.as_ref().is_none_or(|kept| size(&one) > size(kept)) {
        *kept = Some(one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(metric: Metric, reported: [f32; 3]) -> Worst {
        let (query, rows) = ([1.0f32, 2.0], [[1.0f32, 2.0], [4.0, 6.0], [1.0, 3.0]]);
        let pairs = rows.iter().zip(reported).enumerate();
        let pairs: Vec<Compared<'_>> =
            pairs.map(|(row, (vector, reported))| ([7, row], reported, [&query[..], vector])).collect();
        let mut worst = Worst::new(metric);
        worst.add(&pairs);
        worst
    }

    #[test]
    fn what_exceeds_a_bound_or_is_not_finite_is_a_fault() {
        for (reported, exceeded, largest, nearest_bound) in [
            ([0.0, 25.0, 1.0], 0, 0, 0),
            ([0.0, 25.000_002, 1.0], 0, 1, 1),
            // The larger error is within its bound, the smaller one is not.
            ([0.0, 25.000_015, 1.000_002], 1, 1, 2),
            ([0.0, f32::NAN, 1.0], 1, 1, 1),
            ([0.0, f32::NEG_INFINITY, 1.0], 1, 1, 1),
        ] {
            let worst = judged(Metric::L2Squared, reported);
            assert_eq!((worst.compared, worst.exceeded), (3, exceeded), "{reported:?}");
            let rows = [worst.largest, worst.nearest_bound].map(|one| one.map(|one| one.row));
            assert_eq!(rows, [Some(largest), Some(nearest_bound)], "{reported:?}");
            let told = format!("1 of 3 distances exceed the bound: of query 7 and row {nearest_bound} ");
            assert_eq!(
                worst.fault().is_some_and(|fault| fault.starts_with(&told)),
                exceeded > 0,
                "{reported:?}"
            );
        }
    }
}
