//! Kernel declarations.

mod text;
mod variants;

use crate::elements::ElementKind;
use crate::error::{Error, Result};
use crate::gpu::compiler::multiplies_bytes;
use crate::platform::HAS_NATIVE_FEATURES;
pub use variants::Variant;

/// Declares a kernel's parameters once: the Rust struct, and the same struct in WGSL.
///
/// Fields are `u32` or `f32`, so both layouts agree without padding; a test compares the sizes. Comments say what their names do not.
macro_rules! params {
    ($(#[$meta:meta])* pub struct Params { $($(#[$field_meta:meta])* $field:ident: $kind:ident,)* }) => {
        $(#[$meta])*
        #[doc = "\nA kernel's parameters."]
        #[repr(C)]
        #[derive(Debug, Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
        pub struct Params {
            $($(#[$field_meta])* #[doc = concat!("\n`params.", stringify!($field), "` in WGSL.")] pub $field: $kind,)*
        }

        impl crate::gpu::Uniform for Params {
            const FIELDS: &[&str] = &[$(stringify!($field),)*];
            const WGSL: &str = concat!(
                "struct Params {", $(stringify!($field), ": ", stringify!($kind), ", ",)* "}\n",
                "@group(0) @binding(0) var<uniform> params: Params;\n",
            );
        }
    };
}
pub(crate) use params;

/// The snippet of a file below `wgsl/`, with constants it shares with Rust: `wgsl!("lib/keys", ABSENT)`, or
/// `wgsl!("reduce/locate", OPERATION_MIN = Operation::Min)` where the name in Rust is another.
macro_rules! wgsl {
    ($path:literal $(, $constant:ident $(= $value:expr)?)* $(,)?) => {
        crate::gpu::Snippet {
            text: crate::gpu::bare_text!(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/wgsl/", $path, ".wgsl"))),
            constants: &[$((stringify!($constant), crate::gpu::wgsl!(@value $constant $(= $value)?)),)*],
        }
    };
    (@value $constant:ident) => {
        $constant
    };
    (@value $constant:ident = $value:expr) => {
        $value as u32
    };
}
pub(crate) use wgsl;

/// Parameters of a kernel, as [`params!`] declares them.
pub(crate) trait Uniform: bytemuck::Pod {
    /// The fields' names. Each field takes four bytes.
    const FIELDS: &[&str];
    /// The struct in WGSL, bound as `params`.
    const WGSL: &str;
}

/// A piece of WGSL text, and the values it shares with Rust: each becomes a `const` of this name in front of the text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snippet {
    pub(crate) text: &'static str,
    pub(crate) constants: &'static [(&'static str, u32)],
}

/// No text.
const NOTHING: Snippet = Snippet { text: "", constants: &[] };

/// Whether a kernel writes to a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only reads it.
    Read,
    /// Reads and writes it.
    Write,
}

/// Whether a variant is of use, by its element type and the values of its override constants.
type IsUsed = fn(ElementKind, &dyn Fn(&str) -> u32) -> bool;

/// A kernel as it is declared beside its WGSL file. Binding 0 is `params`; the buffers follow in order.
///
/// Only this crate makes kernels: their text is compiled without loop bounds checks.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) name: &'static str,
    /// Snippets of `wgsl/lib`, in front of the kernel's own file.
    library: &'static [Snippet],
    source: Snippet,
    /// The parameters in WGSL.
    params: &'static str,
    fields: &'static [&'static str],
    pub(crate) params_bytes: usize,
    pub(crate) buffers: &'static [(&'static str, Access)],
    pub(crate) overrides: &'static [(&'static str, &'static [u32])],
    /// The element types of the rows that it loads; none if it loads no rows.
    pub(crate) row_types: &'static [ElementKind],
    /// Which variants there are.
    is_used: IsUsed,
    pub(crate) sums_lanes: bool,
    pub(crate) multiplies_matrices: bool,
    /// Whether there is a form for matrices of bytes.
    pub(crate) takes_byte_matrices: bool,
    /// Whether there is a form for each number of [`REGISTERS`].
    pub(crate) fits_registers: bool,
    /// Whether a workgroup computes a tile of [`TILE`] sums, one a register.
    pub(crate) holds_tile: bool,
    /// The lengths of vectors among the parameters that may be constants of the text.
    pub(crate) lengths: &'static [Length],
    pub(crate) workgroup_size: u32,
    pub(crate) workgroup_bytes: u32,
}

/// The constant that sets the invocations per workgroup. Kernels that run with several sizes have it among their override
/// constants; in the text of all others it is a `const`.
pub const WORKGROUP: &str = "WORKGROUP";

