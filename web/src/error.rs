//! Errors as JavaScript gets them.

use js_sys::{Error as JsError, Reflect};
use nearfield::{Error, ErrorKind};
use wasm_bindgen::JsValue;

/// The result of a call from JavaScript.
pub(crate) type Result<T> = std::result::Result<T, JsValue>;

/// An `Error` with the message of a library's error and, as `code`, its kind, or a closer word for what programs tell apart.
pub(crate) fn thrown(error: Error) -> JsValue {
    let code = match (&error, error.kind()) {
        (Error::NotFinite { .. }, _) => "NotFinite",
        (Error::NormOutOfRange { .. }, _) => "NormOutOfRange",
        (Error::DuplicateId { .. }, _) => "DuplicateId",
        (Error::UnknownId { .. }, _) => "UnknownId",
        (Error::IdTooLarge { .. }, _) => "IdTooLarge",
        (Error::Budget { .. }, _) => "Budget",
        (Error::Device { .. }, _) => "Device",
        (_, ErrorKind::Argument) => "Argument",
        (_, ErrorKind::NoAdapter) => "NoAdapter",
        (_, ErrorKind::Unsupported) => "Unsupported",
        (_, ErrorKind::Memory) => "OutOfMemory",
        (_, ErrorKind::DeviceLost) => "DeviceLost",
        (_, ErrorKind::File) => "File",
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
