//! A report in Markdown, to be pasted into documents: its tables and commands, without charts.

use super::document::{Block, Page, Table};

pub(super) fn render(pages: &[Page]) -> String {
    pages.iter().map(page).collect::<Vec<_>>().join("\n")
}

fn page(page: &Page) -> String {
    let mut text = format!("# {}\n\n", escaped(&page.title));
    for fact in &page.facts {
        text += &format!("{}\n\n", escaped(fact));
    }
    text += &commands(&page.commands);
    for (value, about) in &page.highlights {
        text += &format!("- **{}**: {}\n", escaped(value), escaped(about));
    }
    for line in page.problems.iter().chain(&page.remarks) {
        text += &format!("- {}\n", escaped(line));
    }
    for section in &page.sections {
        text += &format!("\n## {}\n\n", escaped(section.title));
        if !section.lead.is_empty() {
            text += &format!("{}\n\n", escaped(&section.lead));
        }
        let tables = section.blocks.iter().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            Block::Figure(_) => None,
        });
        text += &tables.map(table).collect::<Vec<_>>().join("\n");
        if !section.commands.is_empty() {
            text += &format!("\n{}", commands(&section.commands));
        }
    }
    text.trim_end().to_owned() + "\n"
}

fn table(table: &Table) -> String {
    let mut text = String::new();
    if !table.title.is_empty() {
        text += &format!("### {}\n\n", escaped(&table.title));
    }
    if !table.common.is_empty() {
        text += &format!("{}.\n\n", escaped(&table.common));
    }
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    text += &row(table.columns.iter().map(|column| escaped(&column.head)).collect());
    let sides = table.columns.iter().map(|column| if column.is_numeric() { "---:" } else { "---" });
    text += &format!("|{}|\n", sides.collect::<Vec<_>>().join("|"));
    for number in 0..table.rows() {
        let cells = table.columns.iter().map(|column| &column.cells[number]);
        let cells = cells.map(|cell| match escaped(&cell.text) {
            text if cell.is_strong && !text.is_empty() => format!("**{text}**"),
            text => text,
        });
        text += &row(cells.collect());
    }
    text
}

fn commands(commands: &[String]) -> String {
    match commands {
        [] => String::new(),
        commands => {
            format!("```sh\n{}\n```\n\n", single_line(&commands.join("\u{0}")).replace('\u{0}', "\n"))
        }
    }
}

/// Replaces control characters, which would end a line or a row.
fn single_line(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() && letter != '\u{0}', " ")
}

/// Text that Markdown shows as it is.
fn escaped(text: &str) -> String {
    let mut escaped = single_line(text).replace('\u{0}', " ");
    for letter in ['\\', '|', '<', '*', '_', '`'] {
        escaped = escaped.replace(letter, &format!("\\{letter}"));
    }
    escaped
}
