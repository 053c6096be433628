//! Sums over pairs of vectors, of products or of squared differences, for many vectors at once: rows lie side by side in the lanes of
//! registers, and a few queries share every load of them.
//!
//! A sum takes the dimensions in order, so it depends on its two vectors alone. Sums of [`CHAIN`] dimensions are added up, which rounds
//! less than one long chain of additions.

use bytemuck::Pod;
use pulp::{Arch, Simd, WithSimd};

use crate::error::Result;
use crate::interrupt::Stop;

/// Registers of rows in a panel.
const WIDTH: usize = 2;

/// Dimensions that are added up before the sum joins the others.
pub(crate) const CHAIN: usize = 32;

/// Rows and dimensions that are transposed at a time.
const SIDE: usize = 8;

/// The element type of sums: f32, or f64 for sums that lose nothing.
pub(crate) trait Number: Pod + Send + Sync + Into<f64> + From<f32> {
    /// As many as a register holds.
    type Register<S: Simd>: Pod + Send + Sync;

    fn rounded(self) -> f32;

    fn splat<S: Simd>(simd: S, value: Self) -> Self::Register<S>;

    fn add<S: Simd>(simd: S, a: Self::Register<S>, b: Self::Register<S>) -> Self::Register<S>;

    fn subtract<S: Simd>(simd: S, a: Self::Register<S>, b: Self::Register<S>) -> Self::Register<S>;

    /// `a * b + c`.
    fn multiply_add<S: Simd>(
        simd: S,
        a: Self::Register<S>,
        b: Self::Register<S>,
        c: Self::Register<S>,
    ) -> Self::Register<S>;
}

/// Implements [`Number`] by the methods of [`Simd`].
macro_rules! number {
    ($number:ident, $register:ident, $splat:ident, $add:ident, $subtract:ident, $multiply_add:ident) => {
        impl Number for $number {
            type Register<S: Simd> = S::$register;

            #[inline(always)]
            fn rounded(self) -> f32 {
                self as f32
            }

            #[inline(always)]
            fn splat<S: Simd>(simd: S, value: Self) -> S::$register {
                simd.$splat(value)
            }

            #[inline(always)]
            fn add<S: Simd>(simd: S, a: S::$register, b: S::$register) -> S::$register {
                simd.$add(a, b)
            }

            #[inline(always)]
            fn subtract<S: Simd>(simd: S, a: S::$register, b: S::$register) -> S::$register {
                simd.$subtract(a, b)
            }

            #[inline(always)]
            fn multiply_add<S: Simd>(
                simd: S,
                a: S::$register,
                b: S::$register,
                c: S::$register,
            ) -> S::$register {
                simd.$multiply_add(a, b, c)
            }
        }
    };
}

number!(f32, f32s, splat_f32s, add_f32s, sub_f32s, mul_add_e_f32s);
number!(f64, f64s, splat_f64s, add_f64s, sub_f64s, mul_add_e_f64s);

/// The sums of all pairs of two sets of vectors.
pub(crate) struct Tiles<'a, F> {
    /// `[queries, dim]`.
    pub(crate) queries: &'a [f32],
    /// `[rows, dim]`.
    pub(crate) rows: &'a [f32],
    pub(crate) dim: usize,
    /// Sums of squared differences, not of products.
    pub(crate) is_direct: bool,
    /// Looked at before every panel of rows.
    pub(crate) stop: Stop<'a>,
    /// Takes the sums of a query and of neighbouring rows: the query, the first row, and a sum for each row.
    pub(crate) take: F,
}

impl<F> Tiles<'_, F> {
    /// Computes the sums in numbers of type `T`.
    pub(crate) fn compute<T: Number>(self) -> Result<()>
    where
        F: FnMut(usize, usize, &[T]),
    {
        Arch::new().dispatch(Job { tiles: self, number: std::marker::PhantomData::<T> })
    }
}

/// [`Tiles`] with their type of number.
struct Job<'a, F, T> {
    tiles: Tiles<'a, F>,
    number: std::marker::PhantomData<T>,
}

impl<T: Number, F: FnMut(usize, usize, &[T])> WithSimd for Job<'_, F, T> {
    type Output = Result<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Result<()> {
        // Sums, the panel's registers, a query's element, and differences have to fit.
        match (S::REGISTER_COUNT >= 32, self.tiles.is_direct) {
            (true, true) => run::<S, T, F, 8, true>(simd, self.tiles),
            (true, false) => run::<S, T, F, 8, false>(simd, self.tiles),
            (false, true) => run::<S, T, F, 4, true>(simd, self.tiles),
            (false, false) => run::<S, T, F, 4, false>(simd, self.tiles),
        }
    }
}

