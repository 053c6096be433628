//! Latencies of all searches of a case: percentiles and a histogram.

use std::time::Duration;

use serde_json::{Value, json};

use crate::times::Times;
use crate::units::{milliseconds, rounded};

/// Classes of a histogram between a latency and ten times that.
const CLASSES: f64 = 10.0;

/// Latencies, the least first.
pub(super) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(super) fn new(mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        Self(latencies)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The latency that this share of all searches does not exceed.
    pub(super) fn at(&self, share: f64) -> Duration {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    pub(super) fn times(&self) -> Times {
        Times { median: self.at(0.5), least: self.at(0.0), most: self.at(1.0), runs: self.count() }
    }

    /// Pairs of a latency in milliseconds, where a class begins, and the share of searches in it; none for classes without any.
    pub(super) fn histogram(&self) -> Value {
        let class_of =
            |latency: &Duration| (milliseconds(*latency).max(1e-6).log10() * CLASSES).floor() as i32;
        let classes = self.0.chunk_by(|one, next| class_of(one) == class_of(next)).map(|latencies| {
            let begins = 10f64.powf(f64::from(class_of(&latencies[0])) / CLASSES);
            json!([rounded(begins), rounded(latencies.len() as f64 / self.0.len() as f64)])
        });
        classes.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_latencies_that_this_share_does_not_exceed() {
        let latencies = Latencies::new((1..=1000).rev().map(Duration::from_micros).collect());
        let micros = |share| latencies.at(share).as_micros();
        assert_eq!([0.0, 0.5, 0.9, 0.99, 0.999, 1.0].map(micros), [1, 500, 900, 990, 999, 1000]);
        let one = Latencies::new(vec![Duration::from_millis(7)]);
        assert_eq!([0.5, 0.999].map(|share| one.at(share).as_millis()), [7, 7]);
        assert_eq!(Latencies::new(vec![]).at(0.5), Duration::ZERO);
    }

    #[test]
    fn a_histogram_has_ten_classes_a_decade_and_each_search_once() {
        let latencies = [100u64, 110, 130, 1000, 1000].map(Duration::from_micros);
        let histogram = Latencies::new(latencies.into()).histogram();
        assert_eq!(histogram, json!([[0.1, 0.4], [0.1259, 0.2], [1.0, 0.4]]));
    }
}
