//! Dot products of many quantised queries on cooperative matrices.

use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::{Commands, Gpu, INTEGERS, Kernel, SLICES_F16, wgsl, words};
use crate::kernels::blocks::{BLOCK_ROWS, GRANULE_PLACES, Part, SCORE_BUFFERS, SCORES, Scored, TILE_COOP};
use crate::kernels::lengths::GRANULES;
use crate::kernels::screen::{collect_tile_coop, screen_tile_i8};
use crate::kernels::test_tile::{SIDE, TILE_GRANULES, TestTile, unless_it_passes};
use crate::platform::HAS_NATIVE_FEATURES;

pub use crate::kernels::screen::screen_tile_i8::{Params, reference};
use crate::metric::Form;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("screen_tile_coop")
    .library(&[SCORES, INTEGERS, SLICES_F16, GRANULE_PLACES, TILE_COOP])
    .source(wgsl!("screen/screen_tile_coop", HEIGHT = BLOCK_ROWS, OF_BITS = 0))
    .buffers(SCORE_BUFFERS)
    .multiplies_matrices()
    .lengths(&[GRANULES])
    .workgroup(256, 2 * 128 * 10 * 8)
    .holds_tile();

/// Whether this device multiplies matrices correctly: the lowest tile of `collect_tile_coop` with this form of distances and, if it `scores`
/// tiles too, this kernel. One tile of integers, the largest among them, tests each once per device. Higher tiles are tested once they are
/// compiled, and used from then on.
///
/// # Errors
/// What says nothing about the kernels, and passes or ends the device: then the next search tests them again.
pub(crate) async fn is_usable(gpu: &Gpu, form: Form, scores: bool) -> Result<bool> {
    if !HAS_NATIVE_FEATURES {
        return Ok(false);
    }
    let of_integers = if form.counts_bits() { Form::OF_INTEGERS } else { form };
    let collects = match gpu.collects_on_matrices.get() {
        Some(&known) => known,
        None => {
            let mut collects = is_expected(gpu);
            let mut wrong = gpu.compiler.wrong_matrices();
            while collects && !unless_it_passes(collect_tile_coop::is_lowest_right(gpu, of_integers).await)? {
                collects = gpu.compiler.leave_matrices(wrong);
                wrong = gpu.compiler.wrong_matrices();
            }
            *gpu.collects_on_matrices.get_or_init(|| collects)
        }
    };
    if !collects {
        return Ok(false);
    }
    if form.counts_bits() {
        // Matrices themselves were tested with integers. Tiles of bits are never scored to memory.
        let known = match gpu.counts_on_matrices.get() {
            Some(&known) => known,
            None => {
                let counts = unless_it_passes(collect_tile_coop::is_lowest_right(gpu, form).await)?;
                *gpu.counts_on_matrices.get_or_init(|| counts)
            }
        };
        if known {
            collect_tile_coop::test_compiled(gpu, form).await?;
        }
        return Ok(known);
    }
    collect_tile_coop::test_compiled(gpu, form).await?;
    match gpu.scores_on_matrices.get() {
        _ if !scores => Ok(true),
        Some(&known) => Ok(known),
        None => {
            let scores = unless_it_passes(is_right(gpu).await)?;
            Ok(*gpu.scores_on_matrices.get_or_init(|| scores))
        }
    }
}

/// Whether [`is_usable`] is expected to say yes: what it said, or else what the adapter lists.
pub(crate) fn is_expected(gpu: &Gpu) -> bool {
    if !HAS_NATIVE_FEATURES {
        return false;
    }
    let known = [&gpu.collects_on_matrices, &gpu.scores_on_matrices].map(|known| known.get().copied());
    if known.contains(&Some(false)) {
        return false;
    }
    let has_them =
        gpu.subgroups && gpu.has_subgroup_barriers() && gpu.adapter.capabilities.matrix_side().is_some();
    has_them
        && [&KERNEL, &collect_tile_coop::KERNEL]
            .iter()
            .all(|kernel| gpu.compiler.check_limits(kernel).is_ok())
}

/// Whether a tile gets the correct scores.
fn is_right(gpu: &Gpu) -> Boxed<'_, bool> {
    Box::pin(async move {
        let tile = TestTile::new(gpu, false).await?;
        let scores = gpu.create_storage("self-test", (SIDE * SIDE * 4) as u64)?;
        let part = Part { segment: 0, block_first: 0, block_step: 1, blocks: 1, column_first: 0 };
        let scored = Scored {
            queries: &tile.queries,
            count: BLOCK_ROWS,
            rows: &tile.rows,
            scores: &scores,
            room: BLOCK_ROWS,
            part,
        };
        let mut commands = Commands::new(gpu, None);
        screen_tile_i8::encode(&mut commands, &KERNEL, &scored, TILE_GRANULES as u32, false)?;
        let parts = commands.read(&[(&scores, 0, (SIDE * SIDE * 4) as u64)]).await?;
        Ok(words::<f32>(&parts[0]).eq(tile.scores.iter().copied()))
    })
}
