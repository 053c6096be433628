//! How long the adapter's driver takes to compile each kernel: a search that comes first waits for it.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, Instant};

use nearfield::internals::compile;
use nearfield::internals::kernels::{self, Access, Driver, Kernel, Variant};
use nearfield::{AdapterKind, Device, wgpu};

use crate::common::gpu;

/// Variants of a kernel at most: some have hundreds, which differ little.
const MOST_VARIANTS: usize = 4;

/// Bytes of each buffer: larger than what any kernel declares of fixed length.
const BUFFER_BYTES: u64 = 1 << 16;

/// Whether this device runs such a variant.
fn runs(device: &Device, kernel: &Kernel, variant: &Variant) -> bool {
    let have = device.capabilities();
    let features = device.wgpu_device().expect("a GPU").features();
    kernel.workgroup_bytes() <= have.max_workgroup_bytes
        && kernel.invocations(variant) <= have.max_workgroup_size
        && (!variant.subgroups || features.contains(wgpu::Features::SUBGROUP))
        && (variant.matrix_side == 0 || Some(variant.matrix_side) == have.matrix_side())
        // Their text is not what the driver sees.
        && variant.matrix_bytes == 0
}

/// From the text of a variant to the end of an empty dispatch: some drivers compile when a kernel first runs.
fn time(device: &Device, kernel: &Kernel, variant: &Variant) -> Duration {
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::UNIFORM;
    let descriptor =
        wgpu::BufferDescriptor { label: None, size: BUFFER_BYTES, usage, mapped_at_creation: false };
    let wgpu = device.wgpu_device().expect("a GPU");
    let buffers: Vec<_> =
        (0..=kernel.storage_buffers().len()).map(|_| wgpu.create_buffer(&descriptor)).collect();
    let is_software = device.adapter().kind == AdapterKind::Software;
    let driver = if is_software { Driver::Software } else { Driver::Hardware };
    let text = kernel.wgsl(variant, driver).expect("the kernel unrolls");
    run_text(device, (kernel, variant), text, &buffers.iter().collect::<Vec<_>>(), 0)
}

/// Runs the text of a variant, which the caller may have changed, on buffers of which the first has the parameters. Returns the time from
/// its text to its end.
pub(crate) fn run_text(
    device: &Device,
    (kernel, variant): (&Kernel, &Variant),
    text: String,
    buffers: &[&wgpu::Buffer],
    workgroups: u32,
) -> Duration {
    let (wgpu, queue) = (device.wgpu_device().expect("a GPU"), device.wgpu_queue().expect("a GPU"));
    let storage =
        |(_, access): &(_, Access)| wgpu::BufferBindingType::Storage { read_only: *access == Access::Read };
    let bound =
        [wgpu::BufferBindingType::Uniform].into_iter().chain(kernel.storage_buffers().iter().map(storage));
    let visibility = wgpu::ShaderStages::COMPUTE;
    let entry = |(binding, ty)| wgpu::BindGroupLayoutEntry {
        binding,
        visibility,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    };
    let entries: Vec<_> = (0..).zip(bound).map(entry).collect();
    let group_layout =
        wgpu.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
    let layout = wgpu.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        bind_group_layouts: &[Some(&group_layout)],
        ..Default::default()
    });
    let entries: Vec<_> = (0..)
        .zip(buffers)
        .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() })
        .collect();
    let descriptor = wgpu::BindGroupDescriptor { label: None, layout: &group_layout, entries: &entries };
    let group = wgpu.create_bind_group(&descriptor);
    let source = wgpu::ShaderSource::Wgsl(text.into());
    let start = Instant::now();
    let module =
        wgpu.create_shader_module(wgpu::ShaderModuleDescriptor { label: Some(kernel.name()), source });
    let pipeline = wgpu.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some(kernel.name()),
        layout: Some(&layout),
        module: &module,
        entry_point: Some(kernel.name()),
        compilation_options: wgpu::PipelineCompilationOptions {
            constants: &kernel.constants(variant),
            zero_initialize_workgroup_memory: false,
        },
        cache: None,
    });
    let mut encoder = wgpu.create_command_encoder(&Default::default());
    let mut pass = encoder.begin_compute_pass(&Default::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &group, &[]);
    pass.dispatch_workgroups(workgroups, 1, 1);
    drop(pass);
    queue.submit([encoder.finish()]);
    wgpu.poll(wgpu::PollType::wait_indefinitely()).expect("an end");
    start.elapsed()
}

/// Prints the slowest of some variants of each kernel, slowest kernel first: `cargo test --release --all-features --test kernels -- --ignored
/// --nocapture compile_times`. `VK_DRIVER_FILES` names another driver; NVIDIA's keeps what it compiled unless `__GL_SHADER_DISK_CACHE=0`.
#[test]
#[ignore = "nightly"]
fn no_kernel_compiles_longer_than_half_a_minute() {
    let Some(device) = gpu() else { return };
    println!("{}", device.adapter());
    let mut worst: Vec<(Duration, Duration, usize, String)> = kernels::all()
        .filter_map(|kernel| {
            let variants = kernel.variants().into_iter().filter(|variant| runs(device, kernel, variant));
            let variants: Vec<_> = variants.collect();
            let some = variants.chunks(variants.len().div_ceil(MOST_VARIANTS).max(1)).map(|chunk| &chunk[0]);
            let times: Vec<_> = some.map(|variant| (time(device, kernel, variant), variant)).collect();
            let (longest, variant) = times.iter().max_by_key(|(time, _)| *time)?;
            let all = times.iter().map(|(time, _)| *time).sum();
            Some((*longest, all, times.len(), format!("{} ({variant})", kernel.name())))
        })
        .collect();
    worst.sort_by_key(|(longest, ..)| std::cmp::Reverse(*longest));
    for (longest, all, variants, name) in &worst {
        println!("{longest:9.1?} at most, {all:9.1?} for {variants:3} variants: {name}");
        assert!(longest.as_secs() < 30, "{name}");
    }
}

/// Compiles every variant that searches use on this device, and names those that the driver refuses. scripts/vendors asks compilers of GPUs that
/// are not there: the file `NEARFIELD_SURVEY` takes the variants' names, to which its layer of Vulkan adds what the driver tells.
#[test]
#[ignore = "nightly"]
fn the_driver_compiles_every_variant_in_use() {
    let Some(device) = gpu() else { return };
    let survey = std::env::var_os("NEARFIELD_SURVEY");
    let mut refused = vec![];
    for kernel in kernels::all() {
        for variant in kernel.variants() {
            if let Some(path) = &survey {
                let mut file = OpenOptions::new().append(true).create(true).open(path).expect("a file");
                writeln!(file, "variant\t{}\t{variant}", kernel.name()).expect("writable");
            }
            if let Err(error) = compile(device, kernel, &variant) {
                refused.push(format!("{} ({variant}): {error}", kernel.name()));
            }
        }
    }
    // Others took their place.
    let forms = device.kernel_forms().expect("a GPU");
    refused.extend(
        forms.refusals.iter().map(|one| format!("{} ({}): {}", one.kernel, one.variant, one.message)),
    );
    assert!(refused.is_empty(), "{}: refused\n{}", device.adapter(), refused.join("\n"));
}
