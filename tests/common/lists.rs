//! Inverted lists: their tiles, and queries that probe them.

use nearfield::internals::kernels::BLOCK_ROWS;

use nearfield_testing::Random;

pub(crate) const BLOCK: usize = BLOCK_ROWS as usize;
pub(crate) const NO_PAGE: u32 = u32::MAX;
pub(crate) const PAGE: u32 = 32;

/// The tiles of each list, four pages each.
pub(crate) struct Tables {
    pub(crate) tiles: Vec<[u32; 4]>,
    pub(crate) list_tiles: Vec<u32>,
}

impl Tables {
    /// Lists with these numbers of pages, in any order, with holes between the pages of every third list.
    pub(crate) fn of_pages(random: &mut Random, pages: &mut Vec<u32>, counts: &[usize]) -> Self {
        random.shuffle(pages);
        let (mut tiles, mut list_tiles) = (vec![], vec![0]);
        for (list, &count) in counts.iter().enumerate() {
            let mut own: Vec<u32> = (0..count).filter_map(|_| pages.pop()).collect();
            if list % 3 == 2 && own.len() > 1 {
                own.insert(1, NO_PAGE);
            }
            own.resize(own.len().next_multiple_of(4), NO_PAGE);
            tiles.extend(own.as_chunks().0);
            list_tiles.push(tiles.len() as u32);
        }
        Self { tiles, list_tiles }
    }

    pub(crate) fn lists(&self) -> usize {
        self.list_tiles.len() - 1
    }

    pub(crate) fn counts(&self) -> Vec<u32> {
        self.list_tiles.windows(2).map(|ends| ends[1] - ends[0]).collect()
    }

    /// The slot of a place in a tile, where there is a page.
    pub(crate) fn slot(&self, tile: u32, place: usize) -> Option<u32> {
        let page = self.tiles[tile as usize][place / PAGE as usize];
        (page != NO_PAGE).then(|| page * PAGE + place as u32 % PAGE)
    }

    /// The tiles of each list.
    pub(crate) fn by_list(&self) -> Vec<Vec<[u32; 4]>> {
        let ends = self.list_tiles.windows(2);
        ends.map(|ends| self.tiles[ends[0] as usize..ends[1] as usize].to_vec()).collect()
    }

    /// The words of both as kernels read them, and the place of the tiles.
    pub(crate) fn words(&self) -> (Vec<u32>, u32) {
        // A word in between belongs to neither.
        let first = [&self.list_tiles[..], &[77]].concat();
        ([&first, self.tiles.as_flattened()].concat(), first.len() as u32)
    }

    pub(crate) fn slots_of(&self, list: usize) -> Vec<u32> {
        let tiles = self.list_tiles[list]..self.list_tiles[list + 1];
        tiles.flat_map(|tile| (0..BLOCK).filter_map(move |place| self.slot(tile, place))).collect()
    }
}

/// Different lists for each query; the last lists of every fifth query are refused.
pub(crate) fn random_probes(
    random: &mut Random,
    queries: usize,
    probes: usize,
    lists: usize,
) -> Vec<Vec<u32>> {
    let mut all: Vec<u32> = (0..lists as u32).collect();
    let one = |query: usize| {
        random.shuffle(&mut all);
        let mut own = all[..probes].to_vec();
        if query % 5 == 3 {
            own[probes / 2..].fill(u32::MAX);
            own[probes - 1] = lists as u32;
        }
        own
    };
    (0..queries).map(one).collect()
}

/// Lists as 64-bit ids, as a selection leaves them.
pub(crate) fn wide(probed: &[Vec<u32>], lists: usize) -> Vec<u64> {
    let id = |&list: &u32| if list as usize > lists { u64::MAX } else { list.into() };
    probed.iter().flatten().map(id).collect()
}
