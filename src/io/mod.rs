//! Reads and writes files of vectors, ids and distances.
//!
//! | extension | content | element types |
//! |---|---|---|
//! | `.npy` | a numpy array | floats of 2, 4 and 8 bytes, integers of 1 to 8 bytes |
//! | `.npz` | a zip archive of numpy arrays, stored or deflated | the same |
//! | `.safetensors` | named tensors | the same, and bf16 |
//! | `.hdf5`, `.h5` | named datasets (with the feature `hdf5`) | the same |
//! | `.csv`, `.tsv` | a row a line, between commas, semicolons, tabs or spaces | decimal numbers |
//! | `.jsonl`, `.ndjson` | a row a line: an array of JSON, or an object with one | decimal numbers |
//! | `.fvecs`, `.bvecs`, `.ivecs` | rows, each after its own dim | f32, u8, i32 |
//! | `.fbin`, `.f16bin`, `.bf16bin`, `.u8bin`, `.i8bin`, `.ibin` | rows after one header: u32 rows, u32 dim | f32, f16, bf16, u8, i8, i32 |
//! | `.bin` | true neighbours after one header, u32 queries, u32 width: all ids, then all distances | i32, f32 |
//!
//! Arrays are 2-D `[rows, dim]`. Those of numpy may have either byte order, and C or Fortran order; the other formats are little
//! endian. `FILE.npz:MEMBER`, `FILE.safetensors:TENSOR` and `FILE.hdf5:GROUP/DATASET` name an array, `FILE.jsonl:FIELD` the
//! field of objects that holds the row.
//!
//! **Vectors are f32, f16, bf16, i8 or u8.** These stay what they are, and everything else becomes f32: f64 and decimal numbers are rounded to the nearest f32,
//! and larger integers are converted exactly. An integer that f32 cannot hold is an error that names its row, and so is a number that exceeds
//! the largest f32. [`VectorFile::converted`] tells what is converted.
//! [`VectorFile::of_bits`] takes bytes, and bools of numpy, for bits; without it a file of bools is an error.
//!
//! **Lines of text.** The first line of a CSV file is taken for a header if none of its fields is a number, or if its fields are 0, 1,
//! 2 and so on, as pandas writes. All lines have as many numbers as the first row, and empty lines may be at the end only. A line
//! has at most 4 MiB. Errors name the line.
//!
//! **Nothing but the rows asked for is held in memory.** Files are read at positions and never mapped. The header is checked against
//! the file's length before anything is allocated, so a damaged file gives an [`Error`](crate::Error) that names the file, what was
//! needed and what was found. Of a text file, the place of a row is kept for every MiB. The standard input, for which `-` stands, is
//! the exception: it is held as a whole, at most 2 GiB. In an archive, only the checksums of deflated members are verified.
//!
//! ```no_run
//! let file = nearfield::io::VectorFile::open("base.npz:vectors")?;
//! for piece in file.pieces(64 << 20) {
//!     let (first_row, rows) = piece?;
//!     println!("{} rows from {first_row} on", rows.rows());
//! }
//! # Ok::<(), nearfield::Error>(())
//! ```

mod convert;
mod element_type;
mod formats;
mod ids;
mod input;
mod location;
mod open;
mod selection;
mod source;
mod table;
mod vectors;
mod write;

pub use crate::files::remove_unfinished;
pub use ids::{Ids, read_distances, read_ids, read_values};
pub use location::file_of;
pub use selection::{Selection, read_row_ids, read_selection};
pub use vectors::{Pieces, VectorFile};
pub use write::{NpyValue, VectorWriter, write_csr, write_file, write_npy, write_ranking, write_truth};
