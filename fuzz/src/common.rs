//! What the targets share with `nearfield soak` and the tests of the library.

#[path = "../../cli/src/soak/model/life/mod.rs"]
pub(crate) mod life;
#[path = "../../cli/src/soak/model/living.rs"]
pub(crate) mod living;
#[path = "../../cli/src/soak/model/random.rs"]
mod random;
#[path = "../../cli/src/soak/model/truth.rs"]
mod truth;

pub(crate) use random::{Random, rounded, view};
