//! The ids that a search may find, and what the user is told of those that it cannot.

use nearfield::io::Selection;

use super::args::Args;
use super::source::Source;
use nearfield_cli::terminal::output;

/// The ids of an index of rows or of documents.
pub(super) struct Known<'a> {
    /// What has these ids, one and several.
    pub(super) words: [&'static str; 2],
    pub(super) count: usize,
    pub(super) largest: Option<u64>,
    pub(super) contains: &'a dyn Fn(u64) -> bool,
}

impl Known<'_> {
    /// Tells the user why answers are shorter than asked for.
    pub(super) fn say_what_is_missing(&self, args: &Args, source: &Source<'_>, queries: usize) {
        let [one, several] = self.words;
        if self.count == 0 {
            let (argument, path) = (source.argument, source.path.display());
            output::note(&format!("{argument} {path} has no {several}, so nothing is found"));
        } else if args.radius.is_none() && args.k > self.count {
            let count = output::counted(self.count, one, several);
            output::note(&format!(
                "-k {} is more than the {count} there are, so answers are shorter",
                args.k
            ));
        }
        if queries == 0 {
            output::note(&format!("--queries {} has no queries", args.queries.display()));
        }
    }

    /// How many a filter allows. Tells the user which part of it is of none, and which ids it does not cover.
    pub(super) fn allowed(&self, allowed: &Selection) -> usize {
        let Self { words: [one, several], largest: last, .. } = *self;
        // Looking up an id takes time, so an index whose ids are the numbers compares with its last one.
        let are_numbers = last.is_none_or(|last| last + 1 == self.count as u64);
        let is_known = |id: u64| if are_numbers { Some(id) <= last } else { (self.contains)(id) };
        let known = |ids: &mut dyn Iterator<Item = u64>| {
            ids.fold([0, 0], |[known, all], id| [known + usize::from(is_known(id)), all + 1])
        };
        let [known, all] = match allowed {
            Selection::Ids(ids) => known(&mut ids.iter().copied()),
            Selection::Mask { words, len } => {
                known(&mut (0..*len as u64).filter(|id| words[(id / 64) as usize] >> (id % 64) & 1 == 1))
            }
            _ => [0, 0],
        };
        if known < all {
            output::note(&format!("--filter: {} of {all} ids are those of no {one}", all - known));
        }
        if let (&Selection::Mask { len, .. }, Some(last)) = (allowed, last)
            && last >= len as u64
        {
            let rest = format!("{several} with ids from {len} to {last} are left out");
            output::note(&format!("--filter: the mask has {len} elements, so {rest}"));
        }
        known
    }

    /// What a plan says of a filter, if there is one.
    pub(super) fn of_filter(&self, allowed: Option<usize>) -> String {
        let [one, several] = self.words;
        allowed.map_or_else(String::new, |allowed| {
            format!("; the filter allows {allowed} of {}", output::counted(self.count, one, several))
        })
    }
}
