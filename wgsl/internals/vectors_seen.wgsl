// Counts the vectors of four that a kernel sees in a buffer. Elements behind the last whole vector are out of bounds.
@group(0) @binding(1) var<storage, read> values: array<Row>;
@group(0) @binding(2) var<storage, read_write> counts: array<u32>; // one more than params.place

@compute @workgroup_size(WORKGROUP)
fn vectors_seen() { counts[params.place] = arrayLength(&values); }
