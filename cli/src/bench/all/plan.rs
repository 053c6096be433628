//! The commands of `nearfield bench all`.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use nearfield::io::VectorFile;
use nearfield::{AdapterKind, Device, Ivf, Metric};

use super::super::data::asked_or;
use super::super::peers;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scale {
    Small,
    Medium,
    Large,
}

impl Scale {
    pub(super) fn of(device: &Device) -> Self {
        match device.adapter().kind {
            AdapterKind::Software | AdapterKind::Host => Self::Small,
            AdapterKind::Discrete => Self::Large,
            _ => Self::Medium,
        }
    }
}

/// The words of a command behind `nearfield bench`, and its share of the time.
pub(super) struct Planned {
    pub(super) words: Vec<String>,
    pub(super) weight: u32,
}

/// The files to search.
pub(super) struct Files {
    /// The arguments that name them.
    pub(super) words: [String; 6],
    pub(super) rows: usize,
    pub(super) queries: usize,
}

impl Files {
    pub(super) fn open(rows: &Path, queries: &Path, metric: Metric) -> Result<Self> {
        let shape = |argument: &str, file: &Path| -> Result<(usize, usize)> {
            let open = VectorFile::open(file).with_context(|| argument.to_owned())?;
            ensure!(open.rows() > 0, "{argument}: needed at least one vector, {} has none", file.display());
            Ok((open.rows(), open.dim()))
        };
        let [first, second] = [rows, queries].map(|file| file.display().to_string());
        let words = ["--rows-file", &first, "--queries-file", &second, "--metric", metric.name()];
        let ((rows, dim), (queries, given)) =
            (shape("--rows-file", rows)?, shape("--queries-file", queries)?);
        ensure!(dim == given, "--queries-file: needed dim {dim}, that of the rows, given {given}");
        Ok(Self { words: words.map(str::to_owned), rows, queries })
    }
}

