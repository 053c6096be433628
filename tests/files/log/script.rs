//! A sequence of changes that is the same in every process, and a model of the index after each.

use std::collections::BTreeMap;

use nearfield::{AddOptions, Durable, Flat, Load, Matrix, Result, VectorIndex};

pub(super) const DIM: usize = 3;

/// What an index has: the rows by id, and the next insertion number.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Model {
    pub(super) rows: BTreeMap<u64, Vec<f32>>,
    pub(super) next: u64,
}

impl Model {
    /// What an index has. Fails where a search does not find its own rows.
    pub(super) fn of(index: &impl VectorIndex, next: u64) -> Self {
        let ids = index.ids().expect("ids");
        let values = index.get(&ids).expect("rows");
        let rows: BTreeMap<_, _> = ids.into_iter().zip(values.chunks(DIM).map(<[f32]>::to_vec)).collect();
        Self { rows, next }
    }

    /// The model after this many changes.
    pub(super) fn after(changes: u64) -> Self {
        let mut model = Self::default();
        (0..changes).for_each(|number| Change::number(number, &model).note(&mut model));
        model
    }
}

#[derive(Debug, Clone)]
pub(super) enum Change {
    Add(Option<Vec<u64>>, Vec<Vec<f32>>),
    Update(Vec<u64>, Vec<Vec<f32>>),
    Remove(Vec<u64>),
}

impl Change {
    /// The change of this number, of an index as the model says.
    pub(super) fn number(number: u64, model: &Model) -> Self {
        let mut random = fastrand::Rng::with_seed(number);
        let some: Vec<u64> = {
            let ids: Vec<u64> = model.rows.keys().copied().collect();
            random.choose_multiple(ids, 1 + number as usize % 5)
        };
        let mut rows = |count: usize| -> Vec<Vec<f32>> {
            (0..count).map(|_| (0..DIM).map(|_| random.i32(-100..100) as f32).collect()).collect()
        };
        match number % 5 {
            2 if !some.is_empty() => Self::Update(some.clone(), rows(some.len())),
            3 if some.len() > 1 => Self::Remove(some),
            4 => {
                let own = 1 + number as usize % 7;
                Self::Add(
                    Some((0..own as u64).map(|row| (1 << 40) + 100 * number + row).collect()),
                    rows(own),
                )
            }
            _ => Self::Add(None, rows(1 + number as usize % 9)),
        }
    }

    pub(super) fn note(self, model: &mut Model) {
        match self {
            Self::Add(ids, rows) => {
                let first = model.next;
                model.next += rows.len() as u64;
                let ids = ids.unwrap_or_else(|| (first..model.next).collect());
                model.rows.extend(ids.into_iter().zip(rows));
            }
            Self::Update(ids, rows) => model.rows.extend(ids.into_iter().zip(rows)),
            Self::Remove(ids) => model.rows.retain(|id, _| !ids.contains(id)),
        }
    }

    pub(super) fn make(&self, index: &mut Durable<impl Load>) -> Result<()> {
        match self {
            Self::Add(ids, rows) => {
                let options = AddOptions::new();
                let options = ids.as_ref().map_or(options, |ids| options.ids(ids));
                index.add_with(&Matrix::from_rows(rows)?, &options)
            }
            Self::Update(ids, rows) => index.update(ids, &Matrix::from_rows(rows)?),
            Self::Remove(ids) => index.remove(ids),
        }
    }
}

/// Makes the changes of these numbers.
pub(super) fn make(index: &mut Durable<Flat>, numbers: std::ops::Range<u64>, model: &mut Model) {
    for number in numbers {
        let change = Change::number(number, model);
        change.make(index).unwrap_or_else(|error| panic!("change {number}, {change:?}: {error}"));
        change.note(model);
    }
}
