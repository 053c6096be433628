//! Compiles kernels ahead of their use, several at a time.
//!
//! A driver takes 0.02 to 0.8 s for a kernel that it has not seen yet, and a first search runs a dozen of them. Threads compile
//! them while rows are on their way to the device.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, Weak};
use std::thread::JoinHandle;

use futures_intrusive::sync::ManualResetEvent;

use super::compile::Compiler;
use super::forms::FormTimes;
use crate::elements::ElementKind;
use crate::error::{Error, Result};
use crate::gpu::kernel::{Kernel, REGISTERS, Variant};
use crate::lock::lock;
use crate::platform::{CAN_WAIT, process_id};

/// Threads that compile at a time, at most. Drivers compile on the thread that asks.
const MOST_THREADS: usize = 8;

/// Variants of a kernel that will be needed: for one element type, with some override constants given, and with every value of the
/// others.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    kernel: &'static Kernel,
    elements: ElementKind,
    given: Vec<(&'static str, u32)>,
}

impl Wanted {
    /// All variants for f32 rows.
    pub(crate) fn of(kernel: &'static Kernel) -> Self {
        Self { kernel, elements: ElementKind::F32, given: vec![] }
    }

    /// Those for rows of this element type.
    pub(crate) fn rows(self, elements: ElementKind) -> Self {
        Self { elements, ..self }
    }

    /// Those with this value of an override constant.
    pub(crate) fn with(mut self, name: &'static str, value: u32) -> Self {
        self.given.push((name, value));
        self
    }

    /// Those with this value of an override constant, or all if the kernel does not have it.
    pub(crate) fn or_all(self, name: &'static str, value: u32) -> Self {
        let has_it = self.kernel.overrides.iter().any(|(other, _)| *other == name);
        if has_it { self.with(name, value) } else { self }
    }

    /// The variants for a device, some of them twice.
    fn variants(&self, compiler: &Compiler) -> Vec<(&'static Kernel, Variant)> {
        let Self { kernel, elements, given } = self;
        let is_wanted = |variant: &Variant| {
            let is_of_type = kernel.row_types.is_empty() || variant.elements == *elements;
            is_of_type
                && given.iter().all(|(name, value)| {
                    let place = kernel.overrides.iter().position(|(other, _)| other == name);
                    place.is_some_and(|place| variant.constants[place] == *value)
                })
        };
        let of_device = |variant: Variant| (*kernel, compiler.variant(kernel, *elements, variant.constants));
        let variants: Vec<_> = kernel.variants().into_iter().filter(is_wanted).map(of_device).collect();
        debug_assert!(!variants.is_empty(), "{} has no variant with {given:?}", kernel.name);
        variants
    }
}

/// The forms that are compiled beside the general ones, for vectors with a number of elements.
#[derive(Debug, Clone, Copy)]
pub(in crate::gpu) enum WantedForms {
    /// Those that the tuner found faster. They are used from then on.
    Tuned(u32),
    /// All for this number of elements, and those for a number of registers if there is one, to be timed.
    All(u32, Option<u32>),
}

/// The threads that compile kernels of a device ahead of their use.
#[derive(Debug)]
pub(in crate::gpu) struct Ahead {
    compiler: Arc<Compiler>,
    threads: Arc<Threads>,
}

impl Ahead {
    pub(in crate::gpu) fn new(compiler: Arc<Compiler>) -> Self {
        let threads = Arc::new(Threads {
            process: process_id(),
            is_over: AtomicBool::new(false),
            compiled: Once::new(),
            handles: Mutex::default(),
        });
        let mut all = lock(&THREADS);
        all.retain(|threads| threads.strong_count() > 0);
        all.push(Arc::downgrade(&threads));
        drop(all);
        end_with_process();
        Self { compiler, threads }
    }

    /// Starts to compile what is not compiled yet, in this order, and returns at once. None if there is nothing to do. `forms` tells which
    /// forms for one number of elements are wanted as well.
    pub(in crate::gpu) fn start(&self, wanted: &[Wanted], forms: WantedForms) -> Option<Arc<Batch>> {
        let compiler = self.compiler.clone();
        let mut variants = vec![];
        for (kernel, variant) in wanted.iter().flat_map(|wanted| wanted.variants(&compiler)) {
            let is_faster =
                |other: &Variant| compiler.times(kernel, other).is_some_and(FormTimes::specialises);
            let others: Vec<_> = match forms {
                WantedForms::Tuned(dimension) => {
                    let others =
                        REGISTERS.iter().filter_map(|&number| kernel.for_registers(&variant, number));
                    others.chain(kernel.for_dimension(&variant, dimension)).filter(is_faster).collect()
                }
                WantedForms::All(dimension, registers) => {
                    let others = registers.and_then(|number| kernel.for_registers(&variant, number));
                    others.into_iter().chain(kernel.for_dimension(&variant, dimension)).collect()
                }
            };
            variants.push((kernel, variant));
            variants.extend(others.into_iter().map(|variant| (kernel, variant)));
        }
        // A second thread with the same variant would wait for the first.
        let mut seen = HashSet::new();
        variants.retain(|(kernel, variant)| {
            seen.insert((std::ptr::from_ref(*kernel), variant.clone())) && !compiler.has(kernel, variant)
        });
        if variants.is_empty() {
            return None;
        }
        let most = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        let threads = most.min(variants.len());
        let uses_forms = matches!(forms, WantedForms::Tuned(_));
        let batch = Arc::new(Batch {
            compiler,
            uses_forms,
            all: self.threads.clone(),
            variants,
            next: AtomicUsize::new(0),
            running: AtomicUsize::new(threads),
            failed: Mutex::default(),
            ended: ManualResetEvent::new(false),
        });
        let mut kept = lock(&self.threads.handles);
        kept.retain(|thread| !thread.is_finished());
        kept.extend((0..threads).filter_map(|_| spawn(batch.clone())));
        Some(batch)
    }

