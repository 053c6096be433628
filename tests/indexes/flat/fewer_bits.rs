//! Rows that are quantised on their way in, and candidates that are refined by other rows: both as if each was done by hand.

use crate::common::Engine::{self, Adapter, Host};
use crate::support::{devices, flat};
use nearfield::{
    AddOptions, Device, ElementKind, Filter, Flat, HostVectors, Ivf, Matrix, Metric, Neighbors, Quantization,
    Residency, SearchOptions,
};
use nearfield_testing::living::bits;
use nearfield_testing::{Random, view};
use test_case::test_matrix;

/// Candidates of each query, some of them twice, none for the last.
fn candidates(rows: usize, queries: usize) -> Neighbors {
    let mut random = Random::new(0xca);
    let mut index = Flat::builder(&Device::host(), Metric::L2, 1).build().expect("an index");
    index.add(view(&random.floats(rows), 1)).expect("good rows");
    let mut values = random.floats(queries);
    values[queries - 1] = 9.0;
    let mut parts: Vec<Neighbors> = vec![];
    for seed in [2, 3] {
        let allowed: Vec<u64> = (0..rows as u64).filter(|id| id % seed == 0).collect();
        let options = SearchOptions::within(0.3).filter(Filter::ids(&allowed));
        parts.push(index.search_with(view(&values, 1), &options).expect("an answer").neighbors);
    }
    Neighbors::merge(&parts, usize::MAX).expect("answers to the same queries")
}

#[test_matrix([Adapter, Host])]
fn candidates_are_refined_as_a_filter_of_them_is_searched(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (rows, dim, queries) = (1500, 24, 9);
    let mut random = Random::new(0x4ef);
    let (values, asked) = (random.floats(rows * dim), random.floats(queries * dim));
    let candidates = candidates(rows, queries);
    assert!((0..queries).any(|query| candidates.row(query).len() > 40));
    assert!(candidates.row(queries - 1).is_empty());
    for metric in Metric::ALL.into_iter().filter(|metric| !Metric::OF_BITS.contains(metric)) {
        let host = flat(&Device::host(), metric, view(&values, dim), Quantization::None);
        let mut others = vec![flat(device, metric, view(&values, dim), Quantization::Auto)];
        let file = tempfile::Builder::new().suffix(".nf").tempfile().expect("a file").into_temp_path();
        host.save(&file).expect("a saved index");
        let mapped = Flat::builder(device, metric, dim).mapped(&file).build();
        others.push(mapped.expect("an index of a file"));
        if engine == Adapter {
            for residency in [Residency::Host, Residency::Streamed] {
                let mut other =
                    Flat::builder(device, metric, dim).residency(residency).build().expect("an index");
                other.add(view(&values, dim)).expect("good rows");
                others.push(other);
            }
            let copied = Flat::builder(device, metric, dim).keep_host_copy(true);
            let mut copied = copied.build().expect("an index");
            copied.add(view(&values, dim)).expect("good rows");
            others.push(copied);
            let both = devices(engine, 2).expect("two devices");
            let mut halves = Flat::builder(&both, metric, dim).build().expect("an index");
            halves.add(view(&values, dim)).expect("good rows");
            others.push(halves);
        }
        for k in [1, 10, 5000] {
            let wanted: Vec<_> = (0..queries)
                .flat_map(|query| {
                    let ids: Vec<u64> = candidates.row(query).iter().map(|hit| hit.id).collect();
                    let asked = &asked[query * dim..(query + 1) * dim];
                    let options = SearchOptions::new(k).filter(Filter::ids(&ids));
                    bits(&host.search_with(asked, &options).expect("an answer").neighbors)
                })
                .collect();
            for index in &others {
                let found = index.refine(view(&asked, dim), &candidates, k).expect("an answer");
                assert_eq!(bits(&found), wanted, "{metric}, k {k}, {}", index.residency());
            }
        }
    }
}

/// Rows of 256 KiB: a query has more candidates than are fetched at a time.
#[test_matrix([Adapter, Host])]
fn a_query_may_have_more_candidates_than_are_fetched_at_a_time(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (rows, dim) = (80, 1 << 16);
    let values = Random::new(0xf0).integers(rows * dim, 4);
    let index = flat(device, Metric::L2Squared, view(&values, dim), Quantization::None);
    let all = Flat::builder(&Device::host(), Metric::L2, 1);
    let mut all = all.build().expect("an index");
    all.add(view(&vec![0.0; rows], 1)).expect("good rows");
    let candidates = all.search(view(&[0.0, 1.0], 1), rows).expect("an answer");
    let queries = view(&values[..2 * dim], dim);
    let found = index.refine(queries, &candidates, 70).expect("an answer");
    assert_eq!(bits(&found), bits(&index.search(queries, 70).expect("an answer")));
}

