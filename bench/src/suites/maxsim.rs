//! `nearfield-bench maxsim`: exact search for documents of several tokens each.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nearfield::io::write_npy;
use nearfield::{DocumentScore, ElementKind, Ivf, Matrix, MaxSimOptions, MultiVector, Ranking, TokenVectors};
use nearfield_testing::Random;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::case::Case;
use crate::run::{Run, Suite};
use crate::times::Parts;
use crate::units::rounded;
use nearfield_cli::given::arguments;

/// Made documents and queries.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Shape {
    /// Documents of the index
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = arguments::count)]
    pub(crate) documents: usize,
    /// Tokens of a document, on average: they have from half to one and a half as many
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = arguments::count)]
    pub(crate) tokens: usize,
    /// Tokens of a query
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = arguments::count)]
    pub(crate) query_tokens: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    shape: Shape,
    /// Elements of a token
    #[arg(long, default_value_t = 128, value_name = "N", value_parser = arguments::count)]
    dim: usize,
    /// Numbers of queries, one case each
    #[arg(long = "batch", value_delimiter = ',', default_value = "1,64", value_name = "Q,…", value_parser = arguments::count)]
    queries: Vec<usize>,
    /// Documents found for each query
    #[arg(short, long, default_value_t = 10, value_parser = arguments::count)]
    k: usize,
    /// Documents that are put in order, in place of all: chosen at random for each case
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    rerank: Option<usize>,
    /// Lists of tokens, which nominate documents: see --probes. Default: as many as Ivf::recommend says for the tokens
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    lists: Option<usize>,
    /// Lists that each token of a query probes, one case each: answers then have a recall. Without it all documents are searched
    #[arg(long, value_delimiter = ',', value_name = "P,…", value_parser = arguments::count)]
    probes: Vec<usize>,
    /// Tokens that each token of a query finds in its lists, whose documents are nominated
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = arguments::count)]
    candidates_per_token: usize,
    /// Nominated documents that are scored for each query
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = arguments::count)]
    candidates: usize,
    /// Queries of a case that are checked against all documents in f64
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = arguments::count)]
    verify: usize,
    /// How tokens are stored, and what they are rounded to: f32, f16, bf16 or i8
    #[arg(long, default_value = "f16", value_name = "TYPE", value_parser = arguments::word::<ElementKind>)]
    elements: ElementKind,
    /// Seed of the tokens
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

pub(crate) const HELP: &str = "\
Examples:
  nearfield-bench maxsim
  nearfield-bench maxsim --documents 1000000 --scratch 8GiB
  nearfield-bench maxsim --documents 5000 --tokens 300 --batch 1 --device host
  nearfield-bench maxsim --documents 100000 --probes 4,16,64

Documents have tokens of four of 64 topics, unit vectors; queries have tokens near those of a document. docs/benchmark.md says how cases \
are checked and timed, and lists the fields of the JSON lines.";

/// The number of topics, the tokens that each topic has, and the topics of a document.
const TOPICS: usize = 64;
const OF_TOPIC: usize = 4096;
const OF_DOCUMENT: usize = 4;

/// How far tokens are from their topic, and those of queries from those of a document: per element, for topics of length 1.
const SPREAD: f32 = 0.8;
const NOISE: f32 = 0.5;

/// Documents that are added at a time.
const PIECE: usize = 20_000;

/// Kinds of random numbers.
const TOKENS: u64 = 1;
const DOCUMENTS: u64 = 2;
const QUERIES: u64 = 3;
const CHOICE: u64 = 4;

/// The tokens that documents are made of.
struct Pool {
    shape: Shape,
    dim: usize,
    seed: u64,
    /// `[topics x tokens of each, dim]`, as they are stored.
    stored: Matrix,
    values: Vec<f32>,
}

/// Queries, `[queries, query tokens, dim]`.
struct Queries {
    values: Vec<f32>,
    offsets: Vec<usize>,
}

/// The name of made documents in lines.
pub(crate) fn data(seed: u64) -> String {
    format!("topics:{seed}")
}

