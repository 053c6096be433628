//! Matrices of signed bytes, which WGSL and naga 30 cannot name and SPIR-V can.
//!
//! A kernel names matrices of floats in their place, and moves integers in and out by `bitcast`. naga validates that text and writes its
//! SPIR-V with all bounds checks. [`with_byte_matrices`] then makes the left and right matrices those of signed bytes and the sums those of
//! 32-bit integers, and marks the products as signed. A function of a matrix that returns a constant vector of four integers returns the
//! matrix's elements of these numbers instead, those in the registers of an invocation. Barriers of a subgroup get the meaning that Vulkan
//! asks for. Nothing else changes, so every access stays where naga checked it. What it does not know it refuses: matrices of other shapes,
//! and arithmetic on them besides products.

use std::collections::HashMap;

use spirv::{
    Capability, CooperativeMatrixOperands, CooperativeMatrixUse, MAGIC_NUMBER, MemorySemantics, Op, Scope,
};
use wgpu::naga::back::pipeline_constants::process_overrides;
use wgpu::naga::back::spv::{self, WriterFlags, ZeroInitializeWorkgroupMemoryMode};
use wgpu::naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use wgpu::naga::valid::{Capabilities, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator};
use wgpu::naga::{ShaderStage, front};

use crate::error::{Error, Result};
use crate::gpu::kernel::{Kernel, Variant};

/// Rows and columns of the matrices that a kernel names, and of the sums.
const SIDE: u32 = 16;

/// Sums that each of 32 invocations has of a matrix.
const LEAST_ELEMENTS: u32 = SIDE * SIDE / 32;

/// Words of a module before its first instruction. The fourth is the number of ids.
const HEADER: usize = 5;
const BOUND: usize = 3;

/// What may make or change a matrix of floats that stands for one of integers.
const MOVES: [Op; 8] = [
    Op::Load,
    Op::Variable,
    Op::ConstantNull,
    Op::CompositeConstruct,
    Op::CompositeExtract,
    Op::CooperativeMatrixLoadKHR,
    Op::CooperativeMatrixMulAddKHR,
    Op::FunctionParameter,
];

/// An instruction of a module.
struct Instruction<'a> {
    op: Op,
    words: &'a [u32],
}

/// The instructions of a module.
fn instructions(words: &[u32]) -> Result<Vec<Instruction<'_>>> {
    if words.len() < HEADER || words[0] != MAGIC_NUMBER {
        return Err(refusal("no SPIR-V"));
    }
    let (mut all, mut rest) = (vec![], &words[HEADER..]);
    while let Some(&first) = rest.first() {
        let length = (first >> 16) as usize;
        let op = Op::from_u32(first & 0xffff).ok_or_else(|| refusal("an instruction without a name"))?;
        if length == 0 || length > rest.len() {
            return Err(refusal("an instruction of a wrong length"));
        }
        let (words, behind) = rest.split_at(length);
        all.push(Instruction { op, words });
        rest = behind;
    }
    Ok(all)
}

fn refusal(what: &str) -> Error {
    Error::internal(format!("matrices of bytes: naga wrote {what}"))
}

/// The first word of an instruction of this many words.
fn first(op: Op, length: usize) -> u32 {
    (length as u32) << 16 | op as u32
}

/// The SPIR-V of a variant for matrices of bytes.
pub(crate) fn words_of_bytes(kernel: &Kernel, variant: &Variant, source: &str) -> Result<Vec<u32>> {
    with_byte_matrices(&words(kernel, variant, source)?, variant.matrix_bytes)
}

/// The SPIR-V of a variant's text, with the bounds checks that wgpu asks for.
fn words(kernel: &Kernel, variant: &Variant, source: &str) -> Result<Vec<u32>> {
    let failed = |fault: String| Error::Device { message: format!("kernel {}: {fault}", kernel.name) };
    let module = front::wgsl::parse_str(source).map_err(|fault| failed(fault.emit_to_string(source)))?;
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    validator.subgroup_stages(ShaderStages::COMPUTE).subgroup_operations(SubgroupOperationSet::all());
    let info = validator.validate(&module).map_err(|fault| failed(fault.emit_to_string(source)))?;
    let constants = kernel.constants(variant);
    let constants = constants.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let entry = Some((ShaderStage::Compute, kernel.name));
    let (module, info) =
        process_overrides(&module, &info, entry, &constants).map_err(|fault| failed(fault.to_string()))?;
    // What an index that is out of range reads and writes stays within its buffer.
    let restrict = BoundsCheckPolicy::Restrict;
    let bounds_check_policies =
        BoundsCheckPolicies { index: restrict, buffer: restrict, image_load: restrict, ..Default::default() };
    let options = spv::Options {
        lang_version: (1, 4),
        flags: WriterFlags::empty(),
        bounds_check_policies,
        zero_initialize_workgroup_memory: ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: false,
        ..Default::default()
    };
    let entry = spv::PipelineOptions { shader_stage: ShaderStage::Compute, entry_point: kernel.name.into() };
    spv::write_vec(&module, &info, &options, Some(&entry)).map_err(|fault| failed(fault.to_string()))
}

