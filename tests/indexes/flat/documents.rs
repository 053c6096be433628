//! Searches for documents by MaxSim: every answer is compared with a naive one in f64.

use nearfield::{
    AddOptions, Device, Distribution, DocumentScore, ElementKind, Error, Flat, Matrix, MaxSimOptions, Metric,
    MultiVector, Residency, TokenVectors,
};

use test_case::test_matrix;

use crate::common::Engine::{self, Adapter, Host};
use crate::support::devices;
use nearfield_testing::Random;
use nearfield_testing::maxsim::{TrueScore, judge};

const ENGINES: [Engine; 2] = [Host, Adapter];

/// Documents or queries, as plain numbers.
#[derive(Clone)]
struct Tokens {
    values: Vec<f32>,
    offsets: Vec<usize>,
    dim: usize,
}

impl Tokens {
    fn new(values: Vec<f32>, lengths: &[usize], dim: usize) -> Self {
        let mut offsets = vec![0];
        offsets.extend(lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        }));
        assert_eq!(values.len(), offsets[lengths.len()] * dim);
        Self { values, offsets, dim }
    }

    /// Unit vectors around some topics, as those of models are.
    fn of_topics(random: &mut Random, lengths: &[usize], dim: usize) -> Self {
        let topics: Vec<f32> = random.floats(16 * dim);
        let mut values = vec![];
        for _ in 0..lengths.iter().sum() {
            let topic = &topics[random.below(16) * dim..][..dim];
            let token: Vec<f32> = topic.iter().map(|x| x + 0.5 * random.normal()).collect();
            let length = token.iter().map(|x| x * x).sum::<f32>().sqrt();
            values.extend(token.iter().map(|x| x / length));
        }
        Self::new(values, lengths, dim)
    }

    fn integers(random: &mut Random, lengths: &[usize], dim: usize) -> Self {
        let count = lengths.iter().sum::<usize>() * dim;
        Self::new(random.integers(count, 3), lengths, dim)
    }

    fn of(&self, number: usize) -> &[f32] {
        &self.values[self.offsets[number] * self.dim..self.offsets[number + 1] * self.dim]
    }

    fn view(&self) -> TokenVectors<'_> {
        let tokens = nearfield_testing::view(&self.values, self.dim);
        TokenVectors::new(tokens, &self.offsets).expect("good offsets")
    }
}

fn truth(query: &[f32], weights: &[f32], documents: &Tokens, ids: &[u64]) -> Vec<TrueScore> {
    let of = |(number, &id): (usize, &u64)| {
        TrueScore::new(query, weights, (id, documents.of(number)), documents.dim)
    };
    ids.iter().enumerate().map(of).collect()
}

fn check(found: &[DocumentScore], k: usize, truth: &[TrueScore]) {
    assert_eq!(judge(found, k, truth), Ok(()));
}

fn index(device: &Device, documents: &Tokens, kind: ElementKind, ids: &[u64]) -> MultiVector {
    let mut index = MultiVector::builder(device, documents.dim).elements(kind).build().expect("an index");
    let tokens = Matrix::F32(documents.values.clone(), documents.dim).to_kind(kind);
    let own = TokenVectors::new(&tokens, &documents.offsets).expect("good offsets");
    index.add_with(&own, &AddOptions::new().ids(ids)).expect("good documents");
    index
}

/// Lengths of documents: one token, a few, more than a block of 128, and thousands.
fn ragged(random: &mut Random, count: usize) -> Vec<usize> {
    let length = |number: usize, random: &mut Random| match number % 50 {
        7 => 1,
        11 => 129,
        13 => 300,
        _ => 1 + random.below(40),
    };
    let mut lengths: Vec<usize> = (0..count).map(|number| length(number, random)).collect();
    lengths[count / 2] = 3000;
    lengths
}

