//! Searches of an index, compared with f64 and with fresh indexes of the same rows.

use std::thread;

use nearfield::{ElementKind, Index, Matrix, Neighbor, Quantization, SearchOptions, Vectors};

use super::super::living::{self, Kind, LISTS, answer, bits};
use super::super::truth::Truth;
use super::super::view;
use super::{Life, Values};

/// Threads that search a copy, and searches of each.
const THREADS: usize = 3;
const SEARCHES: usize = 4;

impl Life<'_> {
    /// Rows in another order than they came, so that their slots have nothing in common.
    fn fill(&self, mut index: Index) -> Index {
        let ids: Vec<u64> = self.rows.keys().rev().copied().collect();
        let rows: Vec<f32> = self.rows.values().rev().flatten().copied().collect();
        self.add(&mut index, &rows, Some(&ids)).expect("good rows");
        index
    }

    /// A fresh index of all rows, which a search of all lists has to answer as.
    fn exact(&self) -> Index {
        let case = self.case;
        self.fill(Kind::Flat.make(self.device, case.metric, case.dim, case.elements, Quantization::None))
    }

    /// The index answers as f64 and as fresh ones: without a filter and with one of any kind, with all probes and with few.
    pub(crate) fn search(&mut self, index: &Index, queries: usize) {
        let (exact, same) = (self.exact(), self.fill(self.fresh()));
        let values = self.values(queries);
        let queries = view(&values, self.case.dim);
        // Distances of integers to integers are summed by another form of the kernel than those of floats to integers.
        let same_type = self.stored(&values);
        let is_wide = self.case.elements != ElementKind::Bits && self.random.below(2) == 0;
        let asked: Vectors<'_> = if is_wide { queries.into() } else { (&same_type).into() };
        let allowed = self.allowed();
        let is_allowed = |id| allowed.has(id);
        for filter in [None, Some(allowed.filter(&is_allowed))] {
            // All of them, where they are not too many for the budget.
            let most = if queries.rows() < 10 { (self.rows.len() + 7).min(800) } else { 50 };
            let k = [1, 9, 30, most][self.random.below(4)];
            let mut options = SearchOptions::new(k);
            options.filter = filter;
            let is_filtered = filter.is_some();
            let said = format!(
                "{:?}: {} queries of {} rows, k {k}; {is_filtered}: {allowed}",
                self.case,
                queries.rows(),
                self.rows.len()
            );
            let few = 1 + self.random.below(LISTS - 1);
            let all = answer(index, asked, &options, LISTS);
            assert_eq!(bits(&all), bits(&answer(&exact, asked, &options, LISTS)), "{said}");
            let fills = index.lists().is_some() && self.random.below(2) == 0;
            let [some, wanted] =
                [index, &same].map(|index| answer(index, asked, &options.clone().iterative_scan(fills), few));
            assert_eq!(bits(&some), bits(&wanted), "{few} probes, fill {fills}, {said}");

            let those = self.rows.iter().filter(|&(&id, _)| !is_filtered || is_allowed(id));
            let (ids, rows): (Vec<u64>, Vec<&[f32]>) = those.map(|(&id, row)| (id, &row[..])).unzip();
            // A filter widens the probes, as `fill` does.
            let most = if is_filtered || fills { k.min(ids.len()) } else { 0 };
            let is_right = |hit: &Neighbor| ids.binary_search(&hit.id).is_ok();
            assert!(
                some.iter().all(|hits| hits.len() >= most && hits.iter().all(is_right)),
                "{few} probes, {said}"
            );
            let truth = Truth::new(queries, view(&rows.concat(), self.case.dim));
            let verdict = match self.case.values {
                Values::Whole => truth.judge_exact(self.case.metric, &ids, k, &all),
                _ => truth.judge(self.case.metric, &ids, k, &all),
            };
            assert_eq!(verdict, Ok(()), "{said}");

            // A distance that some row has: nearer is meant strictly.
            let first = all.row(0);
            let radius = if first.is_empty() { 4.0 } else { first[self.random.below(first.len())].distance };
            let mut within = SearchOptions::within(radius);
            within.filter = filter;
            let [found, wanted] =
                [index, &exact].map(|index| index.search_with(asked, &within).expect("an answer").neighbors);
            assert_eq!(bits(&found), bits(&wanted), "within {radius}, {said}");
            let verdict = truth.judge_within(self.case.metric, &ids, radius, &found);
            assert_eq!(verdict, Ok(()), "within {radius}, {said}");
            self.compared += 3 * queries.rows() as u64;
        }
    }

    /// Threads search a copy while the index changes.
    pub(crate) fn search_during_changes(&mut self, index: &mut Index) {
        let copy = index.clone_to(self.device).expect("a copy");
        let exact = self.exact();
        let asked: Vec<Vec<f32>> = (0..THREADS).map(|thread| self.values(1 + thread)).collect();
        let (dim, is_of_bits) = (self.case.dim, self.case.elements == ElementKind::Bits);
        let asked: Vec<Matrix> = asked
            .into_iter()
            .map(|values| if is_of_bits { self.stored(&values) } else { Matrix::F32(values, dim) })
            .collect();
        let answer =
            |index: &Index, queries: &Matrix| bits(&answer(index, queries, &SearchOptions::new(9), LISTS));
        let wanted: Vec<_> = asked.iter().map(|values| answer(&exact, values)).collect();
        let found = thread::scope(|scope| {
            let copy = &copy;
            let known = self.rows.iter().next().map(|(&id, row)| (id, row.clone()));
            let search = |values| {
                let known = known.clone();
                move || {
                    if let Some((id, row)) = known {
                        assert_eq!(copy.get(&[id]).expect("it is there"), row);
                    }
                    [(); SEARCHES].map(|()| answer(copy, values))
                }
            };
            let threads: Vec<_> = asked.iter().map(|values| scope.spawn(search(values))).collect();
            self.grow(index, 90, true);
            let gone = self.some_ids(4);
            index.remove(&gone).expect("they are there");
            self.drop_rows(&gone);
            let found = threads.into_iter().map(|thread| thread.join().expect("answers"));
            found.collect::<Vec<_>>()
        });
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!(found.iter().all(|found| found == wanted), "{:?}: a copy during changes", self.case);
            self.compared += (SEARCHES * wanted.len()) as u64;
        }
    }

    /// The rows are there, and are found by candidates and list by list.
    pub(super) fn check_rows(&mut self, index: &Index) {
        assert!(living::ids(index).iter().eq(self.rows.keys()), "ids");
        for id in self.some_ids(20).into_iter().take(3) {
            assert_eq!(index.get(&[id]).expect("it is there"), self.rows[&id], "row {id}");
        }
        self.search(index, 3);
        self.search(index, 70);
    }
}
