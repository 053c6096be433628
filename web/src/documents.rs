//! Indexes of documents.

use js_sys::{Float32Array, Float64Array, Function, JSON, JsString, Promise, Uint8Array, Uint32Array};
use nearfield::{AddOptions, Device, ElementKind, MaxSimOptions, MultiVector, TokenVectors};
use wasm_bindgen::prelude::*;

use crate::arguments::{self, Settings, Vectors, check_room};
use crate::error::{Result, thrown};
use crate::index::{Asked, index_methods};
use crate::results::{self, object, ranking};
use crate::signal::{of_argument, unless};

/// An index of documents of several tokens each.
#[wasm_bindgen]
#[derive(Debug)]
pub struct CoreDocuments(MultiVector);

/// Token vectors of documents or queries, and where those of each begin. The package's TypeScript has checked the numbers.
pub(crate) struct Tokens {
    vectors: Vectors,
    offsets: Vec<usize>,
}

impl Tokens {
    pub(crate) async fn copied(
        device: &Device,
        name: &str,
        values: &JsValue,
        offsets: &Uint32Array,
        dim: usize,
    ) -> Result<Self> {
        let vectors = Vectors::copied(device, name, values, dim).await?;
        check_room(offsets.length(), size_of::<usize>())?;
        // In place.
        let offsets = offsets.to_vec().into_iter().map(|offset| offset as usize).collect();
        Ok(Self { vectors, offsets })
    }

    pub(crate) fn view(&self, dim: usize) -> Result<TokenVectors<'_>> {
        // No bits: these are numbers.
        TokenVectors::new(self.vectors.view(dim, ElementKind::U8)?, &self.offsets).map_err(thrown)
    }
}

impl CoreDocuments {
    pub(crate) fn new(index: MultiVector) -> Self {
        Self(index)
    }

    /// Documents or queries for this index.
    async fn taken(&self, name: &str, values: &JsValue, offsets: &Uint32Array) -> Result<Tokens> {
        Tokens::copied(self.0.device(), name, values, offsets, self.0.dim()).await
    }
}

index_methods!(CoreDocuments);

#[wasm_bindgen]
impl CoreDocuments {
    /// What the index is and has, as JSON.
    pub fn describe(&self) -> Result<JsString> {
        let index = &self.0;
        let about = object([
            ("kind", "multivector".into()),
            ("size", (index.len() as f64).into()),
            ("tokens", (index.tokens() as f64).into()),
            ("dim", (index.dim() as f64).into()),
            ("dtype", index.elements().numpy_name().into()),
            ("nextId", (index.next_id() as f64).into()),
            ("memory", index.memory().to_string().into()),
        ])?;
        JSON::stringify(&about)
    }

    /// Adds documents, with the ids of their insertion if none are given. They are the caller's from its token `first` on.
    pub async fn add(
        &mut self,
        values: JsValue,
        offsets: Uint32Array,
        ids: Option<Float64Array>,
        first: f64,
        aborted: Option<Promise>,
    ) -> Result<()> {
        let tokens = self.taken("documents", &values, &offsets).await?;
        let ids = ids.as_ref().map(arguments::ids).transpose()?;
        let documents = tokens.view(self.0.dim())?;
        let mut options = AddOptions::new();
        options.ids = ids.as_deref();
        let added = self.0.add_with_async(&documents, &options);
        unless(aborted, of_argument("documents", first as u64, added)).await
    }

    /// Replaces documents.
    pub async fn update(
        &mut self,
        ids: Float64Array,
        values: JsValue,
        offsets: Uint32Array,
        aborted: Option<Promise>,
    ) -> Result<()> {
        let tokens = self.taken("documents", &values, &offsets).await?;
        let documents = tokens.view(self.0.dim())?;
        unless(aborted, self.0.update_async(&arguments::ids(&ids)?, &documents)).await
    }

    /// The k documents of largest MaxSim for each query.
    #[expect(clippy::too_many_arguments, reason = "a call of JavaScript")]
    pub async fn search(
        &self,
        queries: JsValue,
        offsets: Uint32Array,
        settings: String,
        weights: Option<Float32Array>,
        allow: JsValue,
        progress: Option<Function>,
        aborted: Option<Promise>,
    ) -> Result<JsValue> {
        let settings = Settings::parse(&settings)?;
        let tokens = self.taken("queries", &queries, &offsets).await?;
        let queries = tokens.view(self.0.dim())?;
        if let Some(weights) = &weights {
            check_room(weights.length(), size_of::<f32>())?;
        }
        let weights = weights.map(|weights| weights.to_vec());
        let asked = Asked::new(&allow, progress)?;
        let mut options = MaxSimOptions::new(settings.count("k")?.unwrap_or(10))
            .mean(settings.is_set("mean"))
            .profile(settings.is_set("profile"));
        options.weights = weights.as_deref();
        options.filter = asked.filter();
        options.progress = Some(asked.progress());
        ranking(&unless(aborted, self.0.search_with_async(&queries, &options)).await?)
    }

    /// The tokens of the document with this id.
    pub async fn get(&self, id: f64) -> Result<Float32Array> {
        let tokens = self.0.get_async(id as u64).await.map_err(thrown)?;
        check_room((tokens.rows() * tokens.dim()) as u32, size_of::<f32>())?;
        Ok(Float32Array::from(&tokens.into_f32()[..]))
    }
}
