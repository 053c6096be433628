//! Every variant of every kernel parses, validates, matches its declaration, and is written to SPIR-V, MSL and HLSL. Needs
//! no adapter. With `NEARFIELD_SPIRV_DIR` set, the tests leave the SPIR-V there for `spirv-val`, with `NEARFIELD_WGSL_DIR` the WGSL for
//! `scripts/tint`, and with `NEARFIELD_HLSL_DIR` the HLSL for `scripts/vendors`.
#![cfg(feature = "internals")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use naga::Module;
use naga::back::hlsl::ShaderModel;
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use nearfield::internals::kernels::{Access, Driver, Kernel, Variant};
use nearfield::internals::{self, ceilings, kernels, vectors_seen};
use rayon::prelude::*;

mod loops;

#[path = "../common/covering.rs"]
mod covering;
use covering::covering;

fn parse(kernel: &Kernel, text: &str) -> Module {
    naga::front::wgsl::parse_str(text)
        .unwrap_or_else(|fault| panic!("{}: {}", kernel.name(), fault.emit_to_string(text)))
}

fn text_of(kernel: &Kernel, variant: &Variant, driver: Driver) -> String {
    kernel.wgsl(variant, driver).expect("the kernel unrolls")
}

fn capabilities(variant: &Variant) -> Capabilities {
    // Unpacking f16 is part of WebGPU; only its downlevel subsets lack it.
    let plain = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    let subgroups = if variant.subgroups { Capabilities::SUBGROUP } else { plain };
    let matrices = Capabilities::COOPERATIVE_MATRIX
        | Capabilities::SHADER_FLOAT16
        | Capabilities::SUBGROUP
        | Capabilities::SUBGROUP_BARRIER;
    plain | subgroups | if variant.matrix_side > 0 { matrices } else { plain }
}

fn validate(kernel: &Kernel, variant: &Variant, module: &Module) -> ModuleInfo {
    let mut validator = Validator::new(ValidationFlags::all(), capabilities(variant));
    validator.subgroup_stages(naga::valid::ShaderStages::COMPUTE);
    validator.subgroup_operations(naga::valid::SubgroupOperationSet::all());
    validator.validate(module).unwrap_or_else(|fault| panic!("{} {variant:?}: {fault:?}", kernel.name()))
}

/// The module with its override constants replaced by the variant's values, as wgpu does it.
fn specialised(kernel: &Kernel, variant: &Variant, text: &str) -> (Module, ModuleInfo) {
    let module = parse(kernel, text);
    let info = validate(kernel, variant, &module);
    let constants =
        kernel.constants(variant).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let entry = Some((naga::ShaderStage::Compute, kernel.name()));
    let (module, info) = naga::back::pipeline_constants::process_overrides(&module, &info, entry, &constants)
        .unwrap_or_else(|fault| panic!("{} {variant:?}: {fault:?}", kernel.name()));
    (module.into_owned(), info.into_owned())
}

/// The kernels of the library and those of its benchmarks and tests.
fn every_kernel() -> impl Iterator<Item = &'static Kernel> {
    let internal = [ceilings::KERNELS, &[&vectors_seen::KERNEL]].concat();
    kernels::all().chain(internal)
}

/// All variants of a kernel. Of those for one number of elements, which differ in a number of the text, a few stand for all.
fn forms(kernel: &Kernel) -> Vec<Variant> {
    let mut forms = kernel.variants();
    if kernel.has_lengths() {
        let of = |variant: &Variant, dimension| Variant { dimension, ..variant.clone() };
        let others: Vec<Variant> = match &forms[..] {
            [first, .., last] => {
                [64, 3072].map(|dimension| of(first, dimension)).into_iter().chain([of(last, 100)]).collect()
            }
            all => all.iter().flat_map(|one| [64, 100, 3072].map(|dimension| of(one, dimension))).collect(),
        };
        forms.extend(others);
    }
    forms
}

/// The drivers for which a variant's text is checked. That for software is the same for all values of the override constants: the first
/// stand for all.
fn drivers(kernel: &Kernel, variant: &Variant) -> &'static [Driver] {
    let first = kernel.override_constants().iter().map(|(_, values)| values[0]);
    match variant.dimension == 0 && first.eq(variant.constants.iter().copied()) {
        true => &[Driver::Hardware, Driver::Software],
        false => &[Driver::Hardware],
    }
}

/// Checks all variants, numbered kernel by kernel, on all threads. The last argument tells whether writers see the variant.
fn each_variant(check: impl Fn(&Kernel, usize, &Variant, bool) + Sync) {
    every_kernel().collect::<Vec<_>>().into_par_iter().for_each(|kernel| {
        let forms = forms(kernel);
        // naga's writers take each branch as it is.
        let checked = forms.iter().zip(covering(&forms)).enumerate();
        checked.for_each(|(number, (variant, is_written))| check(kernel, number, variant, is_written));
    });
}

