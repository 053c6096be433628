// Families of packages by their names, for the map's colours.

const FAMILIES = [
  ['Python', /^python3?-|^pypy/],
  ['Perl', /-perl$|^perl/],
  ['Haskell', /^libghc-|^haskell-/],
  ['Rust', /^librust-|^rust-/],
  ['Go', /^golang-/],
  ['Java', /-java(-doc)?$|^libjava/],
  ['JavaScript', /^node-|^libjs-/],
  ['Ruby', /^ruby/],
  ['R', /^r-(cran|bioc|other)-/],
  ['C and C++ libraries', /^lib/],
  ['others', /(?:)/],
];

export const FAMILY_NAMES = FAMILIES.map(([name]) => name);

/** The number of a package's family. */
export const familyOf = (name) => FAMILIES.findIndex(([, pattern]) => pattern.test(name));
