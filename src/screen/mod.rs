//! Screens without a device: the centre that vectors are quantised around, and the intervals that scores certify.

pub(crate) mod centre;
pub(crate) mod certificate;
