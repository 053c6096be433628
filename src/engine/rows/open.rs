//! Makes the rows of an index on one device.

use crate::engine::device::engine::Engine;
use crate::engine::device::handle::Device;
use crate::engine::rows::contract::Rows;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::rows::hybrid::HybridRows;
#[cfg(not(target_arch = "wasm32"))]
use crate::engine::rows::hybrid::outgrown;
use crate::engine::rows::on_host::ListedRows;
use crate::engine::rows::segments::GpuRows;
use crate::engine::rows::shape::RowShape;
use crate::engine::screens::int8::codes::QuantizedRows;
use crate::engine::search::ahead::Searched;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::host::HostRows;
#[cfg(not(target_arch = "wasm32"))]
use crate::options::residency::Residency;
use crate::screen::certificate::are_codes;

pub(crate) fn open_on<'f>(device: &'f Device, shape: &'f RowShape) -> Boxed<'f, Box<dyn Rows>> {
    Box::pin(async move {
        let &RowShape { metric, elements, dim, expected, quantization, .. } = shape;
        let gpu = match &device.engine {
            Engine::Gpu(gpu) => gpu,
            Engine::Host(_) => return Ok(Box::new(open_on_host(device, shape)?) as _),
        };
        #[cfg(not(target_arch = "wasm32"))]
        if shape.kept >= Residency::Host {
            let rows = HybridRows::new(gpu, shape)?;
            if let Some(integers) = rows.on_gpu() {
                gpu.compile_ahead(dim, || Searched::of(integers, metric).kernels());
            }
            return Ok(Box::new(rows) as _);
        }
        // Before anything runs: what this thread needs first, it compiles itself, and the rest is ready when rows are.
        let is_quantized = quantization.is_wanted(gpu, dim);
        let are_codes = is_quantized && are_codes(metric, elements, dim);
        let expects = Searched::expected(gpu, (metric, elements), is_quantized, are_codes);
        gpu.compile_ahead(dim, || expects.kernels());
        let quantized = match are_codes {
            true => Some(QuantizedRows::of_codes(gpu, (metric, elements), dim).await?),
            false => QuantizedRows::new(gpu, quantization, metric, dim)?,
        };
        #[cfg(not(target_arch = "wasm32"))]
        if outgrown::next(shape).is_some() {
            // With a place to go to, rows leave the device before their copy does.
            let quantized = quantized.map(QuantizedRows::required);
            let mut rows = GpuRows::new(gpu, (elements, dim), expected, quantized, true)?;
            rows.outgrown = Some(*shape);
            return Ok(Box::new(rows) as _);
        }
        Ok(Box::new(GpuRows::new(gpu, (elements, dim), expected, quantized, true)?) as _)
    })
}

/// Rows of the host engine.
pub(crate) fn open_on_host(device: &Device, shape: &RowShape) -> Result<ListedRows> {
    let Engine::Host(host) = &device.engine else {
        return Err(Error::internal("rows of the host engine on a GPU"));
    };
    let &RowShape { metric, elements, dim, expected, quantization, .. } = shape;
    let is_quantized = quantization.is_wanted_on_host(dim);
    let rows = HostRows::new(host.clone(), metric, elements, dim, is_quantized);
    rows.expecting(expected).map(ListedRows::from)
}
