//! The source keeps the order of `docs/architecture.md`: no file uses a layer above its own, no two files use each
//! other, wgpu stays in `src/gpu`, and folders stay small. These tests read source text, so they need no adapter.

mod sources;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use sources::Crate;

/// Files outside `src/gpu` that may name wgpu: the doors to a program's own device, encoder and buffers, and its
/// re-export.
const NAMES_WGPU: &[&str] = &[
    "lib.rs",
    "engine/device/handle.rs",
    "engine/device/matrices.rs",
    "engine/device/record.rs",
    "engine/device/values.rs",
];

/// Lines of a file of the library.
const MOST_LINES: usize = 400;

/// Files in one folder, without its `mod.rs`, `lib.rs` or `main.rs`.
const MOST_IN_A_FOLDER: usize = 14;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn library() -> Crate {
    Crate::read(&repository().join("src"))
}

/// Fails with every offence against a rule.
fn assert_none(rule: &str, offences: BTreeSet<String>) {
    let lines: String = offences.into_iter().map(|files| format!("{rule}: {files}\n")).collect();
    assert!(lines.is_empty(), "offences:\n{lines}");
}

/// A source distribution for Python has the manifest without the tests, which it must not name then.
#[test]
fn the_manifest_names_no_file_that_packages_lack() {
    let manifest =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).expect("a manifest");
    assert!(!manifest.contains("[[test]]") && !manifest.contains("[[bench]]"));
}

#[test]
fn no_two_files_use_each_other() {
    let mut circles = BTreeSet::new();
    for folder in
        ["src", "bench/src", "cli/src", "testing/src", "sql/cli/src", "sql/cluster/src", "sql/datafusion/src"]
    {
        for circle in Crate::read(&repository().join(folder)).circles() {
            circles
                .insert(circle.iter().map(|file| format!("{folder}/{file}")).collect::<Vec<_>>().join(" "));
        }
    }
    assert_none("circle", circles);
}

/// Only the blocking calls block: a future that blocks stops its executor, and hangs a browser.
#[test]
fn nothing_below_the_blocking_calls_blocks() {
    const DOORS: &[&str] = &[
        "future.rs",
        "gpu/blocked.rs",
        "gpu/device.rs",
        "engine/device/engine.rs",
        "engine/device/handle.rs",
        // A log is written with blocking calls alone.
        "index/durable/checkpoint.rs",
        "index/durable/follower.rs",
        "index/durable/mod.rs",
        // Inside of a blocking call, the work of each device blocks a thread of its own.
        "engine/parts/devices.rs",
        "engine/parts/together.rs",
        "internals/mod.rs",
        "internals/slots.rs",
    ];
    let mut blocking = BTreeSet::new();
    for file in library().files().filter(|file| !DOORS.contains(file)) {
        let text = fs::read_to_string(repository().join("src").join(file)).expect("source text");
        // The tests of a file come last.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        blocking.extend(code.contains("block_on(").then(|| file.to_owned()));
    }
    assert_none("blocks", blocking);
}

