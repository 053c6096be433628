//! Inverted lists: their tiles, and queries that probe them.

use std::collections::BTreeSet;

use nearfield::internals::kernels::{BLOCK_ROWS, list_work, screen_lists_i8};

use super::Random;

pub(crate) const BLOCK: usize = BLOCK_ROWS as usize;
pub(crate) const NO_PAGE: u32 = u32::MAX;
pub(crate) const PAGE: u32 = 32;
pub(crate) const HEIGHT: u32 = screen_lists_i8::HEIGHT;

/// Two rows of workgroups, the second of which may be one too long.
pub(crate) fn two_rows(workgroups: usize) -> [u32; 2] {
    [workgroups.div_ceil(2) as u32, 2]
}

/// Of each list its tiles, four pages each.
pub(crate) struct Tables {
    pub(crate) tiles: Vec<[u32; 4]>,
    pub(crate) list_tiles: Vec<u32>,
}

impl Tables {
    pub(crate) fn new(lists: &[Vec<[u32; 4]>]) -> Self {
        let tiles: Vec<[u32; 4]> = lists.iter().flatten().copied().collect();
        let mut list_tiles = vec![0];
        lists.iter().for_each(|list| list_tiles.push(list_tiles[list_tiles.len() - 1] + list.len() as u32));
        Self { tiles, list_tiles }
    }

    /// Lists of so many pages each, shuffled, with holes between the pages of every third list.
    pub(crate) fn of_pages(random: &mut Random, pages: &mut Vec<u32>, counts: &[usize]) -> Self {
        for place in (1..pages.len()).rev() {
            pages.swap(place, random.below(place + 1));
        }
        let mut lists = vec![];
        for (list, &count) in counts.iter().enumerate() {
            let mut own: Vec<u32> = (0..count).filter_map(|_| pages.pop()).collect();
            if list % 3 == 2 && own.len() > 1 {
                own.insert(1, NO_PAGE);
            }
            let tile_of = |some: &[u32]| {
                let mut tile = [NO_PAGE; 4];
                tile[..some.len()].copy_from_slice(some);
                tile
            };
            lists.push(own.chunks(4).map(tile_of).collect::<Vec<_>>());
        }
        Self::new(&lists)
    }

    pub(crate) fn lists(&self) -> usize {
        self.list_tiles.len() - 1
    }

    pub(crate) fn counts(&self) -> Vec<u32> {
        self.list_tiles.windows(2).map(|ends| ends[1] - ends[0]).collect()
    }

    /// The slots of a tile's places.
    pub(crate) fn slot(&self, tile: u32, place: usize) -> Option<u32> {
        let page = self.tiles[tile as usize][place / PAGE as usize];
        (page != NO_PAGE).then(|| page * PAGE + place as u32 % PAGE)
    }

    pub(crate) fn slots_of(&self, list: usize) -> Vec<u32> {
        let tiles = self.list_tiles[list]..self.list_tiles[list + 1];
        tiles.flat_map(|tile| (0..BLOCK).filter_map(move |place| self.slot(tile, place))).collect()
    }
}

/// What `pairs` has to hold of queries that are grouped in order.
pub(crate) fn pairs_of(probed: &[Vec<u32>], tables: &Tables, height: u32) -> (Vec<[u32; 4]>, Vec<[u32; 2]>) {
    let lists = tables.lists();
    let tiles = tables.counts();
    let mut counts = vec![0; lists];
    probed
        .iter()
        .flatten()
        .filter(|&&list| (list as usize) < lists)
        .for_each(|&list| counts[list as usize] += 1);
    let starts = list_work::reference(&counts, &tiles, height);
    let mut ranks = vec![0; lists];
    let mut pair_of = |list: usize| {
        let rank = ranks[list];
        ranks[list] += 1;
        [starts[list][1] + rank / height * tiles[list], tiles[list], tables.list_tiles[list], rank % height]
    };
    let pairs = probed
        .iter()
        .flatten()
        .map(|&list| if (list as usize) < lists { pair_of(list as usize) } else { [0; 4] });
    (pairs.collect(), starts)
}

/// So many different lists of each query; every fifth query's last are refused.
pub(crate) fn random_probes(
    random: &mut Random,
    queries: usize,
    probes: usize,
    lists: usize,
) -> Vec<Vec<u32>> {
    let one = |random: &mut Random, query: usize| {
        let mut seen = BTreeSet::new();
        let mut own = vec![];
        while own.len() < probes {
            let list = random.below(lists) as u32;
            if seen.insert(list) {
                own.push(list);
            }
        }
        if query % 5 == 3 {
            own[probes / 2..].fill(u32::MAX);
            own[probes - 1] = lists as u32;
        }
        own
    };
    (0..queries).map(|query| one(random, query)).collect()
}

/// Lists as `probed` has them.
pub(crate) fn wide(probed: &[Vec<u32>], lists: usize) -> Vec<u64> {
    let id = |&list: &u32| if list as usize > lists { u64::MAX } else { list.into() };
    probed.iter().flatten().map(id).collect()
}
