// A row's state when it is sorted by splitters: those of `states.wgsl`, then what each part of its sample has behind a
// threshold, then how many elements each bucket got, all of them for all rows in turn.

fn part_at(row: u32, part: u32) -> u32 { return params.rows * 4u + row * params.parts + part; }

fn bucket_at(row: u32, bucket: u32) -> u32 {
  return params.rows * (4u + params.parts) + row * params.buckets + bucket;
}
