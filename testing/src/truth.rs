//! The true neighbours in f64, and the judge of an answer.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use nearfield::{MatrixView, Metric, Neighbor, Neighbors};

/// The right answer to a query: distances and ids, nearest first.
type Answer = Vec<(f32, u64)>;

/// The first fault of an answer, if there is one.
type Verdict = Result<(), String>;

/// The hits of each query, such as `&Neighbors`.
pub trait Answers<'a>: IntoIterator<Item = &'a [Neighbor], IntoIter: ExactSizeIterator> {}

impl<'a, A: IntoIterator<Item = &'a [Neighbor], IntoIter: ExactSizeIterator>> Answers<'a> for A {}

/// Exact distances of every query to every row, for all metrics at once.
pub struct Truth {
    dim: usize,
    rows: usize,
    queries: usize,
    /// `[queries, rows]`: inner product and squared L2 distance.
    pairs: Vec<[f64; 2]>,
    query_norms: Vec<f64>,
    row_norms: Vec<f64>,
    /// The vectors themselves, whose bits are counted when that is asked for.
    vectors: [Vec<f32>; 2],
    /// Answers of `exact` by metric, k and query; ids are always the same.
    answers: Mutex<HashMap<(Metric, usize, usize), Answer>>,
}

impl Truth {
    pub fn new(queries: MatrixView<'_, f32>, rows: MatrixView<'_, f32>) -> Self {
        assert_eq!(queries.dim(), rows.dim());
        let norms = |vectors: MatrixView<'_, f32>| -> Vec<f64> {
            (0..vectors.rows()).map(|row| pair(vectors.row(row), vectors.row(row))[0].sqrt()).collect()
        };
        let pairs_of = |query| (0..rows.rows()).map(move |row| pair(queries.row(query), rows.row(row)));
        Self {
            dim: rows.dim(),
            rows: rows.rows(),
            queries: queries.rows(),
            pairs: (0..queries.rows()).flat_map(pairs_of).collect(),
            query_norms: norms(queries),
            row_norms: norms(rows),
            vectors: [queries, rows].map(|vectors| vectors.values().to_vec()),
            answers: Mutex::default(),
        }
    }

    /// As `Metric::exact`.
    pub fn distance(&self, metric: Metric, query: usize, row: usize) -> f64 {
        let [dot, squared] = self.pairs[query * self.rows + row];
        match metric {
            Metric::L2Squared => squared,
            Metric::L2 => squared.sqrt(),
            Metric::InnerProduct => -dot,
            Metric::Cosine => {
                let norms = self.query_norms[query] * self.row_norms[row];
                if norms == 0.0 { 1.0 } else { 1.0 - (dot / norms).clamp(-1.0, 1.0) }
            }
            Metric::Hamming => self.bits(query, row)[0],
            Metric::Jaccard => match self.bits(query, row) {
                [_, 0.0] => 1.0,
                [different, either] => different / either,
            },
            other => unreachable!("no reference for {other:?}"),
        }
    }

    /// How many bits differ, and how many either vector has, of bytes.
    fn bits(&self, query: usize, row: usize) -> [f64; 2] {
        let [queries, rows] = &self.vectors;
        let pairs = queries[query * self.dim..].iter().zip(&rows[row * self.dim..][..self.dim]);
        pairs.fold([0.0, 0.0], |[different, either], (&q, &x)| {
            let (q, x) = (q as u8, x as u8);
            [different + f64::from((q ^ x).count_ones()), either + f64::from((q | x).count_ones())]
        })
    }

    /// As `Metric::error_bound`.
    pub fn bound(&self, metric: Metric, query: usize, row: usize) -> f64 {
        let (dim, unit) = (self.dim as f64, 2f64.powi(-23));
        let least = dim * 2f64.powi(-126);
        let squared = self.pairs[query * self.rows + row][1];
        let square_bound = (dim + 4.0) * unit * squared + least;
        match metric {
            Metric::L2Squared => square_bound,
            Metric::L2 => {
                let ends = [(squared - square_bound).max(0.0).sqrt(), (squared + square_bound).sqrt()];
                ends[1] - ends[0] + unit * squared.sqrt()
            }
            Metric::InnerProduct => {
                (dim + 4.0) * unit * self.query_norms[query] * self.row_norms[row] + least
            }
            Metric::Cosine => (dim + 16.0) * unit,
            Metric::Hamming => 0.0,
            Metric::Jaccard => unit / 2.0,
            other => unreachable!("no reference for {other:?}"),
        }
    }

    /// The fault of an answer by the promises of `Metric`; `ids` are the ids of the rows. An answer may cover the first queries
    /// alone.
    pub fn judge<'a>(&self, metric: Metric, ids: &[u64], k: usize, found: impl Answers<'a>) -> Verdict {
        let found = found.into_iter();
        assert_eq!(ids.len(), self.rows, "one id a row");
        self.check_count(found.len())?;
        let rows: HashMap<u64, usize> = ids.iter().copied().zip(0..).collect();
        for (query, hits) in found.enumerate() {
            let fault = |text: String| Err(format!("{metric}, query {query}: {text}"));
            if hits.len() != k.min(self.rows) {
                return fault(format!("{} neighbours, wanted {k} of {} rows", hits.len(), self.rows));
            }
            let of = |id| {
                let &row = rows.get(&id)?;
                Some((self.distance(metric, query, row), self.bound(metric, query, row)))
            };
            if let Err(text) = check_hits(metric, hits, of) {
                return fault(text);
            }
            let mut is_found = vec![false; self.rows];
            hits.iter().for_each(|hit| is_found[rows[&hit.id]] = true);
            let Some(last) = hits.last() else { continue };
            for row in (0..self.rows).filter(|&row| !is_found[row]) {
                let (exact, bound) = (self.distance(metric, query, row), self.bound(metric, query, row));
                if exact + bound < f64::from(last.distance) {
                    return fault(format!("id {} is {exact:e} away, but only {last:?} was found", ids[row]));
                }
            }
        }
        Ok(())
    }

    /// The one right answer on whole numbers, `(distance, id)`, for every metric but those that divide. `ids` must always be the same.
    pub fn exact(&self, metric: Metric, ids: &[u64], k: usize, query: usize) -> Answer {
        assert!(!divides(metric), "quotients and roots of norms are not whole");
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = answers.get(&(metric, k, query)) {
            return answer.clone();
        }
        let order = if metric == Metric::L2 { Metric::L2Squared } else { metric };
        let mut all: Vec<(i64, u64)> =
            (0..self.rows).map(|row| (self.distance(order, query, row) as i64, ids[row])).collect();
        let wanted = k.min(self.rows);
        if wanted == 0 {
            return vec![];
        }
        all.select_nth_unstable(wanted - 1);
        all.truncate(wanted);
        all.sort_unstable();
        let root = |distance: f32| if metric == Metric::L2 { distance.sqrt() } else { distance };
        let answer: Answer = all.into_iter().map(|(distance, id)| (root(distance as f32), id)).collect();
        answers.insert((metric, k, query), answer.clone());
        answer
    }

    /// As `judge`, for whole numbers: bit for bit where that is promised.
    pub fn judge_exact<'a>(&self, metric: Metric, ids: &[u64], k: usize, found: impl Answers<'a>) -> Verdict {
        if divides(metric) {
            return self.judge(metric, ids, k, found);
        }
        let found = found.into_iter();
        self.check_count(found.len())?;
        for (query, hits) in found.enumerate() {
            let want = self.exact(metric, ids, k, query);
            if hits.len() != want.len() {
                let (found, wanted) = (hits.len(), want.len());
                return Err(format!("{metric}, query {query}: {found} neighbours, not {wanted}"));
            }
            for (place, (hit, want)) in hits.iter().zip(&want).enumerate() {
                // A distance of -0 is reported as 0.
                if hit.id != want.1 || hit.distance.to_bits() != (want.0 + 0.0).to_bits() {
                    return Err(format!("{metric}, query {query}, place {place}: {hit:?}, not {want:?}"));
                }
            }
        }
        Ok(())
    }

    /// The fault of a search for all rows nearer than `radius`. Those whose bound reaches it may be found or not.
    pub fn judge_within(&self, metric: Metric, ids: &[u64], radius: f32, found: &Neighbors) -> Verdict {
        self.check_count(found.queries())?;
        for (query, hits) in found.iter().enumerate() {
            let hits: HashMap<u64, f32> = hits.iter().map(|hit| (hit.id, hit.distance)).collect();
            let mut known = 0;
            for (row, id) in ids.iter().enumerate() {
                let (exact, bound) = (self.distance(metric, query, row), self.bound(metric, query, row));
                let off = hits.get(id).map(|&distance| (f64::from(distance) - exact).abs());
                let is_right = match off {
                    Some(off) => off <= bound && exact - bound < f64::from(radius),
                    None => exact + bound >= f64::from(radius),
                };
                if !is_right {
                    let found = hits.get(id);
                    return Err(format!(
                        "{metric}, query {query}: id {id} is {exact:e} away, within {bound:e}, found {found:?}"
                    ));
                }
                known += usize::from(off.is_some());
            }
            if known != found.row(query).len() {
                return Err(format!("{metric}, query {query}: ids that are unknown, or found twice"));
            }
        }
        Ok(())
    }

    fn check_count(&self, answers: usize) -> Verdict {
        if answers == 0 || answers > self.queries {
            return Err(format!("{answers} answers for {} queries", self.queries));
        }
        Ok(())
    }
}