/// Numbers of a command, of which none is larger than what there is.
fn up_to<const N: usize>(there: usize, numbers: [usize; N]) -> String {
    asked_or(&[], &numbers, there).iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// The commands of a scale. `@` stands for the files to search.
pub(super) fn plan(scale: Scale, is_gpu: bool, files: Option<&Files>) -> Vec<Planned> {
    let mut plan = vec![];
    let mut add = |weight: u32, text: &str| {
        let words = text.split_whitespace().flat_map(|word| match (word, files) {
            ("@", Some(files)) => files.words.to_vec(),
            _ => vec![word.to_owned()],
        });
        plan.push(Planned { words: words.collect(), weight });
    };
    // Of made vectors there are as many as a plan needs.
    let (rows_there, queries_there) =
        files.map_or((usize::MAX, usize::MAX), |files| (files.rows, files.queries));
    let lists_there = files.map_or(usize::MAX, |files| Ivf::recommend(files.rows));
    let (number, short, rows, dims) = match scale {
        Scale::Small => (1 << 22, 1 << 20, 10_000, [64, 128, 256]),
        Scale::Medium => (1 << 26, 1 << 24, 200_000, [64, 128, 384]),
        Scale::Large => (1 << 28, 1 << 26, 1_000_000, [128, 384, 768]),
    };
    let [low, middle, high] = dims;
    add(
        2,
        &format!(
            "reduce --operation dot,sum,sum-squares,mean,l1,l2,max-norm,min,max,argmin,argmax --length {number}"
        ),
    );
    add(1, &format!("reduce --operation dot,sum,min,argmin --elements f16 --length {number}"));
    add(1, &format!("reduce --operation dot,sum --summation compensated --length {number}"));
    add(1, &format!("reduce --operation dot,sum,min,argmin --length 1024,65536,1048576,{}", number / 16));
    add(2, &format!("reduce --operation sum,l2,min,argmin --row-length 4,16,64 --length {short}"));
    add(1, &format!("reduce --operation sum,l2,min,argmin --row-length 384,4096,65537 --length {number}"));
    if is_gpu {
        add(1, &format!("reduce --ladder --length {number}"));
        match scale {
            Scale::Small => add(2, "select --shapes 200x500,10x10000,1x100000,1x1000000 --k 1,10,100,2048"),
            _ => {
                add(
                    2,
                    "select --shapes 20000x500,1000x10000,100x100000,10x1000000 --k 1,2,4,8,16,32,64,128,256,512,1024,2048",
                );
                add(2, "select --shapes 100x1000000,1x1000000,1000x100000 --k 10,512,2048,10000,100000");
            }
        }
    }
    // What is asked for of made vectors by default.
    let k = files.map_or_else(String::new, |files| format!(" -k {}", files.rows.min(10)));
    let search = match (files, scale) {
        (Some(_), _) => "@".to_owned(),
        (None, Scale::Small) => format!("--data embedding --rows {rows} --dim {high}"),
        (None, _) => format!("--data low-rank --rows {rows} --dim {high}"),
    };
    let most = if scale == Scale::Large { 10_000 } else { 1000 };
    match scale {
        Scale::Small => {
            add(1, &format!("distance --rows 4096 --dim {middle} --queries 1,64 --metric l2sq,cosine"));
            let queries = up_to(queries_there, [1, 16, 256]);
            add(3, &format!("exact {search}{k} --queries {queries} --screen i8,none"));
            add(
                2,
                &format!(
                    "exact --data embedding --rows {rows} --dim {middle} --sizes 1000,3000,{rows} --queries 1,64"
                ),
            );
            add(1, &format!("exact --data embedding --rows 5000 --dim {low} --queries 1,64"));
            add(1, &format!("exact --data embedding --rows 5000 --dim {high} --queries 1,64"));
            // Training is slow on a software driver.
            let vectors =
                if files.is_some() { search } else { format!("--data embedding --rows 5000 --dim {low}") };
            let lists = rows_there.min(300);
            let (probes, queries) = (up_to(lists, [1, 4, 16, 64]), up_to(queries_there, [1, 64]));
            add(
                2,
                &format!(
                    "ivf {vectors}{k} --lists {lists} --iterations 2 --probes {probes} --queries {queries}"
                ),
            );
        }
        _ => {
            add(1, &format!("distance --rows 100000 --dim {middle} --queries 1,16,256 --metric l2sq,cosine"));
            add(1, &format!("distance --rows 100000 --dim {high} --queries 256 --metric l2sq,ip"));
            let queries = up_to(queries_there, [1, 8, 100, 1024, most]);
            add(3, &format!("exact {search} --queries {queries} -k {}", up_to(rows_there, [10, 100])));
            let queries = up_to(queries_there, [1, 128, 1024]);
            add(2, &format!("exact {search}{k} --queries {queries} --screen none"));
            let sizes = format!("1000,10000,100000,{rows}");
            add(
                2,
                &format!(
                    "exact --data low-rank --rows {rows} --dim {middle} --sizes {sizes} --queries 1,1024"
                ),
            );
            add(
                2,
                &format!(
                    "exact --data low-rank --rows {rows} --dim {low} --queries 1,1024,{most} --metric cosine,l2sq"
                ),
            );
            let probes = up_to(lists_there, [1, 4, 16, 64]);
            let queries = up_to(queries_there, [1, 100, most]);
            add(4, &format!("ivf {search}{k} --probes {probes} --queries {queries}"));
            add(
                2,
                &format!(
                    "ivf --data low-rank --rows {rows} --dim {low} --probes 1,4,16,64 --queries 1,{most}"
                ),
            );
        }
    }
    if is_gpu {
        let (sizes, queries) = match scale {
            Scale::Small => ("1000,3000,10000", "1,8,64"),
            _ => ("1000,3000,10000,30000,100000", "1,4,16,64,256"),
        };
        let most = sizes.rsplit(',').next().unwrap_or(sizes);
        add(2, &format!("breakeven --rows {most} --dim {middle} --sizes {sizes} --queries {queries}"));
    }
    plan
}

/// What the peers do beside a plan: the work of the first command of each suite that they have.
pub(super) fn beside(plan: &[Planned], is_processor: bool, python: &Path) -> Vec<Planned> {
    let mut commands = vec![];
    // Those that compute where we do: the others take minutes for what is seconds here.
    let names = if is_processor { "numpy,faiss-cpu,usearch" } else { "torch,cuvs,faiss-gpu" };
    for (suite, weight) in [("exact", 3), ("ivf", 3), ("select", 1), ("reduce", 1)] {
        let Some(first) = plan.iter().find(|planned| planned.words.first().is_some_and(|word| word == suite))
        else {
            continue;
        };
        let mut words = ["peers", "--suites", suite, "--peers", names].map(str::to_owned).to_vec();
        for option in first.words[1..].chunks(2) {
            match option {
                // Of ours alone.
                [name, _] if ["--screen", "--operation", "--iterations"].contains(&name.as_str()) => {}
                [name, value] if name == "--k" => words.extend(["--select-k".to_owned(), value.clone()]),
                other => words.extend_from_slice(other),
            }
        }
        if python != Path::new(peers::PYTHON) {
            words.extend(["--python".to_owned(), python.display().to_string()]);
        }
        commands.push(Planned { words, weight });
    }
    commands
}
