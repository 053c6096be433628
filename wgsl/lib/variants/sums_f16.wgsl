// Sums of f16 matrices on their way to invocations, in the memory of the terms, which these have read by then.
const SHARED = 256u; // vectors

fn store_sums(sums: Sum, at: u32) { coopStoreT(sums, &shared_terms[at], 4u); }

fn stored_sums(at: u32) -> vec4<f32> { return shared_terms[at]; }
