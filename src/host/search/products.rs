//! Dot products of f32 rows with f32 queries, and common bits.

use crate::host::arithmetic::registers::with_widest_registers;
use crate::host::arithmetic::sums::quick_sum_of;

/// Up to this many queries are multiplied one by one: a matrix product would spend more time on packing.
const FEW: usize = 4;

/// The dot product of every query with every row: `products[query * pitch + row]`.
pub(super) fn products((queries, dim): (&[f32], usize), rows: &[f32], products: &mut [f32], pitch: usize) {
    let [row_count, query_count] = [rows.len() / dim, queries.len() / dim];
    assert!(row_count <= pitch && query_count * pitch <= products.len(), "a place for each product");
    if query_count <= FEW {
        for (query, products) in queries.chunks_exact(dim).zip(products.chunks_exact_mut(pitch)) {
            with_widest_registers(
                #[inline(always)]
                || {
                    for (row, product) in rows.chunks_exact(dim).zip(products.iter_mut()) {
                        *product = quick_sum_of(query, row, |a, b| a * b);
                    }
                },
            );
        }
        return;
    }
    #[expect(unsafe_code, reason = "the crate for matrix products takes pointers")]
    // SAFETY: the three matrices lie in slices of these shapes: `rows` is [row_count, dim], `queries` is [query_count, dim], and
    // `products` is [query_count, pitch] with row_count <= pitch (asserted above). It is written through a unique reference.
    unsafe {
        gemm_f32::gemm::f32::get_gemm_fn()(
            row_count,
            query_count,
            dim,
            products.as_mut_ptr(),
            pitch as isize,
            1,
            false,
            rows.as_ptr(),
            1,
            dim as isize,
            queries.as_ptr(),
            dim as isize,
            1,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm_common::Parallelism::None,
        );
    }
}

/// The number of bits that every query and every row have in common, given as the numbers of their bytes: as [`products`] lie.
pub(super) fn common_bits((queries, dim): (&[f32], usize), rows: &[f32], counts: &mut [f32], pitch: usize) {
    for (query, counts) in queries.chunks_exact(dim).zip(counts.chunks_exact_mut(pitch)) {
        with_widest_registers(
            #[inline(always)]
            || {
                for (row, count) in rows.chunks_exact(dim).zip(counts) {
                    let pairs = query.iter().zip(row);
                    *count = pairs.map(|(&q, &x)| (q as u32 & x as u32).count_ones()).sum::<u32>() as f32;
                }
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::products;

    #[test]
    #[should_panic(expected = "a place for each product")]
    fn products_without_places_are_refused() {
        // Five queries of two rows, with places for four.
        products((&[1.0; 5], 1), &[1.0; 2], &mut [0.0; 8], 2);
    }

    #[test]
    #[should_panic(expected = "a place for each product")]
    fn rows_beyond_the_pitch_are_refused() {
        products((&[1.0; 5], 1), &[1.0; 3], &mut [0.0; 10], 2);
    }
}
