//! Files of vectors, ids and distances.
//!
//! | ending | content | element types |
//! |---|---|---|
//! | `.npy` | a numpy array | `<f4`, `<f2`; ids `<i4`, `<i8`, `<u4`, `<u8` |
//! | `.npz` | a zip archive of them, members stored or deflated | the same |
//! | `.fvecs`, `.bvecs`, `.ivecs` | rows, each after its own dim | f32, u8, i32 |
//! | `.fbin`, `.f16bin`, `.u8bin`, `.i8bin`, `.ibin` | rows after one header: u32 rows, u32 dim | f32, f16, u8, i8, i32 |
//! | `.bin` | true neighbours after one header, u32 queries, u32 width: all ids, then all distances | i32, f32 |
//!
//! Arrays are 2-D `[rows, dim]` in C order; everything is little endian. `u8` and `i8` widen to f32, exactly.
//! `FILE.npz:MEMBER` names a member of an archive, with or without the `.npy` of its name.
//!
//! A file is read with positioned reads and never mapped into memory. Its header is held against its true
//! length before anything is allocated, so a damaged file gives an [`Error`](crate::Error) that names the file, what was
//! needed and what was found. The checksums of an archive are verified for deflated members only.
//!
//! ```no_run
//! let file = nearfield::io::VectorFile::open("base.npz:vectors")?;
//! for piece in file.pieces(64 << 20) {
//!     let (first_row, rows) = piece?;
//!     println!("{} rows from {first_row} on", rows.rows());
//! }
//! # Ok::<(), nearfield::Error>(())
//! ```

mod guard;
mod ids;
mod inflate;
mod location;
mod npy;
mod npz;
mod number;
mod open;
mod raw;
mod source;
mod table;
mod vectors;
mod write;

pub use ids::{Ids, read_distances, read_ids, read_values};
pub use vectors::{Pieces, VectorFile};
pub use write::{NpyValue, VectorWriter, write_npy, write_truth};
