//! Compiles variants of kernels into pipelines, once per device.

use std::borrow::Cow;
use std::sync::Arc;

use super::device::Gpu;
use super::kernel::{Access, Kernel, Variant};
use super::state::{Pipeline, lock};
use crate::error::{Error, Result};
use crate::matrix::ElementKind;

impl Gpu {
    /// The variant of `kernel` for this device with these values of its override constants. A kernel that loads rows loads f32.
    pub(crate) fn pipeline(&self, kernel: &'static Kernel, constants: &[u32]) -> Result<Arc<Pipeline>> {
        self.pipeline_for(kernel, ElementKind::F32, constants)
    }

    /// [`Gpu::pipeline`] for rows of this element type.
    pub(crate) fn pipeline_for(
        &self,
        kernel: &'static Kernel,
        elements: ElementKind,
        constants: &[u32],
    ) -> Result<Arc<Pipeline>> {
        if constants.len() != kernel.overrides.len() {
            return Err(Error::internal(format!(
                "{} takes {} constants",
                kernel.name,
                kernel.overrides.len()
            )));
        }
        let variant = Variant {
            elements: if kernel.loads_rows { elements } else { ElementKind::default() },
            subgroups: kernel.sums_lanes && self.subgroups,
            float_atomics: kernel.adds_floats && self.adapter.capabilities.float_atomics,
            matrix_side: match self.adapter.capabilities.matrix_side() {
                Some(side) if kernel.multiplies_matrices => side,
                _ => 0,
            },
            constants: constants.to_vec(),
        };
        self.pipeline_of(kernel, variant)
    }

    /// This variant of `kernel`, compiled on first use. The adapter must be able to run it.
    pub(crate) fn pipeline_of(&self, kernel: &'static Kernel, variant: Variant) -> Result<Arc<Pipeline>> {
        // By address: two declarations may have one name.
        let key = (std::ptr::from_ref(kernel).addr(), variant);
        if let Some(pipeline) = lock(&self.pipelines).get(&key) {
            return Ok(pipeline.clone());
        }
        // Compiled outside the lock: two threads may both compile a variant, which wastes time once and is correct.
        let pipeline = Arc::new(self.compile(kernel, &key.1)?);
        lock(&self.pipelines).insert(key, pipeline.clone());
        Ok(pipeline)
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

    fn compile(&self, kernel: &'static Kernel, variant: &Variant) -> Result<Pipeline> {
        self.check_limits(kernel)?;
        let source = kernel.wgsl(variant)?;
        let label = Some(kernel.name);
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let descriptor =
            wgpu::ShaderModuleDescriptor { label, source: wgpu::ShaderSource::Wgsl(Cow::Owned(source)) };
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
        let module = unsafe { self.device.create_shader_module_trusted(descriptor, checks) };
        let uniform = wgpu::BindGroupLayoutEntry {
            binding: 0,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Uniform,
                has_dynamic_offset: true,
                min_binding_size: None,
            },
            count: None,
        };
        let storage =
            kernel.buffers.iter().zip(1..).map(|((_, access), binding)| wgpu::BindGroupLayoutEntry {
                binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage { read_only: *access == Access::Read },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
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
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label,
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some(kernel.name),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &kernel.constants(variant),
                zero_initialize_workgroup_memory: false,
            },
            cache: None,
        });
        let name = kernel.name;
        self.close_scope(scope, move |fault| Error::Device { message: format!("kernel {name}: {fault}") })?;
        Ok(Pipeline { kernel, pipeline, layout })
    }
}
