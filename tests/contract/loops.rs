//! Every loop of every kernel ends, whatever the parameters and the data are: kernels are compiled without bounds on their loops, because
//! those cost up to 40% of the time on a GPU, and a loop without an end hangs the machine's display.

use std::collections::BTreeSet;
use std::path::PathBuf;

use nearfield::internals::kernels::Kernel;

/// Why a loop ends that its head does not show to end, and the loops: the name of the file, and the head.
const ENDS: &[(&str, &[(&str, &str)])] = &[
    (
        "counts to a parameter that `Kernel::check_loops` bounds by 2^31, or to a part of one, in steps of a constant or of a subgroup's size",
        &[
            ("distance_pairs", "; i + stride <= whole; i += stride"),
            ("distance_pairs", "; i < whole; i += 4u"),
            ("distance_pairs", "; i < dim; i++"),
            ("distance_scan", "var i = lane_of(lanes); i < vectors; i += lanes_count(lanes)"),
            ("distance_tile", "var start = 0u; start < vectors; start += SLICE"),
            ("pairs_scan", "var i = lane_of(lanes); i < params.vectors; i += lanes_count(lanes)"),
            ("refine", "; i + (AHEAD - 1u) * WIDTH < vectors; i += AHEAD * WIDTH"),
            ("refine", "; i < vectors; i += WIDTH"),
            ("scatter_buckets", "var first = workgroup.x * params.piece; first < piece_end; first += BATCH"),
        ],
    ),
    (
        "counts to such a parameter, or to a buffer's length, in steps of all workgroups of a row: from 1 to 65,535, times a constant below 2^13",
        &[
            (
                "distance_scan",
                "var start = workgroup.x * per_workgroup; start < params.part_columns; start += workgroups.x * per_workgroup",
            ),
            (
                "pairs_scan",
                "var start = workgroup.y * per_workgroup; start < params.rows; start += workgroups.y * per_workgroup",
            ),
            (
                "pick",
                "var start = 0u; start * workgroups.x + workgroup.x < params.part_blocks; start += NEAR",
            ),
            ("refine", "var start = workgroup.x * at_once; start < total; start += workgroups.x * at_once"),
            (
                "merge_runs",
                "var start = workgroup.x * TILE; start < params.length; start += workgroups.x * TILE",
            ),
            (
                "sort_places",
                "var start = workgroup.x * POOL_ROOM; start < params.length; start += workgroups.x * POOL_ROOM",
            ),
            (
                "sort_buckets",
                "var i = all.x + bucket * WORKGROUP + lanes.index; i < params.k; i += params.buckets * WORKGROUP",
            ),
            (
                "sample_runs",
                "var bucket = part * WORKGROUP + lanes.index; bucket < params.buckets; bucket += params.parts * WORKGROUP",
            ),
        ],
    ),
    (
        "counts to a number that the lines above it bound by what workgroup memory has room for",
        &[
            ("probes", "var g = index; g < end; g += WORKGROUP"),
            ("probes", "var first = 0u; first < end; first += AHEAD"),
            ("pool", "var i = limit.count + lanes.index; i < padded; i += WORKGROUP"),
            ("pool", "var i = begin; i < end; i += 1u"),
            ("pool", "var size = 2u; size <= length; size <<= 1u"),
            ("pool", "var pair = index; pair < length / 2u; pair += WORKGROUP"),
            ("sort", "var size = 2u; size <= length; size <<= 1u"),
            ("sort", "var pair = index; pair < length / 2u; pair += WORKGROUP"),
            ("collect_lists", "var first = 0u; first < slice_end; first += AHEAD"),
            ("probe_thresholds", "var i = index; i < count; i += WORKGROUP"),
            ("digits", "var v = 0u; v < count; v += 4u"),
            ("collect", "var four = first; four < end; four += AT_ONCE"),
            ("collect", "var hit = index; hit < min(atomicLoad(&hit_count), HITS); hit += WORKGROUP"),
            ("pick", "var next = index / BLOCK_ROWS; next < count; next += TURNS * BESIDE"),
            ("merge_runs", "var i = index; i < count; i += WORKGROUP"),
            ("sample_runs", "var i = lanes.index; i < select(SORTED_MAX, wanted, is_whole); i += WORKGROUP"),
            ("select_filter", "var i = index; i < count; i += WORKGROUP"),
            ("select_k", "var i = 0u; i < count; i += 1u"),
            ("select_k", "var i = count + index; i < padded; i += WORKGROUP"),
            ("sort_buckets", "var i = lanes.index; i < wanted; i += WORKGROUP"),
            ("sort_places", "var i = lanes.index; i < length; i += WORKGROUP"),
            ("deviations", "var group = 1u; group < group_count(lanes, WORKGROUP); group++"),
            ("reduce_blocks", "var group = 1u; group < group_count(lanes, WORKGROUP); group++"),
        ],
    ),
    (
        "counts vectors of 16 bytes, or elements of 4, of a buffer whose bytes have 32 bits",
        &[
            ("span", "; i + (COARSENING - 1u) * width < last; i += COARSENING * width"),
            ("span", "; i < last; i += width"),
            ("stream", "var i = from_vector + index; i < to_vector; i += 4u * WORKGROUP"),
            ("deviations", "var vector = from_vector + lane; vector < to_vector; vector += HELD * width"),
            ("locate", "var i = from_vector + lane; i < to_vector; i += 8u * width"),
            ("select_filter", "var first = from_vector; first < to_vector; first += 4u * WORKGROUP"),
            ("select_k", "var start = index; start < length; start += turns() * WORKGROUP"),
            ("select_row", "var i = lanes.index; i < count; i += WORKGROUP"),
        ],
    ),
    (
        "counts to the length of a query's list, at most `params.capacity` entries of a buffer",
        &[
            ("compact", "var i = index; i < length; i += WORKGROUP"),
            ("tighten", "var i = index + HELD * WORKGROUP; i < length; i += WORKGROUP"),
            ("tighten", "var start = 0u; start < length; start += HELD * WORKGROUP"),
        ],
    ),
    (
        "counts places of tables that the library itself has written, each below the length of a buffer",
        &[
            ("average", "; place + AT_ONCE <= end; place += AT_ONCE"),
            ("average", "; place < end; place += 1u"),
            ("collect_lists", "var number = workgroup.x; number < end; number += workgroups.x"),
            ("collect_lists_coop", "var number = workgroup.x; number < end; number += workgroups.x"),
            ("group", "var t = 0u; t < tiles; t++"),
            ("maxsim_longest", "var slot = start; slot < end; slot++"),
            (
                "maxsim_sum",
                "var token = offsets[query] + index % WIDTH; token < offsets[query + 1u]; token += WIDTH",
            ),
            ("maxsim_pairs", "var first = 0u; first < pair.y; first += DOWN * EACH"),
            (
                "maxsim_pairs",
                "var row = start + (part * ACROSS + lane) * EACH; row < end; row += params.parts * ACROSS * EACH",
            ),
            ("probe_slots", "var tile = list_tiles[list]; tile < list_tiles[list + 1u]; tile++"),
            ("screen_probes", "var tile = tables[list] + number % SHARE; tile < end; tile += SHARE"),
            (
                "probe_thresholds",
                "var turn = 0u; (turn < turns || counted < params.k) && first < longest; turn++",
            ),
        ],
    ),
    (
        "halves what is between two ends",
        &[
            ("refine", "while (low < high)"),
            ("held", "while (low < high)"),
            ("held", "while (first < last)"),
            ("average", "while (low < high)"),
            ("merge_runs", "while (low < high)"),
        ],
    ),
    (
        "takes a bit away in each turn",
        &[
            ("sweep_coop", "while (passing != 0u && (*sweep).count < 4u)"),
            ("collect_lists", "while (passing != 0u)"),
            ("probe_slots", "while (bits != 0u)"),
            ("collect", "while (staying != 0u)"),
            ("collect_tile_i8", "while (passing[j] != 0u)"),
            ("select_k", "var left = workgroupUniformLoad(&waiting); left != 0u; left &= left - 1u"),
        ],
    ),
    (
        "each turn begins behind the last sum that the turn before has kept, of a lane's 64",
        &[("sweep_coop", "loop")],
    ),
    (
        "each turn begins behind the last row of the turn before, of a block's 128",
        &[
            (
                "maxsim_tile_coop",
                "var part = part_of(places, first_row); part.start < first_row + PART_ROWS; part = next_part(places, part)",
            ),
            (
                "maxsim_tile_i8",
                "var part = part_of(places, 0u); part.start < TILE; part = next_part(places, part)",
            ),
        ],
    ),
    (
        "doubles a number of at least 1 until it reaches another, below 2^31",
        &[("refine", "while (rest < divisor)")],
    ),
    ("has a digit less to go, of 12", &[("select_k", "while (digits < DIGITS && params.k < length)")]),
    (
        "divides a number from 1 to 2^31 by 128 and takes 1 away from the quotient, rounded up",
        &[("merge_runs", "var reach = params.run; reach > 0u; reach = ((reach + 127u) >> 7u) - 1u")],
    ),
];