#[inline(always)]
fn run<S: Simd, T: Number, F: FnMut(usize, usize, &[T]), const QUERIES: usize, const DIRECT: bool>(
    simd: S,
    tiles: Tiles<'_, F>,
) -> Result<()> {
    let Tiles { queries, rows, dim, stop, mut take, .. } = tiles;
    let lanes = size_of::<T::Register<S>>() / size_of::<T>();
    let zero = T::from(0.0);
    // [groups of queries, dim, QUERIES]; the last group is filled up with zeros.
    let mut packed = vec![[zero; QUERIES]; (queries.len() / dim).div_ceil(QUERIES) * dim];
    for (query, values) in queries.chunks_exact(dim).enumerate() {
        let group = &mut packed[query / QUERIES * dim..][..dim];
        group.iter_mut().zip(values).for_each(|(four, &value)| four[query % QUERIES] = value.into());
    }
    // [dim, rows]; rows that the last panel lacks keep the values of the panel before, and nobody takes their sums.
    let mut panel = vec![T::splat(simd, zero); dim * WIDTH];
    let width = WIDTH * lanes;
    for (number, rows) in rows.chunks(width * dim).enumerate() {
        stop.check()?;
        transpose(rows, dim, width, bytemuck::cast_slice_mut::<_, T>(&mut panel));
        let count = rows.len() / dim;
        for (group, packed) in packed.chunks_exact(dim).enumerate() {
            let sums = tile::<S, T, QUERIES, DIRECT>(simd, panel.as_chunks().0, packed);
            let queries = group * QUERIES..(queries.len() / dim).min((group + 1) * QUERIES);
            for (query, sums) in queries.zip(&sums) {
                let sums: &[T] = bytemuck::cast_slice(sums);
                take(query, number * width, &sums[..count]);
            }
        }
    }
    Ok(())
}

/// Copies rows of `dim` elements to columns of a panel that is `width` wide, in squares whose shuffles stay in registers.
#[inline(always)]
fn transpose<T: Number>(rows: &[f32], dim: usize, width: usize, panel: &mut [T]) {
    let squares = if width.is_multiple_of(SIDE) { rows.len() / dim / SIDE } else { 0 };
    for square in 0..squares {
        let first = square * SIDE;
        let chunks: [&[[f32; SIDE]]; SIDE] =
            std::array::from_fn(|row| rows[(first + row) * dim..][..dim].as_chunks().0);
        let columns = panel.chunks_exact_mut(SIDE * width);
        for (place, columns) in columns.enumerate().take(dim / SIDE) {
            let square: [[f32; SIDE]; SIDE] = std::array::from_fn(|row| chunks[row][place]);
            for column in 0..SIDE {
                let values: [T; SIDE] = std::array::from_fn(|row| square[row][column].into());
                columns[column * width + first..][..SIDE].copy_from_slice(&values);
            }
        }
    }
    // The rows and the dimensions that fill no square.
    for (place, row) in rows.chunks_exact(dim).enumerate() {
        let done = if place < squares * SIDE { dim / SIDE * SIDE } else { 0 };
        let columns = panel[done * width..].chunks_exact_mut(width);
        columns.zip(&row[done..]).for_each(|(column, &value)| column[place] = value.into());
    }
}

/// The sums of a group of queries and the rows of a panel.
#[inline(always)]
fn tile<S: Simd, T: Number, const QUERIES: usize, const DIRECT: bool>(
    simd: S,
    panel: &[[T::Register<S>; WIDTH]],
    queries: &[[T; QUERIES]],
) -> [[T::Register<S>; WIDTH]; QUERIES] {
    let zero = T::splat(simd, T::from(0.0));
    let mut sums = [[zero; WIDTH]; QUERIES];
    for (panel, queries) in panel.chunks(CHAIN).zip(queries.chunks(CHAIN)) {
        let mut chains = [[zero; WIDTH]; QUERIES];
        for (rows, values) in panel.iter().zip(queries) {
            for query in 0..QUERIES {
                let value = T::splat(simd, values[query]);
                for part in 0..WIDTH {
                    let (a, b) = if DIRECT {
                        let difference = T::subtract(simd, value, rows[part]);
                        (difference, difference)
                    } else {
                        (value, rows[part])
                    };
                    chains[query][part] = T::multiply_add(simd, a, b, chains[query][part]);
                }
            }
        }
        for query in 0..QUERIES {
            for part in 0..WIDTH {
                sums[query][part] = T::add(simd, sums[query][part], chains[query][part]);
            }
        }
    }
    sums
}
