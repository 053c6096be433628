//! The seam between indexes and what computes for them. Indexes call [`Rows`], [`Training`] and the operations on [`Device`].

pub(crate) mod device;
pub(crate) mod documents;
pub(crate) mod lists;
pub(crate) mod ops;
pub(crate) mod parts;
mod pass;
pub(crate) mod rows;
pub(crate) mod screens;
pub(crate) mod search;
pub(crate) mod tune;

pub use device::distance_matrix::DistanceMatrix;
pub use device::handle::Device;
pub use device::matrices::DeviceMatrix;
#[cfg(feature = "unstable")]
pub use device::record::Recorder;
pub use device::values::{DeviceVector, ValueRows, Values};
pub use device::vectors::Vectors;
pub(crate) use documents::cache::DocumentCache;
pub(crate) use documents::request::{DocumentRequest, Found, Scored, weights as token_weights};
pub use documents::tokens::TokenVectors;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use documents::tokens::check_offsets;
pub(crate) use lists::assign::Assigned;
pub(crate) use lists::given::{DeviceCentroids, GivenCentroids};
pub(crate) use lists::sample::Sample;
pub(crate) use lists::tables::PAGE;
pub(crate) use lists::training::{Training, most_training_rows};
pub(crate) use ops::job::Job;
pub use ops::job::Stages;
pub(crate) use ops::reductions::{reduce_rows, reduce_vector, squared_deviations, squared_deviations_rows};
pub use parts::devices::Devices;
pub(crate) use parts::open::open_rows;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use parts::reading::open_file;
pub(crate) use rows::allowed::Allowed;
pub(crate) use rows::changing::change;
pub(crate) use rows::contract::{Recovered, RowSource, Rows, search_rows};
pub(crate) use rows::edit::Edit;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use rows::hybrid::of_file::FileRows;
pub(crate) use rows::mirrored::CopyOptions;
pub(crate) use rows::segments::STORED_BYTES;
pub(crate) use rows::shape::RowShape;
pub(crate) use rows::write::Placing;
pub(crate) use screens::int8::codes::TERMS_BYTES;
pub use screens::score::ScreenKernel;
pub use search::plan::{Plan, Route};
pub(crate) use search::request::SearchRequest;
pub use search::request::{SearchResult, Statistics};

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::host::MappedRows;
pub use tune::TunedKernel;