/// The names in an expression, except this and constants, which are written in capitals.
fn names<'e>(expression: &'e str, except: &str) -> Vec<&'e str> {
    let is_inside = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
    let words = expression.split(|letter| !is_inside(letter)).filter(|word| !word.is_empty());
    let is_constant = |word: &str| !word.contains(|letter: char| letter.is_ascii_lowercase());
    let is_number = |word: &str| word.starts_with(|letter: char| letter.is_ascii_digit());
    words.filter(|word| !is_constant(word) && !is_number(word) && *word != except).collect()
}

/// Whether a head shows that the loop ends: it counts by a constant to a constant or to a parameter that is bounded, or halves a number.
fn shows_its_end(head: &str) -> bool {
    let [_, condition, step] = head.split(';').map(str::trim).collect::<Vec<_>>()[..] else { return false };
    let counter = step.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
    if condition.ends_with("> 0u") {
        return step.ends_with(">>= 1u");
    }
    let Some((left, limit)) = condition.split_once('<') else { return false };
    let counts = step.ends_with("++") || step.contains("+=");
    let limits = names(limit, "min");
    let parameters = limits.iter().filter_map(|name| name.strip_prefix("params."));
    let is_bounded = match parameters.clone().count() {
        0 => limits.is_empty() && (counts || step.ends_with("<<= 1u")),
        // The smaller of a parameter and anything.
        1 => {
            counts
                && (limits.len() == 1 || limit.contains("min("))
                && parameters.clone().all(Kernel::ends_loops)
        }
        _ => false,
    };
    is_bounded && names(left, counter).is_empty() && names(step, counter).is_empty()
}

