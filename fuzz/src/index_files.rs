//! Index files with right checksums: what loads is an index that can be searched, changed, saved and loaded again.

use std::collections::BTreeMap;
use std::slice;

use nearfield::{
    AddOptions, Device, ElementKind, Error, Index, Matrix, MaxSimOptions, Metric, MultiVector, Quantization,
    TokenVectors,
};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use nearfield_testing::Random;
use nearfield_testing::living::{self, Kind};

/// The key of the header's own checksum.
const OWN: &str = "xxh3.header";

/// An index file whose text may be damaged. Its checksums are made right first.
pub(crate) fn index(data: &[u8]) {
    let sealed = sealed(data);
    let device = Device::host();
    let file = sealed.as_deref().unwrap_or(data);
    let Ok(mut index) = Index::loader(&device).load_bytes(file) else { return documents(&device, file) };
    let ids = living::ids(&index);
    assert!(ids.is_sorted_by(|one, next| one < next), "each id once");
    let query = Matrix::F32(vec![1.0; index.dim()], index.dim()).to_kind(index.elements());
    let found = index.search(&query, 3).expect("an answer");
    assert!(found.hits().len() <= ids.len().min(3), "as many as there are rows");
    assert!(index.lists().is_some() || found.hits().len() == ids.len().min(3), "all that were asked for");
    if let Some(&first) = ids.first() {
        assert_eq!(index.get(&[first]).expect("a row").len(), index.dim());
        index.remove(&[first]).expect("it is there");
    }
    // Ids and numbers may both be used up or taken.
    for own in [None, Some(1u64 << 50)] {
        let before = index.len();
        let added = living::add(&mut index, &query, own.as_ref().map(slice::from_ref));
        assert_eq!(index.len(), before + usize::from(is_added(added, own.is_some())));
    }
    index.compact().expect("it is compacted");
    let bytes = index.to_bytes().expect("it is saved");
    let again = Index::loader(&device).load_bytes(&bytes).expect("what was saved");
    assert_eq!(living::ids(&again), living::ids(&index));
    let [one, other] =
        [&index, &again].map(|index| living::bits(&index.search(&query, 5).expect("an answer")));
    assert_eq!(one, other, "the same answer");
}

/// The same for an index of documents.
fn documents(device: &Device, file: &[u8]) {
    let Ok(mut index) = MultiVector::loader(device).load_bytes(file) else { return };
    let ids = index.ids().expect("memory");
    assert!(ids.is_sorted_by(|one, next| one < next) && ids.len() == index.len(), "each id once");
    let lengths = ids.iter().map(|&id| index.get(id).expect("a document").rows());
    assert_eq!(lengths.sum::<usize>() as u64, index.tokens(), "tokens");
    let one = Matrix::F32(vec![1.0; index.dim()], index.dim()).to_kind(index.elements());
    let query = TokenVectors::from(&one);
    let found = index.search(&query, 3).expect("an answer");
    assert_eq!(found.row(0).len(), ids.len().min(3), "all that were asked for");
    if index.lists() > 0 {
        let some = MaxSimOptions::new(3).probes(1);
        let found = index.search_with(&query, &some).expect("an answer");
        assert!(found.row(0).len() <= ids.len().min(3), "as many as there are documents");
    }
    if let Some(first) = ids.first() {
        index.remove(&[*first]).expect("it is there");
    }
    for own in [None, Some([1u64 << 50])] {
        let before = index.len();
        let mut options = AddOptions::new();
        options.ids = own.as_ref().map(|own| &own[..]);
        let added = index.add_with(&query, &options);
        assert_eq!(index.len(), before + usize::from(is_added(added, own.is_some())));
    }
    index.compact().expect("it is compacted");
    let bytes = index.to_bytes().expect("it is saved");
    let again = MultiVector::loader(device).load_bytes(&bytes).expect("what was saved");
    assert_eq!((again.ids().expect("memory"), again.lists()), (index.ids().expect("memory"), index.lists()));
    let [one, other] = [&index, &again].map(|index| {
        let found = index.search(&query, 5).expect("an answer");
        found.row(0).iter().map(|hit| (hit.id, hit.score.to_bits())).collect::<Vec<_>>()
    });
    assert_eq!(one, other, "the same answer");
}

/// Whether something was added. Its id may be taken, or numbers used up.
fn is_added(added: Result<(), Error>, has_id: bool) -> bool {
    match added {
        Ok(()) => true,
        Err(Error::DuplicateId { .. }) if has_id => false,
        Err(Error::IdTooLarge { .. }) if !has_id => false,
        Err(error) => panic!("{error}"),
    }
}

