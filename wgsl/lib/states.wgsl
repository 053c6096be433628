// What is known of a row's list: the threshold that its entries passed, as a key and a place, and how many did.

/// The largest key of something. As a threshold with the largest place it lets everything pass that is not ABSENT.
const LAST = 0xfffffffeu;
const EVERY_PLACE = 0xffffffffu;
/// The count of a row that is still to be selected from.
const FAILED = 0xffffffffu;

/// Whether so many entries are a row's smallest, at least k of them or all that are not ABSENT, and had room.
fn holds_wanted(key: u32, place: u32, count: u32) -> bool {
  return count <= params.capacity && (count >= params.k || (key == LAST && place == EVERY_PLACE));
}
