//! Elements to select from, and the true selection.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use nearfield::internals::kernels::{ABSENT, key_of};
use rayon::prelude::*;

use nearfield_cli::memory;
use nearfield_testing::Random;

/// The number of rows, and their length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) rows: u32,
    pub(crate) length: u32,
}

impl Shape {
    pub(super) fn bytes(self) -> u64 {
        u64::from(self.rows) * u64::from(self.length) * 4
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.length)
    }
}

impl FromStr for Shape {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let needed = "needed rows and elements of each, like 100x1000000";
        let (rows, length) = text.split_once('x').context(needed)?;
        let (rows, length) = (rows.parse().context(needed)?, length.parse().context(needed)?);
        ensure!(rows > 0 && length > 0, "{needed}, at least 1 of each");
        Ok(Self { rows, length })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Normal,
    Equal,
    Sorted,
    Reversed,
    #[value(name = "infinite-10")]
    Infinite10,
    #[value(name = "infinite-90")]
    Infinite90,
    #[value(name = "infinite-99.9")]
    Infinite999,
    #[value(name = "infinite-100")]
    Infinite100,
    Nan,
}

impl Kind {
    fn element(self, column: u32, length: u32, random: &mut Random) -> f32 {
        let normal = |random: &mut Random| {
            let sum: f32 = (0..4).map(|_| random.part()).sum();
            10.0 + 100.0 * (sum - 2.0) * 1.732
        };
        let one_in = |random: &mut Random, number: u64, then: f32| {
            if random.next().is_multiple_of(number) { then } else { normal(random) }
        };
        match self {
            Self::Normal => normal(random),
            Self::Equal => -0.25,
            Self::Sorted => column as f32 - length as f32 / 2.0,
            Self::Reversed => length as f32 / 2.0 - column as f32,
            Self::Infinite10 => one_in(random, 10, f32::INFINITY),
            Self::Infinite90 if random.next().is_multiple_of(10) => normal(random),
            Self::Infinite999 if random.next().is_multiple_of(1000) => normal(random),
            Self::Infinite90 | Self::Infinite999 | Self::Infinite100 => f32::INFINITY,
            Self::Nan => one_in(random, 10, f32::NAN),
        }
    }
}

/// Makes the elements, the same on every machine.
pub(super) fn made(shape: Shape, kind: Kind) -> Result<Vec<f32>> {
    let (length, count) = (shape.length as usize, shape.rows as usize * shape.length as usize);
    let mut values =
        memory::filled(Some(count), 0.0, || format!("--shapes: {shape} numbers do not fit the memory"))?;
    values.par_chunks_mut(length).enumerate().for_each(|(row, values)| {
        let mut random = Random::new(42 ^ (row as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03));
        for (value, column) in values.iter_mut().zip(0..) {
            *value = kind.element(column, shape.length, &mut random);
        }
    });
    Ok(values)
}

/// Key and column of the smallest elements of each row, in order, padded with the largest value.
pub(super) struct Truth {
    most: usize,
    smallest: Vec<u64>,
}

impl Truth {
    /// Selects up to `most` of each row.
    pub(super) fn new(values: &[f32], shape: Shape, most: u32) -> Result<Self> {
        let (length, most) = (shape.length as usize, most as usize);
        let mut smallest = memory::filled(Some(shape.rows as usize * most), u64::MAX, || {
            format!("--k: {most} of each row do not fit the memory")
        })?;
        smallest.par_chunks_mut(most).enumerate().for_each(|(row, found)| {
            let values = values[row * length..][..length].iter().zip(0u64..);
            let mut keys: Vec<u64> =
                values.map(|(&value, column)| u64::from(key_of(value)) << 32 | column).collect();
            keys.retain(|key| key >> 32 < u64::from(ABSENT));
            if most < keys.len() {
                keys.select_nth_unstable(most);
                keys.truncate(most);
            }
            keys.sort_unstable();
            found[..keys.len()].copy_from_slice(&keys);
        });
        Ok(Self { most, smallest })
    }

    /// Fails unless these are the first k of each row, and all of them.
    pub(super) fn check(&self, k: usize, keys: &[u32], ids: &[[u32; 2]], counts: &[u32]) -> Result<()> {
        for (row, want) in self.smallest.chunks_exact(self.most).enumerate() {
            let want = &want[..k];
            let there = want.iter().take_while(|&&key| key != u64::MAX).count();
            ensure!(counts[row] as usize == there, "row {row} has {} results, not {there}", counts[row]);
            let found = keys[row * k..][..there].iter().zip(&ids[row * k..][..there]);
            for (place, ((&key, &[column, high]), &want)) in found.zip(want).enumerate() {
                if high != 0 || (u64::from(key) << 32 | u64::from(column)) != want {
                    let (want_key, want_column) = (want >> 32, want & 0xffff_ffff);
                    bail!(
                        "row {row}, place {place} of {k} is key {key:#x} of column {column}, but the truth {want_key:#x} of {want_column}"
                    );
                }
            }
        }
        Ok(())
    }
}
