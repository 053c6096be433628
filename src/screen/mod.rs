//! What a screen knows about a distance: centred rows, and the intervals that its scores certify.

pub(crate) mod centre;
pub(crate) mod certificate;