/// The file with the checksums of its content, as nearfield writes it. None where its text is no header.
fn sealed(data: &[u8]) -> Option<Vec<u8>> {
    let mut values = serde_json::Deserializer::from_slice(data.get(8..)?).into_iter::<Value>();
    let header = values.next()?.ok()?;
    let content = &data[data.len().min((8 + values.byte_offset()).next_multiple_of(8))..];
    let header = header.as_object()?;
    let mut metadata = BTreeMap::new();
    for (key, value) in header.get("__metadata__")?.as_object()? {
        metadata.insert(key.clone(), value.as_str()?.to_owned());
    }
    let mut tensors = vec![];
    for (name, info) in header.iter().filter(|(name, _)| *name != "__metadata__") {
        let offset = |end: usize| usize::try_from(info.get("data_offsets")?.get(end)?.as_u64()?).ok();
        let (start, end) = (offset(0)?, offset(1)?);
        metadata.insert(format!("xxh3.{name}"), format!("{:016x}", xxh3_64(content.get(start..end)?)));
        tensors.push(((start, end), name, info));
    }
    tensors.sort_by_key(|&(offsets, name, _)| (offsets, name));
    metadata.insert(OWN.to_owned(), "0".repeat(16));
    let own = format!("{:016x}", xxh3_64(&rendered(&metadata, &tensors)?));
    metadata.insert(OWN.to_owned(), own);
    Some([&rendered(&metadata, &tensors)?, content].concat())
}

/// The first bytes of the file.
fn rendered(
    metadata: &BTreeMap<String, String>,
    tensors: &[((usize, usize), &String, &Value)],
) -> Option<Vec<u8>> {
    let mut text = format!("{{\"__metadata__\":{}", serde_json::to_string(metadata).ok()?);
    for ((start, end), name, info) in tensors {
        let (dtype, shape) = (info.get("dtype")?, info.get("shape")?);
        let name = serde_json::to_string(name).ok()?;
        text += &format!(",{name}:{{\"dtype\":{dtype},\"shape\":{shape},\"data_offsets\":[{start},{end}]}}");
    }
    text.push('}');
    text += &" ".repeat(text.len().next_multiple_of(8) - text.len());
    Some([&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat())
}

/// Files of every type of elements, of all kinds and of every metric, with and without tombstones, ids of their own and lists of tokens.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let device = Device::host();
    let mut random = Random::new(7);
    let mut files = vec![];
    for (number, elements) in ElementKind::ALL.into_iter().cycle().take(24).enumerate() {
        let round = number / ElementKind::ALL.len();
        let dim = [1, 3, 8, 20][round];
        let (metric, kind) = match elements {
            ElementKind::Bits => ([Metric::Hamming, Metric::Jaccard][round % 2], Kind::Flat),
            _ => (Metric::ALL[(number + round) % 4], [Kind::Flat, Kind::Ivf][round % 2]),
        };
        let quantization = [Quantization::Int8, Quantization::None][number / 2 % 2];
        let mut index = kind.make(&device, metric, dim, elements, quantization);
        let rows = Matrix::F32(random.integers([0, 1, 40, 90][(number + round) % 4] * dim, 9), dim);
        let ids: Vec<u64> = (0..rows.rows() as u64).map(|row| row * 7919 % 100_003).collect();
        let ids = (number % 5 > 0).then_some(&ids[..]);
        living::add(&mut index, &rows.to_kind(elements), ids).expect("good rows");
        let gone: Vec<u64> = index.ids().expect("memory").into_iter().step_by(3).collect();
        index.remove(&gone).expect("they are there");
        files.push(index.to_bytes().expect("it is saved"));
    }
    let numbers = ElementKind::ALL.into_iter().filter(|elements| *elements != ElementKind::Bits);
    for (number, elements) in numbers.cycle().take(12).enumerate() {
        let (dim, count) = ([1, 3, 8, 20][number % 4], [0, 1, 40][number % 3]);
        let mut index = MultiVector::builder(&device, dim).elements(elements).build().expect("an index");
        let offsets: Vec<usize> = (0..=count).map(|document| document * (document + 1) / 2).collect();
        let tokens = Matrix::F32(random.integers(offsets[count] * dim, 9), dim).to_kind(elements);
        let ids: Vec<u64> = (0..count as u64).map(|document| document * 7919 % 100_003).collect();
        let mut options = AddOptions::new();
        options.ids = (number % 5 > 0).then_some(&ids);
        let documents = TokenVectors::new(&tokens, &offsets).expect("good offsets");
        index.add_with(&documents, &options).expect("good documents");
        if number % 2 > 0 && count > 0 {
            index.build_lists(3.min(offsets[count])).expect("lists");
        }
        let gone: Vec<u64> = index.ids().expect("memory").into_iter().step_by(3).collect();
        index.remove(&gone).expect("they are there");
        files.push(index.to_bytes().expect("it is saved"));
    }
    for file in &files {
        assert_eq!(sealed(file).as_ref(), Some(file), "checksums are computed as nearfield does");
    }
    files
}
