// Blocks to score: a tile of a list, and up to HEIGHT of the queries that probe it, as `group` writes them.
@group(0) @binding(6) var<storage, read> blocks: array<u32>; // how many; from HEADER on the blocks
@group(0) @binding(7) var<storage, read_write> candidates: array<u32>; // [3, queries, capacity]: slots, lower, upper keys

const ENTRY = HEIGHT + PAGES + 1u; // words of a block: its queries, its pages, and the number of its queries

fn entry_of(number: u32) -> u32 { return HEADER + number * ENTRY; }

fn queries_of(entry: u32) -> u32 { return blocks[entry + HEIGHT + PAGES]; }

fn row_at(entry: u32, place: u32) -> u32 { return row_of(blocks[entry + HEIGHT + place / PAGE], place); }
