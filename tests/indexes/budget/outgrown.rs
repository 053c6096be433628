//! Rows that outgrow their device go to the host, where answers are those of the host engine, bit for bit.

use nearfield::{
    AddOptions, Device, Distribution, ElementKind, Error, Filter, Flat, Index, Ivf, Matrix, Metric,
    Quantization, Residency, SearchOptions,
};
use test_case::{test_case, test_matrix};

use super::{DIM, STORED, add, answers, bits, build, builder, held, values};
use crate::common::gpu;
use crate::support::{few_iterations, limited};
use nearfield_testing::{rounded, view};

/// A limit that has room for 4,600 rows, or for the copies of 9,000 while they grow.
const LIMIT: u64 = 900_000;

/// The same changes of an index that outgrows its device and of one on the host engine; each is searched after each.
fn grow(index: &mut Flat, host: &mut Flat) {
    for index in [&mut *index, &mut *host] {
        add(index, &values(20, 2000));
        index.remove(&(500..600).collect::<Vec<u64>>()).expect("there");
    }
    assert_eq!(index.residency(), Residency::Device);
    let ids: Vec<u64> = (0..6000).map(|row| 10_000 + 7 * row).collect();
    for index in [&mut *index, &mut *host] {
        let options = AddOptions::new().ids(&ids);
        index.add_with(view(&values(21, 6000), DIM), &options).expect("good rows");
    }
    assert_eq!((index.residency(), index.len()), (Residency::Host, 7900));
    assert_eq!(answers(index), answers(host));
    for index in [&mut *index, &mut *host] {
        index.update(&ids[..50], view(&values(22, 50), DIM)).expect("there");
        index.remove(&ids[3000..3500]).expect("there");
        index.compact().expect("compacted");
        add(index, &values(23, 300));
    }
    assert_eq!(answers(index), answers(host));
    let queries = values(24, 30);
    let is_allowed = |id: u64| id.is_multiple_of(3);
    let options = SearchOptions::new(20).filter(Filter::by(&is_allowed));
    let [found, wanted] = [&*index, host].map(|index| index.search_with(view(&queries, DIM), &options));
    let (found, wanted) = (found.expect("an answer"), wanted.expect("an answer"));
    assert_eq!(bits(&found.neighbors), bits(&wanted.neighbors));
    assert_eq!((found.statistics.rows, wanted.statistics.rows), (Residency::Host, Residency::Host));
    let [found, wanted] = [&*index, host].map(|index| {
        index.search_with(view(&queries, DIM), &SearchOptions::within(5.0)).expect("an answer").neighbors
    });
    assert_eq!(bits(&found), bits(&wanted));
    assert_eq!(index.get(&ids[..10]).expect("there"), host.get(&ids[..10]).expect("there"));
    // Compacted shards have rows in another order.
    let is_same = || index.to_bytes().expect("bytes") == host.to_bytes().expect("bytes");
    assert!(index.devices().len() > 1 || is_same(), "saved alike");
    let plan = index.plan(30, 10).expect("a plan");
    assert!(plan.rows == Residency::Host && plan.to_string().contains("rows in the host's memory"), "{plan}");
}

#[test_matrix([Quantization::Int8, Quantization::Auto])]
fn an_index_that_outgrows_its_device_answers_as_the_host_engine(quantization: Quantization) {
    let Some(device) = limited(LIMIT) else { return };
    let of = |device: &Device| {
        Flat::builder(device, Metric::L2, DIM)
            .quantization(quantization)
            .residency(Residency::Auto)
            .build()
            .expect("an index")
    };
    let mut index = of(&device);
    grow(&mut index, &mut of(&Device::host()));
    assert!(held(&index) <= LIMIT && index.memory().at(Residency::Host) > 7000 * STORED);
}

