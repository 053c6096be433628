//! Which forms of kernels a device uses: the general ones, which take the lengths of vectors from their parameters and as many registers as
//! the adapter is expected to have, those compiled for one number of elements, or those for another number of registers. A tuner finds
//! out which are faster, and a file beside the compiled kernels keeps that.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::file::{read, write};
use crate::gpu::adapter::Adapter;
use crate::gpu::kernel::{Kernel, Variant};
use crate::gpu::state::Pipeline;
use crate::lock::lock;
use crate::platform::HAS_FILES;

/// The files' extension.
const EXTENSION: &str = "forms";

/// Larger files are not read.
const MOST_BYTES: u64 = 1 << 20;

/// Another form than the general one has to be faster by this factor: times of kernels vary by a percent or two.
const GAIN: f64 = 1.03;

/// How recordings choose between the forms of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FormChoice {
    /// As the tuner found.
    #[default]
    Tuned,
    /// The general one.
    General,
    /// The one for vectors with this many elements.
    Specialised(u32),
    /// The one for this many registers.
    Registers(u32),
}

/// The times of a kernel's two forms on a device, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FormTimes {
    /// Of the general form.
    pub(crate) general: f64,
    /// Of the other one, for one number of elements or of registers.
    pub(crate) specialised: f64,
}

impl FormTimes {
    /// Whether the other form is used.
    pub(crate) fn specialises(self) -> bool {
        self.general > 0.0 && self.specialised * GAIN <= self.general
    }
}

/// The forms of a device.
#[derive(Debug)]
pub(super) struct Forms {
    path: Option<PathBuf>,
    /// By kernel and variant. Read from the file when it is first asked for.
    timed: Mutex<Option<BTreeMap<String, FormTimes>>>,
    /// The compiled forms to use, the fastest first, by the address of their kernel.
    in_use: Mutex<HashMap<usize, Vec<Faster>>>,
}

/// A form, and its time as a part of the general form's.
type Faster = (f64, Arc<Pipeline>);

impl Forms {
    /// The forms of an adapter, which a file in `directory` keeps; without a directory nothing does.
    pub(super) fn new(adapter: &Adapter, directory: Option<&Path>) -> Self {
        let of = format!("{adapter}\n{}", env!("CARGO_PKG_VERSION"));
        let name = format!("{}_{:016x}.{EXTENSION}", adapter.backend, xxh3_64(of.as_bytes()));
        let path = directory.map(|directory| directory.join(name));
        Self { path, timed: Mutex::default(), in_use: Mutex::default() }
    }

    /// The times of a form, if it was timed.
    pub(super) fn times(&self, kernel: &Kernel, variant: &Variant) -> Option<FormTimes> {
        self.named(&name_of(kernel, variant))
    }

    /// The times that have this name.
    pub(super) fn named(&self, name: &str) -> Option<FormTimes> {
        self.with_timed(|timed| timed.get(name).copied())
    }

    /// Keeps times of forms, in the file too.
    pub(super) fn keep_forms(&self, times: &[(&'static Kernel, Variant, FormTimes)]) {
        self.keep(times.iter().map(|(kernel, variant, times)| (name_of(kernel, variant), *times)));
    }

    /// Keeps times by their names, in the file too.
    pub(super) fn keep(&self, times: impl IntoIterator<Item = (String, FormTimes)>) {
        let text = self.with_timed(|timed| {
            timed.extend(times);
            written(timed)
        });
        if HAS_FILES && let Some(path) = &self.path {
            write(path, &[text.as_bytes()]);
        }
    }

    fn with_timed<T>(&self, work: impl FnOnce(&mut BTreeMap<String, FormTimes>) -> T) -> T {
        let mut timed = lock(&self.timed);
        work(timed.get_or_insert_with(|| {
            self.path.as_deref().filter(|_| HAS_FILES).and_then(times_in).unwrap_or_default()
        }))
    }

    /// Uses a compiled form in the place of the general one from now on.
    pub(super) fn take(&self, pipeline: Arc<Pipeline>, times: FormTimes) {
        let mut in_use = lock(&self.in_use);
        let forms = in_use.entry(std::ptr::from_ref(pipeline.kernel).addr()).or_default();
        forms.retain(|(_, form)| form.variant != pipeline.variant);
        forms.push((times.specialised / times.general, pipeline));
        forms.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    }

    /// The form in use with these parameters; none for the general one.
    pub(super) fn in_use(&self, general: &Pipeline, params: &[u8]) -> Option<Arc<Pipeline>> {
        let in_use = lock(&self.in_use);
        let mut forms = in_use.get(&std::ptr::from_ref(general.kernel).addr())?.iter();
        let fits = |(_, form): &&Faster| {
            let Variant { dimension, registers, .. } = form.variant;
            general.kernel.is_of(dimension, params)
                && form.variant == Variant { dimension, registers, ..general.variant.clone() }
        };
        forms.find(fits).map(|(_, form)| form.clone())
    }
}

/// The name of a form in files.
fn name_of(kernel: &Kernel, variant: &Variant) -> String {
    format!("{} {variant}", kernel.name)
}

/// The text of a file.
fn written(timed: &BTreeMap<String, FormTimes>) -> String {
    let forms = timed.iter().map(|(name, times)| {
        json!({ "form": name, "general_s": times.general, "specialised_s": times.specialised })
    });
    forms.map(|form| format!("{form}\n")).collect()
}

/// Reads the times in a file. None if a line is damaged.
fn times_in(path: &Path) -> Option<BTreeMap<String, FormTimes>> {
    let text = String::from_utf8(read(path, MOST_BYTES)?).ok()?;
    let form = |line: &str| {
        let form: Value = serde_json::from_str(line).ok()?;
        let time = |field: &str| form.get(field)?.as_f64().filter(|time| *time >= 0.0);
        let times = FormTimes { general: time("general_s")?, specialised: time("specialised_s")? };
        Some((form.get("form")?.as_str()?.to_owned(), times))
    };
    text.lines().map(form).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_they_were_written_or_not_at_all() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("one.forms");
        let times = FormTimes { general: 2e-3, specialised: 1e-3 };
        let timed = BTreeMap::from([("a 1 for 768".to_owned(), times), ("b F32 for 96".to_owned(), times)]);
        write(&path, &[written(&timed).as_bytes()]);
        assert_eq!(times_in(&path), Some(timed));
        for damaged in ["{", "{\"form\":\"a\"}", "{\"form\":1,\"general_s\":1.0,\"specialised_s\":1.0}"] {
            std::fs::write(&path, damaged).expect("written");
            assert_eq!(times_in(&path), None, "{damaged}");
        }
        assert!(times.specialises() && !FormTimes { general: 1.0, specialised: 0.99 }.specialises());
    }
}
