//! Pages: how the slots of an `Ivf` are shared out among its lists.

/// Slots of a page, all of one list.
pub(crate) const PAGE: u32 = 32;

/// `slot >> PAGE_SHIFT` is a slot's page.
pub(crate) const PAGE_SHIFT: u32 = PAGE.trailing_zeros();

/// Pages of a tile: as many slots as a block has rows.
pub(crate) const PAGES: usize = (super::blocks::BLOCK_ROWS / PAGE) as usize;

/// Stands where a tile has no page.
pub(crate) const NO_PAGE: u32 = u32::MAX;