/// Rows that were their own codes get a copy when they leave.
#[test_matrix([ElementKind::I8, ElementKind::U8])]
fn integers_that_outgrow_their_device_are_answered_as_by_the_host_engine(elements: ElementKind) {
    let Some(device) = limited(LIMIT) else { return };
    let rows = |seed: u64, count: usize| {
        let values = values(seed, count).iter().map(|x| x * 30.0 + 50.0).collect();
        Matrix::F32(values, DIM).to_kind(elements)
    };
    let [mut index, mut host] = [&*device, &Device::host()].map(|device| {
        let builder = Flat::builder(device, Metric::L2, DIM).elements(elements);
        builder.quantization(Quantization::Int8).residency(Residency::Auto).build().expect("an index")
    });
    let queries = [rows(50, 20), Matrix::F32(values(51, 20), DIM)];
    let same = |index: &Flat, host: &Flat| {
        queries.iter().all(|queries| {
            let [found, wanted] = [index, host].map(|index| index.search(queries, 30).expect("an answer"));
            bits(&found) == bits(&wanted)
        })
    };
    for index in [&mut index, &mut host] {
        index.add(&rows(52, 3000)).expect("good rows");
        index.remove(&(500..600).collect::<Vec<u64>>()).expect("there");
    }
    assert_eq!(index.residency(), Residency::Device);
    assert!(held(&index) < 3072 * (32 + 16 + 16) + 8192, "{}", index.memory());
    for index in [&mut index, &mut host] {
        index.add(&rows(53, 9500)).expect("good rows");
    }
    assert_eq!((index.residency(), index.len()), (Residency::Host, 12_400));
    assert!(same(&index, &host) && held(&index) <= LIMIT, "{}", index.memory());
    for index in [&mut index, &mut host] {
        index.update(&[7, 3007], &rows(54, 2)).expect("there");
        index.remove(&(2000..5000).collect::<Vec<u64>>()).expect("there");
        index.compact().expect("compacted");
        index.add(&rows(55, 300)).expect("good rows");
    }
    assert!(same(&index, &host));
    assert!(index.to_bytes().expect("bytes") == host.to_bytes().expect("bytes"), "saved alike");
}

#[test_matrix([Distribution::Sharded, Distribution::Replicated] => ignore["nightly"])]
fn all_devices_move_as_soon_as_one_has_too_little(distribution: Distribution) {
    let limit = if distribution == Distribution::Sharded { LIMIT / 2 } else { LIMIT };
    let (Some(small), Some(large)) = (limited(limit), gpu()) else { return };
    for devices in [[&*small, large], [large, &*small]] {
        let of = |devices: &[Device]| {
            let builder = Flat::builder(devices, Metric::L2, DIM)
                .quantization(Quantization::Int8)
                .distribution(distribution);
            builder.residency(Residency::Auto).build().expect("an index")
        };
        let mut index = of(&devices.map(Clone::clone));
        grow(&mut index, &mut of(&[Device::host()]));
        let memory = index.memory();
        let on_device =
            |name| memory.parts().iter().any(|part| part.name == name && part.residency == Residency::Device);
        assert!(!on_device("rows") && on_device("integers"), "{memory}");
    }
}

#[test_case(Metric::Cosine => ignore["nightly"])]
#[test_case(Metric::L2 => ignore["nightly"])]
fn lists_outgrow_their_device(metric: Metric) {
    let (Some(small), Some(large)) = (limited(LIMIT), gpu()) else { return };
    let sample = values(30, 1000);
    let (rows, more, queries) = (values(31, 1500), values(32, 3500), values(33, 20));
    let [mut index, mut forced] =
        [(&*small, Residency::Auto), (large, Residency::Host)].map(|(device, place)| {
            let builder =
                Ivf::builder(device, metric, DIM).lists(20).quantization(Quantization::Int8).residency(place);
            let mut index = builder.kmeans(few_iterations).train(view(&sample, DIM)).expect("trained");
            index.add(view(&rows, DIM)).expect("good rows");
            index
        });
    assert_eq!(index.residency(), Residency::Device);
    for index in [&mut index, &mut forced] {
        index.add(view(&more, DIM)).expect("good rows");
        index.remove(&(10..700).collect::<Vec<u64>>()).expect("there");
        index.compact().expect("compacted");
    }
    assert_eq!(index.residency(), Residency::Host);
    for probes in [1, 4, 20] {
        let [found, wanted] = [&index, &forced].map(|index| {
            index
                .search_with(view(&queries, DIM), &SearchOptions::new(10).probes(probes))
                .expect("an answer")
                .neighbors
        });
        assert_eq!(bits(&found), bits(&wanted), "{probes} probes");
    }
    assert!(index.to_bytes().expect("bytes") == forced.to_bytes().expect("bytes"), "saved alike");
}