/// Writes documents and queries of f16 to a folder, for other programs: `tokens.npy` `[tokens, dim]`, `offsets.npy` `[documents + 1, 1]` and
/// `token_queries.npy` `[queries x query tokens, dim]`.
pub(crate) fn write(folder: &Path, shape: Shape, (dim, seed): (usize, u64), queries: usize) -> Result<()> {
    let pool = Pool::new(shape, (dim, seed), ElementKind::F16);
    let (tokens, offsets) = pool.documents(0..shape.documents)?;
    let tokens = tokens.into_f32();
    write_npy(folder.join("tokens.npy"), [tokens.len() / dim, dim], &tokens)?;
    let offsets: Vec<i64> = offsets.into_iter().map(|offset| offset as i64).collect();
    write_npy(folder.join("offsets.npy"), [offsets.len(), 1], &offsets)?;
    let queries = pool.queries(queries);
    write_npy(folder.join("token_queries.npy"), [queries.values.len() / dim, dim], &queries.values)?;
    Ok(())
}

impl Pool {
    fn new(shape: Shape, (dim, seed): (usize, u64), elements: ElementKind) -> Self {
        let scale = (dim as f32).sqrt().recip();
        let mut values = vec![0.0; TOPICS * OF_TOPIC * dim];
        values.par_chunks_mut(OF_TOPIC * dim).enumerate().for_each(|(number, tokens)| {
            let random = &mut Random::of(seed, TOKENS, number as u64);
            let topic: Vec<f32> = (0..dim).map(|_| random.normal() * scale).collect();
            for token in tokens.chunks_exact_mut(dim) {
                token.iter_mut().zip(&topic).for_each(|(x, y)| *x = y + SPREAD * scale * random.normal());
                normalise(token);
            }
        });
        // Integers are rounded in steps of a hundredth.
        if elements == ElementKind::I8 {
            values.par_iter_mut().for_each(|x| *x = (*x * 100.0).round());
        }
        let stored = Matrix::F32(values, dim).to_kind(elements);
        let values = stored.clone().into_f32();
        Self { shape, dim, seed, stored, values }
    }

    fn token(&self, number: usize) -> &[f32] {
        &self.values[number * self.dim..][..self.dim]
    }

    /// The numbers of a document's tokens.
    fn document(&self, number: usize) -> Vec<usize> {
        let random = &mut Random::of(self.seed, DOCUMENTS, number as u64);
        let topics: [usize; OF_DOCUMENT] = std::array::from_fn(|_| random.below(TOPICS));
        let length = (self.shape.tokens / 2 + random.below(self.shape.tokens + 1)).max(1);
        (0..length).map(|_| topics[random.below(OF_DOCUMENT)] * OF_TOPIC + random.below(OF_TOPIC)).collect()
    }

    /// Tokens of documents, as they are stored, and their offsets.
    fn documents(&self, range: std::ops::Range<usize>) -> Result<(Matrix, Vec<usize>)> {
        let lists: Vec<Vec<usize>> = range.into_par_iter().map(|number| self.document(number)).collect();
        let mut offsets = vec![0];
        offsets.extend(lists.iter().scan(0, |end, list| {
            *end += list.len();
            Some(*end)
        }));
        let mut values = Vec::with_capacity(offsets[lists.len()] * self.dim);
        for list in &lists {
            list.iter().for_each(|&token| values.extend_from_slice(self.token(token)));
        }
        Ok((Matrix::F32(values, self.dim).to_kind(self.stored.kind()), offsets))
    }

    fn queries(&self, count: usize) -> Queries {
        let scale = NOISE * (self.dim as f32).sqrt().recip();
        let mut values = vec![];
        for number in 0..count {
            let random = &mut Random::of(self.seed, QUERIES, number as u64);
            let document = self.document(random.below(self.shape.documents));
            for _ in 0..self.shape.query_tokens {
                let near = self.token(document[random.below(document.len())]);
                let mut token: Vec<f32> = near.to_vec();
                normalise(&mut token);
                token.iter_mut().for_each(|x| *x += scale * random.normal());
                normalise(&mut token);
                values.extend(token);
            }
        }
        Queries { values, offsets: (0..=count).map(|query| query * self.shape.query_tokens).collect() }
    }