#[test]
fn every_variant_matches_its_declaration_and_translates_for_every_interface() {
    let [directory, wgsl, hlsl] = ["NEARFIELD_SPIRV_DIR", "NEARFIELD_WGSL_DIR", "NEARFIELD_HLSL_DIR"]
        .map(|name| std::env::var_os(name).map(PathBuf::from));
    each_variant(|kernel, number, variant, is_written| {
        for &driver in drivers(kernel, variant) {
            let stem = format!("{}-{number}-{driver:?}", kernel.name());
            if let Some(directory) = wgsl.as_ref().filter(|_| is_written) {
                leave_wgsl(&directory.join(&stem), kernel, variant, driver);
            }
            let text = text_of(kernel, variant, driver);
            let (module, info) = specialised(kernel, variant, &text);
            check_declaration(kernel, variant, &module, &info);
            if !is_written {
                continue;
            }
            let words = match variant.matrix_bytes {
                0 => translated(kernel, variant, &module, &info),
                _ => with_matrices_of_bytes(kernel, variant, &text),
            };
            if let Some(directory) = hlsl.as_ref().filter(|_| variant.matrix_side == 0) {
                leave_hlsl(directory, &format!("{number}-{driver:?}"), &module, &info);
                // A device runs this text where its compiler refuses `dot4I8Packed` as naga writes it.
                if let Some(text) = internals::with_spelled_products(&text) {
                    let (module, info) = specialised(kernel, variant, &text);
                    leave_hlsl(directory, &format!("{number}-{driver:?}-spelled"), &module, &info);
                }
            }
            if let Some(directory) = &directory {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                std::fs::write(directory.join(stem + ".spv"), bytes).expect("the folder is writable");
            }
        }
    });
}

/// Leaves a variant's text and what a compiler of WGSL has to know beside it.
fn leave_wgsl(stem: &Path, kernel: &Kernel, variant: &Variant, driver: Driver) {
    let constants: Vec<String> =
        kernel.constants(variant).into_iter().map(|(name, value)| format!("{name:?}: {value}")).collect();
    let is_read: Vec<bool> =
        kernel.storage_buffers().iter().map(|(_, access)| *access == Access::Read).collect();
    let form = format!(
        r#"{{"kernel": {:?}, "native": {}, "constants": {{{}}}, "isRead": {is_read:?}}}"#,
        kernel.name(),
        kernel.needs_matrices(),
        constants.join(", "),
    );
    std::fs::write(stem.with_extension("json"), form).expect("the folder is writable");
    let text = kernel.wgsl(variant, driver).expect("the kernel unrolls");
    std::fs::write(stem.with_extension("wgsl"), text).expect("the folder is writable");
}

/// Panics unless the entry point, its buffers, parameters and workgroup memory are as declared.
fn check_declaration(kernel: &Kernel, variant: &Variant, module: &Module, info: &ModuleInfo) {
    let name = kernel.name();
    assert_eq!(module.entry_points.len(), 1, "{name}");
    let entry = &module.entry_points[0];
    assert_eq!(entry.name, name);
    assert_eq!(entry.workgroup_size, [kernel.invocations(variant), 1, 1], "{name}");

    let mut layouter = naga::proc::Layouter::default();
    layouter.update(module.to_ctx()).expect("types have layouts");
    let uses = info.get_entry_point(0);
    let mut workgroup_bytes = 0;
    let mut bound = BTreeMap::new();
    for (handle, variable) in module.global_variables.iter() {
        let used = uses[handle];
        match variable.space {
            naga::AddressSpace::WorkGroup if !used.is_empty() => {
                workgroup_bytes += layouter[variable.ty].size.next_multiple_of(16);
            }
            naga::AddressSpace::Uniform => {
                assert_eq!(layouter[variable.ty].size as usize, kernel.params_bytes(), "{name}: params");
            }
            naga::AddressSpace::Storage { access } => {
                let binding = variable.binding.expect("buffers are bound").binding;
                let written = access.contains(naga::StorageAccess::STORE);
                let access = if written { Access::Write } else { Access::Read };
                bound.insert(binding, (variable.name.clone().expect("buffers have names"), access));
            }
            _ => {}
        }
    }
    let padded = kernel.workgroup_bytes().next_multiple_of(16) + 64;
    assert!(workgroup_bytes <= padded, "{name}: {workgroup_bytes} bytes, declared {padded}");
    // A variant's module lacks the buffers it does not use; the others are as declared.
    for (binding, (found, access)) in bound {
        let (declared, declared_access) = kernel.storage_buffers()[binding as usize - 1];
        assert_eq!((found.as_str(), access), (declared, declared_access), "{name}: binding {binding}");
    }
}

