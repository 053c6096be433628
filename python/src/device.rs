//! `nf.Device` and `nf.devices`.

use nearfield::{Adapter, AdapterKind, DeviceOptions, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::Kept;
use crate::given::{Given, described};
use crate::{call, python};

/// A GPU, or the processor.
///
/// `Device()` is the best GPU, and the processor where there is none; the environment variable NEARFIELD_ADAPTER overrides this.
/// `Device("host")` is the processor, `Device("gpu")` any GPU or software driver, `Device("1")` the adapter with that index, and any other
/// name the best adapter whose name contains it; `Device("h200#1")` is the second of those whose name contains "h200". `budget` is the bytes of scratch memory that all calls on it together may hold (256 MiB by default).
#[pyclass(frozen, module = "nearfield")]
#[derive(Debug)]
pub(crate) struct Device(pub(crate) Kept<nearfield::Device>);

impl From<nearfield::Device> for Device {
    fn from(device: nearfield::Device) -> Self {
        Self(Kept::new(device))
    }
}

#[pymethods]
impl Device {
    #[new]
    #[pyo3(signature = (name=None, *, budget=None))]
    fn new(py: Python<'_>, name: Option<Given<&str>>, budget: Option<Given<i64>>) -> PyResult<Self> {
        let name = name.map(|name| name.word("name")).transpose()?;
        let mut options = DeviceOptions::new();
        if let Some(bytes) = budget {
            options = options.budget_bytes(bytes.count("budget")? as u64);
        }
        Ok(listing(py, || nearfield::Device::open(name, options))?.into())
    }

    /// The driver's name for it.
    #[getter]
    fn name(&self) -> &str {
        &self.0.adapter().name
    }

    /// Its number among the GPUs and software drivers of the machine, best first, which opens it as a name. None for the processor.
    #[getter]
    fn index(&self) -> Option<usize> {
        self.0.adapter().index
    }

    /// Where the card is on the PCI bus ("0000:3b:00.0"), where the driver tells.
    #[getter]
    fn pci_address(&self) -> Option<&str> {
        self.0.adapter().pci_address.as_deref()
    }

    /// "discrete", "integrated", "virtual", "software", "host" or "unknown".
    #[getter]
    fn kind(&self) -> String {
        self.0.adapter().kind.to_string()
    }

    /// "vulkan", "metal", "dx12", "gl" or "host".
    #[getter]
    fn backend(&self) -> &str {
        &self.0.adapter().backend
    }

    /// The driver and its version.
    #[getter]
    fn driver(&self) -> &str {
        &self.0.adapter().driver
    }

    /// Bytes of memory, where the system tells them.
    #[getter]
    fn memory(&self) -> Option<u64> {
        self.0.adapter().memory_bytes
    }

    /// Why it was taken.
    #[getter]
    fn reason(&self) -> &str {
        self.0.reason()
    }

    /// A pickled device is opened again, by the name that is its own.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((&str,), Bound<'py, PyDict>)> {
        let name = &*self.0.adapter().selector;
        let options = PyDict::new(py);
        options.set_item("budget", self.0.options().budget_bytes)?;
        Ok(((name,), options))
    }

    /// A copy is the same device: nothing of it changes.
    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __repr__(&self) -> String {
        format!("<nearfield.Device {}>", self.0.adapter())
    }
}

/// All devices of this machine, the processor last. Each can be given as `device=`.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    let mut adapters = listing(py, || Ok(nearfield::Device::adapters()))?;
    if adapters.iter().all(|adapter| adapter.kind != AdapterKind::Host) {
        adapters.push(nearfield::Device::host().adapter().clone());
    }
    let class = python::adapter(py)?;
    let described = |adapter: Adapter| {
        let Adapter { name, backend, driver, kind, memory_bytes, index, pci_address, selector, .. } = adapter;
        class.call1((name, kind.to_string(), backend, driver, memory_bytes, index, pci_address, selector))
    };
    adapters.into_iter().map(described).collect()
}

/// Runs what lists the adapters of the machine, or opens one.
fn listing<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    call::opens_device();
    call::run(py, |_| work())
}

/// The device of an argument: a `Device`, one that `devices()` lists, a name, or none for the best.
pub(crate) fn chosen(py: Python<'_>, device: Option<&Bound<'_, PyAny>>) -> PyResult<nearfield::Device> {
    let _running = call::check(py)?;
    let name = match device.filter(|given| !given.is_none()) {
        None => None,
        Some(given) => match given.cast::<Device>() {
            Ok(device) => return Ok((*device.get().0).clone()),
            Err(_) => Some(name_of(py, given)?),
        },
    };
    listing(py, || nearfield::Device::shared(name.as_deref()))
}

/// The name in a string, or in an item of `devices()`.
fn name_of(py: Python<'_>, given: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(name) = given.extract() {
        return Ok(name);
    }
    if given.is_instance(&python::adapter(py)?)? {
        // One that a program made itself may have no more than a name.
        for field in ["selector", "name"] {
            if let Ok(name) = given.getattr(field)?.extract() {
                return Ok(name);
            }
        }
    }
    let given = described(given);
    Err(PyTypeError::new_err(format!("device: needed a nearfield.Device, a name or None, given {given}")))
}
