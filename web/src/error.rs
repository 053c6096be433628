//! Errors as JavaScript gets them.

use js_sys::{Error as JsError, Reflect};
use nearfield::Error;
use wasm_bindgen::JsValue;

/// The result of a call from JavaScript.
pub(crate) type Result<T> = std::result::Result<T, JsValue>;

/// An `Error` with the message of a library's error and, as `code`, the name of its variant.
pub(crate) fn thrown(error: Error) -> JsValue {
    let code = match &error {
        Error::NoAdapter { .. } => "NoAdapter",
        Error::Unsupported { .. } => "Unsupported",
        Error::Argument { .. } => "Argument",
        Error::NotFinite { .. } => "NotFinite",
        Error::NormOutOfRange { .. } => "NormOutOfRange",
        Error::DuplicateId { .. } => "DuplicateId",
        Error::UnknownId { .. } => "UnknownId",
        Error::IdTooLarge { .. } => "IdTooLarge",
        Error::Budget { .. } => "Budget",
        Error::OutOfMemory { .. } | Error::MemoryLimit { .. } => "OutOfMemory",
        Error::DeviceLost { .. } => "DeviceLost",
        Error::Device { .. } => "Device",
        Error::File { .. } => "File",
        _ => "Internal",
    };
    with_code(code, &error.to_string())
}

/// The error of an argument that only JavaScript can get wrong.
pub(crate) fn argument(name: &str, needed: &str, given: &str) -> JsValue {
    with_code("Argument", &format!("{name}: needed {needed}, given {given}"))
}

fn with_code(code: &str, message: &str) -> JsValue {
    let error = JsError::new(message);
    // A new object takes any property.
    let _ = Reflect::set(&error, &"code".into(), &code.into());
    error.into()
}
