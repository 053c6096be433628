//! The commands of `nearfield-bench all`.

use std::path::Path;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use nearfield::{AdapterKind, Device, Ivf, Metric};

use super::super::data::asked_or;
use nearfield_cli::given::files;

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

/// A command after `nearfield-bench`, and its share of the time.
pub(super) struct Planned {
    pub(super) words: Vec<String>,
    pub(super) weight: u32,
}

impl Planned {
    /// A command of options that contain no spaces, and of further words.
    fn new(weight: u32, options: &str, more: &[String]) -> Self {
        Self { words: split(options).chain(more.iter().cloned()).collect(), weight }
    }
}

fn split(options: &str) -> impl Iterator<Item = String> + use<'_> {
    options.split_whitespace().map(str::to_owned)
}

/// The files to search: the options that select them, and what they hold.
pub(super) struct Files {
    options: Vec<String>,
    rows: usize,
    queries: usize,
}

impl Files {
    pub(super) fn open(rows_file: &Path, queries_file: &Path, metric: Metric) -> Result<Self> {
        let shape = |argument: &str, file: &Path| -> Result<(usize, usize)> {
            let open = files::open(file, argument)?;
            ensure!(open.rows() > 0, "{argument}: needed at least one vector, {} has none", file.display());
            Ok((open.rows(), open.dim()))
        };
        let (rows, dim) = shape("--rows", rows_file)?;
        let (queries, given) = shape("--queries", queries_file)?;
        ensure!(dim == given, "--queries: needed dim {dim}, that of the rows, given {given}");
        let [rows_file, queries_file] = [rows_file, queries_file].map(|file| file.display().to_string());
        let options = ["--rows", &rows_file, "--queries", &queries_file, "--metric", metric.name()];
        Ok(Self { options: options.map(str::to_owned).into(), rows, queries })
    }
}

/// Commands of the small scale, as [`LARGE`].
const SMALL: [&str; 3] = [
    "\
made 3 exact --quantization int8,none --batch 1,16,256 --data embedding --count ROWS --dim HIGH
made 1 serve --threads 1,8 --duration 1s --data embedding --count ROWS --dim HIGH
any 2 exact --sizes 1000,3000,ROWS --batch 1,64 --data embedding --count ROWS --dim MIDDLE
any 1 exact --batch 1,64 --data embedding --count 5000 --dim LOW
any 1 exact --batch 1,64 --data embedding --count 5000 --dim HIGH
made 2 ivf --lists 300 --iterations 2 --probes 1,4,16,64 --batch 1,64 --data embedding --count 5000 --dim LOW
any 1 graph --k 15 --radius 0.05 --data embedding --count 5000 --dim MIDDLE
any 1 maxsim --documents 500 --tokens 40 --dim 64
any 1 distance --count 4096 --dim MIDDLE --batch 1,64 --metric l2sq,cosine",
    REDUCE,
    "\
gpu 2 select --shapes 200x500,10x10000,1x100000,1x1000000 --k 1,10,100,2048
gpu 2 breakeven --dim MIDDLE --count 10000 --sizes 1000,3000,10000 --batch 1,8,64",
];

