//! The seam between indexes and what computes for them. Indexes call [`EngineRows`], [`EngineLists`] and the operations on [`Device`];
//! each has an arm for each engine, a GPU or the host, in one file a group.

pub(crate) mod device;
pub(crate) mod lists;
pub(crate) mod ops;
mod pass;
pub(crate) mod rows;
pub(crate) mod search;
pub(crate) mod spread;
pub(crate) mod tune;

pub use device::distance_matrix::DistanceMatrix;
pub use device::handle::Device;
pub use device::matrices::DeviceMatrix;
#[cfg(feature = "unstable")]
pub use device::record::Recorder;
pub use device::values::{DeviceVector, ValueRows, Values};
pub use device::vectors::Vectors;
pub(crate) use lists::assign::Assigned;
pub(crate) use lists::device_lists::{DeviceLists, Training, most_training_rows};
pub(crate) use lists::sample::Sample;
pub(crate) use lists::tables::PAGE;
pub(crate) use ops::job::Job;
pub use ops::job::Stages;
pub(crate) use ops::reductions::{reduce_rows, reduce_vector, squared_deviations, squared_deviations_rows};
pub(crate) use rows::allowed::Allowed;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use rows::of_file::FileRows;
pub(crate) use rows::quantized::TERMS_BYTES;
pub(crate) use rows::segments::STORED_BYTES;
pub(crate) use rows::shape::{Kept, RowShape};
pub(crate) use rows::write::Placing;
pub use search::plan::{Plan, Route};
pub(crate) use search::request::SearchRequest;
pub use search::request::{SearchResult, Statistics};
pub use search::screens::ScreenKernel;
pub use spread::devices::Devices;
pub(crate) use spread::engine_lists::{EngineLists, Probed, search_rows};
pub(crate) use spread::engine_rows::EngineRows;
pub(crate) use spread::recovery::{Recovered, RowSource};

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::host::MappedRows;
pub use crate::screen::Screen;
pub use tune::TunedKernel;
