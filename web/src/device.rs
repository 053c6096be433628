//! Devices.

use js_sys::{Array, Float32Array, Function, JSON, JsString, Promise, Uint8Array, Uint32Array};
use nearfield::{Device, DeviceOptions, ElementKind, Flat, Index, Ivf, Load, Loader, MultiVector};
use wasm_bindgen::prelude::*;

use crate::arguments::{LARGEST_ID, Settings, Vectors, check_room, check_there};
use crate::documents::{CoreDocuments, Tokens};
use crate::error::{Result, argument, thrown};
use crate::index::CoreIndex;
use crate::results::object;
use crate::signal::{Listener, of_argument, unless};

/// A device: the browser's GPU, or the host engine.
#[wasm_bindgen]
#[derive(Debug)]
pub struct CoreDevice(Device);

fn options(settings: &Settings) -> Result<DeviceOptions> {
    // Kernels are timed natively; here each search would compile them twice.
    let options = DeviceOptions::new().tune(false);
    Ok(match settings.number("budget")? {
        Some(budget) => options.budget_bytes(budget),
        None => options,
    })
}

/// Sets the options that the builders of all kinds of index share.
macro_rules! with_resources {
    ($builder:expr, $settings:expr) => {{
        let mut builder = $builder.keep_host_copy($settings.is_set("hostCopy"));
        if let Some(capacity) = $settings.count("capacity")? {
            builder = builder.capacity(capacity);
        }
        if let Some(budget) = $settings.number("budget")? {
            builder = builder.budget(budget);
        }
        builder
    }};
}

/// What a loader makes of a file's bytes.
async fn loaded<I: Load>(loader: Loader<I>, bytes: &Uint8Array) -> Result<I> {
    check_there("bytes", bytes)?;
    check_room(bytes.length(), 1)?;
    loader.load_bytes_async(&bytes.to_vec()).await.map_err(thrown)
}

/// An error for an id that no number of JavaScript holds exactly.
fn check_largest(id: Option<u64>) -> Result<()> {
    match id.filter(|&id| id > LARGEST_ID) {
        Some(id) => Err(argument("bytes", "an index with ids below 2^53", &format!("one with id {id}"))),
        None => Ok(()),
    }
}

#[wasm_bindgen]
impl CoreDevice {
    /// Opens the device of a name, as `Device::named` takes it.
    pub async fn open(name: String, settings: String) -> Result<Self> {
        let options = options(&Settings::parse(&settings)?)?;
        Ok(Self(Device::open_async(Some(&name), options).await.map_err(thrown)?))
    }

    /// A device around a `GPUDevice` of the page.
    pub async fn of_gpu_device(gpu_device: JsValue, settings: String) -> Result<Self> {
        let options = options(&Settings::parse(&settings)?)?;
        Ok(Self(crate::buffer::device_of(&gpu_device, options).await?))
    }

    /// Describes the device, and tells why it was taken, as JSON.
    pub fn describe(&self) -> Result<JsString> {
        let (adapter, has) = (self.0.adapter(), self.0.capabilities());
        let number = |value: u64| JsValue::from(value as f64);
        let limits = object([
            ("bufferBytes", number(has.max_buffer_bytes)),
            ("bindingBytes", number(has.max_binding_bytes)),
            ("storageBuffers", has.max_storage_buffers.into()),
            ("workgroupSize", has.max_workgroup_size.into()),
            ("workgroupBytes", has.max_workgroup_bytes.into()),
        ])?;
        let subgroups = has.subgroup_sizes.map(|(least, most)| Array::of2(&least.into(), &most.into()));
        let features = object([
            ("f16", has.f16.into()),
            ("subgroups", subgroups.map_or(JsValue::NULL, JsValue::from)),
            ("timestamps", has.timestamps.into()),
        ])?;
        let about = object([
            ("name", (&*adapter.name).into()),
            ("backend", (&*adapter.backend).into()),
            ("kind", adapter.kind.to_string().into()),
            ("reason", self.0.reason().into()),
            ("limits", limits),
            ("features", features),
        ])?;
        JSON::stringify(&about)
    }

