// The state of a row, four words: key and place of its threshold, the number of elements that passed (where they lie in one
// list), and 1 where sorting by splitters failed and the row must still be selected from.

/// The largest key of an element. With the largest place it is a threshold that all elements except ABSENT pass.
const LAST = 0xfffffffeu;
const EVERY_PLACE = 0xffffffffu;
/// The count of a row that must still be selected from.
const FAILED = 0xffffffffu;
