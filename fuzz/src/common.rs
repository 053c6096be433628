//! What the targets share with the tests of the library.

#[path = "../../tests/common/life.rs"]
pub(crate) mod life;
#[path = "../../tests/common/living.rs"]
pub(crate) mod living;
#[path = "../../tests/common/random.rs"]
mod random;

pub(crate) use random::{Random, rounded, view};
