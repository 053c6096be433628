//! The devices of an index.

use crate::engine::device::handle::Device;
use crate::error::{Error, Result};

/// One device or several that an index lives on: made from a reference to a [`Device`], or to an array, a slice or a vector of them.
///
/// Several are GPUs, or several times the host engine, but not both, because answers of the two differ in the last bits of distances. The
/// answers of an index on several devices of one kind are those of one such device, bit for bit.
///
/// ```no_run
/// use nearfield::{Device, DeviceOptions, Flat, MatrixView, Metric, Distribution};
/// let both = [Device::named("0")?, Device::named("1")?];
/// let mut index = Flat::builder(&both, Metric::Cosine, 2).distribution(Distribution::Replicated).build()?;
/// index.add(MatrixView::new(&[1.0f32, 0.0, 0.0, 1.0], 2)?)?;
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Devices {
    list: Vec<Device>,
}

impl From<&Device> for Devices {
    fn from(device: &Device) -> Self {
        Self { list: vec![device.clone()] }
    }
}

impl From<&[Device]> for Devices {
    fn from(devices: &[Device]) -> Self {
        Self { list: devices.to_vec() }
    }
}

impl<const COUNT: usize> From<&[Device; COUNT]> for Devices {
    fn from(devices: &[Device; COUNT]) -> Self {
        devices.as_slice().into()
    }
}

impl From<&Vec<Device>> for Devices {
    fn from(devices: &Vec<Device>) -> Self {
        devices.as_slice().into()
    }
}

impl From<&Devices> for Devices {
    fn from(devices: &Devices) -> Self {
        devices.clone()
    }
}

impl Devices {
    /// The devices, in the order in which they were given.
    pub fn list(&self) -> &[Device] {
        &self.list
    }

    /// The first, which also does what needs one device alone: it trains centroids, and takes matrices.
    pub(crate) fn first(&self) -> Result<&Device> {
        self.list.first().ok_or_else(|| Error::argument("devices", "at least one", 0))
    }

    /// Checks that an index can live on these devices.
    pub(crate) fn check(&self) -> Result<()> {
        let first = self.first()?;
        for (place, device) in self.list.iter().enumerate() {
            if device.is_host() != first.is_host() {
                let needed =
                    "GPUs alone or the host engine alone, because their distances differ in the last bits";
                let given = format!("{} and {}", first.adapter(), device.adapter());
                return Err(Error::argument("devices", needed, given));
            }
            // The host engine may be given several times, also as clones.
            let is_again = |other: &Device| !device.is_host() && other.is_same_hardware(device);
            if let Some(before) = self.list[..place].iter().position(is_again) {
                let given = format!("{} as number {before} and {place}", device.adapter());
                return Err(Error::argument("devices", "each GPU once", given));
            }
        }
        Ok(())
    }

    /// Waits as the first device does, for the calls of an index on all of them.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        self.first()?.block_on(future)
    }

    /// The same devices but one.
    pub(crate) fn with(&self, place: usize, device: &Device) -> Self {
        let mut list = self.list.clone();
        list[place] = device.clone();
        Self { list }
    }
}
