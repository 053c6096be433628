//! Options of a session, as in `SET nearfield.device = 'host'`.

use datafusion::common::config::ConfigExtension;
use datafusion::common::extensions_options;
use datafusion::config::ConfigOptions;
use nearfield::Device;

extensions_options! {
    /// What searches use.
    pub struct NearfieldOptions {
        /// The device: `best`, `host`, `gpu`, or part of an adapter's name.
        pub device: String, default = "best".to_owned()
        /// The bytes of rows that are gathered and searched at a time.
        pub block_bytes: usize, default = 256 << 20
        /// The bytes of indexes that stay in memory between queries.
        pub resident_bytes: usize, default = 8 << 30
        /// Whether `ORDER BY` a distance with a `LIMIT` searches saved indexes.
        pub order_by: bool, default = true
    }
}

impl ConfigExtension for NearfieldOptions {
    const PREFIX: &'static str = "nearfield";
}

impl NearfieldOptions {
    /// The options of a session, or their defaults where it was made without them.
    pub(crate) fn of(options: &ConfigOptions) -> Self {
        options.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// The device that searches use: [`Device::shared`].
    ///
    /// Errors if no adapter has its name, or the one that `NEARFIELD_ADAPTER` gives to `best`.
    pub fn open(&self) -> nearfield::Result<Device> {
        Device::shared(Some(&self.device))
    }
}