/// Commands of the other scales: when they run (without files, always, or on a GPU), their share of the time, and words. Searches come
/// first: they are what most want to know, and the time may end before the rest.
const LARGE: [&str; 3] = [
    "\
made 3 exact --batch 1,8,100,1024,MOST --k 10,100 --data low-rank --count ROWS --dim HIGH
made 2 exact --quantization none --batch 1,128,1024 --data low-rank --count ROWS --dim HIGH
made 4 ivf --probes 1,4,16,64 --batch 1,100,MOST --data low-rank --count ROWS --dim HIGH
made 2 serve --threads 1,4,16,64 --data low-rank --count ROWS --dim HIGH
made 2 serve --threads 1,4,16,64 --probes 16 --data low-rank --count ROWS --dim HIGH
any 2 exact --sizes 1000,10000,100000,ROWS --batch 1,1024 --data low-rank --count ROWS --dim MIDDLE
any 2 exact --metric cosine,l2sq --batch 1,1024,MOST --data low-rank --count ROWS --dim LOW
any 2 ivf --probes 1,4,16,64 --batch 1,MOST --data low-rank --count ROWS --dim LOW
any 1 graph --k 15,100 --radius 0.05 --data low-rank --count 100000 --dim MIDDLE
any 1 maxsim --documents 100000
any 1 distance --count 100000 --dim MIDDLE --batch 1,16,256 --metric l2sq,cosine
any 1 distance --count 100000 --dim HIGH --batch 256 --metric l2sq,ip",
    REDUCE,
    "\
gpu 2 select --shapes 20000x500,1000x10000,100x100000,10x1000000 --k 1,2,4,8,16,32,64,128,256,512,1024,2048
gpu 2 select --shapes 100x1000000,1x1000000,1000x100000 --k 10,512,2048,10000,100000
gpu 2 breakeven --dim MIDDLE --count 100000 --sizes 1000,3000,10000,30000,100000 --batch 1,4,16,64,256",
];

const REDUCE: &str = "\
any 2 reduce --operation dot,sum,sum-squares,mean,norm-l1,norm-l2,norm-max,std,min,max,argmin,argmax --length LENGTH
any 1 reduce --elements f16 --length LENGTH
any 1 reduce --operation dot,sum --summation compensated --length LENGTH
any 1 reduce --length 1024,65536,1048576,PART
any 2 reduce --operation sum,norm-l2,min,argmin --row-length 4,16,64 --length SHORT
any 1 reduce --operation sum,norm-l2,min,argmin --row-length 384,4096,65537 --length LENGTH";

/// The commands of a scale. Those of files come before all others.
pub(super) fn plan(scale: Scale, is_gpu: bool, files: Option<&Files>) -> Vec<Planned> {
    let (length, short, rows, [low, middle, high], most) = match scale {
        Scale::Small => (1 << 22, 1 << 20, 10_000, [64, 128, 256], 1000),
        Scale::Medium => (1 << 26, 1 << 24, 200_000, [64, 128, 384], 1000),
        Scale::Large => (1 << 28, 1 << 26, 1_000_000, [128, 384, 768], 10_000),
    };
    let numbers = [
        ("LENGTH", length),
        ("SHORT", short),
        ("PART", length / 16),
        ("ROWS", rows),
        ("LOW", low),
        ("MIDDLE", middle),
        ("HIGH", high),
        ("MOST", most),
    ];
    let mut plan = files.map_or(vec![], |files| of_files(scale, most, files));
    let texts = if scale == Scale::Small { SMALL } else { LARGE };
    for line in texts.iter().flat_map(|text| text.lines()) {
        let fill = |text: String, (name, number): (&str, usize)| text.replace(name, &number.to_string());
        let mut words = split(&numbers.into_iter().fold(line.to_owned(), fill)).collect::<Vec<_>>();
        let runs = match words[0].as_str() {
            "made" => files.is_none(),
            "gpu" => is_gpu,
            _ => true,
        };
        if let (true, Ok(weight)) = (runs, words[1].parse()) {
            plan.push(Planned { words: words.split_off(2), weight });
        }
    }
    plan
}

