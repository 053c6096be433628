//! The life of a `MultiVector`: documents of several tokens in the place of rows. Its answers are those of MaxSim in f64, and bit for bit
//! those of a fresh index of the remaining documents.

use std::thread;

use nearfield::{
    AdapterKind, AddOptions, Device, Error, Matrix, MaxSimOptions, MultiVector, Ranking, TokenVectors,
};

use super::super::maxsim::{TrueScore, judge};
use super::{Case, Life, Living, MOST_ELEMENTS, Values};

/// Lists of tokens at most, and threads that search at once.
const LISTS: usize = 9;
const THREADS: usize = 3;

/// Documents, or queries, as an index stores them, and where the tokens of each begin.
struct Joined {
    tokens: Matrix,
    offsets: Vec<usize>,
}

impl Joined {
    fn view(&self) -> TokenVectors<'_> {
        TokenVectors::new(&self.tokens, &self.offsets).expect("good offsets")
    }
}

impl Living for MultiVector {
    const OPERATIONS: &'static [&'static str] = &[
        "add",
        "add",
        "add with ids",
        "add with ids",
        "remove",
        "remove",
        "update",
        "update",
        "compact",
        "save and load",
        "refuse",
        "search",
        "build lists",
        "search by several threads",
    ];

    fn start(life: &mut Life<'_>, _: &Device) -> Self {
        let Case { dim, elements, rows, .. } = life.case;
        let builder = Self::builder(&life.devices, dim).elements(elements);
        let mut index = builder.distribution(life.distribution).build().expect("an index");
        life.grow_documents(&mut index, rows / 4, true);
        index
    }

    fn operate(&mut self, life: &mut Life<'_>, operation: &str) {
        match operation {
            "add" | "add with ids" => {
                let count = [0, 1, 7, 40, 120][life.random.below(5)];
                life.grow_documents(self, count, operation == "add");
            }
            "remove" => {
                let every = [2, 3, 20][life.random.below(3)];
                let gone = life.some_ids(every);
                self.remove(&gone).expect("they are there");
                life.drop_rows(&gone);
            }
            "update" => {
                let mut ids: Vec<u64> = life.some_ids(8).into_iter().take(20).collect();
                ids.reverse();
                let documents = life.documents(ids.len());
                self.update(&ids, &life.joined(&documents).view()).expect("they are there");
                life.rows.extend(ids.into_iter().zip(documents));
            }
            "compact" => self.compact().expect("it is compacted"),
            "save and load" => {
                self.save(&life.saved).expect("it is saved");
                let loader = Self::loader(&life.devices).distribution(life.distribution);
                let loaded = loader.load(&life.saved).expect("it is loaded");
                assert_eq!((loaded.lists(), loaded.next_id()), (self.lists(), self.next_id()), "as saved");
                *self = loaded;
            }
            "refuse" => life.refuse_documents(self),
            "search" => {
                let queries = 1 + life.random.below(4);
                life.search_documents(self, queries);
            }
            "build lists" => {
                let lists = LISTS.min(self.tokens() as usize);
                assert_eq!(self.build_lists(lists).is_ok(), lists > 0, "lists of {} tokens", self.tokens());
            }
            "search by several threads" => life.search_by_threads(self),
            other => unreachable!("{other}"),
        }
    }

    fn check(&self, life: &mut Life<'_>) {
        assert!(self.ids().expect("memory").iter().eq(life.rows.keys()), "ids");
        let tokens = life.tokens() as u64;
        assert_eq!((self.len(), self.tokens()), (life.rows.len(), tokens), "documents and tokens");
        for id in life.some_ids(20).into_iter().take(3) {
            assert_eq!(self.get(id).expect("it is there").into_f32(), life.rows[&id], "document {id}");
        }
        life.search_documents(self, 3);
        life.search_documents(self, 20);
    }
}