#[test]
fn candidates_that_do_not_fit_are_refused() {
    let index = flat(&Device::host(), Metric::L2, view(&[0.0, 1.0], 1), Quantization::None);
    let mut other = Flat::builder(&Device::host(), Metric::L2, 1).build().expect("an index");
    other.add_with(view(&[0.0], 1), &AddOptions::new().ids(&[7])).expect("good rows");
    let refused = |queries: &[f32], k| {
        let found = other.search(&[0.0f32], 1).expect("an answer");
        index.refine(view(queries, 1), &found, k).expect_err("it does not fit").to_string()
    };
    assert_eq!(refused(&[0.0, 1.0], 1), "candidates: needed those of 2 queries, given 1");
    assert_eq!(refused(&[0.0], 0), "k: needed at least 1, given 0");
    assert_eq!(refused(&[0.0], 1), "ids: needed ids of rows in the index, given 7, which no row has");
    assert!(refused(&[f32::NAN], 1).contains("queries"));
}

/// The rows as `store` has them.
fn scaled(values: &[f32], dim: usize) -> Matrix {
    let rows = values.chunks(dim).flat_map(|row| {
        let most = row.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let steps = if most > 0.0 { 127.0 / f64::from(most) } else { 0.0 };
        row.iter().map(move |x| (f64::from(*x) * steps).round_ties_even() as i8)
    });
    Matrix::I8(rows.collect(), dim)
}

#[test_matrix([Adapter, Host])]
fn rows_are_quantised_on_their_way_in_and_searched_exactly(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (rows, dim) = (900, 40);
    let mut random = Random::new(0x18);
    let mut values = random.floats(rows * dim);
    values[..dim].fill(0.0);
    values[dim..2 * dim].iter_mut().for_each(|x| *x *= 1e-12);
    let queries = random.floats(30 * dim);
    let queries = view(&queries, dim);
    let (stored, more) = (scaled(&values, dim), random.floats(3 * dim));

    let builder = Flat::builder(device, Metric::Cosine, dim);
    let mut index = builder.clone().store(ElementKind::I8).build().expect("an index");
    index.add(view(&values, dim)).expect("good rows");
    let mut by_hand = builder.elements(ElementKind::I8).build().expect("an index");
    by_hand.add(&stored).expect("good rows");
    let quantized = HostVectors::from(view(&values, dim)).quantized(ElementKind::I8);
    assert!(quantized.expect("good rows") == stored);
    assert_eq!(index.elements(), ElementKind::I8);

    for other in [&mut index, &mut by_hand] {
        let (more, one) = (scaled(&more, dim), scaled(&values[5 * dim..6 * dim], dim));
        other.update(&[3, 9, 4], &more).expect("there");
        other.add(&one).expect("good rows");
    }
    let mut loaded = Flat::load(device, saved(&index)).expect("a file");
    assert_eq!(
        bits(&loaded.search(queries, 20).expect("an answer")),
        bits(&by_hand.search(queries, 20).expect("an answer"))
    );
    // A loaded index goes on quantising.
    loaded.add(view(&more, dim)).expect("good rows");
    loaded.update(&[0], view(&more[..dim], dim)).expect("there");
    by_hand.add(&scaled(&more, dim)).expect("good rows");
    by_hand.update(&[0], &scaled(&more[..dim], dim)).expect("there");
    assert_eq!(
        bits(&loaded.search(queries, 20).expect("an answer")),
        bits(&by_hand.search(queries, 20).expect("an answer"))
    );

    let lists = Ivf::builder(device, Metric::Cosine, dim).lists(7);
    let mut lists = lists.store(ElementKind::I8).train(view(&values, dim)).expect("lists");
    lists.add(view(&values, dim)).expect("good rows");
    let found = lists.search_with(queries, &SearchOptions::new(20).probes(7)).expect("an answer").neighbors;
    let mut by_hand =
        Flat::builder(device, Metric::Cosine, dim).elements(ElementKind::I8).build().expect("an index");
    by_hand.add(&stored).expect("good rows");
    assert_eq!(bits(&found), bits(&by_hand.search(queries, 20).expect("an answer")));
}

fn saved(index: &Flat) -> tempfile::TempPath {
    let file = tempfile::NamedTempFile::new().expect("a file").into_temp_path();
    index.save(&file).expect("a saved index");
    file
}

