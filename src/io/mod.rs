//! Reads and writes files of vectors, ids and distances.
//!
//! | extension | content | element types |
//! |---|---|---|
//! | `.npy` | a numpy array | `<f4`, `<f2`; ids `<i4`, `<i8`, `<u4`, `<u8` |
//! | `.npz` | a zip archive of numpy arrays, stored or deflated | the same |
//! | `.fvecs`, `.bvecs`, `.ivecs` | rows, each after its own dim | f32, u8, i32 |
//! | `.fbin`, `.f16bin`, `.u8bin`, `.i8bin`, `.ibin` | rows after one header: u32 rows, u32 dim | f32, f16, u8, i8, i32 |
//! | `.bin` | true neighbours after one header, u32 queries, u32 width: all ids, then all distances | i32, f32 |
//!
//! Arrays are 2-D `[rows, dim]` in C order, and all numbers are little endian. `u8` and `i8` widen to f32 exactly.
//! `FILE.npz:MEMBER` names a member of an archive, with or without its `.npy`.
//!
//! Files are read at positions and never mapped into memory. The header is checked against the file's length before
//! anything is allocated, so a damaged file gives an [`Error`](crate::Error) that names the file, what was needed and what was
//! found. In an archive, only the checksums of deflated members are verified.
//!
//! ```no_run
//! let file = nearfield::io::VectorFile::open("base.npz:vectors")?;
//! for piece in file.pieces(64 << 20) {
//!     let (first_row, rows) = piece?;
//!     println!("{} rows from {first_row} on", rows.rows());
//! }
//! # Ok::<(), nearfield::Error>(())
//! ```

mod element_type;
mod ids;
mod inflate;
mod location;
mod npy;
mod npz;
mod open;
mod raw;
mod source;
mod table;
mod vectors;
mod write;

pub use crate::files::remove_unfinished;
pub use ids::{Ids, read_distances, read_ids, read_values};
pub use vectors::{Pieces, VectorFile};
pub use write::{NpyValue, VectorWriter, write_npy, write_truth};
