//! Arguments from JavaScript: vectors, ids and settings.

use std::hint::black_box;

use half::f16;
use js_sys::{Float32Array, Float64Array, Int8Array, JSON, Reflect, Uint8Array, Uint16Array};
use nearfield::{Device, DeviceMatrix, ElementKind, Error, HostVectors, MatrixView, Metric, Quantization};
use wasm_bindgen::prelude::*;

use crate::buffer::vectors_of;
use crate::error::{Result, argument, thrown};

/// The largest id that a number of JavaScript holds exactly, as do all below it.
pub(crate) const LARGEST_ID: u64 = (1 << 53) - 1;

/// 2^64.
const PAST_U64: f64 = (1u128 << 64) as f64;

/// An error unless there is memory for so many elements: to copy them with less would end the module.
#[inline(never)]
pub(crate) fn check_room(elements: u32, element_bytes: usize) -> Result<()> {
    let bytes = (elements as usize).saturating_mul(element_bytes);
    let mut room = Vec::<u8>::new();
    let has_room = room.try_reserve_exact(bytes).is_ok();
    // The compiler leaves out memory that nobody looks at.
    black_box(room);
    if has_room {
        return Ok(());
    }
    Err(thrown(Error::OutOfMemory { purpose: "an argument".into(), bytes: Some(bytes as u64) }))
}

#[wasm_bindgen]
extern "C" {
    type TypedArray;

    #[wasm_bindgen(method, catch)]
    fn at(this: &TypedArray, index: i32) -> std::result::Result<JsValue, JsValue>;
}

/// An error if the buffer of an array was moved away since the call: to copy it would end the module.
pub(crate) fn check_there(name: &str, array: &JsValue) -> Result<()> {
    let needed = "an array that stays until the call has ended";
    let there = array.unchecked_ref::<TypedArray>().at(0);
    there.map(drop).map_err(|_| argument(name, needed, "one whose buffer was moved away"))
}

/// Vectors, one after the other: in the memory of WebAssembly, or on the device.
pub(crate) enum Vectors {
    F32(Vec<f32>),
    F16(Vec<f16>),
    I8(Vec<i8>),
    U8(Vec<u8>),
    Device(DeviceMatrix),
}

impl Vectors {
    /// Copies a `Float32Array`, the bits of a `Float16Array` in a `Uint16Array`, an `Int8Array`, a `Uint8Array`, or vectors of `dim` elements in a `GPUBuffer` of the device.
    pub(crate) async fn copied(device: &Device, name: &str, values: &JsValue, dim: usize) -> Result<Self> {
        if let Some(values) = values.dyn_ref::<Float32Array>() {
            check_there(name, values)?;
            check_room(values.length(), size_of::<f32>())?;
            return Ok(Self::F32(values.to_vec()));
        }
        if let Some(values) = values.dyn_ref::<Int8Array>() {
            check_there(name, values)?;
            check_room(values.length(), size_of::<i8>())?;
            return Ok(Self::I8(values.to_vec()));
        }
        if let Some(values) = values.dyn_ref::<Uint8Array>() {
            check_there(name, values)?;
            check_room(values.length(), size_of::<u8>())?;
            return Ok(Self::U8(values.to_vec()));
        }
        match values.dyn_ref::<Uint16Array>() {
            Some(bits) => {
                check_there(name, bits)?;
                check_room(bits.length(), size_of::<f16>())?;
                // In place.
                Ok(Self::F16(bits.to_vec().into_iter().map(f16::from_bits).collect()))
            }
            None if values.is_object() => Ok(Self::Device(vectors_of(device, values, dim).await?)),
            None => Err(argument(
                name,
                "a Float32Array, a Float16Array, an Int8Array or a Uint8Array",
                "something else",
            )),
        }
    }

    /// As vectors of `dim` elements, for an index that stores such ones: one of bits takes bytes for eight bits each.
    pub(crate) fn view(&self, dim: usize, stored: ElementKind) -> Result<nearfield::Vectors<'_>> {
        match self {
            Self::F32(values) => Ok(MatrixView::new(values, dim).map_err(thrown)?.into()),
            Self::F16(values) => Ok(MatrixView::new(values, dim).map_err(thrown)?.into()),
            Self::I8(values) => Ok(MatrixView::new(values, dim).map_err(thrown)?.into()),
            Self::U8(values) if stored == ElementKind::Bits => {
                let rows = MatrixView::new(values, dim).map(HostVectors::from);
                Ok(rows.and_then(HostVectors::of_bits).map_err(thrown)?.into())
            }
            Self::U8(values) => Ok(MatrixView::new(values, dim).map_err(thrown)?.into()),
            Self::Device(matrix) => Ok(matrix.into()),
        }
    }
}

/// Ids, which JavaScript has as numbers. The package's TypeScript has checked them.
pub(crate) fn ids(numbers: &Float64Array) -> Result<Vec<u64>> {
    check_room(numbers.length(), size_of::<f64>() + size_of::<u64>())?;
    Ok(numbers.to_vec().into_iter().map(|number| number as u64).collect())
}

/// Settings, as the JSON of an object.
pub(crate) struct Settings(JsValue);

impl Settings {
    pub(crate) fn parse(json: &str) -> Result<Self> {
        Ok(Self(JSON::parse(json)?))
    }

    /// A whole number; none if it is not set.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>> {
        let value = self.value(name);
        if value.is_undefined() || value.is_null() {
            return Ok(None);
        }
        match value.as_f64() {
            Some(number) if (0.0..PAST_U64).contains(&number) && number.fract() == 0.0 => {
                Ok(Some(number as u64))
            }
            _ => {
                let given = JSON::stringify(&value).map(String::from).unwrap_or_default();
                Err(argument(name, "a whole number that is not negative", &given))
            }
        }
    }

    /// A number of things; the largest there is, if there cannot be as many.
    pub(crate) fn count(&self, name: &str) -> Result<Option<usize>> {
        Ok(self.number(name)?.map(|number| usize::try_from(number).unwrap_or(usize::MAX)))
    }

    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.value(name).as_bool().unwrap_or(false)
    }

    fn word(&self, name: &str) -> Option<String> {
        self.value(name).as_string()
    }

    /// A property; undefined if there is none.
    fn value(&self, name: &str) -> JsValue {
        Reflect::get(&self.0, &name.into()).unwrap_or_default()
    }

    pub(crate) fn dim(&self) -> Result<usize> {
        self.count("dim")?.ok_or_else(|| argument("dim", "the number of elements of a vector", "none"))
    }

    pub(crate) fn metric(&self) -> Result<Metric> {
        self.word("metric").map_or(Ok(Metric::Cosine), |word| word.parse()).map_err(thrown)
    }

    pub(crate) fn quantization(&self) -> Result<Quantization> {
        self.word("quantization").map_or(Ok(Quantization::Auto), |word| word.parse()).map_err(thrown)
    }

    pub(crate) fn elements(&self) -> Result<ElementKind> {
        let Some(word) = self.word("dtype") else { return Ok(self.metric()?.default_elements()) };
        let named = ElementKind::ALL.into_iter().find(|kind| kind.numpy_name() == word);
        // JavaScript has no arrays of bfloat16.
        let taken = named.filter(|kind| *kind != ElementKind::BF16);
        taken.ok_or_else(|| argument("dtype", "float32, float16, int8, uint8 or ubinary", &word))
    }
}
