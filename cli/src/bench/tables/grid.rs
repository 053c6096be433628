//! Columns of text, and what they are in Markdown.

use anyhow::{Result, bail};

use super::super::lines::Line;
use super::super::units::grouped;
use super::columns::of_text;

/// A column.
#[derive(Debug)]
pub(super) struct Column {
    name: String,
    head: String,
    /// Whether it says what a row is of, and not what was measured.
    is_of: bool,
    cells: Vec<String>,
}

impl Column {
    /// A column of a name, with its head and cells.
    pub(super) fn new(name: &str, is_of: bool, (head, cells): (String, Vec<String>)) -> Self {
        Self { name: name.to_owned(), head, is_of, cells }
    }
}

/// Columns of the same length.
#[derive(Debug)]
pub(super) struct Grid(Vec<Column>);

impl Grid {
    pub(super) fn new(columns: Vec<Column>) -> Self {
        Self(columns)
    }

    /// Gives every value of a field columns of its own. `of` are the fields that say what lines are of.
    pub(super) fn across(self, field: &str, of: &[&str], lines: &[&Line]) -> Result<Self> {
        let others = |line: &Line| -> Vec<Option<String>> {
            of.iter().filter(|key| **key != field).map(|key| line.plain(key)).collect()
        };
        // Rows and values in the order in which they come first, and the line of each pair.
        let (mut rows, mut firsts, mut values) = (vec![], vec![], Vec::<&Line>::new());
        let mut places = std::collections::HashMap::new();
        for (number, line) in lines.iter().enumerate() {
            let own = others(line);
            let row = rows.iter().position(|other| *other == own).unwrap_or_else(|| {
                rows.push(own);
                firsts.push(number);
                rows.len() - 1
            });
            let is_same = |other: &&Line| other.plain(field) == line.plain(field);
            let value = values.iter().position(is_same).unwrap_or_else(|| {
                values.push(line);
                values.len() - 1
            });
            if places.insert((row, value), number).is_some() {
                let what = of.iter().filter_map(|key| Some(format!("{key}={}", line.plain(key)?)));
                bail!(
                    "across={field}: needed one line of each, found two of {}",
                    what.collect::<Vec<_>>().join(" ")
                );
            }
        }
        let figures = self.0.iter().filter(|column| !column.is_of).count();
        let mut columns = vec![];
        for Column { name, head, is_of, cells } in self.0 {
            if name == field {
                continue;
            }
            let cell = |number: &usize| cells.get(*number).cloned().unwrap_or_default();
            if is_of {
                let cells = firsts.iter().map(cell).collect();
                columns.push(Column { name, head, is_of, cells });
                continue;
            }
            for (value, line) in values.iter().enumerate() {
                let places = (0..rows.len()).map(|row| places.get(&(row, value)));
                let cells = places.map(|number| number.map(cell).unwrap_or_default()).collect();
                let label = label(line, field);
                let head = if figures == 1 { label } else { format!("{head}, {label}") };
                columns.push(Column { name: name.clone(), head, is_of, cells });
            }
        }
        Ok(Self(columns))
    }

    /// Drops columns that say the same of all rows, and those that say nothing.
    pub(super) fn leave_out_the_same(&mut self) {
        self.0.retain(|Column { is_of, cells, .. }| {
            let is_silent = cells.iter().all(String::is_empty);
            let is_same = cells.len() > 1 && cells.iter().all(|cell| *cell == cells[0]);
            !(is_silent || *is_of && is_same)
        });
    }

    /// The table. Numbers stand on the right.
    pub(super) fn markdown(&self) -> String {
        let row = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
        let mut text = row(self.0.iter().map(|column| column.head.as_str()).collect());
        let is_number =
            |cell: &String| cell.is_empty() || cell.starts_with(|letter: char| letter.is_ascii_digit());
        let side = |column: &Column| if column.cells.iter().all(is_number) { "---:|" } else { "---|" };
        text += &format!("|{}\n", self.0.iter().map(side).collect::<String>());
        for number in 0..self.0.first().map_or(0, |column| column.cells.len()) {
            text += &row(self.0.iter().map(|column| column.cells[number].as_str()).collect());
        }
        text
    }
}

/// What a column across is called.
fn label(line: &Line, field: &str) -> String {
    let text = of_text(line, field);
    match line.count(field) {
        Some(1) => format!("1 {}", if field == "queries" { "query" } else { field.trim_end_matches('s') }),
        Some(count) if field == "k" => format!("k = {}", grouped(count)),
        Some(count) => format!("{} {field}", grouped(count)),
        None if field == "screened" => if text == "yes" { "screened" } else { "not screened" }.to_owned(),
        None => text,
    }
}
