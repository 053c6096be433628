//! The WGSL text of a kernel's variants.

use super::{Kernel, OF_TEXT, REGISTERS, Snippet, Variant, WORKGROUP, wgsl};
use crate::elements::ElementKind;
use crate::error::{Error, Result};
use crate::gpu::snippets::KEEP_ROW;
use crate::gpu::unroll::{ALWAYS, Driver, ON_HARDWARE, WITH_REGISTERS, unroll};
use crate::platform::HAS_NATIVE_FEATURES;

/// The constant that tells a kernel's text whether the driver runs it on the processor.
const IS_SOFTWARE: &str = "IS_SOFTWARE";

impl Kernel {
    /// The WGSL text of a variant for this driver, with its loops unrolled.
    ///
    /// # Errors
    /// When a marked loop cannot be unrolled: a fault of the kernel's file.
    pub fn wgsl(&self, variant: &Variant, driver: Driver) -> Result<String> {
        let snippets = self.snippets(variant);
        let mut text = String::new();
        if self.multiplies_matrices {
            text.push_str("enable f16;\nenable wgpu_cooperative_matrix;\n");
        }
        let has_size = self.overrides.iter().any(|(name, _)| *name == WORKGROUP);
        let size = (WORKGROUP, self.invocations(variant));
        let registers = (variant.registers > 0).then_some(("REGISTERS", variant.registers));
        let of_text = OF_TEXT.iter().filter_map(|&name| Some((name, self.value(variant, name)?)));
        let constants = snippets.iter().flat_map(|snippet| snippet.constants).copied();
        let mut written = vec![];
        for constant in constants.chain((!has_size).then_some(size)).chain(registers).chain(of_text) {
            // Snippets may share a constant. Two values of one name are an error that naga reports.
            if !written.contains(&constant) {
                text.push_str(&format!("const {} = {}u;\n", constant.0, constant.1));
                written.push(constant);
            }
        }
        if snippets.iter().any(|snippet| snippet.text.contains(IS_SOFTWARE)) {
            text.push_str(&format!("const {IS_SOFTWARE} = {};\n", driver == Driver::Software));
        }
        text.push_str(self.params);
        for snippet in snippets {
            text.push_str(snippet.text);
        }
        if variant.registers != REGISTERS[1] {
            text = text.replace(WITH_REGISTERS, ALWAYS);
        }
        if driver == Driver::Software && text.contains(ON_HARDWARE) || text.contains(WITH_REGISTERS) {
            // No buffer is that long, so this is `limit`. Only the driver's compiler cannot know it.
            let name = self.buffers[0].0;
            text.push_str(&format!(
                "fn opaque(limit: u32) -> u32 {{ return select(limit, 0u, arrayLength(&{name}) == 0xffffffffu); }}\n"
            ));
        }
        if self.sums_lanes {
            text = self.with_lanes(&text, variant.subgroups)?;
        }
        if variant.dimension > 0 {
            for length in self.lengths {
                text = with_number(&text, length.field, (length.of)(variant.dimension));
            }
        }
        unroll(&text, driver).map_err(|fault| Error::internal(format!("kernel {}: {fault}", self.name)))
    }

    /// The text with an entry point that makes its `lanes` of built-in values. They are its own arguments: naga's HLSL writer gives those
    /// of subgroups no meaning where they are members of a struct.
    fn with_lanes(&self, text: &str, subgroups: bool) -> Result<String> {
        let builtins: &[&str] = match subgroups {
            true => &[
                "local_invocation_index",
                "subgroup_invocation_id",
                "subgroup_size",
                "subgroup_id",
                "num_subgroups",
            ],
            false => &["local_invocation_index"],
        };
        let arguments: Vec<_> = builtins.iter().map(|name| format!("@builtin({name}) {name}: u32")).collect();
        let parts = || {
            let (before, entry) = text.split_once(&format!("fn {}(", self.name))?;
            let (first, rest) = entry.split_once("lanes: Lanes")?;
            let (others, body) = rest.split_once("{\n")?;
            Some((before, first, others, body))
        };
        let Some((before, first, others, body)) = parts() else {
            return Err(Error::internal(format!("kernel {}: its entry point takes no lanes", self.name)));
        };
        let (arguments, values, name) = (arguments.join(", "), builtins.join(", "), self.name);
        Ok(format!(
            "{before}fn {name}({first}{arguments}{others}{{\n  let lanes = lanes_here({values});\n{body}"
        ))
    }

    /// The snippets of a variant, in the order of its text.
    fn snippets(&self, variant: &Variant) -> Vec<Snippet> {
        let mut snippets = vec![];
        if HAS_NATIVE_FEATURES && self.multiplies_matrices {
            snippets.push(match (variant.matrix_side, variant.matrix_bytes) {
                (8, _) => wgsl!("lib/variants/matrices_8"),
                (_, 16) => wgsl!("lib/variants/matrices_bytes", PRODUCT = 16),
                (_, 32) => wgsl!("lib/variants/matrices_bytes", PRODUCT = 32),
                _ => wgsl!("lib/variants/matrices_16"),
            });
            if self.takes_byte_matrices {
                snippets.push(match (variant.matrix_bytes, variant.sums_in_registers) {
                    (0, _) => wgsl!("lib/variants/sums_f16"),
                    (_, false) => wgsl!("lib/variants/sums_bytes"),
                    (_, true) => wgsl!("lib/variants/sums_registers"),
                });
                let [slices, terms] = match variant.matrix_bytes {
                    0 => [wgsl!("lib/variants/slices_f16"), wgsl!("lib/variants/terms_f16")],
                    _ => [wgsl!("lib/variants/slices_bytes"), wgsl!("lib/variants/terms_bytes")],
                };
                snippets.push(slices);
                // Kernels that keep rows test them.
                if self.library.iter().any(|snippet| snippet.text == KEEP_ROW.text) {
                    snippets.push(terms);
                }
            }
        }
        if !self.row_types.is_empty() {
            snippets.push(Snippet {
                text: "",
                constants: if variant.elements == ElementKind::Bits {
                    &[("COUNTS_BITS", 1)]
                } else {
                    &[("COUNTS_BITS", 0)]
                },
            });
            snippets.push(match variant.elements {
                ElementKind::F32 => wgsl!("lib/rows/f32"),
                ElementKind::F16 => wgsl!("lib/rows/f16"),
                ElementKind::BF16 => wgsl!("lib/rows/bf16"),
                ElementKind::I8 => wgsl!("lib/rows/i8"),
                // A byte of bits is the number that it makes.
                ElementKind::U8 | ElementKind::Bits => wgsl!("lib/rows/u8"),
            });
        }
        if self.sums_lanes {
            snippets.push(match variant.subgroups {
                true => wgsl!("lib/variants/lanes_subgroup"),
                false => wgsl!("lib/variants/lanes_workgroup"),
            });
        }
        snippets.extend(self.library);
        snippets.push(self.source);
        snippets
    }
}

/// The text with a number in the place of a parameter.
fn with_number(text: &str, field: &str, value: u32) -> String {
    let parameter = format!("params.{field}");
    let mut pieces = text.split(&parameter);
    let mut result = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        // A longer name only begins with the field's.
        let is_longer = piece.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_');
        result.push_str(&if is_longer { parameter.clone() } else { format!("{value}u") });
        result.push_str(piece);
    }
    result
}
