//! Index files with right checksums: what loads is an index that can be searched, changed, saved and loaded again.

use std::collections::BTreeMap;
use std::slice;

use nearfield::{Device, ElementKind, Error, Index, Matrix, Metric, Quantization};
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
    let Ok(mut index) = Index::loader(&device).load_bytes(sealed.as_deref().unwrap_or(data)) else { return };
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
        match living::add(&mut index, &query, own.as_ref().map(slice::from_ref)) {
            Ok(()) => assert_eq!(index.len(), before + 1),
            Err(Error::DuplicateId { .. }) if own.is_some() => {}
            Err(Error::IdTooLarge { .. }) if own.is_none() => {}
            Err(error) => panic!("{error}"),
        }
    }
    index.compact().expect("it is compacted");
    let bytes = index.to_bytes().expect("it is saved");
    let again = Index::loader(&device).load_bytes(&bytes).expect("what was saved");
    assert_eq!(living::ids(&again), living::ids(&index));
    let [one, other] =
        [&index, &again].map(|index| living::bits(&index.search(&query, 5).expect("an answer")));
    assert_eq!(one, other, "the same answer");
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

/// Files of every type of elements, of both kinds and of every metric, with and without tombstones and ids of their own.
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
        let bytes = index.to_bytes().expect("it is saved");
        assert_eq!(sealed(&bytes).as_ref(), Some(&bytes), "checksums are computed as nearfield does");
        files.push(bytes);
    }
    files
}
