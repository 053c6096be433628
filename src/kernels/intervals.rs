//! The values of the override constant `FORM`, and the intervals of scores in WGSL.

use crate::gpu::{Snippet, wgsl};
use crate::metric::Form;

/// The ends of a score's interval, by the form of the scores.
pub(crate) const INTERVALS: Snippet = Snippet { constants: Form::NAMES, ..wgsl!("lib/intervals") };

/// Declares the parameters of a kernel that computes intervals: as [`params!`](crate::gpu::params), with the bounds of a screen's errors
/// behind the fields, and `Params::of`.
macro_rules! params_with_margin {
    ($(#[$meta:meta])* pub struct Params { $($fields:tt)* }) => {
        crate::gpu::params! {
            $(#[$meta])*
            pub struct Params {
                $($fields)*
                /// Bound of a score's error, relative to its scale.
                margin: f32,
                /// The same, absolute.
                margin_floor: f32,
                /// At least the length of the centre.
                centre_length: f32,
                /// Its square.
                centre_squared: f32,
            }
        }

        impl Params {
            /// The bounds of a screen's errors; all else is left 0.
            pub fn of(margin: Margin) -> Self {
                let Margin { relative: margin, floor: margin_floor, centre_length, centre_squared } = margin;
                Self { margin, margin_floor, centre_length, centre_squared, ..Self::default() }
            }
        }
    };
}
pub(crate) use params_with_margin;
