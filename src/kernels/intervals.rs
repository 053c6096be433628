//! The values of the override constant `FORM`, and the intervals of scores in WGSL.

use crate::gpu::{Snippet, wgsl};
use crate::screen::certificate::Form;

/// The ends of a score's interval, by the form of the scores.
pub(crate) const INTERVALS: Snippet = wgsl!(
    "lib/intervals",
    FORM_DIRECT = Form::Direct,
    FORM_L2 = Form::L2,
    FORM_INNER_PRODUCT = Form::InnerProduct,
    FORM_COSINE = Form::Cosine,
    FORM_QUANTIZED_L2 = Form::QuantizedL2,
    FORM_QUANTIZED_INNER_PRODUCT = Form::QuantizedInnerProduct,
    FORM_QUANTIZED_COSINE = Form::QuantizedCosine,
);

/// Every form.
pub(crate) const FORMS: &[u32] = &[
    Form::Direct as u32,
    Form::L2 as u32,
    Form::InnerProduct as u32,
    Form::Cosine as u32,
    Form::QuantizedL2 as u32,
    Form::QuantizedInnerProduct as u32,
    Form::QuantizedCosine as u32,
];

/// The forms of quantised vectors.
pub(crate) const QUANTIZED_FORMS: &[u32] =
    &[Form::QuantizedL2 as u32, Form::QuantizedInnerProduct as u32, Form::QuantizedCosine as u32];

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
