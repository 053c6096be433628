//! `nearfield build`, `show` and `search` of documents of several token vectors each, against MaxSim in f64.

use std::fs;

use anyhow::{Result, ensure};
use nearfield::io::VectorFile;
use nearfield_testing::Random;
use nearfield_testing::programs::lines;
use serde_json::json;

use crate::Here;
use crate::search::list;

const DIM: usize = 12;
const DOCUMENTS: usize = 60;

/// Groups of tokens, with where each begins.
struct Tokens(Vec<f32>, Vec<i64>);

impl Tokens {
    fn new(random: &mut Random, groups: usize) -> Self {
        let mut offsets = vec![0];
        (0..groups).for_each(|group| offsets.push(offsets[group] + 1 + random.below(6) as i64));
        Self(random.floats(offsets[groups] as usize * DIM), offsets)
    }

    fn write(&self, here: &Here, name: &str, dtype: &str) -> Result<()> {
        here.write(&format!("{name}.npy"), [self.0.len() / DIM, DIM], &self.0)?;
        list(&here.at(&format!("{name}.at.npy")), dtype, self.1.iter().copied())
    }

    fn groups(&self) -> impl Iterator<Item = &[f32]> {
        self.1.windows(2).map(|ends| &self.0[ends[0] as usize * DIM..ends[1] as usize * DIM])
    }

    /// The documents of largest MaxSim, with their scores, among those that are allowed.
    fn nearest(&self, query: &[f32], allowed: impl Fn(usize) -> bool) -> Vec<(usize, f64)> {
        let product = |a: &[f32], b: &[f32]| -> f64 {
            a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
        };
        let score = |document: &[f32]| -> f64 {
            let most = |token: &[f32]| {
                document.chunks(DIM).map(|other| product(token, other)).fold(f64::NEG_INFINITY, f64::max)
            };
            query.chunks(DIM).map(most).sum()
        };
        let documents = self.groups().enumerate().filter(|(id, _)| allowed(*id));
        let mut all: Vec<_> = documents.map(|(id, document)| (id, score(document))).collect();
        all.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        all
    }
}

/// Documents in `d.npy` and `d.at.npy`, queries in `q.npy` and `q.at.npy`, and their answers.
fn given() -> Result<(Here, Tokens, Tokens)> {
    let (here, mut random) = (Here::new()?, Random::new(7));
    let (documents, queries) = (Tokens::new(&mut random, DOCUMENTS), Tokens::new(&mut random, 5));
    documents.write(&here, "d", "<i8")?;
    queries.write(&here, "q", "<u4")?;
    list(&here.at("ids.npy"), "<i8", (0..DOCUMENTS as i64).map(|id| 1000 - id))?;
    let names: String = (0..DOCUMENTS).map(|document| format!("text {document}\n")).collect();
    fs::write(here.at("names.txt"), names)?;
    Ok((here, documents, queries))
}

const BUILD: &str = "build --device host --rows d.npy --tokens d.at.npy";
const OF_ROWS: &str = "search --device host --queries q.npy --rows d.npy --tokens d.at.npy";
const OF_INDEX: &str = "search --device host --queries q.npy --index-file docs.nf";

/// Compares ids and scores with the truth.
fn check(found: &[(i64, f32)], truth: &[(usize, f64)], about: &str) -> Result<()> {
    for (&(id, score), &(wanted, exact)) in found.iter().zip(truth) {
        ensure!(id == wanted as i64, "{about}: found {id}, needed {wanted}");
        ensure!((f64::from(score) - exact).abs() < 1e-5, "{about}: {id} scores {score}, not {exact}");
    }
    Ok(())
}

#[test]
fn rows_and_a_saved_index_give_the_documents_of_largest_maxsim() -> Result<()> {
    let (here, documents, queries) = given()?;
    let built = here.record(&format!("{BUILD} --out docs.nf"))?;
    assert_eq!(
        (&built["documents"], &built["index"], &built["lists"]),
        (&json!(DOCUMENTS), &json!("multivector"), &json!(null))
    );
    assert_eq!(built["tokens"], json!(documents.0.len() / DIM));
    let in_files = [OF_ROWS, OF_INDEX].map(|search| format!("{search} --residency mapped"));
    for search in [OF_ROWS, OF_INDEX, &in_files[0], &in_files[1]] {
        let more = "--query-tokens q.at.npy -k 7 --ids ids7.npy --scores scores.npy --out found.npz --force";
        let record = here.record(&format!("{search} {more}"))?;
        assert_eq!((&record["queries"], &record["k"], &record["found"]), (&json!(5), &json!(7), &json!(35)));
        assert_eq!((&record["dim"], &record["scores"]), (&json!(DIM), &json!("scores.npy")), "{record}");
        let ids = here.ids("ids7.npy")?;
        ensure!(here.ids("found.npz")? == ids, "{search}: other ids in the npz");
        let scores = VectorFile::open(here.at("scores.npy"))?.read_all()?.into_f32();
        ensure!(VectorFile::open(here.at("found.npz:scores"))?.read_all()?.into_f32() == scores);
        let found: Vec<(i64, f32)> = ids.values.iter().copied().zip(scores).collect();
        for (query, found) in queries.groups().zip(found.chunks(7)) {
            check(found, &documents.nearest(query, |_| true), search)?;
        }
        // All rows are the tokens of one query.
        here.run(&format!("{search} -k 70 --out one.jsonl --force"))?;
        let one = lines(&here.text("one.jsonl")?)?;
        let truth = documents.nearest(&queries.0, |_| true);
        let wanted: Vec<usize> = truth.iter().map(|hit| hit.0).collect();
        assert_eq!((one.len(), &one[0]["ids"]), (1, &json!(wanted)));
        ensure!(one[0]["scores"].as_array().is_some_and(|scores| scores.len() == DOCUMENTS), "{one:?}");
    }
    Ok(())
}

