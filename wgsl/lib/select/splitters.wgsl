// The state of rows that are sorted by splitters: `states.wgsl` for each row, then for each part of its sample the number of
// entries, then for each bucket the number of its elements.

fn part_at(row: u32, part: u32) -> u32 { return params.rows * 4u + row * params.parts + part; }

fn bucket_at(row: u32, bucket: u32) -> u32 {
  return params.rows * (4u + params.parts) + row * params.buckets + bucket;
}
