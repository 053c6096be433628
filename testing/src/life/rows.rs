//! The operations of an index of rows.

use nearfield::{Device, Index};

use super::{Case, Life, Living};

impl Living for Index {
    const OPERATIONS: &'static [&'static str] = &[
        "add",
        "add",
        "add",
        "add with ids",
        "add with ids",
        "remove",
        "remove",
        "update",
        "update",
        "compact",
        "save and load",
        "refuse",
        "search",
        "merge",
        "copy",
        "search a copy during changes",
    ];

    fn start(life: &mut Life<'_>, roomy: &Device) -> Self {
        let Case { kind, metric, dim, elements, quantization, rows, .. } = life.case;
        kind.make(roomy, metric, dim, elements, quantization).save(&life.empty).expect("it is saved");
        let loader = Self::loader(&life.devices).distribution(life.distribution);
        let mut index = loader.load(&life.empty).expect("it is loaded");
        life.grow(&mut index, rows, true);
        index
    }

    fn operate(&mut self, life: &mut Life<'_>, operation: &str) {
        match operation {
            "add" => {
                let count = [1, 7, 40, 200][life.random.below(4)];
                life.grow(self, count, true);
            }
            "add with ids" => {
                let count = [0, 5, 60, 150][life.random.below(4)];
                life.grow(self, count, false);
            }
            "remove" => {
                let every = [2, 3, 20][life.random.below(3)];
                let gone: Vec<u64> = match life.random.below(4) {
                    // The largest ids: at the end, as it may be.
                    0 => life.rows.keys().rev().take(life.random.below(300)).copied().collect(),
                    _ => life.some_ids(every),
                };
                self.remove(&gone).expect("they are there");
                life.drop_rows(&gone);
            }
            "update" => {
                let mut ids: Vec<u64> = life.some_ids(30).into_iter().take(3).collect();
                ids.reverse();
                let rows = life.values(ids.len());
                life.update(self, &ids, &rows).expect("they are there");
            }
            "compact" => self.compact().expect("it is compacted"),
            "save and load" => {
                self.save(&life.saved).expect("it is saved");
                let loader = Index::loader(&life.devices).distribution(life.distribution);
                *self = loader.load(&life.saved).expect("it is loaded");
            }
            "refuse" => life.refuse(self),
            "merge" => life.merge(self),
            "copy" => life.copy(self),
            "search" => {
                let queries = 1 + life.random.below(4);
                life.search(self, queries);
            }
            "search a copy during changes" => life.search_during_changes(self),
            other => unreachable!("{other}"),
        }
    }

    fn check(&self, life: &mut Life<'_>) {
        life.check_rows(self);
    }
}
