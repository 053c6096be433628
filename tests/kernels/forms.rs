//! Kernels that are compiled for one number of elements compute the same bits as those that read it from their parameters.

use crate::common::Engine::Adapter;
use crate::common::{gpu, options, without_subgroups};
use nearfield::internals;
use nearfield::internals::kernels::{self, DIMENSIONS};
use nearfield::{
    Device, DistanceOptions, ElementKind, Flat, Index, Ivf, Metric, Neighbors, Precision, Quantization,
    SearchOptions,
};
use nearfield_testing::{Random, rounded, view};

const ROWS: usize = 520;
const QUERIES: usize = 66;

/// Distances as bits, with ids.
fn bits(found: &Neighbors) -> Vec<(u64, u32)> {
    found.hits().iter().map(|hit| (hit.id, hit.distance.to_bits())).collect()
}

/// Neighbours of searches, and distances of all pairs, as bits.
type Answers = (Vec<Vec<(u64, u32)>>, Vec<Vec<u32>>);

/// Answers of the searches and operations that have such kernels. A software driver takes seconds to compile those of one number of
/// elements, so the turns share metrics, element types, screens and operations among them.
fn answers(device: &Device, dim: usize, turn: usize) -> Answers {
    let mut random = Random::new(dim as u64);
    // Lists with few rows are not screened.
    let (halves, rows) = rounded(&random.floats(if turn == 0 { 9 * ROWS } else { ROWS } * dim));
    let queries = random.floats(QUERIES * dim);
    let metric = [Metric::L2, Metric::Cosine, Metric::InnerProduct][turn % 3];
    let is_half = turn % 2 == 1;
    let elements = if is_half { ElementKind::F16 } else { ElementKind::F32 };
    let quantization = if turn % 4 < 2 { Quantization::Int8 } else { Quantization::None };
    let mut found = vec![];
    let mut index = Index::from(
        Flat::builder(device, metric, dim)
            .elements(elements)
            .quantization(quantization)
            .build()
            .expect("an index"),
    );
    let builder = Ivf::builder(device, metric, dim).elements(elements).quantization(quantization).lists(8);
    if turn.is_multiple_of(5) {
        index = Index::from(builder.train(view(&rows, dim)).expect("trains"));
    }
    match is_half {
        true => index.add(view(&halves, dim)).expect("good rows"),
        false => index.add(view(&rows, dim)).expect("good rows"),
    }
    for count in [1, 8, QUERIES] {
        found.push(bits(&index.search(view(&queries[..count * dim], dim), 3).expect("an answer")));
    }
    let options = match index.lists() {
        // So many queries a list go to tiles, where there are matrices.
        Some(_) => SearchOptions::new(3).probes(4),
        // A radius needs no sample, so tiles of few rows collect.
        None => {
            let nearest = index.search(view(&queries[..dim], dim), 9).expect("an answer");
            SearchOptions::within(nearest.row(0)[8].distance)
        }
    };
    found.push(bits(&index.search_with(view(&queries, dim), &options).expect("an answer").neighbors));
    let mut distances = vec![];
    if turn % 4 == 1 {
        let upload = |values: &[f32]| device.upload(view(values, dim)).expect("memory");
        let (rows, many, few) = (upload(&rows), upload(&queries), upload(&queries[..2 * dim]));
        for (queries, precision) in
            [(&few, Precision::Fast), (&many, Precision::Fast), (&few, Precision::Compensated)]
        {
            let options = DistanceOptions::new(metric).precision(precision);
            let all = device.distances_with(queries, &rows, options).expect("distances");
            distances.push(device.read(&all).expect("distances").iter().map(|x| x.to_bits()).collect());
        }
    }
    (found, distances)
}

#[test]
#[ignore = "nightly"]
fn forms_for_one_number_of_elements_answer_the_same_bits() {
    let Some(general) = gpu() else { return };
    let own = || Adapter.open(options().cache_dir(None)).expect("the same adapter");
    let mut ran = vec![];
    for (turn, dim) in DIMENSIONS.into_iter().enumerate() {
        let device = own();
        device.specialise(dim);
        let specialised = answers(&device, dim as usize, turn);
        assert_eq!(specialised, answers(general, dim as usize, turn), "{dim} elements");
        ran.extend(device.specialised_kernels().into_iter().map(|(kernel, _)| kernel));
    }
    // Every kernel that has such forms ran in one, as far as this adapter runs it.
    let has_matrices = general.capabilities().matrix_side().is_some();
    let expected =
        kernels::all().filter(|kernel| kernel.has_lengths() && (has_matrices || !kernel.needs_matrices()));
    for kernel in expected {
        // Half precision is asked for by name, and integers without matrices only where there are none.
        let is_other = kernel.name() == "pairs_tile_coop" || has_matrices && kernel.name().ends_with("_i8");
        assert!(is_other || ran.contains(&kernel.name()), "{} did not run", kernel.name());
    }
}