impl Life<'_> {
    /// The elements of the tokens of each document: of few tokens, of many and, seldom, of more than the device scores at a time.
    fn documents(&mut self, count: usize) -> Vec<Vec<f32>> {
        let mut one = || {
            let most = [1, 4, 4, 12, 40][self.random.below(5)];
            let tokens = if self.random.below(100) == 0 { 200 } else { 1 + self.random.below(most) };
            self.values(tokens)
        };
        (0..count).map(|_| one()).collect()
    }

    fn joined(&self, documents: &[Vec<f32>]) -> Joined {
        let mut offsets = vec![0];
        documents.iter().for_each(|one| offsets.push(offsets[offsets.len() - 1] + one.len() / self.case.dim));
        Joined { tokens: self.stored(&documents.concat()), offsets }
    }

    /// Tokens of all documents.
    fn tokens(&self) -> usize {
        self.rows.values().map(Vec::len).sum::<usize>() / self.case.dim
    }

    fn grow_documents(&mut self, index: &mut MultiVector, count: usize, is_numbered: bool) {
        let ids = match is_numbered {
            true => self.numbers(count),
            false => self.free_ids(count),
        };
        let documents = self.documents(ids.len());
        let joined = self.joined(&documents);
        if self.tokens() + joined.tokens.rows() > MOST_ELEMENTS / self.case.dim {
            return;
        }
        let result = match is_numbered {
            true => index.add(&joined.view()),
            false => index.add_with(&joined.view(), &AddOptions::new().ids(&ids)),
        };
        result.expect("good documents, and ids that are free");
        self.pass(&ids, is_numbered);
        self.rows.extend(ids.into_iter().zip(documents));
        assert_eq!(index.next_id(), self.next, "the next number");
    }

    /// A refused call leaves the index as it was.
    fn refuse_documents(&mut self, index: &mut MultiVector) {
        let unknown = (1 << 63) - 1;
        let known = self.rows.keys().next().copied();
        let two = self.documents(2);
        let ids = [known.unwrap_or(unknown), unknown];
        for error in [index.remove(&ids), index.update(&ids, &self.joined(&two).view())] {
            let error = error.expect_err("unknown");
            assert!(matches!(error, Error::UnknownId { id } if id == unknown), "{error}");
        }
        if let Some(id) = known {
            let error = index.add_with(&self.joined(&two).view(), &AddOptions::new().ids(&[unknown, id]));
            let error = error.expect_err("it is taken");
            assert!(matches!(error, Error::DuplicateId { id: told } if told == id), "{error}");
            let error = index.update(&[id, id], &self.joined(&two).view()).expect_err("an id twice");
            assert!(matches!(error, Error::Argument { argument: "ids", .. }), "{error}");
        }
        // No integer is infinite.
        if self.case.elements.is_integer() {
            return;
        }
        let mut bad = self.documents(30);
        let number = self.random.below(bad.len());
        bad[number][0] = f32::NAN;
        let joined = self.joined(&bad);
        let first = joined.offsets[number] as u64;
        let mut errors = vec![index.add(&joined.view()), index.search(&joined.view(), 1).map(drop)];
        errors.extend(known.map(|id| {
            let own = [bad[number].clone(), bad[number].clone()];
            index.update(&[id], &self.joined(&own[..1]).view())
        }));
        for (error, row) in errors.into_iter().zip([first, first, 0]) {
            let error = error.expect_err("not finite");
            assert!(matches!(error, Error::NotFinite { row: told, .. } if told == row), "{error}");
        }
    }

    /// Documents in another order than they came, so that their slots have nothing in common.
    fn filled(&self) -> MultiVector {
        let builder = MultiVector::builder(self.device, self.case.dim).elements(self.case.elements);
        let mut index = builder.build().expect("an index");
        let (ids, documents): (Vec<u64>, Vec<Vec<f32>>) =
            self.rows.iter().rev().map(|(&id, own)| (id, own.clone())).unzip();
        let joined = self.joined(&documents);
        index.add_with(&joined.view(), &AddOptions::new().ids(&ids)).expect("good documents");
        index
    }

    /// The index answers as f64 and as a fresh one: without a filter and with one of any kind, with weights and without, by all documents
    /// and by lists.
    fn search_documents(&mut self, index: &MultiVector, queries: usize) {
        let same = self.filled();
        let dim = self.case.dim;
        let given = self.documents(queries);
        let joined = self.joined(&given);
        // Also tokens of another type than those of the index.
        let wide = Matrix::F32(given.concat(), dim);
        let tokens = if self.random.below(2) == 0 { &wide } else { &joined.tokens };
        let asked = TokenVectors::new(tokens, &joined.offsets).expect("good offsets");
        let all_weights: Vec<f32> =
            (0..tokens.rows()).map(|_| [1.0, 0.5, 2.0, 0.0][self.random.below(4)]).collect();
        let allowed = self.allowed();
        let is_allowed = |id| allowed.has(id);
        for filter in [None, Some(allowed.filter(&is_allowed))] {
            let k = [1, 9, 30, self.rows.len().min(800) + 7][self.random.below(4)];
            let mut options = MaxSimOptions::new(k);
            options.filter = filter;
            options.weights = (self.random.below(2) == 0).then_some(&all_weights);
            let is_filtered = filter.is_some();
            let said = format!(
                "{:?}: {queries} queries of {} documents, k {k}; {is_filtered}: {allowed}; weights {}",
                self.case,
                self.rows.len(),
                options.weights.is_some()
            );
            let [found, wanted] = [index, &same].map(|index| answer(index, &asked, &options));
            assert_eq!(bits(&found), bits(&wanted), "{said}");
            for (query, tokens) in given.iter().enumerate() {
                let own = joined.offsets[query]..joined.offsets[query + 1];
                let weights = options.weights.map_or(vec![1.0; own.len()], |weights| weights[own].to_vec());
                let those = self.rows.iter().filter(|&(&id, _)| !is_filtered || is_allowed(id));
                let mut truth: Vec<TrueScore> =
                    those.map(|(&id, one)| TrueScore::new(tokens, &weights, (id, one), dim)).collect();
                if self.case.values == Values::Whole {
                    truth.iter_mut().for_each(|one| one.bound = 0.0);
                }
                assert_eq!(judge(found.row(query), k, &truth), Ok(()), "query {query}, {said}");
            }
            // All lists and all their tokens: lists followed every change. A software adapter takes seconds for it.
            let all = index.tokens() as usize;
            if index.lists() > 0 && all > 0 && self.device.adapter().kind == AdapterKind::Host {
                let options = options.probes(index.lists()).candidates_per_token(all).candidates(all);
                assert_eq!(bits(&answer(index, &asked, &options)), bits(&found), "by lists, {said}");
            }
            self.compared += 2 * queries as u64;
        }
    }

    /// Threads that search at once get the answers of one.
    fn search_by_threads(&mut self, index: &MultiVector) {
        let asked: Vec<Joined> = (0..THREADS)
            .map(|thread| {
                let queries = self.documents(1 + thread);
                self.joined(&queries)
            })
            .collect();
        let answer = |asked: &Joined| bits(&answer(index, &asked.view(), &MaxSimOptions::new(9)));
        let wanted: Vec<_> = asked.iter().map(answer).collect();
        let found: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = asked.iter().map(|asked| scope.spawn(move || answer(asked))).collect();
            threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
        });
        assert_eq!(found, wanted, "{:?}: searches by several threads", self.case);
        self.compared += wanted.iter().map(|found| found.len() as u64).sum::<u64>();
    }
}

fn answer(index: &MultiVector, queries: &TokenVectors<'_>, options: &MaxSimOptions<'_>) -> Ranking {
    index.search_with(queries, options).expect("an answer")
}

/// Ids and the bits of scores.
fn bits(found: &Ranking) -> Vec<Vec<(u64, u32)>> {
    found.iter().map(|row| row.iter().map(|hit| (hit.id, hit.score.to_bits())).collect()).collect()
}
