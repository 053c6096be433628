//! Screens without a device: the option that asks for one, the centre that vectors are quantised around, and the intervals that scores
//! certify.

pub(crate) mod centre;
pub(crate) mod certificate;
pub(crate) mod option;

pub use option::Screen;
