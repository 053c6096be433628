//! MaxSim: the largest similarities of tokens of queries with those of documents, by codes and in f32, and their sums.

kernels! {
    MAXSIM:
    maxsim_tile_i8 maxsim_tile_coop maxsim_longest maxsim_sum maxsim_pairs
}