    /// Compares what was found for a query with all scores in f64. Gives the part of the nearest that was found: where all documents were
    /// searched, less than all is an error.
    fn check(
        &self,
        query: &[f32],
        allowed: &[usize],
        found: &[DocumentScore],
        wanted: (usize, bool),
    ) -> Result<f64> {
        let (dim, query_tokens, (k, is_exact)) = (self.dim, self.shape.query_tokens, wanted);
        let tokens: Vec<&[f32]> = query.chunks_exact(dim).collect();
        let products: Vec<f64> = (0..TOPICS * OF_TOPIC)
            .into_par_iter()
            .flat_map_iter(|number| {
                let token = self.token(number);
                tokens
                    .iter()
                    .map(move |own| own.iter().zip(token).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum())
            })
            .collect();
        let score = |&number: &usize| {
            let mut most = vec![f64::NEG_INFINITY; query_tokens];
            for token in self.document(number) {
                let own = &products[token * query_tokens..][..query_tokens];
                most.iter_mut().zip(own).for_each(|(most, &product)| *most = most.max(product));
            }
            (number as u64, most.iter().sum::<f64>())
        };
        let scores: Vec<(u64, f64)> = allowed.par_iter().map(score).collect();
        let longest = self.values.par_chunks(dim).map(|token| token.iter().map(|x| x * x).sum::<f32>());
        let longest = f64::from(longest.reduce(|| 0.0, f32::max).sqrt());
        let bound = query_tokens as f64 * longest * f64::from(f32::EPSILON) * (dim as f64 + 16.0);
        ensure!(found.len() == k.min(allowed.len()), "{} documents were found", found.len());
        for hit in found {
            let own =
                scores.iter().find(|(id, _)| *id == hit.id).context("a document that was not asked for")?;
            let off = (f64::from(hit.score) - own.1).abs();
            ensure!(
                off <= bound,
                "document {}: needed a score of {} +- {bound}, found {}",
                hit.id,
                own.1,
                hit.score
            );
        }
        let last = found.last().map_or(f64::NEG_INFINITY, |hit| f64::from(hit.score));
        let missing =
            scores.iter().find(|(id, score)| score - bound > last && !found.iter().any(|hit| hit.id == *id));
        ensure!(missing.is_none() || !is_exact, "{missing:?} was not found");
        ensure!(
            found.windows(2).all(|pair| (pair[1].score, pair[0].id) < (pair[0].score, pair[1].id)),
            "the order of documents is wrong"
        );
        let mut nearest: Vec<f64> = scores.iter().map(|(_, score)| *score).collect();
        nearest.sort_unstable_by(|a, b| b.total_cmp(a));
        let least = nearest[found.len() - 1] - bound;
        let right = found.iter().filter(|hit| f64::from(hit.score) >= least).count();
        Ok(right as f64 / found.len() as f64)
    }
}

fn normalise(vector: &mut [f32]) {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|x| *x /= length);
}

impl Suite for Args {
    fn run(&self, run: &mut Run) -> Result<()> {
        run.begin("maxsim", self.queries.len() * self.probes.len().max(1))?;
        let of = format!("{} x {} x {}", self.shape.documents, self.shape.tokens, self.dim);
        if run.is_over(&of)? {
            return Ok(());
        }
        let pool = Pool::new(self.shape, (self.dim, self.seed), self.elements);
        let capacity = self.shape.documents * (self.shape.tokens + 1) + self.shape.documents / 8;
        let builder = MultiVector::builder(&run.device, self.dim).elements(self.elements).capacity(capacity);
        let mut index = builder.build()?;
        for first in (0..self.shape.documents).step_by(PIECE) {
            let (tokens, offsets) = pool.documents(first..self.shape.documents.min(first + PIECE))?;
            index.add(&TokenVectors::new(&tokens, &offsets)?)?;
        }
        if !self.probes.is_empty() {
            index.build_lists(self.lists.unwrap_or_else(|| Ivf::recommend(index.tokens() as usize)))?;
        }
        let probes: Vec<Option<usize>> = match &self.probes[..] {
            [] => vec![None],
            all => all.iter().copied().map(Some).collect(),
        };
        for &count in &self.queries {
            for &probes in &probes {
                self.case(run, &pool, &index, (count, probes))?;
            }
        }
        Ok(())
    }
}