#[test]
fn every_declared_buffer_and_override_is_there_and_limits_of_webgpu_hold() {
    for kernel in every_kernel() {
        let module = parse(kernel, &text_of(kernel, &kernel.variants()[0], Driver::Hardware));
        let mut bound: Vec<_> = module.global_variables.iter().map(|(_, variable)| variable).collect();
        bound.retain(|variable| matches!(variable.space, naga::AddressSpace::Storage { .. }));
        bound.sort_unstable_by_key(|variable| variable.binding.as_ref().map(|place| place.binding));
        let names = bound.iter().filter_map(|variable| variable.name.as_deref());
        assert!(names.eq(kernel.storage_buffers().iter().map(|(name, _)| *name)), "{}", kernel.name());
        let overrides = module.overrides.iter().filter_map(|(_, one)| one.name.as_deref());
        // The height of a tile shapes the text, and is a constant there.
        let constants = module.constants.iter().filter_map(|(_, one)| one.name.as_deref());
        let names: HashSet<_> = overrides.chain(constants).collect();
        for (name, _) in kernel.override_constants() {
            assert!(names.contains(name), "{}: no override {name}", kernel.name());
        }
        assert!(kernel.storage_buffers().len() <= 8, "{}: WebGPU promises 8 storage buffers", kernel.name());
        // No adapter with cooperative matrices has less than 32 KiB.
        let promised = if kernel.needs_matrices() { 32 << 10 } else { 16 << 10 };
        assert!(kernel.workgroup_bytes() <= promised, "{}: WebGPU promises {promised} bytes", kernel.name());
        assert!(kernel.workgroup_size() <= 256, "{}: WebGPU promises 256 invocations", kernel.name());
    }
}

/// SPIR-V of a variant. Panics unless it can be written, and MSL and HLSL where the interface offers what the variant needs.
fn translated(kernel: &Kernel, variant: &Variant, module: &Module, info: &ModuleInfo) -> Vec<u32> {
    let name = kernel.name();
    // As wgpu does: cooperative matrices need Vulkan 1.2.
    let lang_version = if variant.matrix_side > 0 { (1, 4) } else { (1, 3) };
    let options = naga::back::spv::Options { lang_version, ..Default::default() };
    let words = naga::back::spv::write_vec(module, info, &options, None)
        .unwrap_or_else(|fault| panic!("{name} {variant:?}: SPIR-V: {fault}"));
    assert!(words.len() > 100, "{name}");
    // Metal has only matrices of 8 x 8, which another variant covers.
    if variant.matrix_side < 16 {
        let options = naga::back::msl::Options {
            lang_version: (2, 4),
            fake_missing_bindings: true,
            ..Default::default()
        };
        let (msl, _) = naga::back::msl::write_string(module, info, &options, &Default::default())
            .unwrap_or_else(|fault| panic!("{name} {variant:?}: MSL: {fault}"));
        assert!(msl.contains("kernel void"), "{name}");
    }
    // Under DX12 wgpu offers no cooperative matrices, whose place `screen_tile_i8` takes.
    if variant.matrix_side == 0 {
        let (_, hlsl) = hlsl_of(module, info, ShaderModel::V6_0)
            .unwrap_or_else(|fault| panic!("{name} {variant:?}: HLSL: {fault}"));
        assert!(hlsl.contains("[numthreads("), "{name}");
        // naga gives the values of subgroups no semantic in the members of a struct, which DXC refuses.
        let arguments = &module.entry_points[0].function.arguments;
        assert!(arguments.iter().all(|argument| argument.binding.is_some()), "{name}: {arguments:?}");
    }
    words
}

