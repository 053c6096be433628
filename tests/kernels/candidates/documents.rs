//! The kernels that score documents: the largest similarities by codes and in f32, their sums, and the largest terms.

use super::{Quantized, random_terms};
use crate::common::bench::Bench;
use crate::common::quantized::packed;
use nearfield::MatrixView;
use nearfield::internals::certificate::{Form, Terms};
use nearfield::internals::kernels::maxsim_tile_i8::PlacedBlock;
use nearfield::internals::kernels::{
    BLOCK_ROWS, Kernel, key_of, maxsim_longest, maxsim_pairs, maxsim_sum, maxsim_tile_coop, maxsim_tile_i8,
    quantize, value_of,
};
use nearfield_testing::Random;

const BLOCK: usize = BLOCK_ROWS as usize;

/// Tokens of documents: some end within a block, one with it, and one goes through all of one.
const LENGTHS: [usize; 10] = [1, 40, 87, 3, 200, 1, 52, 64, 7, 5];

/// The first block and the end of each segment.
const SEGMENTS: [[usize; 2]; 2] = [[0, 2 * BLOCK], [2, 460]];

fn ends() -> Vec<u32> {
    let ends = LENGTHS.iter().scan(0, |end, &length| {
        *end += length as u32;
        Some(*end)
    });
    ends.collect()
}

/// The slots of a document.
fn slots(place: usize) -> std::ops::Range<usize> {
    let end = ends()[place] as usize;
    end - LENGTHS[place]..end
}

/// All blocks, and the documents of their rows.
fn blocks() -> Vec<PlacedBlock> {
    let first_place = |row: u32| ends().iter().filter(|&&end| end <= row).count() as u32;
    let block = |number: u32| {
        let first = number * BLOCK_ROWS;
        let mut block = PlacedBlock::new(number, first_place(first));
        let within = ends().into_iter().filter(|&end| end > first && end <= first + BLOCK_ROWS);
        within.for_each(|end| block.end_at(end - first));
        block
    };
    (0..ends()[LENGTHS.len() - 1].div_ceil(BLOCK_ROWS)).map(block).collect()
}

