//! Turns typed arguments back into a command line.

use std::fmt;

use clap::{Args, Command, ValueEnum};

use crate::arguments;

/// The arguments that an empty command line gives.
pub(super) fn defaults<A: Args>() -> A {
    let command = A::augment_args(Command::new("nearfield").no_binary_name(true));
    let matches = command.get_matches_from(std::iter::empty::<&str>());
    A::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// The words of a command. It is shown with quotes where a shell needs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words(Vec<String>);

impl Words {
    pub(super) fn new(words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(words.into_iter().map(Into::into).collect())
    }

    pub(super) fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// Adds an option with several values, unless they are the default.
    pub(super) fn list<T: fmt::Display>(self, name: &str, values: &[T], usual: &[T]) -> Self {
        let joined = |values: &[T]| values.iter().map(T::to_string).collect::<Vec<_>>().join(",");
        self.option(name, joined(values), joined(usual))
    }

    /// [`list`](Self::list) of values that have names.
    pub(super) fn names<T: ValueEnum + Copy>(self, name: &str, values: &[T], usual: &[T]) -> Self {
        let names = |values: &[T]| values.iter().map(|&value| arguments::name(value)).collect::<Vec<_>>();
        self.list(name, &names(values), &names(usual))
    }

    /// Adds an option, unless its value is the default.
    pub(super) fn option<T: ToString>(mut self, name: &str, value: T, usual: T) -> Self {
        let value = value.to_string();
        if value != usual.to_string() {
            self.0.extend([format!("--{name}"), value]);
        }
        self
    }

    /// Adds an option if it has a value.
    pub(super) fn maybe(mut self, name: &str, value: Option<impl ToString>) -> Self {
        self.0.extend(value.into_iter().flat_map(|value| [format!("--{name}"), value.to_string()]));
        self
    }

    /// Adds an option without a value, if it is set.
    pub(super) fn flag(mut self, name: &str, is_set: bool) -> Self {
        self.0.extend(is_set.then(|| format!("--{name}")));
        self
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./,=+:%@".contains(letter);
        for (place, word) in self.0.iter().enumerate() {
            f.write_str(if place > 0 { " " } else { "" })?;
            if !word.is_empty() && word.chars().all(is_plain) {
                f.write_str(word)?;
            } else {
                write!(f, "'{}'", word.replace('\'', r"'\''"))?;
            }
        }
        Ok(())
    }
}
