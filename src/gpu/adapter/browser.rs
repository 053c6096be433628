//! The adapters of a browser, or of another program that runs JavaScript.

use js_sys::Reflect;
use wasm_bindgen::JsValue;

use super::description::{Adapter, describe};

/// Tells the user why there may be no adapter.
pub(crate) const NO_ADAPTER: &str =
    "no adapter: does this browser have WebGPU, and does the page come over https or from localhost?";

/// wgpu's instance where JavaScript runs; none where it has no `navigator.gpu`. wgpu takes it from windows and workers and panics elsewhere:
/// Node and Deno look like a worker until the instance is made.
pub fn browser_instance() -> Option<wgpu::Instance> {
    let global = js_sys::global();
    let has = |object: &JsValue, name: &str| {
        Reflect::get(object, &name.into()).is_ok_and(|value| !value.is_undefined() && !value.is_null())
    };
    let navigator = Reflect::get(&global, &"navigator".into()).ok()?;
    if !navigator.is_object() || !has(&navigator, "gpu") {
        return None;
    }
    let scope = JsValue::from_str("WorkerGlobalScope");
    let is_disguised = !has(&global, "Window") && !has(&global, "WorkerGlobalScope");
    if is_disguised && !Reflect::set(&global, &scope, &global).unwrap_or(false) {
        return None;
    }
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    if is_disguised {
        // It was set just now, so it can be deleted.
        let _ = Reflect::delete_property(&global, &scope);
    }
    Some(instance)
}

/// The browser's adapter for heavy work and, if that is another, its software adapter; best first.
pub(crate) async fn enumerate() -> Vec<(wgpu::Adapter, Adapter)> {
    let Some(instance) = browser_instance() else { return vec![] };
    let mut described: Vec<(wgpu::Adapter, Adapter)> = vec![];
    for force_fallback_adapter in [false, true] {
        let power_preference = wgpu::PowerPreference::HighPerformance;
        let options =
            wgpu::RequestAdapterOptions { power_preference, force_fallback_adapter, ..Default::default() };
        let Ok(adapter) = instance.request_adapter(&options).await else { continue };
        let description = describe(&adapter.get_info(), adapter.features(), &adapter.limits(), vec![]);
        if !described.iter().any(|(_, there)| there.kind == description.kind) {
            described.push((adapter, description));
        }
    }
    // There are at most two, of different kinds.
    if !described.is_sorted_by_key(|(_, description)| description.kind) {
        described.reverse();
    }
    described
}
