//! Answers as JavaScript gets them.

use js_sys::{Array, Float32Array, Float64Array, Object, Reflect, Uint32Array};
use nearfield::SearchResult;
use wasm_bindgen::JsValue;

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

/// The neighbours of all queries, one query after the other, with how they were found.
pub(crate) fn answer(result: &SearchResult) -> Result<JsValue> {
    let (found, how) = (&result.neighbors, &result.statistics);
    let offsets: Vec<u32> = found.offsets().iter().map(|&offset| offset as u32).collect();
    let stages = how.stages.iter().map(|one| {
        object([
            ("stage", one.stage.into()),
            ("milliseconds", (one.time.as_secs_f64() * 1e3).into()),
            ("passes", (one.passes as f64).into()),
        ])
    });
    let statistics = object([
        ("scored", (how.scored as f64).into()),
        ("refined", (how.refined as f64).into()),
        ("onHost", how.on_host.into()),
        ("stages", stages.collect::<Result<Array>>()?.into()),
    ])?;
    object([
        ("ids", ids(found.ids()).into()),
        ("distances", Float32Array::from(found.distances()).into()),
        ("offsets", Uint32Array::from(&offsets[..]).into()),
        ("statistics", statistics),
    ])
}