/// Products of bytes, subgroups, and tiles of many registers: what compilers have refused, and what does not fit every GPU.
#[test]
fn answers_are_the_same_bits_where_the_driver_refuses_forms() {
    let Some(usual) = without_subgroups() else { return };
    let device = Adapter.open(options().cache_dir(None)).expect("the same adapter");
    for words in ["dot4I8Packed(", "subgroup_size", "const REGISTERS = 128u;"] {
        internals::refuse(&device, words).expect("a GPU");
    }
    // Rows of f32 with a screen, of f16 with the distances of pairs, and of f32 without a screen.
    for (turn, dim) in [(0, 64), (1, 48), (2, 48)] {
        assert!(answers(&device, dim, turn) == answers(usual, dim, turn), "{dim} elements");
    }
    let forms = device.kernel_forms().expect("a GPU");
    assert!(!forms.byte_products);
    let refused = |kernel: &str| forms.refusals.iter().any(|one| one.kernel == kernel);
    for kernel in ["distance_tile", "pairs_tile", "screen_tile_i8", "collect_tile_i8"] {
        assert!(refused(kernel), "{kernel}: {:?}", forms.refusals);
    }
    assert!(!forms.subgroups || refused("distance_scan"), "{:?}", forms.refusals);
}

/// Another number of elements than a form is for runs the general one.
#[test]
fn other_numbers_of_elements_run_general_forms() {
    let Some(general) = gpu() else { return };
    let device = Adapter.open(options().cache_dir(None)).expect("the same adapter");
    device.specialise(64);
    let (rows, queries) = (Random::new(1).floats(300 * 60), Random::new(2).floats(60));
    let [one, other] = [general, &device].map(|device| {
        let mut index =
            Flat::builder(device, Metric::L2, 60).quantization(Quantization::None).build().expect("an index");
        index.add(view(&rows, 60)).expect("good rows");
        bits(&index.search(view(&queries, 60), 5).expect("an answer"))
    });
    assert_eq!(one, other);
    let ran = device.specialised_kernels();
    assert!(ran.is_empty(), "{ran:?}");
}

/// Files with this extension in a directory.
fn files(directory: &std::path::Path, extension: &str) -> Vec<std::path::PathBuf> {
    let entries =
        std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.extension().is_some_and(|own| own == extension)).collect()
}

#[test]
fn tuning_times_forms_keeps_the_times_and_changes_no_answer() {
    const DIM: usize = 64;
    const MANY: usize = 1 << 16;
    let directory = tempfile::tempdir().expect("a directory");
    let options = options().cache_dir(Some(directory.path().to_path_buf()));
    let Some(device) = Adapter.open(options.clone()) else { return };
    let mut index = Flat::builder(&device, Metric::L2, DIM).build().expect("an index");
    let rows = Random::new(5).floats(MANY * DIM);
    index.add(view(&rows[..100 * DIM], DIM)).expect("good rows");
    assert_eq!(index.tune().expect("nothing to do"), [], "too few rows to time anything");
    index.add(view(&rows[100 * DIM..], DIM)).expect("good rows");
    let queries = view(&rows[..4 * DIM], DIM);
    let before = bits(&index.search(queries, 10).expect("an answer"));
    let timed = index.tune().expect("times");
    if !device.capabilities().timestamps {
        assert_eq!(timed, []);
        return;
    }
    let names: Vec<&str> = timed.iter().map(|one| one.kernel).collect();
    assert!(names.contains(&"refine") && names.contains(&"norms"), "{names:?}");
    for one in &timed {
        assert!(one.dim == DIM && one.queries >= 1, "{one:?}");
        assert!(!one.general.is_zero() && !one.specialised.is_zero(), "{one:?}");
        assert!(!one.is_specialised || one.specialised < one.general, "{one:?}");
    }
    assert_eq!(bits(&index.search(queries, 10).expect("an answer")), before);
    // A damaged file of times is none.
    let [file] = &files(directory.path(), "forms")[..] else { panic!("one file of times") };
    assert!(std::fs::read_to_string(file).expect("text").lines().count() >= timed.len());
    drop((index, device));
    for damage in [false, true] {
        if damage {
            std::fs::write(file, "{\"form\":").expect("written");
        }
        let device = Adapter.open(options.clone()).expect("the same adapter");
        let mut index = Flat::builder(&device, Metric::L2, DIM).build().expect("an index");
        index.add(view(&rows, DIM)).expect("good rows");
        index.warm_up().expect("good kernels");
        assert_eq!(bits(&index.search(queries, 10).expect("an answer")), before);
    }
}

