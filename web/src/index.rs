//! Indexes.

use js_sys::{BigUint64Array, Float32Array, Float64Array, Function, JSON, JsString, Promise, Uint8Array};
use nearfield::{AddOptions, Filter, Index, Pair, SearchOptions};
use wasm_bindgen::prelude::*;

use crate::arguments::{self, Settings, Vectors};
use crate::error::{Result, argument, thrown};
use crate::results::{self, Pairs, answer, graph, object};
use crate::signal::{Listener, of_argument, unless};

/// An index of either kind.
#[wasm_bindgen]
#[derive(Debug)]
pub struct CoreIndex(Index);

/// What an index of rows does as one of documents does.
macro_rules! index_methods {
    ($Core:ident) => {
        #[wasm_bindgen]
        impl $Core {
            /// Removes the rows, or documents, with these ids.
            pub async fn remove(&mut self, ids: Float64Array, aborted: Option<Promise>) -> Result<()> {
                unless(aborted, self.0.remove_async(&arguments::ids(&ids)?)).await
            }

            /// Frees the memory of removed ones.
            pub async fn compact(&mut self, aborted: Option<Promise>) -> Result<()> {
                unless(aborted, self.0.compact_async()).await
            }

            /// The ids of all.
            pub fn ids(&self) -> Result<Float64Array> {
                Ok(results::ids(&self.0.ids().map_err(thrown)?))
            }

            /// Whether there is one with this id.
            pub fn has(&self, id: f64) -> Result<bool> {
                Ok(self.0.contains(id as u64))
            }

            /// The bytes of the index as a file.
            pub async fn to_bytes(&self, aborted: Option<Promise>) -> Result<Uint8Array> {
                let bytes = unless(aborted, self.0.to_bytes_async()).await?;
                Ok(Uint8Array::from(&bytes[..]))
            }
        }
    };
}
pub(crate) use index_methods;

index_methods!(CoreIndex);

impl CoreIndex {
    pub(crate) fn new(index: impl Into<Index>) -> Self {
        Self(index.into())
    }

    /// Vectors for this index.
    async fn taken(&self, name: &str, values: &JsValue) -> Result<Vectors> {
        Vectors::copied(self.0.device(), name, values, self.0.dim()).await
    }
}

/// The rows that a search may return.
enum Allowed {
    Ids(Vec<u64>),
    Bits(Vec<u64>),
}

impl Allowed {
    /// Ids as numbers, or words of 64 bits; none for all rows.
    fn new(value: &JsValue) -> Result<Option<Self>> {
        if value.is_undefined() {
            return Ok(None);
        }
        if let Some(numbers) = value.dyn_ref::<Float64Array>() {
            return Ok(Some(Self::Ids(arguments::ids(numbers)?)));
        }
        match value.dyn_ref::<BigUint64Array>() {
            Some(words) => {
                arguments::check_room(words.length(), size_of::<u64>())?;
                Ok(Some(Self::Bits(words.to_vec())))
            }
            None => Err(argument("allow", "ids or a bitset", "something else")),
        }
    }

    fn filter(&self) -> Filter<'_> {
        match self {
            Self::Ids(ids) => Filter::ids(ids),
            Self::Bits(words) => Filter::bits(words),
        }
    }
}

/// What searches have alike: the rows, or documents, that they may find, and who hears of progress.
pub(crate) struct Asked {
    allowed: Option<Allowed>,
    hear: Box<dyn Fn(usize) + Send + Sync>,
}

impl Asked {
    pub(crate) fn new(allow: &JsValue, progress: Option<Function>) -> Result<Self> {
        let allowed = Allowed::new(allow)?;
        let listener = progress.map(Listener::new);
        let hear = move |done| listener.iter().for_each(|listener| listener.hear(done));
        Ok(Self { allowed, hear: Box::new(hear) })
    }

    pub(crate) fn filter(&self) -> Option<Filter<'_>> {
        self.allowed.as_ref().map(Allowed::filter)
    }

    pub(crate) fn progress(&self) -> &(dyn Fn(usize) + Send + Sync) {
        &*self.hear
    }

    fn options<'a>(&'a self, options: SearchOptions<'a>) -> SearchOptions<'a> {
        let options = options.progress(self.progress());
        match self.filter() {
            Some(filter) => options.filter(filter),
            None => options,
        }
    }
}

/// How many neighbours are wanted, and of how many lists.
fn nearest(settings: &Settings) -> Result<SearchOptions<'static>> {
    let options = SearchOptions::new(settings.count("k")?.unwrap_or(10));
    Ok(match settings.count("probes")? {
        Some(probes) => options.probes(probes),
        None => options,
    })
}

