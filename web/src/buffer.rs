//! The page's own `GPUDevice` and `GPUBuffer`s. wgpu takes neither, so a device goes in through an adapter that gives it out, and the
//! content of a buffer is copied on the GPU into one of wgpu's.

use js_sys::{Array, Object, Reflect};
use nearfield::{Device, DeviceMatrix, DeviceOptions, wgpu};
use wasm_bindgen::prelude::*;

use crate::error::{Result, argument, thrown};

#[wasm_bindgen]
extern "C" {
    type GpuDevice;

    #[wasm_bindgen(method, js_name = createCommandEncoder)]
    fn create_command_encoder(this: &GpuDevice) -> GpuCommandEncoder;

    #[wasm_bindgen(method, getter)]
    fn queue(this: &GpuDevice) -> GpuQueue;

    type GpuCommandEncoder;

    #[wasm_bindgen(method, catch, js_name = copyBufferToBuffer)]
    fn copy(
        this: &GpuCommandEncoder,
        source: &JsValue,
        source_offset: f64,
        target: &JsValue,
        target_offset: f64,
        bytes: f64,
    ) -> std::result::Result<(), JsValue>;

    #[wasm_bindgen(method)]
    fn finish(this: &GpuCommandEncoder) -> JsValue;

    type GpuQueue;

    #[wasm_bindgen(method)]
    fn submit(this: &GpuQueue, commands: &Array);
}

/// The vectors, `[rows, dim]`, f32 without padding, of an object `{ buffer, offset, rows }` whose buffer is the device's.
pub(crate) async fn vectors_of(device: &Device, described: &JsValue, dim: usize) -> Result<DeviceMatrix> {
    let property = |name: &str| Reflect::get(described, &name.into());
    let (buffer, offset) = (property("buffer")?, property("offset")?.as_f64().unwrap_or(0.0));
    let rows = property("rows")?.as_f64().unwrap_or(0.0) as usize;
    let wgpu_device = device.wgpu_device().map_err(thrown)?;
    let (row_bytes, stride_bytes) = (dim * 4, dim.next_multiple_of(4) * 4);
    let bytes = rows as u64 * stride_bytes as u64;
    // Otherwise a buffer that is too large, or cannot be read, would be told later, or only to the console.
    let refused = wgpu_device.push_error_scope(wgpu::ErrorFilter::Validation);
    let own = wgpu_device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("rows of the page"),
        size: bytes.max(16),
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let (Some(gpu), Some(target)) = (wgpu_device.as_webgpu(), own.as_webgpu()) else {
        return Err(argument("vectors", "a device of the browser", "another"));
    };
    let (gpu, target): (&GpuDevice, &JsValue) = (gpu.unchecked_ref(), target.as_ref());
    let encoder = gpu.create_command_encoder();
    // Vectors of a multiple of four elements lie as wgpu's buffer has them.
    let (pieces, piece_bytes) =
        if row_bytes == stride_bytes { (1, bytes as f64) } else { (rows, row_bytes as f64) };
    for piece in 0..pieces {
        let (from, to) = (offset + piece as f64 * row_bytes as f64, piece as f64 * stride_bytes as f64);
        encoder.copy(&buffer, from, target, to, piece_bytes)?;
    }
    gpu.queue().submit(&Array::of1(&encoder.finish()));
    if let Some(fault) = refused.pop().await {
        return Err(argument("vectors", "a buffer that the device can copy", &fault.to_string()));
    }
    DeviceMatrix::from_wgpu_async(device, &own, rows, dim).await.map_err(thrown)
}

/// A `navigator.gpu` with one adapter, which gives out this device.
fn gpu_of(device: &JsValue) -> Result<JsValue> {
    let adapter = Object::new();
    let taken = |from: &str, to: &str| -> Result<()> {
        let value = Reflect::get(device, &from.into())?;
        Reflect::set(&adapter, &to.into(), &value).map(drop)
    };
    taken("features", "features")?;
    taken("limits", "limits")?;
    taken("adapterInfo", "info")?;
    let given = js_sys::Promise::resolve(device);
    let request_device = Closure::once_into_js(move || given);
    Reflect::set(&adapter, &"requestDevice".into(), &request_device)?;
    let gpu = Object::new();
    let adapter = js_sys::Promise::resolve(&adapter);
    Reflect::set(&gpu, &"requestAdapter".into(), &Closure::once_into_js(move || adapter))?;
    Ok(gpu.into())
}

/// wgpu's instance with this in the place of `navigator.gpu`, which it reads while it is made.
fn instance_of(gpu: &JsValue) -> Result<wgpu::Instance> {
    let navigator = Reflect::get(&js_sys::global(), &"navigator".into())?;
    let property = Object::new();
    Reflect::set(&property, &"value".into(), gpu)?;
    Reflect::set(&property, &"configurable".into(), &true.into())?;
    let name = JsValue::from_str("gpu");
    if !Reflect::define_property(navigator.unchecked_ref::<Object>(), &name, &property)? {
        return Err(argument("gpuDevice", "a navigator that takes properties", "a frozen one"));
    }
    let instance = nearfield::browser_instance();
    // The browser's own, which the navigator's prototype has, shows again.
    Reflect::delete_property(navigator.unchecked_ref::<Object>(), &name)?;
    instance.ok_or_else(|| argument("gpuDevice", "a navigator that takes properties", "a frozen one"))
}

/// The library's device around a `GPUDevice` of the page.
pub(crate) async fn device_of(gpu_device: &JsValue, options: DeviceOptions) -> Result<Device> {
    if !gpu_device.is_object() || Reflect::get(gpu_device, &"createCommandEncoder".into())?.is_undefined() {
        return Err(argument("gpuDevice", "a GPUDevice", "something else"));
    }
    let refused =
        |fault: &dyn std::fmt::Display| argument("gpuDevice", "a GPUDevice that works", &fault.to_string());
    let instance = instance_of(&gpu_of(gpu_device)?)?;
    let adapter = instance.request_adapter(&Default::default()).await.map_err(|fault| refused(&fault))?;
    let descriptor = wgpu::DeviceDescriptor {
        required_features: adapter.features(),
        required_limits: adapter.limits(),
        ..Default::default()
    };
    let (device, queue) = adapter.request_device(&descriptor).await.map_err(|fault| refused(&fault))?;
    Ok(Device::from_wgpu(device, queue, options))
}