#[test]
fn what_quantising_would_lose_is_refused() {
    let host = Device::host();
    for (metric, kind) in [
        (Metric::L2, ElementKind::I8),
        (Metric::InnerProduct, ElementKind::I8),
        (Metric::Cosine, ElementKind::U8),
        (Metric::Hamming, ElementKind::Bits),
    ] {
        let refused = Flat::builder(&host, metric, 2).store(kind).build().expect_err("it loses order");
        let text = refused.to_string();
        assert!(text.starts_with("store: needed f32, f16 or bf16, or i8 under the metric cosine"), "{text}");
        assert!(text.ends_with(&format!("given {kind} under the metric {metric}")), "{text}");
    }
    let mut index = Flat::builder(&host, Metric::Cosine, 2).store(ElementKind::I8).build().expect("an index");
    let refused = index.add(view(&[1.0, 2.0, f32::NAN, 0.0], 2)).expect_err("no number");
    assert!(refused.to_string().contains("row 1"), "{refused}");
    assert_eq!(index.len(), 0);
    let mut plain =
        Flat::builder(&host, Metric::Cosine, 2).elements(ElementKind::I8).build().expect("an index");
    assert!(plain.add(view(&[1.0, 2.0], 2)).is_err(), "an index that was not asked to quantise does not");
}

/// A dim that is no multiple of eight leaves bits of 0 at the end.
#[test]
fn signs_are_bits_in_the_order_of_numpy() {
    let values = [1.0, -1.0, 0.5, 0.0, -0.0, 2.0, 3.0, -4.0, 5.0, 6.0f32];
    let Matrix::Bits(bytes, 2) =
        HostVectors::from(view(&values, 10)).quantized(ElementKind::Bits).expect("bits")
    else {
        panic!("two bytes of bits")
    };
    assert_eq!([bytes[0].0, bytes[1].0], [0b1010_0110, 0b1100_0000]);
}

#[test_matrix([Adapter, Host])]
fn integers_and_bits_are_refined_by_their_own_rows(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let values = Random::new(0x1b).integers(300 * 16, 120);
    let rows = Matrix::F32(values, 16);
    let candidates = candidates(300, 4);
    for (metric, kind) in [(Metric::L2, ElementKind::I8), (Metric::InnerProduct, ElementKind::F16)] {
        let rows = rows.clone().to_kind(kind);
        let builder = |device| Flat::builder(device, metric, 16).elements(kind).build().expect("an index");
        let (mut own, mut host) = (builder(device), builder(&Device::host()));
        for index in [&mut own, &mut host] {
            index.add(&rows).expect("good rows");
        }
        let queries = HostVectors::from(&rows).slice(20..24);
        let found = own.refine(queries, &candidates, 6).expect("an answer");
        assert_eq!(bits(&found), bits(&host.refine(queries, &candidates, 6).expect("an answer")), "{kind}");
        assert!(found.row(0).len() == 6 && found.row(3).is_empty());
    }
    let rows = HostVectors::from(&rows).quantized(ElementKind::Bits).expect("bits");
    let mut index = Flat::builder(device, Metric::Hamming, 2).build().expect("an index");
    index.add(&rows).expect("good rows");
    let query = HostVectors::from(&rows).slice(5..6);
    let named = Neighbors::of_ids(&[9, 5, 7, 5], &[0, 4]).expect("candidates");
    let found = index.refine(query, &named, 9).expect("an answer");
    let options = SearchOptions::new(9).filter(Filter::ids(&[5, 7, 9]));
    assert_eq!(bits(&found), bits(&index.search_with(query, &options).expect("an answer").neighbors));
    assert!(Neighbors::of_ids(&[1, 2], &[0, 1]).is_err() && Neighbors::of_ids(&[], &[]).is_err());
    assert_eq!(
        index.refine(query, &Neighbors::of_ids(&[], &[0, 0]).expect("none"), 3).expect("none").hits(),
        []
    );
}

#[test]
fn rows_of_a_file_are_not_quantised_and_too_large_numbers_are_refused() {
    let host = Device::host();
    let index = flat(&host, Metric::Cosine, view(&[1.0, 2.0, 3.0, 1e6], 2), Quantization::None);
    let file = saved(&index);
    let builder = || Flat::builder(&host, Metric::Cosine, 2);
    let refused = builder().store(ElementKind::I8).mapped(&file).build().expect_err("rows of f32");
    assert!(refused.to_string().starts_with("store: needed f32, as "), "{refused}");
    let mut halves = builder().store(ElementKind::F16).build().expect("an index");
    let refused = halves.add(view(&[1.0, 2.0, 3.0, 1e6], 2)).expect_err("beyond f16").to_string();
    assert_eq!(refused, "rows: needed numbers in the range of f16, given others in row 1");
    halves.add(view(&[1.0, 2.0], 2)).expect("good rows");
    assert!(
        halves.quantizes()
            && !builder().store(ElementKind::I8).elements(ElementKind::F32).build().expect("one").quantizes()
    );
    let file = saved(&halves);
    let mapped = builder().mapped(&file).build().expect("an index of a file");
    assert!(mapped.quantizes() && mapped.clone_to(&host).expect("a copy").quantizes());
}