/// The heads of the loops in a text.
fn heads(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let code = line.split("//").next()?;
        let start =
            |word: &str| code.find(word).filter(|&at| code[..at].chars().all(|one| " };".contains(one)));
        if let Some(at) = start("for (") {
            let body = &code[at + 5..];
            let mut depth = 1;
            let end = body.find(|letter| {
                depth += i32::from(letter == '(') - i32::from(letter == ')');
                depth == 0
            })?;
            return Some(&body[..end]);
        }
        let at = start("while (").or(start("loop {"))?;
        Some(code[at..].trim().trim_end_matches('{').trim_end())
    })
}

/// The files of all kernels: their names, and their texts.
fn sources() -> Vec<(String, String)> {
    let mut folders = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/wgsl"))];
    let mut files = vec![];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
            files.push((name, std::fs::read_to_string(&path).expect("a readable file")));
        }
    }
    files
}

/// The variables that loops of a text declare without a value.
fn declared_without_value(text: &str) -> Vec<&str> {
    let (mut inside, mut found) = (vec![], vec![]);
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default();
        if inside.contains(&true) && code.trim_start().starts_with("var ") && !code.contains(" = ") {
            found.push(code.trim());
        }
        let mut is_head = heads(line).next().is_some();
        for letter in code.chars() {
            match letter {
                '{' => inside.push(std::mem::take(&mut is_head)),
                '}' => drop(inside.pop()),
                _ => {}
            }
        }
    }
    found
}

/// Chromium's SPIR-V clears a variable without a value once, not in each turn of its loop: sums went on from those of the turn before.
#[test]
fn variables_that_loops_declare_have_values() {
    // Browsers have no cooperative matrices, and WGSL has no value of one.
    for (file, text) in sources().iter().filter(|(file, _)| !file.ends_with("_coop")) {
        assert_eq!(declared_without_value(text), [""; 0], "{file}");
    }
    let text = "fn sum() {\n  var a: u32;\n  for (var i = 0u; i < 4u; i++) {\n    var b: u32;\n    var c = 0u;\n  }\n  var d: u32;\n}";
    assert_eq!(declared_without_value(text), ["var b: u32;"]);
}

#[test]
fn every_loop_ends_for_all_inputs() {
    let named: BTreeSet<(&str, &str)> = ENDS.iter().flat_map(|(_, loops)| loops.iter().copied()).collect();
    let mut met = BTreeSet::new();
    let (mut all, mut unnamed) = (0, vec![]);
    let sources = sources();
    for (file, text) in &sources {
        let found: Vec<&str> = heads(text).collect();
        all += found.len();
        for head in found.into_iter().filter(|head| !shows_its_end(head)) {
            match named.get(&(file.as_str(), head)) {
                Some(&known) => drop(met.insert(known)),
                None => unnamed.push(format!("{file}: {head}")),
            }
        }
    }
    assert!(all > 300, "found {all} loops");
    assert!(unnamed.is_empty(), "say why these loops end, in {}:\n{}", file!(), unnamed.join("\n"));
    let gone: Vec<_> = named.difference(&met).collect();
    assert!(gone.is_empty(), "these loops are gone or show their ends: {gone:?}");
}

#[test]
fn a_loop_that_may_not_end_is_told_from_one_that_does() {
    for head in [
        "var i = 0u; i < 4u; i++",
        "var i = index; i < min(count, params.k); i += WORKGROUP",
        "var i = lane; i < params.granules * 4u; i += WIDTH",
        "var half = WIDTH / 2u; half > 0u; half >>= 1u",
    ] {
        assert!(shows_its_end(head), "{head}");
    }
    for head in [
        "var i = 0u; i < params.first_slot; i++",
        "var i = 0u; i < 4u; i += step",
        "var i = 0u; i < count; i += 1u",
        "var i = 0u; i < params.k; i *= 2u",
        "while (low < high)",
        "loop",
    ] {
        assert!(!shows_its_end(head), "{head}");
    }
}