#[wasm_bindgen]
impl CoreIndex {
    /// What the index is and has, as JSON.
    pub fn describe(&self) -> Result<JsString> {
        let index = &self.0;
        let about = object([
            ("kind", if index.lists().is_some() { "ivf" } else { "flat" }.into()),
            ("size", (index.len() as f64).into()),
            ("dim", (index.dim() as f64).into()),
            ("dtype", index.elements().numpy_name().into()),
            ("metric", index.metric().to_string().into()),
            ("lists", index.lists().map_or(JsValue::NULL, |lists| (lists as f64).into())),
            ("nextId", (index.next_id() as f64).into()),
            ("memory", index.memory().to_string().into()),
        ])?;
        JSON::stringify(&about)
    }

    /// Adds rows, with the ids of their insertion if none are given. They are the caller's from its row `first` on.
    pub async fn add(
        &mut self,
        values: JsValue,
        ids: Option<Float64Array>,
        first: f64,
        aborted: Option<Promise>,
    ) -> Result<()> {
        let rows = self.taken("vectors", &values).await?;
        let ids = ids.as_ref().map(arguments::ids).transpose()?;
        let dim = self.0.dim();
        let mut options = AddOptions::new();
        if let Some(ids) = &ids {
            options = options.ids(ids);
        }
        let added = self.0.add_with_async(rows.view(dim, self.0.elements())?, &options);
        unless(aborted, of_argument("vectors", first as u64, added)).await
    }

    /// Replaces rows.
    pub async fn update(
        &mut self,
        ids: Float64Array,
        values: JsValue,
        aborted: Option<Promise>,
    ) -> Result<()> {
        let rows = self.taken("vectors", &values).await?;
        let dim = self.0.dim();
        let ids = arguments::ids(&ids)?;
        unless(
            aborted,
            of_argument("vectors", 0, self.0.update_async(&ids, rows.view(dim, self.0.elements())?)),
        )
        .await
    }

    /// The k nearest rows of each query.
    pub async fn search(
        &self,
        queries: JsValue,
        settings: String,
        allow: JsValue,
        progress: Option<Function>,
        aborted: Option<Promise>,
    ) -> Result<JsValue> {
        let settings = Settings::parse(&settings)?;
        let queries = self.taken("queries", &queries).await?;
        let asked = Asked::new(&allow, progress)?;
        let options = nearest(&settings)?
            .profile(settings.is_set("profile"))
            .iterative_scan(settings.is_set("iterativeScan"));
        let options = asked.options(options);
        let search = self.0.search_with_async(queries.view(self.0.dim(), self.0.elements())?, &options);
        answer(&unless(aborted, search).await?)
    }

    /// All rows nearer to each query than a radius.
    pub async fn within(
        &self,
        queries: JsValue,
        radius: f32,
        allow: JsValue,
        progress: Option<Function>,
        aborted: Option<Promise>,
    ) -> Result<JsValue> {
        let queries = self.taken("queries", &queries).await?;
        let asked = Asked::new(&allow, progress)?;
        let options = asked.options(SearchOptions::within(radius));
        let search = self.0.search_with_async(queries.view(self.0.dim(), self.0.elements())?, &options);
        answer(&unless(aborted, search).await?)
    }

    /// The k nearest other rows of every row.
    pub async fn knn_graph(
        &self,
        settings: String,
        allow: JsValue,
        progress: Option<Function>,
        aborted: Option<Promise>,
    ) -> Result<JsValue> {
        let asked = Asked::new(&allow, progress)?;
        let options = asked.options(nearest(&Settings::parse(&settings)?)?);
        graph(&unless(aborted, self.0.knn_graph_with_async(&options)).await?)
    }

    /// All pairs of rows nearer to each other than a radius.
    pub async fn pairs_within(
        &self,
        radius: f32,
        allow: JsValue,
        progress: Option<Function>,
        aborted: Option<Promise>,
    ) -> Result<JsValue> {
        let asked = Asked::new(&allow, progress)?;
        let options = asked.options(SearchOptions::within(radius));
        let mut found = Pairs::default();
        let mut take = |pairs: &[Pair]| found.extend(pairs);
        unless(aborted, self.0.visit_pairs_async(&options, &mut take)).await?;
        found.answer()
    }

    /// The rows with these ids.
    pub async fn get(&self, ids: Float64Array) -> Result<Float32Array> {
        let rows = self.0.get_async(&arguments::ids(&ids)?).await.map_err(thrown)?;
        Ok(Float32Array::from(&rows[..]))
    }

    /// How a search would run, in words.
    pub fn plan(&self, queries: f64, settings: String) -> Result<String> {
        let settings = Settings::parse(&settings)?;
        let k = settings.count("k")?.unwrap_or(10);
        self.0.plan(queries as usize, k, settings.count("probes")?).map_err(thrown)
    }

    /// Compiles the kernels of all searches.
    pub async fn warm_up(&self, aborted: Option<Promise>) -> Result<()> {
        unless(aborted, self.0.warm_up_async()).await
    }
}
