//! Answers as JavaScript gets them.

use js_sys::{Array, Float32Array, Float64Array, Object, Reflect, Uint32Array};
use nearfield::{Error, KnnGraph, Neighbors, Pair, Ranking, SearchResult, StageTime};
use wasm_bindgen::JsValue;

use crate::arguments::check_room;
use crate::error::Result;

/// An object with these properties.
pub(crate) fn object<const N: usize>(properties: [(&str, JsValue); N]) -> Result<JsValue> {
    let object = Object::new();
    for (name, value) in properties {
        Reflect::set(&object, &name.into(), &value)?;
    }
    Ok(object.into())
}

/// Ids as numbers. An index refuses those that no number holds exactly.
pub(crate) fn ids(ids: &[u64]) -> Float64Array {
    let numbers: Vec<f64> = ids.iter().map(|&id| id as f64).collect();
    Float64Array::from(&numbers[..])
}

/// The neighbours of every row, one row after the other.
pub(crate) fn graph(graph: &KnnGraph) -> Result<JsValue> {
    let found = graph.neighbors();
    object([
        ("rows", ids(graph.ids()).into()),
        ("ids", ids(found.ids()).into()),
        ("distances", Float32Array::from(found.distances()).into()),
        ("offsets", offsets(found).into()),
    ])
}

/// Pairs of rows, as JavaScript gets them.
#[derive(Default)]
pub(crate) struct Pairs {
    a: Vec<f64>,
    b: Vec<f64>,
    distances: Vec<f32>,
}

impl Pairs {
    /// Adds pairs, where there is memory for them.
    pub(crate) fn extend(&mut self, pairs: &[Pair]) -> nearfield::Result<()> {
        let room = [&mut self.a, &mut self.b].into_iter().try_for_each(|ids| ids.try_reserve(pairs.len()));
        room.and_then(|()| self.distances.try_reserve(pairs.len()))
            .map_err(|_| Error::OutOfMemory { purpose: "the pairs".into(), bytes: None })?;
        self.a.extend(pairs.iter().map(|pair| pair.a as f64));
        self.b.extend(pairs.iter().map(|pair| pair.b as f64));
        self.distances.extend(pairs.iter().map(|pair| pair.distance));
        Ok(())
    }

    pub(crate) fn answer(&self) -> Result<JsValue> {
        object([
            ("a", Float64Array::from(&self.a[..]).into()),
            ("b", Float64Array::from(&self.b[..]).into()),
            ("distances", Float32Array::from(&self.distances[..]).into()),
        ])
    }
}

/// Where the neighbours of each query start, and where the last end.
fn offsets(found: &Neighbors) -> Uint32Array {
    let offsets: Vec<u32> = found.offsets().iter().map(|&offset| offset as u32).collect();
    Uint32Array::from(&offsets[..])
}

/// The time of each stage on the device.
fn stages(times: &[StageTime]) -> Result<JsValue> {
    let stages = times.iter().map(|one| {
        object([
            ("stage", one.stage.into()),
            ("milliseconds", (one.time.as_secs_f64() * 1e3).into()),
            ("passes", (one.passes as f64).into()),
        ])
    });
    Ok(stages.collect::<Result<Array>>()?.into())
}

/// The documents of all queries, one query after the other, with how they were found.
pub(crate) fn ranking(ranking: &Ranking) -> Result<JsValue> {
    let ends = ranking.iter().scan(0, |end, row| {
        *end += row.len() as u32;
        Some(*end)
    });
    let offsets: Vec<u32> = [0].into_iter().chain(ends).collect();
    check_room(offsets[ranking.queries()], size_of::<f64>() + size_of::<f32>())?;
    let (ids, scores): (Vec<f64>, Vec<f32>) =
        ranking.iter().flatten().map(|hit| (hit.id as f64, hit.score)).unzip();
    let how = ranking.statistics();
    let statistics = object([
        ("bounded", (how.bounded as f64).into()),
        ("computed", (how.computed as f64).into()),
        ("stages", stages(&how.stages)?),
    ])?;
    object([
        ("ids", Float64Array::from(&ids[..]).into()),
        ("scores", Float32Array::from(&scores[..]).into()),
        ("offsets", Uint32Array::from(&offsets[..]).into()),
        ("statistics", statistics),
    ])
}

/// The neighbours of all queries, one query after the other, with how they were found.
pub(crate) fn answer(result: &SearchResult) -> Result<JsValue> {
    let (found, how) = (&result.neighbors, &result.statistics);
    let statistics = object([
        ("scored", (how.scored as f64).into()),
        ("refined", (how.refined as f64).into()),
        ("onHost", how.on_host.into()),
        ("stages", stages(&how.stages)?),
    ])?;
    object([
        ("ids", ids(found.ids()).into()),
        ("distances", Float32Array::from(found.distances()).into()),
        ("offsets", offsets(found).into()),
        ("statistics", statistics),
    ])
}