/// The constant that sets the queries of a tile, for kernels that have it among their override constants. It shapes the text, so it is a
/// `const` there.
pub(crate) const HEIGHT: &str = "HEIGHT";

/// The constant that tells kernels of codes that these are bytes of bits, likewise.
pub(crate) const OF_BITS: &str = "OF_BITS";

/// The constant of tiles that tells whether the queries are rows too, so that each row of a pair may take the other, likewise.
pub(crate) const PAIRS: &str = "PAIRS";

/// The override constants that are a `const` of the text.
const OF_TEXT: [&str; 3] = [HEIGHT, OF_BITS, PAIRS];

/// Sums of a tile: the products of 128 queries and 128 rows.
const TILE: u32 = 128 * 128;

/// How many registers an invocation has for the data of a kernel, beside addresses and what is computed on the way. Kernels that use more
/// are faster where they fit, and much slower where they do not.
pub(crate) const REGISTERS: [u32; 2] = [128, 64];

/// The parameters at which loops of kernels end.
const LOOP_ENDS: [&str; 18] = [
    "blocks",
    "buckets",
    "count",
    "dim",
    "granules",
    "k",
    "length",
    "lists",
    "part_blocks",
    "part_columns",
    "parts",
    "piece",
    "pitch",
    "probes",
    "rows",
    "run",
    "turns",
    "vectors",
];

/// The largest of those. Loops take steps of less than this, so their counters reach the end without wrapping around.
const LOOP_END_MAX: u32 = 1 << 31;

/// A parameter that follows from the number of elements of a vector: its name, and its value for a number of elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Length {
    pub(crate) field: &'static str,
    pub(crate) of: fn(dimension: u32) -> u32,
}

/// How a kernel is declared.
impl Kernel {
    /// A kernel with parameters `P` whose entry point is `name`. It has 256 invocations per workgroup and no workgroup
    /// memory unless [`Kernel::workgroup`] says otherwise.
    pub(crate) const fn new<P: Uniform>(name: &'static str) -> Self {
        Self {
            name,
            library: &[],
            source: NOTHING,
            params: P::WGSL,
            fields: P::FIELDS,
            params_bytes: size_of::<P>(),
            buffers: &[],
            overrides: &[],
            row_types: &[],
            is_used: |_, _| true,
            sums_lanes: false,
            multiplies_matrices: false,
            takes_byte_matrices: false,
            fits_registers: false,
            holds_tile: false,
            lengths: &[],
            workgroup_size: 256,
            workgroup_bytes: 0,
        }
    }

    /// The snippets of `wgsl/lib` that the kernel uses, in their order.
    pub(crate) const fn library(self, library: &'static [Snippet]) -> Self {
        Self { library, ..self }
    }

    /// The kernel's own file.
    pub(crate) const fn source(self, source: Snippet) -> Self {
        Self { source, ..self }
    }

    /// Names and access of the storage buffers, from binding 1 on.
    pub(crate) const fn buffers(self, buffers: &'static [(&'static str, Access)]) -> Self {
        Self { buffers, ..self }
    }

    /// Override constants, each with all values that it takes.
    pub(crate) const fn overrides(self, overrides: &'static [(&'static str, &'static [u32])]) -> Self {
        Self { overrides, ..self }
    }

    /// Invocations per workgroup (the most, if [`WORKGROUP`] is an override constant), and bytes of workgroup memory of the
    /// largest variant.
    pub(crate) const fn workgroup(self, size: u32, bytes: u32) -> Self {
        Self { workgroup_size: size, workgroup_bytes: bytes, ..self }
    }

    /// Loads rows of numbers: a variant for each element type, with its `Row` and `widen`.
    pub(crate) const fn loads_rows(self) -> Self {
        Self { row_types: &ElementKind::NUMBERS, ..self }
    }

    /// Loads rows of numbers or of bits: where `COUNTS_BITS` is 1, elements are bytes of bits.
    pub(crate) const fn loads_rows_and_bits(self) -> Self {
        Self { row_types: &ElementKind::ALL, ..self }
    }

    /// Has no variant of which this is false.
    pub(crate) const fn only(self, is_used: IsUsed) -> Self {
        Self { is_used, ..self }
    }

    /// Sums over lanes: a variant with subgroups and one without, each with its `Lanes` and `lanes_sum`.
    pub(crate) const fn sums_lanes(self) -> Self {
        Self { sums_lanes: true, ..self }
    }

    /// Has forms for few and many registers: its text sees their number as `REGISTERS`.
    pub(crate) const fn fits_registers(self) -> Self {
        Self { fits_registers: true, ..self }
    }

    /// Computes a tile of up to 128 x 128 sums a workgroup, one a register: its `WORKGROUP` follows from `REGISTERS`.
    pub(crate) const fn holds_tile(self) -> Self {
        let workgroup_size = TILE / REGISTERS[REGISTERS.len() - 1];
        Self { fits_registers: true, holds_tile: true, workgroup_size, ..self }
    }

    /// May have the lengths of vectors as constants: a variant that reads them from the parameters, and one for every number of
    /// elements that the tuner finds faster. In the text of those, `params.FIELD` is a number.
    pub(crate) const fn lengths(self, lengths: &'static [Length]) -> Self {
        Self { lengths, ..self }
    }

    /// Multiplies cooperative matrices: a variant for each of their sizes, with its `Left`, `Right` and `Sum`. Adapters
    /// without such matrices cannot run the kernel. Comes behind the kernel's text.
    pub(crate) const fn multiplies_matrices(self) -> Self {
        if !HAS_NATIVE_FEATURES {
            // No device runs the kernel, so its text is left out.
            return Self { multiplies_matrices: true, library: &[], source: NOTHING, ..self };
        }
        Self { multiplies_matrices: true, ..self }
    }

    /// Multiplies matrices of bytes where the adapter has them: its text takes vectors of slices by the functions of
    /// `lib/variants/slices_*`, and sums by those of `lib/variants/sums_*`.
    pub(crate) const fn takes_byte_matrices(self) -> Self {
        Self { takes_byte_matrices: true, ..self }
    }
}

