//! The data in the program: Debian packages with their names, their descriptions, and the vectors of these.

use anyhow::{Result, ensure};
use half::f16;
use nearfield::Matrix;
use nearfield::io::VectorFile;

/// Names that are offered for one that is unknown.
const OFFERED: usize = 5;

/// Packages in the order of their vectors.
pub(super) struct Packages {
    pub(super) values: Vec<f16>,
    pub(super) dim: usize,
    pub(super) names: Vec<&'static str>,
    pub(super) descriptions: Vec<&'static str>,
}

impl Packages {
    pub(super) fn read(npy: &'static [u8], names: &'static str, descriptions: &'static str) -> Result<Self> {
        let Matrix::F16(values, dim) = VectorFile::from_bytes("vectors.npy", npy)?.read_all()? else {
            anyhow::bail!("needed elements of f16");
        };
        let (names, descriptions): (Vec<_>, Vec<_>) = names.lines().zip(descriptions.lines()).unzip();
        ensure!(names.len() * dim == values.len(), "needed a name for each vector, found {}", names.len());
        Ok(Self { values, dim, names, descriptions })
    }

    pub(super) fn vector(&self, place: usize) -> &[f16] {
        &self.values[place * self.dim..][..self.dim]
    }

    /// The place of a package, by its name in any case.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known.eq_ignore_ascii_case(name))
    }
}

/// The names that are most like an unknown one: first those that contain it, then those spelled alike.
pub(super) fn closest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let name = name.to_lowercase();
    let likeness = |known: &'n str| (known.contains(&name), strsim::jaro_winkler(known, &name), known);
    let mut all: Vec<_> = known.map(likeness).collect();
    all.sort_by(|one, other| other.0.cmp(&one.0).then(other.1.total_cmp(&one.1)));
    all.into_iter().map(|(.., known)| known).take(OFFERED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_contain_the_text_come_before_those_spelled_alike() {
        let known = ["zip", "gimp", "p7zip-full", "lldb-13"];
        assert_eq!(closest("7ZIP", known.into_iter())[..2], ["p7zip-full", "zip"]);
        assert_eq!(closest("lldb13", known.into_iter())[0], "lldb-13");
        assert_eq!(closest("", known.into_iter()).len(), 4);
    }
}
