//! The ladder of the dot product, for learning and for measuring: the same sum computed in fourteen ways, each for any length.
//! docs/reductions.md says what each rung teaches, and `nearfield-bench reduce --ladder` measures what each costs.
//!
//! Nothing else in this crate uses the kernels in `wgsl/internals/ladder`; the last rung is [`Reduce::dot`](crate::Reduce::dot).

use crate::engine::{Device, DeviceVector, Stages};
use crate::error::{Error, Result};
use crate::gpu::{
    Access, BufferSlice, Commands, GRID, Grid, Kernel, OPERANDS, Profile, Request, Snippet, params, wgsl,
    words,
};
use crate::kernels::Variant;
use crate::matrix::ElementKind;

params! {
    /// Parameters of every kernel of the ladder.
    pub struct Params {
        /// Elements of both vectors.
        length: u32,
    }
}

/// Invocations per workgroup.
const WORKGROUP: u64 = 256;
/// Products that the rungs which leave them in storage compute at a time.
const PIECE: u64 = 1 << 24;
/// Products per invocation on the rung of subgroups.
const BY_SUBGROUPS_COARSENING: u32 = 16;

const A: (&str, Access) = ("a", Access::Read);
const B: (&str, Access) = ("b", Access::Read);
const PRODUCTS: (&str, Access) = ("products", Access::Write);
const PARTIALS: (&str, Access) = ("partials", Access::Write);
const TOTAL: (&str, Access) = ("total", Access::Write);

/// A kernel with one f32 of workgroup memory per invocation.
const fn kernel(name: &'static str, source: Snippet) -> Kernel {
    Kernel::new::<Params>(name)
        .library(&[GRID, OPERANDS])
        .source(source)
        .workgroup(WORKGROUP as u32, WORKGROUP as u32 * 4)
}

static MULTIPLY: Kernel = kernel("multiply", wgsl!("internals/ladder/multiply")).buffers(&[A, B, PRODUCTS]);

static ONE_ADDS: Kernel = kernel("one_adds", wgsl!("internals/ladder/one_adds")).buffers(&[A, B, PARTIALS]);

static ONE_ADDS_ATOMICALLY: Kernel =
    kernel("one_adds_atomically", wgsl!("internals/ladder/one_adds_atomically"))
        .buffers(&[A, B, TOTAL])
        .adds_floats();

static TREE_IN_STORAGE: Kernel =
    kernel("tree_in_storage", wgsl!("internals/ladder/tree_in_storage")).buffers(&[A, B, PRODUCTS, PARTIALS]);

static TREE_INTERLEAVED: Kernel =
    kernel("tree_interleaved", wgsl!("internals/ladder/tree_interleaved")).buffers(&[A, B, PARTIALS]);

static TREE_SEQUENTIAL: Kernel =
    kernel("tree_sequential", wgsl!("internals/ladder/tree_sequential")).buffers(&[A, B, PARTIALS]);

static HIERARCHICAL: Kernel = kernel("hierarchical", wgsl!("internals/ladder/hierarchical"))
    .buffers(&[A, B, TOTAL])
    .overrides(&[("COARSENING", &[1, 2, 4, 8, 16])])
    .adds_floats();

static BY_SUBGROUPS: Kernel =
    kernel("by_subgroups", wgsl!("internals/ladder/by_subgroups", COARSENING = BY_SUBGROUPS_COARSENING))
        .buffers(&[A, B, TOTAL])
        .sums_lanes()
        .adds_floats()
        .workgroup(WORKGROUP as u32, WORKGROUP as u32 * (16 + 4 + 4));

/// Every kernel of the ladder.
pub static KERNELS: &[&Kernel] = &[
    &MULTIPLY,
    &ONE_ADDS,
    &ONE_ADDS_ATOMICALLY,
    &TREE_IN_STORAGE,
    &TREE_INTERLEAVED,
    &TREE_SEQUENTIAL,
    &HIERARCHICAL,
    &BY_SUBGROUPS,
];

/// One way to compute a dot product.
#[derive(Debug)]
pub struct Rung {
    /// The rung's place on the ladder.
    pub letter: &'static str,
    /// A short description.
    pub name: &'static str,
    /// None for the library's own reduction.
    kernel: Option<&'static Kernel>,
    /// Products per invocation.
    coarsening: u32,
    needs: Needs,
}

/// The feature that an adapter needs for a rung.
#[derive(Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// Nothing; the rung shows compare-and-exchange, whatever the adapter has.
    Exchange,
    FloatAtomics,
    Subgroups,
}

const fn rung(
    letter: &'static str,
    name: &'static str,
    kernel: &'static Kernel,
    coarsening: u32,
    needs: Needs,
) -> Rung {
    Rung { letter, name, kernel: Some(kernel), coarsening, needs }
}

/// The ladder, from the bottom to the top.
pub static RUNGS: &[Rung] = &[
    rung("a", "multiply, host adds", &MULTIPLY, 1, Needs::Nothing),
    rung("b", "one invocation adds", &ONE_ADDS, 1, Needs::Nothing),
    rung("c", "one adds, exchange of bits", &ONE_ADDS_ATOMICALLY, 1, Needs::Exchange),
    rung("c native", "one adds, native atomics", &ONE_ADDS_ATOMICALLY, 1, Needs::FloatAtomics),
    rung("d", "tree in storage", &TREE_IN_STORAGE, 1, Needs::Nothing),
    rung("e", "tree, interleaved", &TREE_INTERLEAVED, 1, Needs::Nothing),
    rung("f", "tree, sequential", &TREE_SEQUENTIAL, 1, Needs::Nothing),
    rung("g", "tree, then atomic", &HIERARCHICAL, 1, Needs::Nothing),
    rung("h2", "coarsened by 2", &HIERARCHICAL, 2, Needs::Nothing),
    rung("h4", "coarsened by 4", &HIERARCHICAL, 4, Needs::Nothing),
    rung("h8", "coarsened by 8", &HIERARCHICAL, 8, Needs::Nothing),
    rung("h16", "coarsened by 16", &HIERARCHICAL, 16, Needs::Nothing),
    rung("i", "subgroups, coarsened by 16", &BY_SUBGROUPS, BY_SUBGROUPS_COARSENING, Needs::Subgroups),
    Rung { letter: "j", name: "the library", kernel: None, coarsening: 1, needs: Needs::Nothing },
];