/// The searches of files, by indexes as `nearfield build` makes them, with no more queries, neighbours and probes than there can be.
fn of_files(scale: Scale, most: usize, files: &Files) -> Vec<Planned> {
    let at_most = |numbers: &[usize], most: usize| {
        let numbers = asked_or(&[], numbers, most);
        numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
    };
    let (queries, k) = (|numbers: &[usize]| at_most(numbers, files.queries), at_most(&[10], files.rows));
    let lists = Ivf::recommend(files.rows);
    // A 64th of the lists is what a search probes that does not say how many.
    let usual = (lists / 64).max(1);
    let mut probes = vec![1, 4, 16, 64, usual];
    probes.sort_unstable();
    let (probes, usual) = (at_most(&probes, lists), usual.to_string());
    let add = |weight, options: String| Planned::new(weight, &options, &files.options);
    let (several, few, threads) = match scale {
        Scale::Small => (queries(&[1, 16, 256]), queries(&[1, 64]), "1,8 --duration 1s"),
        _ => (queries(&[1, 8, 100, 1024, most]), queries(&[1, 100, most]), "1,4,16,64"),
    };
    vec![
        add(4, format!("exact --batch {several} --k {}", at_most(&[10, 100], files.rows))),
        add(5, format!("ivf --probes {probes} --batch {few} --k {k}")),
        add(2, format!("serve --threads {threads} --k {k}")),
        add(2, format!("serve --threads {threads} --probes {usual} --k {k}")),
        add(2, format!("exact --quantization none --batch {} --k {k}", queries(&[1, 128, 1024]))),
    ]
}

/// The commands of the peers beside a plan: the work of the first command of each suite that they have.
pub(super) fn beside(plan: &[Planned], is_processor: bool, python: &Path) -> Vec<Planned> {
    const SHARED: &str = "--rows --queries --data --count --dim --batch --k --metric --lists --probes \
        --shapes --length";
    // Only peers on the same kind of processor: the others take minutes for what takes seconds here.
    let peers = if is_processor { "numpy,scipy,faiss-cpu,usearch,hnswlib" } else { "torch,cuvs,faiss-gpu" };
    let suites = [("exact", 3), ("ivf", 3), ("distance", 1), ("select", 1), ("reduce", 1)].into_iter();
    let steps = suites.filter_map(|(suite, weight)| {
        let like = plan.iter().find(|planned| planned.words[0] == suite)?;
        let mut more = vec!["--python".to_owned(), python.display().to_string()];
        for option in like.words[1..].chunks(2).filter(|option| split(SHARED).any(|name| name == option[0])) {
            let name =
                if suite == "select" { option[0].replace("--k", "--select-k") } else { option[0].clone() };
            // Peers compute one metric in a run: the first.
            let value = if name == "--metric" { option[1].split(',').next() } else { None };
            more.extend([name, value.unwrap_or(&option[1]).to_owned()]);
        }
        Some(Planned::new(weight, &format!("peers --suites {suite} --peers {peers}"), &more))
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::super::super::step::Step;
    use super::*;

    #[test]
    fn every_planned_command_is_one() -> Result<()> {
        let options = ["--rows", "a", "--queries", "b c", "--metric", "l2"].map(str::to_owned).into();
        let few = Files { options, rows: 500, queries: 7 };
        for scale in [Scale::Small, Scale::Medium, Scale::Large] {
            for (is_gpu, files) in [(true, None), (true, Some(&few)), (false, None), (false, Some(&few))] {
                let mut plan = plan(scale, is_gpu, files);
                let of_files = plan.iter().map(|planned| planned.words.iter().any(|word| word == "--rows"));
                assert!(of_files.is_sorted_by(|one, next| one >= next), "searches of files come first");
                assert_eq!(plan[0].words[0], "exact");
                let peers = beside(&plan, !is_gpu, Path::new("venv/bin/python"));
                assert_eq!(peers.len(), if is_gpu { 5 } else { 4 });
                plan.extend(peers);
                for Planned { words, .. } in plan {
                    let text = words.join(" ");
                    Step::parse(&words).with_context(|| text.clone())?;
                    // No more is asked of files than they have. Each search of `serve` is for one query.
                    if text.contains("--rows a") && !text.starts_with("serve") {
                        assert!(text.contains(" --batch 1,7"), "{text}");
                        assert!(!text.contains("--probes") || text.contains("--probes 1,4,15 "), "{text}");
                    }
                }
            }
        }
        Ok(())
    }
}