/// The layers of the document, lowest first: modules of one line may use each other.
fn layers() -> Vec<Vec<String>> {
    let document = fs::read_to_string(repository().join("docs/architecture.md")).expect("the document");
    let (_, behind) = document.split_once("```layers\n").expect("docs/architecture.md has a block `layers`");
    let (block, _) = behind.split_once("```").expect("the block ends");
    block.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

#[test]
fn files_use_their_own_layer_and_those_below() {
    let layers = layers();
    let layer_of = |file: &str| {
        let module = file.trim_end_matches(".rs");
        let is_in = |layer: &&String| module == *layer || module.starts_with(&format!("{layer}/"));
        let found = |layer: &Vec<String>| layer.iter().filter(is_in).map(String::len).max();
        // `files/io` is of the layer that names it, not of the one that names `files`.
        let best = layers.iter().enumerate().filter_map(|(place, layer)| Some((found(layer)?, place))).max();
        best.map(|(_, place)| place)
    };
    let read = library();
    let mut upward = BTreeSet::new();
    let mut without = BTreeSet::new();
    for (user, used) in read.uses() {
        // The root re-exports everything, and nothing below it uses the root.
        if user == "lib.rs" {
            continue;
        }
        match (layer_of(user), layer_of(used)) {
            (Some(own), Some(other)) if own >= other => {}
            (Some(_), Some(_)) => drop(upward.insert(format!("{user} {used}"))),
            (own, other) => {
                without.extend(own.is_none().then(|| user.to_owned()));
                without.extend(other.is_none().then(|| used.to_owned()));
            }
        }
    }
    assert!(without.is_empty(), "in no layer of docs/architecture.md: {without:?}");
    let named = layers.iter().flatten().filter(|layer| {
        read.files()
            .any(|file| file.trim_end_matches(".rs") == **layer || file.starts_with(&format!("{layer}/")))
    });
    assert_eq!(named.count(), layers.iter().flatten().count(), "every layer has files");
    assert_none("upward", upward);
}

#[test]
fn wgpu_stays_in_the_folder_of_the_gpu() {
    let read = library();
    let named = read.files().filter(|file| !file.starts_with("gpu/") && read.names(file, "wgpu"));
    let (doors, others): (BTreeSet<&str>, BTreeSet<&str>) = named.partition(|file| NAMES_WGPU.contains(file));
    assert_eq!(
        doors,
        NAMES_WGPU.iter().copied().collect(),
        "these name wgpu no longer: remove them from the list"
    );
    assert_none("wgpu", others.into_iter().map(str::to_owned).collect());
}

/// Files outside `src/elements` that a new element type changes: the text that kernels load it by, and what files call it.
const NAMES_TYPES: &[&str] = &["gpu/kernel/text.rs", "io/element_type.rs"];

#[test]
fn few_files_name_every_element_type() {
    const NAMES: &[&str] = &["ElementKind::F16", "Elements::F16", "Matrix::F16", "Dtype::F16"];
    assert_eq!(naming("src", NAMES, "elements/"), NAMES_TYPES);
}

/// Files outside `src/metric` that name metrics. A new metric changes the last; the others take one to measure times with.
const NAMES_METRICS: &[&str] = &["engine/parts/timing.rs", "host/search/cost.rs", "screen/certificate.rs"];

/// Kernels that have an arm for each metric. All others ask for what metrics have in common.
const METRICS_IN_WGSL: &[&str] =
    &["distance/refine.wgsl", "lib/intervals.wgsl", "lib/pairs.wgsl", "screen/quantize.wgsl"];

#[test]
fn few_files_name_every_metric() {
    const VARIANTS: &[&str] = &[
        "Metric::L2",
        "Metric::Cosine",
        "Metric::InnerProduct",
        "Form::L2",
        "Form::Cosine",
        "Form::InnerProduct",
        "Form::Quantized",
    ];
    let named: Vec<String> = ["METRIC", "PAIRS", "FORM", "FORM_QUANTIZED"]
        .iter()
        .flat_map(|family| ["L2", "COSINE", "INNER_PRODUCT"].map(|name| format!("{family}_{name}")))
        .collect();
    let constants: Vec<&str> = named.iter().map(String::as_str).collect();
    assert_eq!(naming("src", &[VARIANTS, &constants].concat(), "metric/"), NAMES_METRICS);
    let in_wgsl = naming("wgsl", &constants, "none");
    assert_eq!(in_wgsl, METRICS_IN_WGSL);
    // What a new metric changes, in all: these, and the files of `src/metric` that have an arm for each.
    let own = naming("src/metric", &[VARIANTS, &["Self::InnerProduct"]].concat(), "none");
    assert!(own.len() + 1 + in_wgsl.len() <= 8, "{own:?}");
}

/// Whether cooperative matrices or products of bytes multiply tiles of codes is decided in one place.
#[test]
fn one_file_asks_for_matrices() {
    assert_eq!(naming("src", &["screen_tile_coop::is_"], "kernels/"), ["engine/screens/int8/tiles.rs"]);
}

/// The files below a folder whose code has one of these names, without comments, unit tests and the files of a module.
fn naming(folder: &str, names: &[&str], module: &str) -> Vec<String> {
    let mut named = vec![];
    let root = repository().join(folder);
    let mut left = vec![root.clone()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
            continue;
        }
        let file = path.strip_prefix(&root).expect("below the root").to_string_lossy().replace('\\', "/");
        let text = fs::read_to_string(&path).expect("source text");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let mut lines = code.lines().filter_map(|line| line.split("//").next());
        let is_named = lines.any(|line| names.iter().any(|name| line.contains(name)));
        named.extend((is_named && !file.starts_with(module) && !file.contains("tests")).then_some(file));
    }
    named.sort_unstable();
    named
}

/// The document's list of the files that a search passes: each has to do with another.
#[test]
fn the_way_of_a_search_is_as_drawn() {
    let document = fs::read_to_string(repository().join("docs/architecture.md")).expect("the document");
    let (_, behind) = document.split_once("```way\n").expect("docs/architecture.md has a block `way`");
    let (block, _) = behind.split_once("```").expect("the block ends");
    let way: Vec<&str> = block.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let read = library();
    let pairs: BTreeSet<(&str, &str)> = read.uses().collect();
    let mut strays = BTreeSet::new();
    for &file in &way {
        let touches = |&other: &&str| pairs.contains(&(other, file)) || pairs.contains(&(file, other));
        strays.extend((!way.iter().any(touches)).then(|| file.to_owned()));
    }
    assert!(way.len() > 10);
    assert_none("not on the way", strays);
}

#[test]
fn files_are_short() {
    let long = |file: &&str| {
        let text = fs::read_to_string(repository().join("src").join(file)).expect("source text");
        text.lines().count() > MOST_LINES
    };
    let read = library();
    assert_none("long", read.files().filter(long).map(str::to_owned).collect());
}

#[test]
fn folders_are_small() {
    let mut large = BTreeSet::new();
    let mut left: Vec<String> =
        ["src", "wgsl", "bench", "cli/src", "cli/tests", "testing", "tests", "sql"].map(str::to_owned).into();
    while let Some(folder) = left.pop() {
        let mut count = 0;
        for entry in fs::read_dir(repository().join(&folder)).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() {
                left.push(format!("{folder}/{name}"));
            } else if !["mod.rs", "lib.rs", "main.rs"].contains(&&*name) {
                count += 1;
            }
        }
        if count > MOST_IN_A_FOLDER {
            large.insert(folder);
        }
    }
    assert_none("folder", large);
}
