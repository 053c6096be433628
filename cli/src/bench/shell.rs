//! Commands as a shell takes them.

/// A program, and its arguments as a shell takes them.
pub(super) fn command(start: &str, words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().fold(start.to_owned(), |line, word| format!("{line} {}", quoted(&word)))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./,=+:%@".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