/// A later process uses the forms that were faster in an earlier one: warming up compiles them, and no search does.
#[test]
fn stored_times_choose_the_forms_that_warming_up_compiles() {
    const DIM: usize = 96;
    let directory = tempfile::tempdir().expect("a directory");
    let options = options().cache_dir(Some(directory.path().to_path_buf())).tune(false);
    let rows = Random::new(6).floats((1 << 16) * DIM);
    let queries = view(&rows[..70 * DIM], DIM);
    // The number of compiled kernels after warming up and after a search, the answer, the kernels that ran, and whether there
    // are matrices.
    let use_index = |count: usize, retune: bool| {
        let device = Adapter.open(options.clone())?;
        let builder = Flat::builder(&device, Metric::Cosine, DIM).quantization(Quantization::Int8);
        let mut index = builder.build().expect("an index");
        index.add(view(&rows[..count * DIM], DIM)).expect("good rows");
        index.warm_up().expect("good kernels");
        let warm = device.compiled_kernels();
        let found = index.search_with(queries, &SearchOptions::new(3).profile(true)).expect("an answer");
        let searched = device.compiled_kernels();
        let timed = if retune { index.tune().expect("times") } else { vec![] };
        let ran: Vec<_> = found.statistics.stages.iter().map(|stage| stage.stage).collect();
        let has_matrices = device.capabilities().matrix_side().is_some();
        Some(([warm, searched], (bits(&found.neighbors), ran, has_matrices), timed))
    };
    let Some((_, _, timed)) = use_index(1 << 16, true) else { return };
    if timed.is_empty() {
        return println!("skipped: no timestamps");
    }
    let [file] = &files(directory.path(), "forms")[..] else { panic!("one file of times") };
    let text = std::fs::read_to_string(file).expect("text");
    let mut answers = vec![];
    for factor in [2.0, 0.5] {
        let line = |line: &str| {
            let mut line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let general = line["general_s"].as_f64().expect("a time");
            line["specialised_s"] = (general * factor).into();
            format!("{line}\n")
        };
        std::fs::write(file, text.lines().map(line).collect::<String>()).expect("written");
        let ([warm, searched], (found, ran, has_matrices), _) =
            use_index(5_000, false).expect("the same adapter");
        assert_eq!(warm, searched, "a search compiled kernels");
        // Tiles of floats take batches where they were faster than those of bytes.
        assert_eq!(ran.contains(&"distance_tile"), factor < 1.0 && !has_matrices, "{ran:?}");
        answers.push((warm, found));
    }
    assert_eq!(answers[0].1, answers[1].1);
    let forms = text.lines().filter(|line| !line.contains("batches")).count();
    assert!(answers[1].0 - answers[0].0 >= forms, "each faster form is compiled besides");
}

#[test]
fn searches_in_lists_are_tuned_too() {
    const DIM: usize = 64;
    let Some(device) = Adapter.open(options().cache_dir(None)) else { return };
    let rows = Random::new(7).floats((1 << 16) * DIM);
    let mut index = Ivf::builder(&device, Metric::Cosine, DIM)
        .lists(8)
        .train(view(&rows[..512 * DIM], DIM))
        .expect("trains");
    assert_eq!(index.tune().expect("nothing to do"), [], "there are no rows");
    index.add(view(&rows, DIM)).expect("good rows");
    let queries = view(&rows[..4 * DIM], DIM);
    let before =
        bits(&index.search_with(queries, &SearchOptions::new(10).probes(2)).expect("an answer").neighbors);
    let timed = index.tune().expect("times");
    assert_eq!(timed.is_empty(), !device.capabilities().timestamps);
    assert!(timed.is_empty() || timed.iter().any(|one| one.kernel == "refine"), "{timed:?}");
    assert_eq!(
        bits(&index.search_with(queries, &SearchOptions::new(10).probes(2)).expect("an answer").neighbors),
        before
    );
}