    /// Compiles what is not compiled yet, and waits for it.
    pub(in crate::gpu) async fn finish(&self, wanted: &[Wanted], forms: WantedForms) -> Result<()> {
        let Some(batch) = self.start(wanted, forms) else { return Ok(()) };
        batch.ended.wait().await;
        // What no thread took, because none could be started.
        batch.run();
        match lock(&batch.failed).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.threads.end();
    }
}

/// The threads of all devices.
static THREADS: Mutex<Vec<Weak<Threads>>> = Mutex::new(vec![]);

/// The threads of a device.
#[derive(Debug)]
struct Threads {
    /// The process that they run in.
    process: u32,
    /// Set when the device is dropped, or the process ends.
    is_over: AtomicBool,
    /// The end of the first batch.
    compiled: Once,
    handles: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    /// Waits for the kernels that are being compiled: a thread inside of a driver crashes a process that ends.
    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        if self.process != process_id() {
            // A forked process has the handles and not the threads, and a lock may be that of a thread that does not run here.
            return;
        }
        let handles = std::mem::take(&mut *lock(&self.handles));
        for thread in handles {
            // A panic of such a thread was its own; whoever needs the kernel compiles it again.
            let _ = thread.join();
        }
    }
}

/// Has the threads end before the process does, also where a device is in a `static` and never dropped: a driver takes itself down when a
/// process ends. The last handler that was set runs first. So this one is set once the driver is there, and again after its
/// first kernels, for which it may have loaded another library.
fn end_with_process() {
    #[cfg(unix)]
    {
        #[expect(unsafe_code, reason = "the standard library has no handlers of the end of a process")]
        // SAFETY: this is the declaration of the C standard, whose library every program on Unix is linked with.
        unsafe extern "C" {
            safe fn atexit(handler: extern "C" fn()) -> std::ffi::c_int;
        }
        static PROCESS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        extern "C" fn end() {
            if PROCESS.load(Ordering::Relaxed) != std::process::id() {
                return;
            }
            let all = std::mem::take(&mut *lock(&THREADS));
            all.iter().filter_map(Weak::upgrade).for_each(|threads| threads.end());
        }
        PROCESS.store(std::process::id(), Ordering::Relaxed);
        // Without room for another handler the threads run on.
        let _ = atexit(end);
    }
}

/// Variants that some threads compile.
pub(in crate::gpu) struct Batch {
    compiler: Arc<Compiler>,
    all: Arc<Threads>,
    /// Whether recordings use the forms that the tuner found faster among them.
    uses_forms: bool,
    variants: Vec<(&'static Kernel, Variant)>,
    /// The first that no thread has taken.
    next: AtomicUsize,
    /// Threads that have not ended.
    running: AtomicUsize,
    /// The first error.
    failed: Mutex<Option<Error>>,
    ended: ManualResetEvent,
}

impl Batch {
    /// Compiles variants until none is left.
    fn run(&self) {
        while !self.all.is_over.load(Ordering::Relaxed)
            && let Some((kernel, variant)) = self.variants.get(self.next.fetch_add(1, Ordering::Relaxed))
        {
            let times =
                self.compiler.times(kernel, variant).filter(|times| self.uses_forms && times.specialises());
            let compiled = match times {
                Some(times) => self.compiler.use_form(kernel, variant.clone(), times),
                None => self.compiler.get(kernel, variant.clone()).map(drop),
            };
            if let Err(error) = compiled {
                lock(&self.failed).get_or_insert(error);
            }
        }
    }
}

/// A thread's part of a batch, which ends with the thread, however that ends.
struct Part(Arc<Batch>);

impl Drop for Part {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.compiler.save();
            self.0.all.compiled.call_once(end_with_process);
            self.0.ended.set();
        }
    }
}

/// Starts a thread for a batch: the only place that does. None where there are no threads; kernels are then compiled on first use.
fn spawn(batch: Arc<Batch>) -> Option<JoinHandle<()>> {
    let part = Part(batch);
    if !CAN_WAIT {
        return None;
    }
    std::thread::Builder::new().name("nearfield-compile".into()).spawn(move || part.0.run()).ok()
}
