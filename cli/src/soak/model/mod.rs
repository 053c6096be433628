//! A model of indexes, which `nearfield soak`, the tests of the library and its fuzz targets share.

pub(super) mod life;
pub(super) mod living;
mod random;
mod truth;

pub(super) use random::Random;
use random::{rounded, view};