/// The parts of a declaration that tests and benchmarks read.
impl Kernel {
    /// Entry point, and name of the WGSL file.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Names and access of the storage buffers, from binding 1 on.
    pub fn storage_buffers(&self) -> &'static [(&'static str, Access)] {
        self.buffers
    }

    /// Names of the override constants, each with all values that it takes.
    pub fn override_constants(&self) -> &'static [(&'static str, &'static [u32])] {
        self.overrides
    }

    /// Bytes of the parameters.
    pub fn params_bytes(&self) -> usize {
        self.params_bytes
    }

    /// Whether there is a variant with subgroups and one without.
    pub fn has_subgroup_variants(&self) -> bool {
        self.sums_lanes
    }

    /// Whether only adapters with cooperative matrices run it.
    pub fn needs_matrices(&self) -> bool {
        self.multiplies_matrices
    }

    /// Invocations per workgroup, of the largest variant.
    pub fn workgroup_size(&self) -> u32 {
        self.workgroup_size
    }

    /// Bytes of workgroup memory, of the largest variant.
    pub fn workgroup_bytes(&self) -> u32 {
        self.workgroup_bytes
    }

    /// The queries of a tile, ascending, where the kernel has several forms of it.
    pub fn heights(&self) -> &'static [u32] {
        self.overrides.iter().find(|(name, _)| *name == HEIGHT).map_or(&[], |(_, heights)| *heights)
    }

    /// Whether there are variants for one number of elements.
    pub fn has_lengths(&self) -> bool {
        !self.lengths.is_empty()
    }

    /// Whether its text multiplies bytes, four at a time.
    pub(crate) fn multiplies_bytes(&self) -> bool {
        self.library.iter().chain([&self.source]).any(|snippet| multiplies_bytes(snippet.text))
    }

    /// Whether a form for vectors of this many elements, or the general one (0), may run with these parameters.
    pub(crate) fn is_of(&self, dimension: u32, params: &[u8]) -> bool {
        dimension == 0
            || self.lengths.iter().all(|length| {
                let place = self.fields.iter().position(|field| *field == length.field);
                let bytes = place.and_then(|place| params.get(place * 4..place * 4 + 4));
                bytes.is_some_and(|bytes| bytes == (length.of)(dimension).to_le_bytes())
            })
    }

    /// Whether loops end at this parameter, which a dispatch then refuses above [`LOOP_END_MAX`].
    pub fn ends_loops(field: &str) -> bool {
        LOOP_ENDS.contains(&field)
    }

    /// Refuses parameters with which a loop would not end.
    pub(crate) fn check_loops(&self, params: &[u8]) -> Result<()> {
        for (&field, bytes) in self.fields.iter().zip(params.chunks_exact(4)) {
            let value = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            if value > LOOP_END_MAX && Self::ends_loops(field) {
                return Err(Error::argument(field, format!("at most {LOOP_END_MAX}"), value));
            }
        }
        Ok(())
    }
}
