//! Files whose checksums are right and whose content no index has.

use std::path::Path;

use nearfield::internals::write_file;
use nearfield::{AddOptions, Device, Error, Flat, Ivf, Result};
use safetensors::Dtype;

use crate::common::gpu;

/// The library reads files in pieces of this size.
const PIECE_BYTES: usize = 16 << 20;

/// The contents of a file: by default a sound one, of three rows of two elements in two lists.
struct Forged {
    metadata: Vec<(&'static str, &'static str)>,
    ids: [u64; 3],
    offsets: Vec<u64>,
    centroids: Vec<f32>,
    rows: [f32; 6],
}

impl Forged {
    fn sound(kind: &'static str) -> Self {
        let metadata =
            vec![("index", kind), ("metric", "l2"), ("dim", "2"), ("screen", "none"), ("next", "3")];
        Self {
            metadata,
            ids: [4, 1, 2],
            offsets: vec![0, 1, 3],
            centroids: vec![0.0, 0.0, 5.0, 5.0],
            rows: [0.0, 1.0, 5.0, 4.0, 6.0, 5.0],
        }
    }

    fn with(mut self, key: &'static str, value: &'static str) -> Self {
        self.metadata.iter_mut().filter(|(one, _)| *one == key).for_each(|pair| pair.1 = value);
        self
    }

    fn write(&self, path: &Path) -> Result<()> {
        let metadata: Vec<(&str, String)> =
            self.metadata.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        let (offsets, centroids) = ([self.offsets.len()], [self.centroids.len() / 2, 2]);
        let tensors: [(&str, Dtype, &[usize], &[u8]); 4] = [
            ("ids", Dtype::U64, &[3], bytemuck::cast_slice(&self.ids)),
            ("list_offsets", Dtype::U64, &offsets, bytemuck::cast_slice(&self.offsets)),
            ("centroids", Dtype::F32, &centroids, bytemuck::cast_slice(&self.centroids)),
            ("rows", Dtype::F32, &[3, 2], bytemuck::cast_slice(&self.rows)),
        ];
        write_file(path, &metadata, &tensors)
    }
}

#[test]
fn a_row_of_a_later_piece_is_named_by_its_number_in_the_file() -> Result<()> {
    let Some(device) = gpu() else { return Ok(()) };
    let directory = tempfile::TempDir::new().expect("a directory");
    let path = &directory.path().join("index.nf");
    let (rows, dim) = (40, 1 << 17);
    assert!(rows * dim * 4 > PIECE_BYTES);
    let metadata = [("index", "flat"), ("metric", "l2"), ("screen", "none"), ("next", "40")];
    let mut metadata: Vec<(&str, String)> = metadata.map(|(key, value)| (key, value.to_owned())).into();
    metadata.push(("dim", dim.to_string()));
    let ids: Vec<u64> = (0..rows as u64).collect();
    let mut values = vec![1.0f32; rows * dim];
    values[37 * dim] = f32::NAN;
    let ids = ("ids", Dtype::U64, &[rows][..], bytemuck::cast_slice(&ids));
    let values = ("rows", Dtype::F32, &[rows, dim][..], bytemuck::cast_slice(&values));
    write_file(path, &metadata, &[ids, values])?;
    let error = Flat::load(device, path).map(|index| index.len()).expect_err("a NaN").to_string();
    assert!(error.contains("row 37 holds"), "{error}");
    Ok(())
}

#[test]
fn content_that_no_index_has_is_an_error_of_the_file() -> Result<()> {
    let device = Device::host();
    let directory = tempfile::TempDir::new().expect("a directory");
    let path = &directory.path().join("index.nf");
    for kind in ["flat", "ivf"] {
        let sound = || Forged::sound(kind);
        let load = || match kind {
            "flat" => Flat::load(&device, path).and_then(|index| index.ids()),
            _ => Ivf::load(&device, path).and_then(|index| index.ids()),
        };
        sound().write(path)?;
        assert_eq!(load()?, [1, 2, 4]);
        let mut forged = vec![
            (sound().with("index", "tree"), "flat, ivf or multivector"),
            (sound().with("metric", "near"), "l2sq, l2, cosine, ip, hamming or jaccard"),
            (sound().with("metric", "jaccard"), "rows of U8"),
            (sound().with("dim", "0"), "1 to 1048576"),
            (sound().with("dim", "3"), "[rows, 3]"),
            (sound().with("dim", "two"), "`dim`"),
            (sound().with("screen", "i4"), "auto, none or i8"),
            (sound().with("next", "2"), "`next`, from 3"),
            (sound().with("next", "9223372036854775809"), "`next`, from 3"),
            (Forged { ids: [4, 1, 4], ..sound() }, "given 4 again"),
            (Forged { ids: [4, 1, 1 << 63], ..sound() }, "below 2^63"),
            (Forged { rows: [0.0, 1.0, f32::NAN, 4.0, 6.0, 5.0], ..sound() }, "row 1"),
            (Forged { rows: [0.0, 1.0, 5.0, 4.0, 1e30, 5.0], ..sound() }, "row 2"),
        ];
        if kind == "ivf" {
            forged.extend([
                (Forged { offsets: vec![0, 3, 1], ..sound() }, "list_offsets"),
                (Forged { offsets: vec![1, 1, 3], ..sound() }, "list_offsets"),
                (Forged { offsets: vec![0, 5, 3], ..sound() }, "list_offsets"),
                (Forged { offsets: vec![0, 3], ..sound() }, "list_offsets"),
                (Forged { offsets: vec![0], centroids: vec![], ..sound() }, "lists"),
                (Forged { centroids: vec![0.0, 0.0, f32::INFINITY, 5.0], ..sound() }, "finite"),
                (Forged { centroids: vec![0.0, 0.0, 1e25, 5.0], ..sound() }, "2^51"),
            ]);
        }
        for (file, part) in forged {
            file.write(path)?;
            let error = load().expect_err(part);
            assert!(matches!(error, Error::File { .. }), "{error}");
            assert!(error.to_string().contains(part), "{error}: {part}");
        }
    }
    Ok(())
}

#[test]
fn an_index_without_numbers_left_takes_ids_and_is_loaded_again() -> Result<()> {
    let device = Device::host();
    let directory = tempfile::TempDir::new().expect("a directory");
    let path = &directory.path().join("index.nf");
    Forged::sound("flat").with("next", "9223372036854775808").write(path)?;
    let row = [7.0f32, 8.0];
    for id in [(1 << 63) - 1, 9] {
        let mut index = Flat::load(&device, path)?;
        index.add_with(&row, &AddOptions::new().ids(&[id]))?;
        let refused = index.add(&row);
        assert!(matches!(refused, Err(Error::IdTooLarge { .. })), "{refused:?}");
        index.save(path)?;
    }
    assert_eq!(Flat::load(&device, path)?.ids()?, [1, 2, 4, 9, (1 << 63) - 1]);
    Ok(())
}