    /// The `GPUDevice` behind this one; undefined for the host engine.
    pub fn gpu_device(&self) -> JsValue {
        let device = self.0.wgpu_device().ok().and_then(|device| device.as_webgpu());
        device.map_or(JsValue::UNDEFINED, |device| device.clone().into())
    }

    /// An empty `Flat`.
    pub async fn flat(&self, settings: String) -> Result<CoreIndex> {
        let settings = Settings::parse(&settings)?;
        let builder = Flat::builder(&self.0, settings.metric()?, settings.dim()?);
        let builder = builder.elements(settings.elements()?).quantization(settings.quantization()?);
        let built = with_resources!(builder, settings).build_async().await;
        Ok(CoreIndex::new(built.map_err(thrown)?))
    }

    /// An `Ivf` without rows whose centroids are trained on a sample.
    pub async fn train(
        &self,
        settings: String,
        sample: JsValue,
        progress: Option<Function>,
        aborted: Option<Promise>,
    ) -> Result<CoreIndex> {
        let settings = Settings::parse(&settings)?;
        let dim = settings.dim()?;
        let sample = Vectors::copied(&self.0, "sample", &sample, dim).await?;
        let listener = progress.map(Listener::new);
        let hear = |iteration: usize, _: f64| listener.iter().for_each(|listener| listener.hear(iteration));
        let (iterations, seed) = (settings.count("iterations")?, settings.number("seed")?);
        let builder = Ivf::builder(&self.0, settings.metric()?, dim).kmeans(|means| {
            let means = means.progress(&hear);
            let means = match iterations {
                Some(iterations) => means.iterations(iterations),
                None => means,
            };
            seed.map_or(means.clone(), |seed| means.seed(seed))
        });
        let mut builder = builder.elements(settings.elements()?).quantization(settings.quantization()?);
        if let Some(lists) = settings.count("lists")? {
            builder = builder.lists(lists);
        }
        let builder = with_resources!(builder, settings);
        let trained = of_argument("sample", 0, builder.train_async(sample.view(dim, ElementKind::F32)?));
        let trained = unless(aborted, trained).await?;
        Ok(CoreIndex::new(trained))
    }

    /// The index of a file's bytes.
    pub async fn load(&self, bytes: Uint8Array, settings: String) -> Result<CoreIndex> {
        let settings = Settings::parse(&settings)?;
        let index = loaded(with_resources!(Index::loader(&self.0), settings), &bytes).await?;
        check_largest(index.largest_id())?;
        Ok(CoreIndex::new(index))
    }

    /// An empty `MultiVector`.
    pub async fn documents(&self, settings: String) -> Result<CoreDocuments> {
        let settings = Settings::parse(&settings)?;
        let builder = MultiVector::builder(&self.0, settings.dim()?).elements(settings.elements()?);
        let built = with_resources!(builder, settings).build_async().await;
        Ok(CoreDocuments::new(built.map_err(thrown)?))
    }

    /// The `MultiVector` of a file's bytes.
    pub async fn load_documents(&self, bytes: Uint8Array, settings: String) -> Result<CoreDocuments> {
        let settings = Settings::parse(&settings)?;
        let index = loaded(with_resources!(MultiVector::loader(&self.0), settings), &bytes).await?;
        check_largest(index.ids().map_err(thrown)?.last().copied())?;
        Ok(CoreDocuments::new(index))
    }

    /// The MaxSim of every query and every document, `[queries, documents]`.
    pub async fn maxsim(
        &self,
        queries: JsValue,
        query_offsets: Uint32Array,
        documents: JsValue,
        document_offsets: Uint32Array,
        dim: f64,
        aborted: Option<Promise>,
    ) -> Result<Float32Array> {
        let dim = dim as usize;
        let queries = Tokens::copied(&self.0, "queries", &queries, &query_offsets, dim).await?;
        let documents = Tokens::copied(&self.0, "documents", &documents, &document_offsets, dim).await?;
        let (queries, documents) = (queries.view(dim)?, documents.view(dim)?);
        let scores = unless(aborted, self.0.maxsim_async(&queries, &documents)).await?;
        Ok(Float32Array::from(&scores[..]))
    }
}
