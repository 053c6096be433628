//! The compiler of a device: its compiled kernels, and how a variant becomes one.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

#[cfg(any(target_os = "linux", target_os = "android", windows))]
use super::byte_matrices::words_of_bytes;
use super::file::CacheFile;
use super::forms::{FormChoice, Forms};
#[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
use super::no_byte_matrices::words_of_bytes;
use super::refusals::{Refusal, with_spelled_products};
use crate::error::{Error, Result};
use crate::gpu::adapter::{Adapter, AdapterKind};
use crate::gpu::kernel::{Access, Kernel, Variant};
use crate::gpu::state::{Faults, Pipeline, close_scope};
use crate::gpu::unroll::Driver;
use crate::lock::lock;
use crate::options::device::DeviceOptions;

/// Identifies a compiled kernel: the address of its declaration, because two may have one name, and the variant.
type Key = (usize, Variant);

/// A browser wants the extension named, which naga 30 cannot read. Its rule of uniform control flow refuses loops whose step is the subgroup's
/// size.
const SUBGROUPS_IN_BROWSERS: &str = "enable subgroups;\ndiagnostic(off, subgroup_uniformity);\n";

/// A compiled variant, or the place of one.
#[derive(Debug, Default)]
struct Cell {
    compiled: OnceLock<Arc<Pipeline>>,
    /// Held by the thread that compiles it; others wait for it here.
    compiling: Mutex<()>,
}

/// Compiles the kernels of a device, and keeps them.
pub(crate) struct Compiler {
    device: wgpu::Device,
    pub(super) adapter: Adapter,
    pub(super) options: DeviceOptions,
    faults: Arc<Mutex<Faults>>,
    cells: Mutex<HashMap<Key, Arc<Cell>>>,
    /// How many variants were compiled.
    count: AtomicUsize,
    /// Those among them that the file lacks.
    unsaved: AtomicUsize,
    pub(super) forms: Forms,
    /// Set while the tuner times tiles of floats.
    pub(super) tries_floats: AtomicBool,
    /// The choice of recordings that make none of their own.
    pub(super) usual: Mutex<FormChoice>,
    /// The tuner's, while it times forms.
    pub(super) trial: Mutex<Vec<(&'static Kernel, Variant)>>,
    /// What kernels are written for, known with the first of them.
    driver: OnceLock<Driver>,
    /// Whether the driver refuses products of four bytes, which texts then spell out.
    spells_products: AtomicBool,
    /// The forms of matrices of bytes that gave wrong sums: the first has sums in registers, the second passes them through memory.
    pub(super) wrong_matrices: AtomicUsize,
    /// What the driver refused, and why.
    refused: Mutex<Vec<Refusal>>,
    /// Texts with these words are refused, to test what follows.
    #[cfg(feature = "internals")]
    refuses: Mutex<Vec<&'static str>>,
    /// Opened before the first variant is compiled.
    file: OnceLock<Option<CacheFile>>,
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler")
            .field("count", &self.count)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        self.save();
    }
}

impl Compiler {
    pub(in crate::gpu) fn new(
        device: wgpu::Device,
        adapter: Adapter,
        options: DeviceOptions,
        faults: Arc<Mutex<Faults>>,
    ) -> Self {
        Self {
            forms: Forms::new(&adapter, options.kernels_dir()),
            tries_floats: AtomicBool::new(false),
            usual: Mutex::default(),
            trial: Mutex::default(),
            device,
            adapter,
            options,
            faults,
            cells: Mutex::default(),
            count: AtomicUsize::new(0),
            unsaved: AtomicUsize::new(0),
            driver: OnceLock::new(),
            spells_products: AtomicBool::new(false),
            wrong_matrices: AtomicUsize::new(0),
            refused: Mutex::default(),
            #[cfg(feature = "internals")]
            refuses: Mutex::default(),
            file: OnceLock::new(),
        }
    }

    /// This variant of `kernel`, compiled on first use. Threads that want the same one wait for the first of them. The adapter must be able
    /// to run it.
    pub(crate) fn get(&self, kernel: &'static Kernel, variant: Variant) -> Result<Arc<Pipeline>> {
        let key = (std::ptr::from_ref(kernel).addr(), variant);
        let mut cells = lock(&self.cells);
        let known = cells.get(&key).cloned();
        let cell = known.unwrap_or_else(|| cells.entry(key.clone()).or_default().clone());
        drop(cells);
        if let Some(pipeline) = cell.compiled.get() {
            return Ok(pipeline.clone());
        }
        let _compiling = lock(&cell.compiling);
        if let Some(pipeline) = cell.compiled.get() {
            return Ok(pipeline.clone());
        }
        // After an error the next caller tries again.
        let pipeline = Arc::new(self.compile_fitting(kernel, &key.1)?);
        Ok(cell.compiled.get_or_init(|| pipeline).clone())
    }

