//! A report before it becomes HTML or Markdown: a page for each device, of sections made of tables and figures.

use super::chart::Chart;

/// Everything measured on one device.
pub(super) struct Page {
    pub(super) title: String,
    /// Device, program and dates.
    pub(super) facts: Vec<String>,
    /// Commands that produced the lines.
    pub(super) commands: Vec<String>,
    /// Key figures, and what they are of.
    pub(super) highlights: Vec<(String, String)>,
    /// Wrong answers and failures.
    pub(super) problems: Vec<String>,
    /// Counts verified cases, and lists those that did not run.
    pub(super) remarks: Vec<String>,
    pub(super) sections: Vec<Section>,
}

pub(super) struct Section {
    /// Name of the section in links.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) lead: String,
    pub(super) blocks: Vec<Block>,
    /// Commands that reproduce the section.
    pub(super) commands: Vec<String>,
}

pub(super) enum Block {
    Table(Table),
    Figure(Figure),
}

/// A chart with its caption.
pub(super) struct Figure {
    /// The name that `--chart` takes.
    pub(super) name: &'static str,
    pub(super) caption: String,
    pub(super) note: String,
    pub(super) chart: Chart,
}

/// A table by columns.
#[derive(Default)]
pub(super) struct Table {
    pub(super) title: String,
    /// What rows have in common, in words.
    pub(super) common: String,
    pub(super) columns: Vec<Column>,
}

pub(super) struct Column {
    pub(super) head: String,
    pub(super) cells: Vec<Cell>,
    pub(super) is_text: bool,
}

#[derive(Clone, Default)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) is_strong: bool,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, is_strong: false }
    }
}

impl Column {
    pub(super) fn new<C: Into<Cell>>(head: impl Into<String>, cells: impl IntoIterator<Item = C>) -> Self {
        Self { head: head.into(), cells: cells.into_iter().map(Into::into).collect(), is_text: false }
    }

    /// Whether the cells are numbers, which align at the right.
    pub(super) fn is_numeric(&self) -> bool {
        let mut texts = self.cells.iter().map(|cell| cell.text.as_str()).filter(|text| !text.is_empty());
        let is_number =
            |text: &str| text.starts_with(|letter: char| letter.is_ascii_digit() || letter == '\u{2212}');
        !self.is_text && texts.all(is_number)
    }

    /// A column of longer texts, which may begin with a number.
    pub(super) fn of_texts(head: &str, cells: Vec<String>) -> Self {
        Self { is_text: true, ..Self::new(head, cells) }
    }

    fn is_empty(&self) -> bool {
        self.cells.iter().all(|cell| cell.text.is_empty())
    }
}

impl Table {
    /// A table without its empty columns.
    pub(super) fn new(title: impl Into<String>, common: String, mut columns: Vec<Column>) -> Self {
        columns.retain(|column| !column.is_empty());
        Self { title: title.into(), common, columns }
    }

    pub(super) fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.cells.len())
    }
}

impl Section {
    pub(super) fn new(name: &'static str, title: &'static str, lead: &str) -> Self {
        Self { name, title, lead: lead.into(), blocks: vec![], commands: vec![] }
    }

    /// Adds a table unless it is empty.
    pub(super) fn table(&mut self, table: Table) {
        if table.rows() > 0 {
            self.blocks.push(Block::Table(table));
        }
    }

    /// Adds a figure unless its chart has nothing to show.
    pub(super) fn figure(
        &mut self,
        name: &'static str,
        caption: impl Into<String>,
        note: impl Into<String>,
        chart: Chart,
    ) {
        if !chart.is_empty() {
            let (caption, note) = (caption.into(), note.into());
            self.blocks.push(Block::Figure(Figure { name, caption, note, chart }));
        }
    }
}

impl Page {
    pub(super) fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Figure(figure) => Some(figure),
            Block::Table(_) => None,
        })
    }
}