impl Args {
    fn case(
        &self,
        run: &mut Run,
        pool: &Pool,
        index: &MultiVector,
        (count, probes): (usize, Option<usize>),
    ) -> Result<()> {
        let elements: Option<Value> =
            (self.elements != ElementKind::F32).then(|| self.elements.name().into());
        let started = run.start(json!({
            "documents": self.shape.documents, "tokens": self.shape.tokens, "dim": self.dim, "queries": count,
            "query_tokens": self.shape.query_tokens, "k": self.k, "allowed": self.rerank, "elements": elements,
            "lists": probes.map(|_| index.lists()), "probes": probes,
            "candidates_per_token": probes.map(|_| self.candidates_per_token), "candidates": probes.map(|_| self.candidates),
            "data": data(self.seed), "scratch": run.scratch(),
        }))?;
        let Some(mut case) = started else { return Ok(()) };
        let queries = pool.queries(count);
        let allowed: Vec<usize> = match self.rerank {
            None => (0..self.shape.documents).collect(),
            Some(most) => {
                let random = &mut Random::of(self.seed, CHOICE, count as u64);
                let mut all: Vec<usize> = (0..self.shape.documents).collect();
                random.shuffle(&mut all);
                all.truncate(most);
                all
            }
        };
        let ids: Vec<u64> = allowed.iter().map(|&number| number as u64).collect();
        let view = nearfield_testing::view(&queries.values, self.dim);
        let tokens = TokenVectors::new(view, &queries.offsets)?;
        let mut options = MaxSimOptions::new(self.k);
        if self.rerank.is_some() {
            options = options.filter(&ids);
        }
        if let Some(probes) = probes {
            options = options
                .probes(probes)
                .candidates_per_token(self.candidates_per_token)
                .candidates(self.candidates);
        }
        let search =
            |options: &MaxSimOptions<'_>| -> Result<Ranking> { Ok(index.search_with(&tokens, options)?) };
        let found = search(&options)?;
        let checked = self.verify.min(count);
        let mut recall = 0.0;
        for number in 0..checked {
            let query = number * (count - 1) / (checked - 1).max(1);
            let own = &queries.values[query * self.shape.query_tokens * self.dim..]
                [..self.shape.query_tokens * self.dim];
            let right = pool.check(own, &allowed, found.row(query), (self.k, probes.is_none()));
            recall += right.with_context(|| format!("query {query}"))? / checked as f64;
        }
        let same = |again: &Ranking| -> Result<()> {
            let is_same = (0..count).all(|query| again.row(query) == found.row(query));
            ensure!(is_same, "a timed answer differs from the one that was checked");
            Ok(())
        };
        let mut parts = Parts::default();
        let (wall, on_device) = run.time(
            1,
            |_| {
                let started = Instant::now();
                let again = search(&options)?;
                let elapsed = started.elapsed();
                same(&again)?;
                Ok(elapsed)
            },
            |_| {
                let again = search(&options.profile(true))?;
                same(&again)?;
                Ok(parts.add(&again.statistics().stages))
            },
        )?;
        let stages = parts.medians();
        let rate = count as f64 / wall.median.as_secs_f64();
        let computed = found.statistics().computed as f64 / count as f64;
        case.add(json!({
            "queries_per_s": rounded(rate), "survivors_per_query": rounded(computed), "stages": stages.to_json(),
        }));
        let mut remarks =
            vec![format!("{rate:.0} queries/s"), format!("{computed:.0} documents computed a query")];
        if probes.is_some() {
            case.add(json!({"recall": rounded(recall)}));
            remarks.push(format!("recall@{} {recall:.3} of {checked} queries", self.k));
        }
        run.case(Case {
            wall,
            on_device,
            verified: json!(checked),
            rotated: 1,
            remarks,
            details: stages.texts().collect(),
            ..case
        })
    }
}