#[test]
fn lists_nominate_documents() -> Result<()> {
    let (here, documents, queries) = given()?;
    here.run(&format!("{BUILD} --lists 4 --elements f16 --out docs.nf"))?;
    let shown = here.record("show docs.nf")?;
    let tokens = documents.0.len() / DIM;
    for (name, wanted) in [
        ("index", json!("multivector")),
        ("documents", json!(DOCUMENTS)),
        ("tokens", json!(tokens)),
        ("dim", json!(DIM)),
        ("elements", json!("f16")),
        ("lists", json!({ "count": 4 })),
    ] {
        assert_eq!(shown[name], wanted, "{name}");
    }
    let printed = here.run("show docs.nf")?;
    for part in ["multivector, docs.nf", "documents  60", &format!("{tokens} x 12 f16"), "4 of tokens"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let search = format!("{OF_INDEX} --query-tokens q.at.npy -k 1 --probes");
    let record = here.record(&format!("{search} 4 --ids one.npy"))?;
    assert!(record["computed"].as_u64().is_some_and(|computed| computed > 0), "{record}");
    // In all lists, a token of the nearest document is among the 64 nearest of a query's token.
    let wanted: Vec<i64> =
        queries.groups().map(|query| documents.nearest(query, |_| true)[0].0 as i64).collect();
    assert_eq!(here.ids("one.npy")?.values, wanted);
    assert!(here.run(&format!("{search} 1"))?.contains("in 1 of 4 lists"));
    here.fail(OF_INDEX, &[("--probes 5", &["--probes: needed 1 to 4", "given 5"])])
}

#[test]
fn documents_have_ids_names_and_filters() -> Result<()> {
    let (here, documents, queries) = given()?;
    list(&here.at("few.npy"), "<i8", [1000, 990, 970, 5])?;
    let truth = documents.nearest(&queries.0, |document| [0, 10, 30].contains(&document));
    let more = "--filter few.npy --out found.csv --force -k 3";
    let named = format!("{more} --labels names.txt");
    here.run(&format!("{BUILD} --row-ids ids.npy --out docs.nf"))?;
    for (search, is_named) in
        [(format!("{OF_ROWS} --row-ids ids.npy {named}"), true), (format!("{OF_INDEX} {more}"), false)]
    {
        let said = here.said(&search, true)?;
        assert!(said.contains("--filter: 1 of 4 ids are those of no document"), "{said}");
        let text = here.text("found.csv")?;
        let header = if is_named { "query,rank,id,score,label" } else { "query,rank,id,score" };
        assert_eq!(text.lines().next(), Some(header));
        assert_eq!(text.lines().count(), 4, "{text}");
        for (line, (document, score)) in text.lines().skip(1).zip(&truth) {
            let fields: Vec<&str> = line.split(',').collect();
            assert_eq!(fields[2], (1000 - document).to_string(), "{text}");
            assert!((fields[3].parse::<f64>()? - score).abs() < 1e-5, "{text}");
            assert_eq!(fields.get(4).copied(), is_named.then_some(format!("text {document}").as_str()));
        }
        let record = here.record(&search)?;
        assert_eq!(record["allowed_documents"], json!(3), "{record}");
    }
    let printed = here.run(&format!("{OF_ROWS} --labels names.txt -k 2 --show 1"))?;
    let (nearest, _) = documents.nearest(&queries.0, |_| true)[0];
    assert!(printed.contains(&format!("query 0    text {nearest} (id {nearest}) at ")), "{printed}");
    fs::write(here.at("short.txt"), "one\n")?;
    here.fail(OF_ROWS, &[("--labels short.txt", &["needed 60 lines, one a document, given 1"])])?;
    here.fail(OF_INDEX, &[("--labels names.txt", &["a line for id 1000, the largest"])])
}

#[test]
fn wrong_offsets_and_options_without_a_sense_are_refused() -> Result<()> {
    let (here, documents, _) = given()?;
    let last = documents.0.len() as i64 / DIM as i64;
    let named = [
        ("late", vec![1, last]),
        ("short", vec![0, last - 1]),
        ("none", vec![]),
        ("back", vec![0, 5, 3, last]),
        ("empty", vec![0, 5, 5, last]),
        ("negative", vec![0, -5, last]),
    ];
    for (name, values) in named {
        list(&here.at(&format!("{name}.npy")), "<i8", values)?;
    }
    let to = format!("from 0 to {last}, the number of tokens");
    let given = [format!("given 1 to {last}"), format!("given 0 to {}", last - 1)];
    let cases: [(&str, &[&str]); 8] = [
        ("late.npy", &["--tokens late.npy", &to, &given[0]]),
        ("short.npy", &["--tokens short.npy", &to, &given[1]]),
        ("none.npy", &["--tokens none.npy", &to, "given none to none"]),
        ("back.npy", &["give each document a token", "given 5 and 3 for document 1"]),
        ("empty.npy", &["give each document a token", "given 5 and 5 for document 1"]),
        ("negative.npy", &["--tokens", "negative.npy", "-5 at 1"]),
        ("d.npy", &["--tokens", "d.npy", "<f4"]),
        ("missing.npy", &["--tokens", "missing.npy"]),
    ];
    here.fail("build --device host --rows d.npy --out docs.nf --tokens", &cases)?;
    here.fail("search --device host --rows d.npy --queries q.npy --tokens", &cases)?;
    here.fail(
        OF_ROWS,
        &[
            ("--query-tokens d.at.npy", &["--query-tokens d.at.npy", "the number of tokens"]),
            ("--query-tokens empty.npy", &["--query-tokens empty.npy"]),
            ("--metric ip", &["--tokens", "--metric"]),
            ("--bits", &["--tokens", "--bits"]),
            ("--radius 1", &["--tokens", "--radius"]),
            ("--quantization none", &["--tokens", "--quantization"]),
            ("--residency mapped --row-ids ids.npy", &["--residency mapped", "given --row-ids"]),
            ("--truth q.npy", &["--tokens", "--truth"]),
            ("--probes 2", &["--probes", "--rows"]),
            (
                "--query-tokens q.at.npy --ids q.at.npy --force",
                &["--ids: needed a file of its own", "--query-tokens"],
            ),
        ],
    )?;
    here.fail(
        &format!("{BUILD} --out docs.nf"),
        &[
            ("--metric ip", &["--tokens", "--metric"]),
            ("--index ivf", &["--tokens", "--index"]),
            ("--bits", &["--tokens", "--bits"]),
            ("--elements bits", &["--elements: needed a type of numbers for documents, given bits"]),
            ("--store f16", &["--tokens", "--store"]),
            ("--lists 4 --iterations 3", &["--tokens", "--iterations"]),
            ("--lists 4 --seed 3", &["--tokens", "--seed"]),
            ("--quantization none", &["--tokens", "--quantization"]),
            ("--residency mapped --elements f16", &["--residency mapped", "given --elements"]),
            ("--lists 100000", &["--lists: needed 1 to", "the number of tokens, given 100000"]),
            ("--row-ids d.at.npy", &["--row-ids d.at.npy: needed 60 ids, one a document, given 61"]),
        ],
    )?;
    here.run(&format!("{BUILD} --out docs.nf"))?;
    here.run("build --device host --rows d.npy --out rows.nf")?;
    here.fail(
        OF_INDEX,
        &[
            ("--radius 1", &["--radius: needed an index of rows, docs.nf has documents"]),
            ("--recall 0.9", &["--recall: needed an index of rows"]),
            ("--truth q.npy", &["--truth: needed an index of rows"]),
            ("--probes 2", &["--probes: needed lists of tokens", "docs.nf has none"]),
            ("--tokens d.at.npy", &["--tokens", "--index-file"]),
        ],
    )?;
    for search in ["--rows d.npy", "--index-file rows.nf"] {
        here.fail(
            &format!("search --device host --queries q.npy {search} --query-tokens q.at.npy"),
            &[("", &["--query-tokens: needed documents, by --tokens or in --index-file", "has rows"])],
        )?;
    }
    Ok(())
}

#[test]
fn a_number_that_no_token_may_be_is_named_by_its_row() -> Result<()> {
    let (here, mut documents, _) = given()?;
    let last = documents.0.len() - 1;
    documents.0[last] = f32::NAN;
    documents.write(&here, "bad", "<i8")?;
    let row = format!("row {}", last / DIM);
    here.fail(
        "build --device host --out docs.nf",
        &[("--rows bad.npy --tokens bad.at.npy", &["--rows bad.npy", &row])],
    )?;
    here.fail(
        "search --device host --rows d.npy --tokens d.at.npy",
        &[("--queries bad.npy --query-tokens bad.at.npy", &["--queries bad.npy", &row])],
    )
}
