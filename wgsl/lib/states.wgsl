// What is known of a row: the threshold that what is kept of it passed, as a key and a place, how many did where they are in one
// list, and 1 where the row is still to be selected from although it was sorted by splitters.

/// The largest key of something. As a threshold with the largest place it lets everything pass that is not ABSENT.
const LAST = 0xfffffffeu;
const EVERY_PLACE = 0xffffffffu;
/// The count of a row that is still to be selected from.
const FAILED = 0xffffffffu;
