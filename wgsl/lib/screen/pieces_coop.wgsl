// The sums of a subgroup on cooperative matrices in pieces of 16 x 16, and what invocations share beside them.
//
// A file in front declares the sums: `Sums`, [PART_QUERIES, PART_ROWS] of each subgroup, with `part_query` and `part_row`.
const PIECE = 16u;
const PARTS = PIECE / SIDE; // matrices across a piece
const PIECES = PART_ROWS / PIECE; // pieces across
const PIECES_DOWN = PART_QUERIES / PIECE;

// 24,576 bytes of workgroup memory in all: with more, an H200 runs one workgroup at a time on a multiprocessor, at 63% of the
// speed. `shared_terms` holds what invocations share: from 0 on the scales of four rows each, from BIASES on their biases, from LONGEST on
// the largest length, residual and threshold of each subgroup's rows, from QUERIES on the query's side.
var<workgroup> shared_terms: array<vec4<f32>, SHARED>;
const BIASES = 32u;
const LONGEST = 64u;
const QUERIES = 68u;

const HALVES = 64u / LANES; // of a piece: lanes of 32 read two, the low and the high one
const HIGH_QUERY = (HALVES - 1u) * PIECE / 2u;
const HIGH = (HALVES - 1u) * 32u;