#[test]
fn where_even_the_copy_does_not_fit_searches_stream_it() {
    let Some(device) = limited(LIMIT) else { return };
    let mut index = build(&device, Residency::Auto);
    add(&mut index, &values(40, 1500));
    let before = (answers(&index), held(&index));
    // Rows that are refused move nothing, and nothing of the failed change is held.
    let mut rows = values(41, 40_000);
    rows[777 * DIM] = f32::NAN;
    let error = index.add(view(&rows, DIM)).expect_err("a NaN");
    assert!(matches!(error, Error::NotFinite { row: 777, .. }), "{error}");
    assert_eq!((index.residency(), index.len()), (Residency::Device, 1500));
    assert_eq!((answers(&index), held(&index)), before);
    rows[777 * DIM] = 0.5;
    add(&mut index, &rows);
    assert_eq!((index.residency(), index.len()), (Residency::Host, 41_500));
    assert!(index.plan(40, 10).expect("a plan").windows > 1 && held(&index) <= LIMIT);
    let mut host = build(&Device::host(), Residency::Auto);
    add(&mut host, &values(40, 1500));
    add(&mut host, &rows);
    assert_eq!(answers(&index), answers(&host));
    // What the index held is free for others again when it is gone.
    drop(index);
    let mut other = build(&device, Residency::Device);
    add(&mut other, &values(42, 1408));
}

#[test]
fn without_a_screen_rows_stay_where_they_are() {
    let Some(device) = limited(LIMIT) else { return };
    let flat =
        Flat::builder(&*device, Metric::L2, DIM).quantization(Quantization::None).residency(Residency::Auto);
    let mut index = flat.build().expect("an index");
    add(&mut index, &values(50, 512));
    assert!(matches!(index.add(view(&values(51, 6000), DIM)), Err(Error::MemoryLimit { .. })));
    assert_eq!((index.residency(), index.len()), (Residency::Device, 512));
}

#[test]
fn expected_rows_that_do_not_fit_are_on_the_host_from_the_start() {
    let Some(device) = limited(LIMIT) else { return };
    let auto = || builder(&device).residency(Residency::Auto);
    assert_eq!(auto().capacity(2000).build().expect("an index").residency(), Residency::Device);
    assert_eq!(auto().capacity(8000).build().expect("an index").residency(), Residency::Host);
    let forced = builder(&device).residency(Residency::Device).capacity(8000).build().expect("an index");
    assert_eq!(forced.residency(), Residency::Device);
    let mut host = build(&Device::host(), Residency::Auto);
    add(&mut host, &values(60, 8000));
    let saved = host.to_bytes().expect("bytes");
    let loaded = Flat::loader(&*device).residency(Residency::Auto).load_bytes(&saved).expect("loaded");
    assert_eq!((loaded.residency(), answers(&loaded)), (Residency::Host, answers(&host)));
    let refused =
        Index::loader(&*device).residency(Residency::Device).load_bytes(&saved).expect_err("no room");
    assert!(matches!(refused, Error::MemoryLimit { .. }), "{refused}");
    drop(loaded);
    let roomy = Flat::loader(gpu().expect("an adapter")).residency(Residency::Auto).load_bytes(&saved);
    assert_eq!(roomy.expect("loaded").residency(), Residency::Device);
}

#[test]
fn a_host_copy_goes_when_the_rows_themselves_come() {
    let Some(device) = limited(LIMIT) else { return };
    let builder = builder(&device).residency(Residency::Auto);
    let mut index = builder.keep_host_copy(true).fallback(true).build().expect("an index");
    let mut host = build(&Device::host(), Residency::Auto);
    for index in [&mut index, &mut host] {
        add(index, &values(70, 2000));
    }
    assert!(index.memory().parts().iter().any(|part| part.name == "host copy"));
    for index in [&mut index, &mut host] {
        add(index, &values(71, 6000));
    }
    assert!(!index.memory().parts().iter().any(|part| part.name == "host copy"));
    assert_eq!((index.residency(), answers(&index)), (Residency::Host, answers(&host)));
}

#[test]
fn halves_and_rows_of_the_device_outgrow_it_too() {
    let Some(device) = limited(LIMIT) else { return };
    let (rows, _) = rounded(&values(80, 12_000));
    let of = |device: &Device| {
        let builder = builder(device).residency(Residency::Auto).elements(ElementKind::F16);
        let mut index = builder.build().expect("an index");
        index.add(view(&rows[..1000 * DIM], DIM)).expect("good rows");
        index.add(view(&rows[1000 * DIM..], DIM)).expect("good rows");
        index
    };
    let (index, host) = (of(&device), of(&Device::host()));
    assert_eq!((index.residency(), answers(&index)), (Residency::Host, answers(&host)));
    drop(index);
    let rows = values(81, 6000);
    let matrix = device.upload(view(&rows[1000 * DIM..], DIM)).expect("a matrix");
    let mut index = build(&device, Residency::Auto);
    let mut host = build(&Device::host(), Residency::Auto);
    add(&mut index, &rows[..1000 * DIM]);
    index.add(&matrix).expect("good rows");
    add(&mut host, &rows);
    assert_eq!((index.residency(), answers(&index)), (Residency::Host, answers(&host)));
}