    /// The form of a kernel to run with these parameters, if it is not the one that reads everything from them. A search uses a form for
    /// one number of elements only once it is compiled; a trial compiles it.
    pub(in crate::gpu) fn form(
        &self,
        general: &Pipeline,
        params: &[u8],
        choice: FormChoice,
    ) -> Result<Option<Arc<Pipeline>>> {
        let (kernel, variant) = (general.kernel, &general.variant);
        if kernel.lengths.is_empty() && !kernel.fits_registers || variant.dimension > 0 {
            return Ok(None);
        }
        let usual = *lock(&self.usual);
        let other = match if choice == FormChoice::Tuned { usual } else { choice } {
            FormChoice::Tuned => return Ok(self.forms.in_use(general, params)),
            FormChoice::Specialised(dimension) => kernel.for_dimension(variant, dimension),
            FormChoice::Registers(registers) => kernel.for_registers(variant, registers),
            FormChoice::General => None,
        };
        let Some(variant) = other.filter(|other| kernel.is_of(other.dimension, params)) else {
            return Ok(None);
        };
        let mut trial = lock(&self.trial);
        if !trial.iter().any(|(other, tried)| std::ptr::eq(*other, kernel) && *tried == variant) {
            trial.push((kernel, variant.clone()));
        }
        drop(trial);
        self.get(kernel, variant).map(Some)
    }

    /// Whether this variant is compiled.
    pub(in crate::gpu) fn has(&self, kernel: &'static Kernel, variant: &Variant) -> bool {
        let key = (std::ptr::from_ref(kernel).addr(), variant.clone());
        lock(&self.cells).get(&key).is_some_and(|cell| cell.compiled.get().is_some())
    }

    /// The variants that the driver refused.
    pub(crate) fn refused(&self) -> Vec<Refusal> {
        lock(&self.refused).clone()
    }

    /// Whether products of four bytes are instructions of the driver, as far as kernels were compiled.
    pub(crate) fn multiplies_bytes(&self) -> bool {
        !self.spells_products.load(Ordering::Relaxed)
    }

    /// Refuses texts with these words, as a driver might, to test what follows.
    #[cfg(feature = "internals")]
    pub(crate) fn refuse(&self, words: &'static str) {
        lock(&self.refuses).push(words);
    }

    /// How many variants were compiled.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Writes kernels for this driver, whatever the adapter, to test that text. None may have been compiled before.
    #[cfg(feature = "internals")]
    pub(crate) fn write_for(&self, driver: Driver) {
        self.driver.set(driver).expect("no kernel was compiled before");
    }

    /// Writes the file if kernels were compiled since it was written.
    pub(super) fn save(&self) {
        if self.unsaved.swap(0, Ordering::Relaxed) > 0
            && let Some(Some(file)) = self.file.get()
        {
            file.save();
        }
    }

    /// Checks the limits that wgpu does not check for kernels with override constants (gfx-rs/wgpu issue 8946).
    pub(crate) fn check_limits(&self, kernel: &Kernel) -> Result<()> {
        let have = &self.adapter.capabilities;
        let check = |what: &str, needed: u32, available: u32| {
            if needed <= available {
                return Ok(());
            }
            Err(Error::unsupported(format!("kernel {}", kernel.name), format!("{needed} {what}"), available))
        };
        check("invocations per workgroup", kernel.workgroup_size, have.max_workgroup_size)?;
        check("bytes of workgroup memory", kernel.workgroup_bytes, have.max_workgroup_bytes)?;
        check("storage buffers", kernel.buffers.len() as u32, have.max_storage_buffers)
    }

    /// Compiles a variant, or where the driver refuses it, the next that does the same with less.
    fn compile_fitting(&self, kernel: &'static Kernel, variant: &Variant) -> Result<Pipeline> {
        self.check_limits(kernel)?;
        let mut refusals: Vec<Refusal> = vec![];
        for variant in kernel.lesser(variant) {
            let spelled = self.spells_products.load(Ordering::Relaxed);
            for spells in [spelled, true] {
                match self.compile(kernel, &variant, spells) {
                    Err(Error::Device { message }) => {
                        let products =
                            if spells && kernel.multiplies_bytes() { ", plain products" } else { "" };
                        let variant = format!("{variant}{products}");
                        refusals.push(Refusal { kernel: kernel.name, variant, message });
                    }
                    Err(error) => return Err(error),
                    Ok(pipeline) => {
                        self.spells_products.fetch_or(spells, Ordering::Relaxed);
                        lock(&self.refused).extend(refusals);
                        return Ok(pipeline);
                    }
                }
                if spells || !kernel.multiplies_bytes() {
                    break;
                }
            }
        }
        // The first form is the one that says most.
        let first = refusals.into_iter().next().map(|Refusal { message, .. }| Error::Device { message });
        Err(first.unwrap_or_else(|| Error::internal(format!("kernel {} has no variant", kernel.name))))
    }