/// The module with matrices of bytes, `depth` of them to a product, in the place of those of 16 x 16 floats.
///
/// # Errors
/// [`Error::Internal`] for a module that has other matrices, or does with them what is not known here.
fn with_byte_matrices(words: &[u32], depth: u32) -> Result<Vec<u32>> {
    let all = instructions(words)?;
    let mut constants = HashMap::new();
    let (mut floats, mut integers, mut matrices) = (vec![], None, vec![]);
    let mut vectors = HashMap::new();
    for Instruction { op, words } in &all {
        match (op, &words[1..]) {
            (Op::TypeFloat, [id, 32, ..]) => floats.push(*id),
            (Op::TypeInt, [id, 32, 1]) => integers = Some(*id),
            (Op::TypeInt, [_, 8, _]) => return Err(refusal("types of bytes")),
            (Op::Constant, &[of, id, value]) => {
                constants.insert(id, (of, value));
            }
            (Op::ConstantComposite, &[of, id, a, b, c, d]) => {
                vectors.insert(id, (of, [a, b, c, d]));
            }
            (Op::TypeCooperativeMatrixKHR, [id, ..]) => matrices.push(*id),
            (op, [of, ..]) if matrices.contains(of) && !MOVES.contains(op) => {
                return Err(refusal(&format!("Op{op:?} on matrices")));
            }
            _ => {}
        }
    }
    let value = |id: &u32| constants.get(id).map(|(_, value)| *value);
    let shared = (MemorySemantics::ACQUIRE_RELEASE | MemorySemantics::WORKGROUP_MEMORY).bits();
    let shared = constants.iter().filter(|(_, (_, value))| *value == shared).map(|(id, _)| *id).min();
    let mut out = words[..HEADER].to_vec();
    let mut ids = words[BOUND]..;
    let mut fresh = || ids.next().unwrap_or(u32::MAX);
    let (byte, long) = (fresh(), fresh());
    let sum = integers.unwrap_or_else(&mut fresh);
    let mut is_written = [false; 2];
    // The matrix that a function is called with.
    let mut called_with = None;
    for Instruction { op, words } in &all {
        match (op, &words[1..]) {
            (Op::Capability, _) if !is_written[0] => {
                is_written[0] = true;
                out.extend([first(Op::Capability, 2), Capability::Int8 as u32]);
                out.extend_from_slice(words);
            }
            // It stands before the first matrix.
            (Op::TypeInt, [id, ..]) if Some(*id) == integers && is_written[1] => {}
            (Op::TypeInt, [id, ..]) if Some(*id) == integers => {
                is_written[1] = true;
                out.extend_from_slice(words);
            }
            (Op::TypeCooperativeMatrixKHR, &[id, of, scope, rows, columns, used]) => {
                let (rows, columns) = match (value(&rows), value(&columns), floats.contains(&of)) {
                    (Some(SIDE), Some(SIDE), true) => (rows, columns),
                    _ => return Err(refusal("other matrices than of 16 x 16 floats")),
                };
                let is_first = matrices.first() == Some(&id);
                if is_first {
                    let (of, _) = constants[&rows];
                    out.extend([first(Op::TypeInt, 4), byte, 8, 1]);
                    out.extend([first(Op::Constant, 4), of, long, depth]);
                    if !is_written[1] {
                        out.extend([first(Op::TypeInt, 4), sum, 32, 1]);
                        is_written[1] = true;
                    }
                }
                let (of, rows, columns) = match value(&used) {
                    Some(role) if role == CooperativeMatrixUse::MatrixAKHR as u32 => (byte, rows, long),
                    Some(role) if role == CooperativeMatrixUse::MatrixBKHR as u32 => (byte, long, columns),
                    Some(role) if role == CooperativeMatrixUse::MatrixAccumulatorKHR as u32 => {
                        (sum, rows, columns)
                    }
                    _ => return Err(refusal("a matrix of unknown use")),
                };
                out.extend([words[0], id, of, scope, rows, columns, used]);
            }
            (Op::CooperativeMatrixMulAddKHR, &[of, id, left, right, before]) => {
                let signed = CooperativeMatrixOperands::all().bits();
                out.extend([first(*op, 7), of, id, left, right, before, signed & 0xf]);
            }
            // naga 30 names the memory of a subgroup, which Vulkan has not: lanes exchange through that of the workgroup.
            (Op::ControlBarrier, &[by, among, _]) if value(&by) == Some(Scope::Subgroup as u32) => {
                let shared = shared.ok_or_else(|| refusal("no barrier of a workgroup"))?;
                out.extend([words[0], by, among, shared]);
            }
            (Op::Function, _) => {
                called_with = None;
                out.extend_from_slice(words);
            }
            (Op::FunctionParameter, &[of, id]) => {
                called_with = called_with.or(matrices.contains(&of).then_some(id));
                out.extend_from_slice(words);
            }
            (Op::ReturnValue, &[returned]) if called_with.is_some() && vectors.contains_key(&returned) => {
                let (of, numbers) = vectors[&returned];
                let matrix = called_with.unwrap_or_default();
                let mut elements = vec![];
                for number in numbers {
                    let number = value(&number).filter(|number| *number < LEAST_ELEMENTS);
                    let number = number.ok_or_else(|| refusal("an element that no invocation has"))?;
                    let element = fresh();
                    out.extend([first(Op::CompositeExtract, 5), sum, element, matrix, number]);
                    elements.push(element);
                }
                let vector = fresh();
                out.extend([first(Op::CompositeConstruct, 7), of, vector]);
                out.extend(elements);
                out.extend([first(Op::ReturnValue, 2), vector]);
            }
            (Op::TypeCooperativeMatrixKHR | Op::CooperativeMatrixMulAddKHR, _) => {
                return Err(refusal("matrices of an unknown form"));
            }
            _ => out.extend_from_slice(words),
        }
    }
    if matrices.len() != 3 {
        return Err(refusal(&format!("{} kinds of matrices, not three", matrices.len())));
    }
    out[BOUND] = fresh();
    Ok(out)
}
