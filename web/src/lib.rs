//! The library for JavaScript. The package's TypeScript (`web/ts`) checks types, queues calls and documents them; here are the calls
//! themselves, one for one.

#![cfg(target_arch = "wasm32")]

mod arguments;
mod buffer;
mod device;
mod documents;
mod error;
mod index;
mod results;
mod signal;

use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = console, js_name = error)]
    fn log_error(message: &str);
}

/// Runs once, when the module is instantiated: a panic, which ends all calls, tells the console where it was.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| log_error(&format!("nearfield: {panic}"))));
}