    fn compile(&self, kernel: &'static Kernel, variant: &Variant, spells_products: bool) -> Result<Pipeline> {
        let file = self
            .file
            .get_or_init(|| CacheFile::open(&self.device, &self.faults, self.options.kernels_dir()?));
        let driver = self.driver.get_or_init(|| match self.adapter.kind {
            AdapterKind::Software => Driver::Software,
            _ => Driver::Hardware,
        });
        let mut source = kernel.wgsl(variant, *driver)?;
        if spells_products && let Some(spelled) = with_spelled_products(&source) {
            source = spelled;
        }
        #[cfg(feature = "internals")]
        if let Some(words) = lock(&self.refuses).iter().find(|words| source.contains(**words)) {
            return Err(Error::Device { message: format!("kernel {}: a test refuses {words}", kernel.name) });
        }
        if variant.subgroups && self.adapter.backend == wgpu::Backend::BrowserWebGpu.to_str() {
            source.insert_str(0, SUBGROUPS_IN_BROWSERS);
        }
        let label = Some(kernel.name);
        let words = match variant.matrix_bytes {
            0 => None,
            _ => Some(words_of_bytes(kernel, variant, &source)?),
        };
        let scopes = [wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::Internal]
            .map(|filter| self.device.push_error_scope(filter));
        let module = match words {
            None => self.module(kernel, source),
            Some(words) => self.module_of_words(kernel, variant, &words),
        };
        let entry = |binding, ty, has_dynamic_offset| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset, min_binding_size: None },
            count: None,
        };
        let uniform = entry(0, wgpu::BufferBindingType::Uniform, true);
        let storage = kernel.buffers.iter().zip(1..).map(|((_, access), binding)| {
            entry(binding, wgpu::BufferBindingType::Storage { read_only: *access == Access::Read }, false)
        });
        let entries: Vec<_> = std::iter::once(uniform).chain(storage).collect();
        let layout = self
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label, entries: &entries });
        let pipeline_layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let (is_written, constants) = (variant.matrix_bytes > 0, kernel.constants(variant));
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label,
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some(kernel.name),
            compilation_options: wgpu::PipelineCompilationOptions {
                // A module of words has its constants.
                constants: if is_written { &[] } else { &constants },
                zero_initialize_workgroup_memory: false,
            },
            cache: file.as_ref().map(|file| &file.cache),
        });
        let name = kernel.name;
        let refusal = move |fault| Error::Device { message: format!("kernel {name}: {fault}") };
        let [outer, inner] = scopes;
        let told = [close_scope(&self.faults, inner, refusal), close_scope(&self.faults, outer, refusal)];
        told.into_iter().collect::<Result<()>>()?;
        self.count.fetch_add(1, Ordering::Relaxed);
        self.unsaved.fetch_add(1, Ordering::Relaxed);
        Ok(Pipeline { kernel, variant: variant.clone(), pipeline, layout })
    }

    fn module(&self, kernel: &Kernel, source: String) -> wgpu::ShaderModule {
        let source = wgpu::ShaderSource::Wgsl(Cow::Owned(source));
        let descriptor = wgpu::ShaderModuleDescriptor { label: Some(kernel.name), source };
        let checks = wgpu::ShaderRuntimeChecks {
            // Loop bounding costs up to 40% on an H200 and 2.6 times on lavapipe.
            force_loop_bounding: false,
            ..wgpu::ShaderRuntimeChecks::checked()
        };
        #[expect(
            unsafe_code,
            reason = "only the bounding of loops is left out: each loop of each kernel ends, and bounds checks stay on"
        )]
        // SAFETY: every loop of the module ends for all inputs, and the other checks stay on.
        unsafe {
            self.device.create_shader_module_trusted(descriptor, checks)
        }
    }

    /// A module of SPIR-V that names its constants as numbers.
    fn module_of_words(&self, kernel: &Kernel, variant: &Variant, words: &[u32]) -> wgpu::ShaderModule {
        let (name, size) = (kernel.name, kernel.invocations(variant));
        let entry = wgpu::PassthroughShaderEntryPoint { name: name.into(), workgroup_size: (size, 1, 1) };
        let descriptor = wgpu::ShaderModuleDescriptorPassthrough {
            label: Some(name),
            spirv: Some(words.into()),
            entry_points: vec![entry].into(),
            ..Default::default()
        };
        #[expect(
            unsafe_code,
            reason = "wgpu 30 knows no matrices of bytes, and takes words alone that name them"
        )]
        // SAFETY: naga validated the text and wrote it with bounds checks. `byte_matrices` exchanged the types of matrices' elements, put
        // elements in the place of constants, and refuses what it does not know. Every loop ends, as in `module`.
        unsafe {
            self.device.create_shader_module_passthrough(descriptor)
        }
    }
}