#[test]
fn documents_of_every_length_are_found_for_queries_of_every_length() -> Result<(), Error> {
    let random = &mut Random::new(1);
    for dim in [3, 64, 128] {
        let lengths = ragged(random, 400);
        let documents = Tokens::of_topics(random, &lengths, dim);
        let queries = Tokens::of_topics(random, &[1, 32, 7, 200], dim);
        let ids: Vec<u64> = (0..400).map(|number| number * 7919 % 1000).collect();
        for engine in ENGINES {
            let Some(device) = engine.device() else { continue };
            let index = index(device, &documents, ElementKind::F32, &ids);
            for k in [1, 10, 1000] {
                let found = index.search(&queries.view(), k)?;
                assert_eq!(found.queries(), 4);
                for query in 0..4 {
                    let weights = vec![1.0; queries.of(query).len() / dim];
                    check(found.row(query), k, &truth(queries.of(query), &weights, &documents, &ids));
                }
                assert!(k == 1000 || found.statistics().computed < found.statistics().bounded, "{found:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn equal_scores_are_ordered_by_ids_and_integers_are_exact_on_every_engine() -> Result<(), Error> {
    let random = &mut Random::new(2);
    let lengths: Vec<usize> = (0..300).map(|_| 1 + random.below(3)).collect();
    let documents = Tokens::integers(random, &lengths, 4);
    let queries = Tokens::integers(random, &[3, 1], 4);
    let ids: Vec<u64> = (0..300).rev().collect();
    for engine in ENGINES {
        let Some(device) = engine.device() else { continue };
        for kind in [ElementKind::F32, ElementKind::F16, ElementKind::I8] {
            let index = index(device, &documents, kind, &ids);
            let found = index.search(&queries.view(), 50)?;
            for query in 0..2 {
                let mut wanted: Vec<DocumentScore> = truth(queries.of(query), &[1.0; 3], &documents, &ids)
                    .into_iter()
                    .map(|one| DocumentScore { id: one.id, score: one.score as f32 })
                    .collect();
                wanted.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
                assert_eq!(found.row(query), &wanted[..50], "{kind} on {engine:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn filters_weights_and_means_are_those_of_the_definition() -> Result<(), Error> {
    let random = &mut Random::new(3);
    let lengths = ragged(random, 200);
    let documents = Tokens::of_topics(random, &lengths, 32);
    let query = Tokens::of_topics(random, &[8], 32);
    let ids: Vec<u64> = (0..200).collect();
    let weights = [1.0, 0.0, 2.5, 0.25, 1.0, 0.5, 3.0, 0.125];
    let mean = weights.map(|weight| weight / weights.iter().sum::<f32>());
    for engine in ENGINES {
        let Some(device) = engine.device() else { continue };
        let index = index(device, &documents, ElementKind::F32, &ids);
        for allowed in [vec![5u64], (0..200).step_by(3).collect(), (90..110).collect(), vec![7, 999]] {
            let known: Vec<u64> = allowed.iter().copied().filter(|&id| id < 200).collect();
            for (is_mean, weights) in [(false, &weights), (true, &mean)] {
                let options = MaxSimOptions::new(10).filter(&allowed).weights(weights).mean(is_mean);
                let found = index.search_with(&query.view(), &options)?;
                let mut all = truth(query.of(0), weights, &documents, &ids);
                all.retain(|one| known.contains(&one.id));
                check(found.row(0), 10, &all);
                assert_eq!(found.statistics().bounded, known.len() as u64);
            }
        }
        let nothing = index.search_with(&query.view(), &MaxSimOptions::new(3).filter(&[999]))?;
        assert!(nothing.row(0).is_empty());
    }
    Ok(())
}

#[test_matrix([Host], [1, 3], [Distribution::Sharded, Distribution::Replicated])]
#[test_case(Adapter, 1, Distribution::Sharded)]
#[test_case(Adapter, 2, Distribution::Sharded)]
fn an_index_through_any_changes_answers_as_a_new_one_of_the_same_documents(
    engine: Engine,
    count: usize,
    distribution: Distribution,
) -> Result<(), Error> {
    const DIM: usize = 16;
    let Some(devices) = devices(engine, count) else { return Ok(()) };
    let random = &mut Random::new(4);
    let mut index = MultiVector::builder(&devices, DIM).distribution(distribution).build()?;
    let mut model: Vec<(u64, Tokens)> = vec![];
    let query = Tokens::of_topics(random, &[5], DIM);
    for step in 0..40 {
        let lengths: Vec<usize> = (0..1 + random.below(30)).map(|_| 1 + random.below(60)).collect();
        let new = Tokens::of_topics(random, &lengths, DIM);
        let of = |number: usize| Tokens::new(new.of(number).to_vec(), &[lengths[number]], DIM);
        match step % 4 {
            0 | 1 => {
                let first = 1000 * step as u64;
                let ids: Vec<u64> = (0..lengths.len() as u64).map(|number| first + number).collect();
                index.add_with(&new.view(), &AddOptions::new().ids(&ids))?;
                model.extend(ids.iter().enumerate().map(|(number, &id)| (id, of(number))));
            }
            2 => {
                let count = (model.len() * 2 / 5).min(lengths.len() * 4);
                let gone: Vec<u64> =
                    (0..count).map(|_| model.swap_remove(random.below(model.len())).0).collect();
                index.remove(&gone)?;
                assert!(!index.contains(gone[0]));
                assert!(matches!(index.remove(&gone), Err(Error::UnknownId { .. })));
            }
            _ => {
                let count = lengths.len().min(model.len());
                let ids: Vec<u64> = model[..count].iter().map(|(id, _)| *id).collect();
                let some = &new.offsets[..=count];
                let tokens = nearfield_testing::view(&new.values[..some[count] * DIM], DIM);
                index.update(&ids, &TokenVectors::new(tokens, some)?)?;
                (0..count).for_each(|number| model[number].1 = of(number));
            }
        }
        if step % 10 == 9 {
            index.compact()?;
        }
        if step == 8 {
            index.build_lists(8)?;
        }
        assert_eq!(index.len(), model.len());
        assert_eq!(index.tokens(), model.iter().map(|(_, own)| own.offsets[1] as u64).sum::<u64>());
        let found = index.search(&query.view(), 7)?;
        let all: Vec<TrueScore> = model
            .iter()
            .map(|(id, own)| TrueScore::new(query.of(0), &[1.0; 5], (*id, own.of(0)), DIM))
            .collect();
        check(found.row(0), 7, &all);
        if engine == Host && step >= 8 {
            // All lists and all their tokens: lists followed every change.
            let all = index.tokens() as usize;
            let options = MaxSimOptions::new(7).probes(8).candidates_per_token(all).candidates(all);
            assert_eq!(index.search_with(&query.view(), &options)?.row(0), found.row(0));
        }
    }
    assert_eq!(index.lists(), 8);
    for (id, own) in &model {
        assert_eq!(index.get(*id)?, Matrix::F32(own.values.clone(), DIM));
    }
    let mut ids: Vec<u64> = model.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    assert_eq!(index.ids()?, ids);
    let found = index.search_with(&query.view(), &MaxSimOptions::new(9).filter(&ids[20..]))?;
    let saved = index.to_bytes()?;
    for devices in [&devices[..1], &devices] {
        let options = MaxSimOptions::new(9).filter(&ids[20..]);
        let mut loaded = MultiVector::loader(devices).distribution(distribution).load_bytes(&saved)?;
        assert_eq!(loaded.search_with(&query.view(), &options)?.row(0), found.row(0));
        assert_eq!(loaded.lists(), 8);
        loaded.remove(&ids[..10])?;
        loaded.add_with(&query.view(), &AddOptions::new().ids(&[3]))?;
        assert_eq!(loaded.search(&query.view(), 1)?.row(0)[0].id, 3);
    }
    Ok(())
}

#[test]
fn insertion_numbers_are_never_given_twice_and_errors_leave_an_index_as_it_was() -> Result<(), Error> {
    for engine in ENGINES {
        let Some(device) = engine.device() else { continue };
        let mut index = MultiVector::builder(device, 2).build()?;
        let tokens = [[1.0f32, 0.0], [0.0, 1.0], [0.5, 0.5]];
        assert!(index.search(&(&tokens).into(), 3)?.row(0).is_empty());
        assert!(index.search(&(&[[f32::NAN, 0.0]]).into(), 3).is_err());
        index.add(&TokenVectors::new(&tokens, &[0, 2, 3])?)?;
        index.remove(&[1])?;
        index.add(&(&tokens).into())?;
        assert_eq!((index.ids()?, index.next_id(), index.elements()), (vec![0, 2], 3, ElementKind::F32));
        let twice = AddOptions::new().ids(&[2]);
        assert!(matches!(index.add_with(&(&tokens).into(), &twice), Err(Error::DuplicateId { id: 2 })));
        let bad = [[f32::NAN, 0.0]];
        assert!(matches!(index.add(&(&bad).into()), Err(Error::NotFinite { argument: "documents", row: 0 })));
        assert!(matches!(index.search(&(&bad).into(), 1), Err(Error::NotFinite { .. })));
        let wide = [[1.0f32; 3]];
        assert!(matches!(index.search(&(&wide).into(), 1), Err(Error::Argument { argument: "queries", .. })));
        assert!(matches!(index.search(&(&tokens).into(), 0), Err(Error::Argument { argument: "k", .. })));
        let few = MaxSimOptions::new(1).weights(&[1.0]);
        let error = index.search_with(&(&tokens).into(), &few).expect_err("three tokens");
        assert!(error.to_string().contains("weights"), "{error}");
        let below = MaxSimOptions::new(1).weights(&[1.0, -1.0, 0.0]);
        assert!(index.search_with(&(&tokens).into(), &below).is_err());
        assert!(matches!(
            index.update(&[0, 0], &TokenVectors::new(&tokens, &[0, 2, 3])?),
            Err(Error::Argument { .. })
        ));
        assert_eq!((index.ids()?, index.tokens()), (vec![0, 2], 5));
        assert_eq!(index.search(&(&tokens).into(), 5)?.row(0).len(), 2);
    }
    Ok(())
}

#[test]
fn token_vectors_refuse_offsets_that_are_none() {
    let tokens = [[1.0f32], [2.0], [3.0]];
    for (offsets, part) in [
        (&[0, 2][..], "3"),
        (&[1, 3], "0"),
        (&[0, 2, 1, 3], "ascend"),
        (&[0, 2, 2, 3], "none in document 1"),
        (&[], "none"),
    ] {
        let error = TokenVectors::new(&tokens, offsets).expect_err("offsets").to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_loaded_index_answers_and_goes_on_as_the_saved_one() -> Result<(), Error> {
    let random = &mut Random::new(5);
    let lengths = ragged(random, 60);
    let documents = Tokens::of_topics(random, &lengths, 20);
    let query = Tokens::of_topics(random, &[6], 20);
    let ids: Vec<u64> = (0..60).map(|number| number * 7).collect();
    for engine in ENGINES {
        let Some(device) = engine.device() else { continue };
        for kind in [ElementKind::F32, ElementKind::I8] {
            let mut saved = index(device, &documents, kind, &ids);
            saved.remove(&[7, 70])?;
            let bytes = saved.to_bytes()?;
            let mut loaded = MultiVector::loader(device).load_bytes(&bytes)?;
            assert_eq!((loaded.ids()?, loaded.tokens()), (saved.ids()?, saved.tokens()));
            assert_eq!(loaded.get(14)?, saved.get(14)?);
            assert_eq!(loaded.search(&query.view(), 9)?, saved.search(&query.view(), 9)?);
            assert_eq!(loaded.to_bytes()?, bytes);
            let one = Matrix::F32(query.values.clone(), 20).to_kind(kind);
            for index in [&mut loaded, &mut saved] {
                index.add(&(&one).into())?;
                assert!(index.contains(60), "{:?}", index.ids());
            }
            let error =
                nearfield::Index::loader(device).load_bytes(&bytes).expect_err("documents").to_string();
            assert!(error.contains("flat or ivf") && error.contains("multivector"), "{error}");
        }
        let rows = Flat::from_rows(device, Metric::InnerProduct, &[[1.0f32, 2.0]])?;
        assert!(MultiVector::loader(device).load_bytes(&rows.to_bytes()?).is_err());
    }
    Ok(())
}

#[test]
fn maxsim_of_all_pairs_is_that_of_the_definition() -> Result<(), Error> {
    let random = &mut Random::new(6);
    for dim in [1, 20, 128] {
        let lengths = ragged(random, 50);
        let documents = Tokens::of_topics(random, &lengths, dim);
        let queries = Tokens::of_topics(random, &[1, 33, 130, 4], dim);
        for engine in ENGINES {
            let Some(device) = engine.device() else { continue };
            let scores = device.maxsim(&queries.view(), &documents.view())?;
            assert_eq!(scores.len(), 4 * 50);
            for (number, &found) in scores.iter().enumerate() {
                let query = queries.of(number / 50);
                let weights = vec![1.0; query.len() / dim];
                let document = (number as u64, documents.of(number % 50));
                let wanted = TrueScore::new(query, &weights, document, dim);
                assert!(wanted.is(found), "{number}: {found} for {wanted:?}");
            }
            let wide = [[0.5f32; 21]];
            assert!(device.maxsim(&(&wide).into(), &documents.view()).is_err());
            let error = device.maxsim(&(&[[1.0f32]]).into(), &(&[[f32::NAN]]).into());
            assert!(matches!(error, Err(Error::NotFinite { argument: "documents", row: 0 })), "{error:?}");
        }
    }
    Ok(())
}

#[test]
fn small_budgets_and_segments_change_no_answer() -> Result<(), Error> {
    let random = &mut Random::new(7);
    let lengths = ragged(random, 300);
    let documents = Tokens::of_topics(random, &lengths, 64);
    let queries = Tokens::of_topics(random, &[9, 40, 1], 64);
    let ids: Vec<u64> = (0..300).collect();
    for engine in ENGINES {
        let (Some(device), Some(small)) = (engine.device(), engine.confined(128 << 10, 1 << 20)) else {
            continue;
        };
        let [one, other] = [device, &small].map(|device| index(device, &documents, ElementKind::F32, &ids));
        let found = one.search(&queries.view(), 20)?;
        assert_eq!(other.search(&queries.view(), 20)?, found);
        let scores = device.maxsim(&queries.view(), &documents.view())?;
        assert_eq!(small.maxsim(&queries.view(), &documents.view())?, scores);
    }
    Ok(())
}

#[test]
fn refused_documents_leave_no_trace_in_later_answers() -> Result<(), Error> {
    for engine in ENGINES {
        let Some(device) = engine.device() else { continue };
        let mut index = MultiVector::builder(device, 2).capacity(8).build()?;
        let tokens = [[1.0f32, 0.0], [0.0, 1.0], [0.5, 0.5]];
        index.add(&TokenVectors::new(&tokens, &[0, 2, 3])?)?;
        let found = index.search(&(&[[1.0f32, 0.25]]).into(), 2)?;
        assert_eq!(found.row(0)[0].id, 0);
        for bad in [[3e38f32, 0.0], [f32::INFINITY, 1.0], [f32::NAN, 0.0]] {
            assert!(index.add(&(&[[1.0, 1.0], bad]).into()).is_err());
            assert!(index.update(&[1], &(&[bad]).into()).is_err());
            let again = index.search(&(&[[1.0f32, 0.25]]).into(), 2)?;
            assert_eq!(again.row(0), found.row(0), "{bad:?} on {engine:?}");
        }
    }
    Ok(())
}

#[test]
fn no_queries_no_documents_and_no_tokens_are_no_error_and_no_answer() -> Result<(), Error> {
    for engine in ENGINES {
        let Some(device) = engine.device() else { continue };
        let mut index = MultiVector::builder(device, 2).build()?;
        let nothing: TokenVectors<'_> = nearfield_testing::view::<f32>(&[], 2).into();
        assert!(nothing.is_empty());
        index.add(&nothing)?;
        index.add(&(&[[1.0f32, 0.0]]).into())?;
        assert_eq!(index.len(), 1);
        assert_eq!(index.search(&nothing, 3)?.queries(), 0);
        let one = (&[[1.0f32, 0.0]]).into();
        assert!(device.maxsim(&nothing, &one)?.is_empty() && device.maxsim(&one, &nothing)?.is_empty());
        // The largest vectors and weights exclude nothing.
        let long = [[6e14f32, -6e14]];
        index.add(&(&[[6e14f32, 6e14]]).into())?;
        let found = index.search_with(&(&long).into(), &MaxSimOptions::new(2).weights(&[1e6]))?;
        assert_eq!(found.row(0).len(), 2);
    }
    Ok(())
}

#[test]
fn documents_are_found_wherever_their_tokens_are() -> Result<(), Error> {
    let random = &mut Random::new(8);
    let lengths = ragged(random, 120);
    let documents = Tokens::of_topics(random, &lengths, 64);
    let queries = Tokens::of_topics(random, &[5, 40], 64);
    let ids: Vec<u64> = (0..120).collect();
    let Some(device) = Adapter.device() else { return Ok(()) };
    for residency in [Residency::Auto, Residency::Host, Residency::Streamed] {
        let mut index = MultiVector::builder(device, 64).residency(residency).build()?;
        index.add(&documents.view())?;
        let found = index.search(&queries.view(), 10)?;
        for query in 0..2 {
            let weights = vec![1.0; queries.of(query).len() / 64];
            check(found.row(query), 10, &truth(queries.of(query), &weights, &documents, &ids));
        }
    }
    Ok(())
}

#[test]
fn the_memory_of_documents_that_are_gone_is_used_again() -> Result<(), Error> {
    let random = &mut Random::new(9);
    let lengths: Vec<usize> = (0..200).map(|_| 20 + random.below(20)).collect();
    let documents = Tokens::of_topics(random, &lengths, 8);
    for engine in ENGINES {
        let Some(device) = engine.device() else { continue };
        let mut index = MultiVector::builder(device, 8).build()?;
        index.add(&documents.view())?;
        let most = 3 * index.memory().total();
        for turn in 0..12 {
            let ids = index.ids()?;
            if turn % 2 == 0 {
                index.remove(&ids)?;
                index.add(&documents.view())?;
            } else {
                index.update(&ids, &documents.view())?;
            }
            assert!(index.memory().total() <= most, "{} after {turn} turns", index.memory());
        }
        assert_eq!(index.len(), 200);
    }
    Ok(())
}

#[test]
fn lists_nominate_most_of_the_documents_of_largest_score() -> Result<(), Error> {
    const DIM: usize = 32;
    let random = &mut Random::new(12);
    let lengths = ragged(random, 600);
    let documents = Tokens::of_topics(random, &lengths, DIM);
    let queries = Tokens::of_topics(random, &[8, 3, 20], DIM);
    let ids: Vec<u64> = (0..600).map(|number| 7 * number).collect();
    let even: Vec<u64> = ids.iter().copied().filter(|id| id % 2 == 0).collect();
    for engine in ENGINES {
        let Some(device) = engine.device() else { continue };
        let mut index = index(device, &documents, ElementKind::F32, &ids);
        let options = MaxSimOptions::new(10).probes(4).candidates_per_token(40).candidates(80);
        let error = index.search_with(&queries.view(), &options).expect_err("no lists");
        assert!(error.to_string().contains("build_lists"), "{error}");
        assert!(index.build_lists(0).is_err() && index.build_lists(1_000_000).is_err());
        let before = index.memory().total();
        index.build_lists(16)?;
        assert!(index.memory().total() > before + index.tokens() * DIM as u64);
        let exact = index.search(&queries.view(), 10)?;
        let found = index.search_with(&queries.view(), &options)?;
        let filtered = index.search_with(&queries.view(), &options.filter(&even))?;
        let (nominated, all) = (found.statistics(), exact.statistics().bounded);
        assert!(nominated.bounded == 0 && nominated.computed <= 3 * 80 && all == 1800, "{nominated:?}");
        let mut right = 0;
        for query in 0..3 {
            let weights = vec![1.0; queries.of(query).len() / DIM];
            let all = truth(queries.of(query), &weights, &documents, &ids);
            for hit in found.row(query).iter().chain(filtered.row(query)) {
                let wanted = all[hit.id as usize / 7];
                assert!(wanted.is(hit.score), "{hit:?} {wanted:?}");
            }
            assert!(filtered.row(query).iter().all(|hit| hit.id % 2 == 0));
            right += found.row(query).iter().filter(|hit| exact.row(query).contains(hit)).count();
        }
        assert!(right >= 24, "{right} of 30 on {engine:?}");
        let none = index.search_with(&queries.view(), &options.candidates(0)).expect_err("none");
        assert!(none.to_string().starts_with("candidates: "), "{none}");
        let bad = index.search_with(&queries.view(), &options.probes(17)).expect_err("16 lists");
        assert!(bad.to_string().contains("1 to 16"), "{bad}");
    }
    Ok(())
}

#[test]
fn an_index_with_an_odd_number_of_elements_in_its_centroids_is_saved() -> Result<(), Error> {
    let mut index = MultiVector::builder(&Device::host(), 3).build()?;
    index.add(&TokenVectors::new(&[[1.0f32, 0.0, 0.0], [0.0, 1.0, 0.0]], &[0, 1, 2])?)?;
    index.build_lists(1)?;
    let loaded = MultiVector::loader(&Device::host()).load_bytes(&index.to_bytes()?)?;
    assert_eq!((loaded.ids()?, loaded.lists()), (vec![0, 1], 1));
    Ok(())
}

#[test]
fn documents_whose_tokens_lie_in_a_file_are_found_as_those_in_memory() -> Result<(), Error> {
    const DIM: usize = 24;
    let random = &mut Random::new(14);
    let lengths = ragged(random, 150);
    let documents = Tokens::of_topics(random, &lengths, DIM);
    let queries = Tokens::of_topics(random, &[5, 40], DIM);
    let ids: Vec<u64> = (0..150).map(|number| 3 * number + 1).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let (saved, plain) = (folder.path().join("saved.nf"), folder.path().join("tokens.fbin"));
    let mut whole = index(&Device::host(), &documents, ElementKind::F32, &ids);
    whole.build_lists(8)?;
    whole.save(&saved)?;
    let header = [documents.offsets[150] as u32, DIM as u32];
    let bytes = [bytemuck::cast_slice(&header), bytemuck::cast_slice(&documents.values)].concat();
    std::fs::write(&plain, bytes).expect("written");
    for engine in ENGINES {
        let Some(device) = engine.device() else { continue };
        for count in [1, 2] {
            let Some(places) = devices(engine, count) else { continue };
            let mut mapped = MultiVector::builder(&places, DIM).mapped(&saved).build()?;
            assert_eq!((mapped.ids()?, mapped.next_id(), mapped.lists()), (ids.clone(), whole.next_id(), 8));
            let of_rows =
                MultiVector::builder(&places, DIM).mapped(&plain).offsets(&documents.offsets).build()?;
            let found = [mapped.search(&queries.view(), 10)?, of_rows.search(&queries.view(), 10)?];
            for query in 0..2 {
                let weights = vec![1.0; queries.of(query).len() / DIM];
                check(found[0].row(query), 10, &truth(queries.of(query), &weights, &documents, &ids));
                let by_number = |hit: &DocumentScore| DocumentScore { id: 3 * hit.id + 1, ..*hit };
                assert_eq!(
                    found[1].row(query).iter().map(by_number).collect::<Vec<_>>(),
                    found[0].row(query)
                );
            }
            let probes = MaxSimOptions::new(10).probes(8).candidates(150);
            assert_eq!(mapped.search_with(&queries.view(), &probes)?.row(0), found[0].row(0));

            let error = mapped.add(&documents.view()).expect_err("rows in a file");
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            let best = found[0].row(0)[0].id;
            mapped.remove(&[best])?;
            assert_eq!(mapped.search(&queries.view(), 9)?.row(0), &found[0].row(0)[1..]);
            let loaded = MultiVector::loader(device).load_bytes(&mapped.to_bytes()?)?;
            assert_eq!((loaded.len(), loaded.get(ids[7])?), (149, whole.get(ids[7])?));
        }
        let refused = [
            (MultiVector::builder(device, DIM).mapped(&plain), "offsets: "),
            (MultiVector::builder(device, DIM).mapped(&plain).offsets(&[0, 4]), "offsets: "),
            (MultiVector::builder(device, DIM).mapped(&saved).offsets(&[0, 4]), "offsets: "),
            (MultiVector::builder(device, DIM).offsets(&[0, 4]), "offsets: "),
            (MultiVector::builder(device, DIM + 1).mapped(&saved), "saved.nf"),
        ];
        for (builder, named) in refused {
            let error = builder.build().expect_err(named).to_string();
            assert!(error.contains(named), "{error}");
        }
    }
    let flat = Flat::builder(&Device::host(), Metric::InnerProduct, DIM)
        .mapped(&saved)
        .build()
        .expect_err("no rows");
    assert!(flat.to_string().contains("flat or ivf"), "{flat}");
    Ok(())
}