impl Rung {
    /// The dot product of two f32 vectors by this rung. Rungs with atomic additions do not repeat bit for bit.
    ///
    /// # Errors
    /// [`Error::Argument`] for vectors of different lengths, of f16 or of another device; [`Error::Unsupported`] where the
    /// adapter lacks what the rung shows; [`Error::Budget`], [`Error::OutOfMemory`], [`Error::DeviceLost`].
    pub fn dot(
        &self,
        device: &Device,
        a: &DeviceVector,
        b: &DeviceVector,
        stages: Option<&Stages>,
    ) -> Result<f32> {
        device.block_on(self.sum(device, [a, b], stages))
    }

    async fn sum(&self, device: &Device, [a, b]: [&DeviceVector; 2], stages: Option<&Stages>) -> Result<f32> {
        let coarsening = self.coarsening;
        let Some(kernel) = self.kernel else {
            let reduce = stages.map_or(device.reduce(), |stages| device.reduce().stages(stages));
            return reduce.dot_async(a, b).await;
        };
        let gpu = device.gpu("a rung of the ladder")?;
        for (argument, vector) in [("a", a), ("b", b)] {
            vector.check_device(argument, &gpu.into())?;
            if vector.kind() != ElementKind::F32 {
                return Err(Error::argument(argument, "f32", "f16"));
            }
        }
        if a.len() != b.len() {
            return Err(Error::argument("b", format!("{} numbers, as a has", a.len()), b.len()));
        }
        let capabilities = device.capabilities();
        let lacks = |what: &str| Err(Error::unsupported(format!("rung {}", self.letter), what, "none"));
        let mut variant = Variant {
            subgroups: kernel.sums_lanes && gpu.subgroup_sizes().is_some(),
            float_atomics: kernel.adds_floats && capabilities.float_atomics,
            constants: kernel.overrides.iter().map(|_| coarsening).collect(),
            ..Variant::default()
        };
        match self.needs {
            Needs::FloatAtomics if !capabilities.float_atomics => {
                return lacks("native atomic addition of f32");
            }
            Needs::Subgroups if !variant.subgroups => return lacks("subgroup operations"),
            Needs::Exchange => variant.float_atomics = false,
            _ => {}
        }
        let pipeline = gpu.compiler.get(kernel, variant)?;
        let mut profile = stages.and_then(|_| Profile::new(gpu));
        let has = |name| kernel.buffers.iter().any(|(buffer, _)| *buffer == name);
        let a_workgroup = WORKGROUP * u64::from(coarsening);
        // Products pass through scratch memory piece by piece. Partial sums are few and stay until all are there.
        let piece = if has("products") { PIECE } else { u64::MAX };
        let partial_bytes = if has("partials") { a.len().div_ceil(a_workgroup) * 4 } else { 0 };
        let request = |purpose, bytes| Request { purpose, bytes };
        let scratch = gpu
            .reserve(&[
                request("products", if has("products") { piece.min(a.len()) * 4 } else { 0 }),
                request("partial sums", partial_bytes),
                request("a total", 4),
            ])
            .await?;
        let (products, partials, total) = (&scratch[0], &scratch[1], &scratch[2]);
        let mut commands = Commands::new(gpu, profile.as_mut());
        commands.clear(total, 0, 4);
        let mut sum = 0.0f64;
        let mut add = |_: usize, bytes: &[u8]| {
            sum += words::<f32>(bytes).map(f64::from).sum::<f64>();
        };
        let mut at = 0;
        while at < a.len() {
            let unit = DeviceVector::BUFFER_UNIT;
            let count = a.run(at, b.run(at, piece.min(a.len() - at), unit).1, unit).1;
            let workgroups = count.div_ceil(a_workgroup);
            let slices: Vec<BufferSlice<'_>> = kernel
                .buffers
                .iter()
                .map(|(name, _)| match *name {
                    "a" => a.run(at, count, unit).0,
                    "b" => b.run(at, count, unit).0,
                    "products" => BufferSlice::range(products, 0, count * 4),
                    "partials" => BufferSlice::range(partials, at / a_workgroup * 4, workgroups * 4),
                    _ => BufferSlice::range(total, 0, 4),
                })
                .collect();
            commands.stage("dot");
            let params = Params { length: count as u32 };
            commands.dispatch(&pipeline, &params, &slices, Grid::Linear(workgroups))?;
            at += count;
            if has("products") && !has("partials") {
                commands.read_each(&[(products, 0, count * 4)], &mut add).await?;
                commands = Commands::new(gpu, profile.as_mut());
            }
        }
        let last = if has("total") { (total, 0, 4) } else { (partials, 0, partial_bytes) };
        if !a.is_empty() && (has("total") || has("partials")) {
            commands.read_each(&[last], &mut add).await?;
        }
        if let (Some(stages), Some(profile)) = (stages, profile) {
            stages.add(profile.times(gpu).await?);
        }
        gpu.check_faults().await?;
        Ok(sum as f32)
    }
}