/// The largest similarities of a chunk of places, `[places, tokens]`, as keys.
fn nearest(
    bench: Bench<'_>,
    (kernel, height): (&'static Kernel, Option<u32>),
    quantized: &Quantized,
    places: std::ops::Range<usize>,
) -> Vec<u32> {
    let Quantized { dim, ref queries, ref rows, ref terms, .. } = *quantized;
    let tokens = queries.len();
    let (codes, query_terms) = (bench.input(&packed(queries, dim, 128)), bench.input(&terms[0]));
    let listed = bench.input(&blocks());
    let found = bench.filled(&vec![0u32; places.len() * tokens]);
    let [first, end] = [slots(places.start).start, slots(places.end - 1).end];
    for [first_block, segment_end] in SEGMENTS {
        let own = first_block * BLOCK..segment_end;
        let wanted = first_block.max(first / BLOCK)..segment_end.div_ceil(BLOCK).min(end.div_ceil(BLOCK));
        if wanted.is_empty() {
            continue;
        }
        let params = maxsim_tile_i8::Params {
            granules: quantize::granules(dim),
            queries: tokens as u32,
            first_entry: wanted.start as u32,
            first_block: first_block as u32,
            rows: own.len() as u32,
            first_place: places.start as u32,
            end_place: places.end as u32,
            pitch: tokens as u32,
        };
        let row_codes = bench.input(&packed(&rows[own.clone()], dim, 128));
        let row_terms = bench.input(&terms[1][own]);
        let buffers = [&codes, &row_codes, &row_terms, &query_terms, &listed, &found];
        let constants: Vec<u32> = height.into_iter().chain([0]).collect();
        let grid = [(tokens as u32).div_ceil(height.unwrap_or(BLOCK_ROWS)), wanted.len() as u32];
        bench.dispatch(kernel, &constants, &params, &buffers, grid);
    }
    bench.read(&found)
}

#[test]
fn tiles_find_the_largest_similarity_of_every_token_and_document() {
    let Some(bench) = Bench::open() else { return };
    let mut kernels = vec![(&maxsim_tile_i8::KERNEL, None)];
    if bench.device.capabilities().matrix_side().is_some() {
        let kernel = &maxsim_tile_coop::KERNEL;
        kernels.extend(kernel.heights().iter().map(|&height| (kernel, Some(height))));
    }
    for (dim, tokens) in [(1, 3), (33, 130), (100, 40)] {
        let random = &mut Random::new(dim as u64);
        let quantized = Quantized::new(random, Form::QuantizedInnerProduct, dim, [tokens, 460]);
        for kernel in kernels.iter().copied() {
            for places in [0..LENGTHS.len(), 3..8, 4..5] {
                let found = nearest(bench, kernel, &quantized, places.clone());
                for (own, place) in found.chunks_exact(tokens).zip(places) {
                    let document: Vec<(Vec<i32>, Terms)> = slots(place)
                        .map(|row| (quantized.rows[row].clone(), quantized.terms[1][row]))
                        .collect();
                    for (token, &key) in own.iter().enumerate() {
                        let query = (&quantized.queries[token][..], quantized.terms[0][token]);
                        let wanted = maxsim_tile_i8::reference(query, &document);
                        let is_near =
                            (f64::from(value_of(key)) - wanted).abs() <= 1e-5 * wanted.abs().max(10.0);
                        assert!(
                            is_near,
                            "dim {dim}, place {place}, token {token}: {} {wanted}",
                            value_of(key)
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn similarities_are_added_up_query_by_query() {
    for bench in Bench::both() {
        let random = &mut Random::new(5);
        let (places, pitch, offsets) = (37, 60, [0u32, 1, 18, 50]);
        let near = random.integers(places * pitch, 30);
        let weights: Vec<f32> = random.integers(50, 4).iter().map(|weight| weight.abs()).collect();
        let keys: Vec<u32> = near.iter().map(|&near| key_of(near)).collect();
        let sums = bench.output(3 * places);
        let params = maxsim_sum::Params { queries: 3, places: places as u32, pitch: pitch as u32 };
        let buffers = [&bench.input(&keys), &bench.input(&offsets), &bench.input(&weights), &sums];
        let workgroups = (3 * places).div_ceil(8);
        bench.dispatch(&maxsim_sum::KERNEL, &[], &params, &buffers, [workgroups as u32, 1]);
        let found = bench.read_floats(&sums);
        for (query, ends) in offsets.windows(2).enumerate() {
            let own = ends[0] as usize..ends[1] as usize;
            for place in 0..places {
                let near = &near[place * pitch..][own.clone()];
                let wanted = maxsim_sum::reference(near, &weights[own.clone()]);
                assert_eq!(f64::from(found[query * places + place]), wanted, "query {query}, place {place}");
            }
        }
    }
}

#[test]
fn the_largest_terms_of_a_document_are_those_of_its_tokens_in_all_segments() {
    let Some(bench) = Bench::open() else { return };
    let [_, terms] = random_terms(&mut Random::new(6), Form::QuantizedInnerProduct, [0, 460]);
    let longest = bench.filled(&vec![0u32; 2 * LENGTHS.len()]);
    for [first_block, end] in SEGMENTS {
        let own = first_block * BLOCK..end;
        let params = maxsim_longest::Params {
            places: LENGTHS.len() as u32,
            first_slot: own.start as u32,
            rows: own.len() as u32,
        };
        let buffers = [&bench.input(&ends()), &bench.input(&terms[own]), &longest];
        bench.dispatch(&maxsim_longest::KERNEL, &[], &params, &buffers, [1, 1]);
    }
    for (place, found) in bench.read_floats(&longest).chunks_exact(2).enumerate() {
        assert_eq!(found, maxsim_longest::reference(&terms[slots(place)]), "place {place}");
    }
}

#[test]
fn pairs_have_the_largest_products_of_their_documents_in_all_segments() {
    let Some(bench) = Bench::open() else { return };
    const DIM: usize = 12;
    let random = &mut Random::new(7);
    let (queries, rows) = (random.integers(50 * DIM, 9), random.integers(460 * DIM, 9));
    // The first token of a query and how many it has, and the document's place.
    let pairs: [(u32, u32, usize); 6] =
        [(0, 1, 0), (1, 40, 4), (1, 40, 9), (41, 9, 2), (41, 9, 4), (0, 1, 7)];
    let pitch = 40;
    let listed: Vec<[u32; 4]> = pairs
        .iter()
        .map(|&(first, tokens, place)| [first, tokens, slots(place).start as u32, LENGTHS[place] as u32])
        .collect();
    for parts in [1, 3] {
        let found = bench.filled(&vec![0u32; pairs.len() * pitch]);
        for [first_block, end] in SEGMENTS {
            let own = first_block * BLOCK..end;
            let params = maxsim_pairs::Params {
                vectors: (DIM / 4) as u32,
                pairs: pairs.len() as u32,
                first_slot: own.start as u32,
                rows: own.len() as u32,
                pitch: pitch as u32,
                parts,
            };
            let rows = bench.input(&rows[own.start * DIM..own.end * DIM]);
            let buffers = [&bench.input(&queries), &rows, &bench.input(&listed), &found];
            let grid = [pairs.len() as u32 * parts, 1];
            bench.dispatch(&maxsim_pairs::KERNEL, &[0], &params, &buffers, grid);
        }
        let found = bench.read(&found);
        for (pair, &(first, tokens, place)) in pairs.iter().enumerate() {
            let document = &rows[slots(place).start * DIM..slots(place).end * DIM];
            for token in 0..tokens as usize {
                let query = &queries[(first as usize + token) * DIM..][..DIM];
                let wanted = maxsim_pairs::reference(query, MatrixView::new(document, DIM).expect("rows"));
                assert_eq!(f64::from(value_of(found[pair * pitch + token])), wanted, "pair {pair}, {token}");
            }
        }
    }
}