/// Whether distances are quotients.
fn divides(metric: Metric) -> bool {
    matches!(metric, Metric::Cosine | Metric::Jaccard)
}

/// Checks the hits of one query by the promises of `Metric`: no row is found twice, distances are within their bounds and in order.
/// `of` is the true distance of an id and the bound of its error, if there is such a row. Returns the true distances.
pub fn check_hits(
    metric: Metric,
    hits: &[Neighbor],
    of: impl Fn(u64) -> Option<(f64, f64)>,
) -> Result<Vec<f64>, String> {
    let (mut ids, mut found) = (HashSet::new(), vec![]);
    for hit in hits {
        let (exact, bound) = of(hit.id).ok_or_else(|| format!("unknown id {}", hit.id))?;
        if !ids.insert(hit.id) {
            return Err(format!("id {} twice", hit.id));
        }
        let off = (f64::from(hit.distance) - exact).abs();
        if off.is_nan() || off > bound {
            return Err(format!("{hit:?}, but it is {exact:e} away, within {bound:e}"));
        }
        found.push(exact);
    }
    let is_ordered = |a: &Neighbor, b: &Neighbor| match a.distance.total_cmp(&b.distance) {
        // The roots of different squares may be equal.
        std::cmp::Ordering::Equal => metric == Metric::L2 || a.id < b.id,
        order => order.is_lt(),
    };
    match hits.windows(2).find(|pair| !is_ordered(&pair[0], &pair[1])) {
        Some(pair) => Err(format!("{:?} before {:?}", pair[0], pair[1])),
        None => Ok(found),
    }
}

/// Inner product and squared L2 distance.
fn pair(a: &[f32], b: &[f32]) -> [f64; 2] {
    a.iter().zip(b).fold([0.0, 0.0], |[dot, squared], (&x, &y)| {
        let (x, y) = (f64::from(x), f64::from(y));
        [dot + x * y, squared + (x - y) * (x - y)]
    })
}
