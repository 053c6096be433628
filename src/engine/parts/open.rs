//! Makes the rows of an index on its devices.

use crate::engine::parts::devices::Devices;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::parts::rows::Parts;
use crate::engine::rows::contract::Rows;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::rows::hybrid::outgrown::first_of;
use crate::engine::rows::mirrored::CopyOptions;
use crate::engine::rows::open::open_on;
use crate::engine::rows::shape::RowShape;
#[cfg(target_arch = "wasm32")]
use crate::error::Error;
use crate::future::Boxed;
use crate::options::distribution::Distribution;

/// Rows on one device, or on several. An index in a browser lives on one.
#[cfg_attr(target_arch = "wasm32", expect(unused_variables, reason = "one device"))]
pub(crate) fn open_rows<'f>(
    devices: &'f Devices,
    distribution: Distribution,
    shape: &'f RowShape,
    copy: CopyOptions,
) -> Boxed<'f, Box<dyn Rows>> {
    Box::pin(async move {
        copy.check()?;
        let rows = match devices.list() {
            [device] => {
                #[cfg(not(target_arch = "wasm32"))]
                let shape = &RowShape { kept: first_of(std::slice::from_ref(device), shape), ..*shape };
                open_on(device, shape).await?
            }
            #[cfg(not(target_arch = "wasm32"))]
            _ => Box::new(Parts::new(devices, distribution, shape).await?),
            #[cfg(target_arch = "wasm32")]
            several => return Err(Error::argument("devices", "one, in a browser", several.len())),
        };
        copy.mirrored(rows, devices.first()?, shape)
    })
}