/// SPIR-V of a variant for matrices of bytes, which are the only ones in it, and all of whose products are of signed numbers.
fn with_matrices_of_bytes(kernel: &Kernel, variant: &Variant, text: &str) -> Vec<u32> {
    use spirv::Op;
    let words = internals::with_byte_matrices(kernel, variant, text)
        .unwrap_or_else(|fault| panic!("{} {variant:?}: {fault}", kernel.name()));
    let (mut at, mut integers, mut constants, mut matrices, mut products) =
        (5, HashMap::new(), HashMap::new(), vec![], 0);
    let (mut kinds, mut parameter, mut elements) = (vec![], 0, vec![]);
    while at < words.len() {
        let own = &words[at..at + (words[at] >> 16) as usize];
        match Op::from_u32(own[0] & 0xffff).expect("an instruction") {
            Op::TypeInt => assert_eq!(integers.insert(own[1], (own[2], own[3])), None),
            Op::Constant => _ = constants.insert(own[2], own[3]),
            Op::TypeCooperativeMatrixKHR => {
                let [rows, columns] = [own[4], own[5]].map(|id| constants[&id]);
                matrices.push((integers[&own[2]], rows, columns));
                kinds.push(own[1]);
            }
            Op::CooperativeMatrixMulAddKHR => {
                assert_eq!(own[6..], [0xf], "signed numbers");
                products += 1;
            }
            Op::FunctionParameter if kinds.contains(&own[1]) => parameter = own[2],
            Op::CompositeExtract if own[3] == parameter => elements.push(own[4]),
            Op::ControlBarrier => {
                assert_eq!(
                    constants[&own[3]], 0x108,
                    "barriers order the workgroup's memory, as they acquire and release"
                );
            }
            _ => {}
        }
        at += own.len();
    }
    matrices.sort_unstable();
    let depth = variant.matrix_bytes;
    let mut wanted = [((8, 1), 16, depth), ((8, 1), depth, 16), ((32, 1), 16, 16)];
    wanted.sort_unstable();
    assert_eq!(matrices, wanted, "{} {variant:?}", kernel.name());
    elements.sort_unstable();
    let held: Vec<u32> = if variant.sums_in_registers { (0..8).collect() } else { vec![] };
    assert_eq!(elements, held, "{} {variant:?}: an invocation takes each of its sums", kernel.name());
    assert!(products > 0 && integers.values().filter(|&&of| of == (32, 1)).count() == 1);
    words
}

/// The models for which HLSL is written: the first with subgroups, the first with products of four bytes, and the first that unpacks bytes.
const SHADER_MODELS: [(&str, ShaderModel); 3] =
    [("6_0", ShaderModel::V6_0), ("6_4", ShaderModel::V6_4), ("6_6", ShaderModel::V6_6)];

/// The entry point and the HLSL of a module, as wgpu has naga write it.
fn hlsl_of(
    module: &Module,
    info: &ModuleInfo,
    shader_model: ShaderModel,
) -> Result<(String, String), naga::back::hlsl::Error> {
    let options = naga::back::hlsl::Options {
        shader_model,
        fake_missing_bindings: true,
        zero_initialize_workgroup_memory: false,
        force_loop_bounding: false,
        ..Default::default()
    };
    let mut hlsl = String::new();
    let written =
        naga::back::hlsl::Writer::new(&mut hlsl, &options, &naga::back::hlsl::PipelineOptions::default())
            .write(module, info, None)?;
    let entry = written.entry_point_names.into_iter().find_map(Result::ok);
    Ok((entry.expect("the kernel's name"), hlsl))
}

/// Leaves HLSL for scripts/vendors, whose files are named ENTRY-STEM.
fn leave_hlsl(directory: &Path, stem: &str, module: &Module, info: &ModuleInfo) {
    for (model, shader_model) in SHADER_MODELS {
        let (entry, hlsl) = hlsl_of(module, info, shader_model).expect("HLSL was written for one model");
        let path = directory.join(model).join(format!("{entry}-{stem}.hlsl"));
        std::fs::write(path, hlsl).expect("the folder is writable");
    }
}

/// Panics if an index into a local array is not a constant.
fn check_indices(kernel: &Kernel, function: &naga::Function) {
    for (_, expression) in function.expressions.iter() {
        let naga::Expression::Access { base, .. } = *expression else { continue };
        let mut root = base;
        loop {
            match function.expressions[root] {
                naga::Expression::Access { base, .. } | naga::Expression::AccessIndex { base, .. } => {
                    root = base
                }
                naga::Expression::LocalVariable(local) => {
                    panic!("{}: {:?}", kernel.name(), function.local_variables[local].name)
                }
                _ => break,
            }
        }
    }
}

#[test]
fn register_arrays_are_indexed_by_constants_alone() {
    // One index that is not a constant puts the whole array into memory: 35 TFLOP/s instead of 219. Texts are checked before
    // override constants get their values, so an index by one of those fails, too.
    let seen = Mutex::new(HashSet::new());
    each_variant(|kernel, _, variant, _| {
        let text = kernel.wgsl(variant, Driver::Hardware).expect("the kernel unrolls");
        if seen.lock().expect("no test panicked").insert(text) {
            let module = parse(kernel, &text_of(kernel, variant, Driver::Hardware));
            let functions = module.functions.iter().map(|(_, function)| function);
            functions
                .chain([&module.entry_points[0].function])
                .for_each(|function| check_indices(kernel, function));
        }
    });
    let texts = seen.into_inner().expect("no test panicked").len();
    assert!(texts > every_kernel().count(), "{texts} texts");
}
