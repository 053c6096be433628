use crate::host::integers::dots::dots;
use crate::host::integers::isa::Isa;
use crate::host::integers::packed::{GROUP, PackedQueries, PackedRows, set_lane};

/// The definition: `[query][row]`.
fn reference(rows: &[i8], queries: &[i8], dim: usize) -> Vec<i32> {
    queries
        .chunks_exact(dim)
        .flat_map(|query| {
            rows.chunks_exact(dim)
                .map(move |row| row.iter().zip(query).map(|(&x, &q)| x as i32 * q as i32).sum())
        })
        .collect()
}

/// Packs rows given one after another.
fn packed_rows(rows: &[i8], dim: usize) -> PackedRows {
    let mut packed = PackedRows::new(dim);
    packed.resize(rows.len() / dim).expect("memory");
    for (group, rows) in packed.groups_mut().zip(rows.chunks(GROUP * dim)) {
        rows.chunks_exact(dim).enumerate().for_each(|(lane, row)| set_lane(group, lane, row));
    }
    packed
}

fn numbers(count: usize, mut seed: u64, extreme: bool) -> Vec<i8> {
    (0..count)
        .map(|_| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let value = (seed >> 33) % 255;
            if extreme { if value < 128 { 127 } else { -128 } } else { (value as i32 - 127) as i8 }
        })
        .collect()
}

#[test]
fn every_instruction_set_computes_the_definition() {
    for isa in Isa::all() {
        for dim in [1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 63, 64, 65, 127, 384, 385, 1536, 2049] {
            for (count, queries) in
                [(1, 1), (15, 2), (16, 3), (17, 5), (31, 11), (32, 12), (33, 13), (95, 25), (0, 1), (1, 0)]
            {
                for extreme in [false, true] {
                    let rows = numbers(count * dim, 7, extreme);
                    let wanted = numbers(queries * dim, 11, extreme);
                    let truth = reference(&rows, &wanted, dim);
                    let (packed, panels) =
                        (packed_rows(&rows, dim), PackedQueries::new(&wanted, dim, isa).expect("memory"));
                    let mut out = vec![i32::MIN; packed.groups() * GROUP * queries];
                    dots(&packed, 0..packed.groups(), &panels, &mut out);
                    for query in 0..queries {
                        for row in 0..count {
                            let got = out[(row / GROUP * queries + query) * GROUP + row % GROUP];
                            assert_eq!(
                                got,
                                truth[query * count + row],
                                "{isa:?} dim {dim} row {row} query {query}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn every_instruction_set_counts_common_bits() {
    for isa in Isa::all_of_bits() {
        // Bytes of counts are full after 31 steps of four.
        for dim in [1, 3, 4, 5, 16, 96, 124, 125, 129, 400] {
            for (count, queries) in [(1, 1), (15, 3), (17, 13), (33, 6)] {
                for full in [false, true] {
                    let [rows, wanted] = [(count, 7), (queries, 11)].map(|(vectors, seed)| {
                        if full { vec![-1; vectors * dim] } else { numbers(vectors * dim, seed, false) }
                    });
                    let (packed, panels) =
                        (packed_rows(&rows, dim), PackedQueries::new(&wanted, dim, isa).expect("memory"));
                    let mut out = vec![i32::MIN; packed.groups() * GROUP * queries];
                    dots(&packed, 0..packed.groups(), &panels, &mut out);
                    for (query, q) in wanted.chunks(dim).enumerate() {
                        for (row, x) in rows.chunks(dim).enumerate() {
                            let truth: u32 = q.iter().zip(x).map(|(q, x)| (q & x).count_ones()).sum();
                            let got = out[(row / GROUP * queries + query) * GROUP + row % GROUP];
                            assert_eq!(got, truth.cast_signed(), "{isa:?} dim {dim} row {row} query {query}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn ranges_of_groups_equal_the_whole() {
    let (dim, queries, count) = (37, 29, 100);
    let (rows, wanted) = (numbers(count * dim, 1, false), numbers(queries * dim, 2, false));
    let truth = reference(&rows, &wanted, dim);
    for isa in Isa::all() {
        let (packed, panels) =
            (packed_rows(&rows, dim), PackedQueries::new(&wanted, dim, isa).expect("memory"));
        for groups in [0..1, 2..5, 3..7, 6..7, 4..4] {
            let mut out = vec![i32::MIN; groups.len() * queries * GROUP];
            dots(&packed, groups.clone(), &panels, &mut out);
            for (at, &got) in out.iter().enumerate() {
                let (group, query, lane) = (at / GROUP / queries, at / GROUP % queries, at % GROUP);
                let row = (groups.start + group) * GROUP + lane;
                let expected = if row < count { truth[query * count + row] } else { 0 };
                assert_eq!(got, expected, "{isa:?} {groups:?} row {row} query {query}");
            }
        }
    }
}
