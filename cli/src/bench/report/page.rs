//! What a page is made of: text, tables and figures in HTML.

/// Where a column stands in its cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
    /// Text of any length, which may take several lines.
    Prose,
    /// Text that stands above the table where it is the same in all rows.
    Common,
}

/// A table. Columns that hold nothing are left out, as what nobody measured needs no room.
#[derive(Debug)]
pub(super) struct Table {
    heads: Vec<(&'static str, Side)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(heads: &[(&'static str, Side)]) -> Self {
        Self { heads: heads.to_vec(), rows: vec![] }
    }

    /// A row of plain text, as long as the heads.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// What the rows that follow are of, over the whole width.
    pub(super) fn title(&mut self, text: String) {
        self.rows.push(vec![text]);
    }

    /// The table in a box of its own, which scrolls where the window is narrow; nothing without rows.
    pub(super) fn html(&self) -> String {
        let Some((first, others)) = self.rows.split_first() else {
            return String::new();
        };
        let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
        let is_used = |&column: &usize| self.rows.iter().any(|row| !cell(row, column).is_empty());
        let is_common = |&column: &usize| {
            let same = others.iter().all(|row| cell(row, column) == cell(first, column));
            self.heads[column].1 == Side::Common && same && !others.is_empty()
        };
        let used = (0..self.heads.len()).filter(is_used);
        let (common, columns): (Vec<usize>, Vec<usize>) = used.partition(is_common);
        let class = |column: usize| match self.heads[column].1 {
            Side::Right => " class=\"n\"",
            Side::Prose => " class=\"prose\"",
            Side::Left | Side::Common => "",
        };
        let mut html = String::new();
        if !common.is_empty() {
            let told =
                common.iter().map(|&column| format!("{} {}", self.heads[column].0, cell(first, column)));
            let told = told.collect::<Vec<_>>().join(", ");
            html += &format!("<p class=\"note\">In all rows: {}</p>\n", escaped(&told));
        }
        html += "<div class=\"box\"><table><thead><tr>";
        for &column in &columns {
            // A unit stays with what it is of.
            let head = self.heads[column].0.replace(", ", ",\u{a0}");
            html += &format!("<th scope=\"col\"{}>{}</th>", class(column), escaped(&head));
        }
        html += "</tr></thead><tbody>\n";
        for row in &self.rows {
            if let ([title], [_, _, ..]) = (&row[..], &columns[..]) {
                let width = columns.len();
                html += &format!(
                    "<tr class=\"strong\"><td colspan=\"{width}\">{}</td></tr>
",
                    escaped(title)
                );
                continue;
            }
            html += "<tr>";
            for &column in &columns {
                html += &format!("<td{}>{}</td>", class(column), escaped(&cell(row, column)));
            }
            html += "</tr>\n";
        }
        html + "</tbody></table></div>\n"
    }
}

/// Text as it may stand in HTML and XML, in an element or an attribute. What neither may hold is left out.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html += "&amp;",
            '<' => html += "&lt;",
            '>' => html += "&gt;",
            '"' => html += "&quot;",
            '\'' => html += "&#39;",
            '\n' | '\t' => html.push(' '),
            '\u{fffe}' | '\u{ffff}' => {}
            letter if letter.is_control() => {}
            letter => html.push(letter),
        }
    }
    html
}

/// A paragraph of plain text.
pub(super) fn paragraph(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<p>{}</p>\n", escaped(text)) }
}

/// A heading within a section.
pub(super) fn heading(text: &str) -> String {
    format!("<h3>{}</h3>\n", escaped(text))
}

/// An SVG with what it shows in words above it, an optional legend in HTML, and a note below.
pub(super) fn figure(svg: &str, caption: &str, legend: &str, note: &str, is_half: bool) -> String {
    // Readers of screens are told what the picture is of.
    let label = format!("<svg role=\"img\" aria-label=\"{}\" ", escaped(caption));
    let svg = svg.trim().replacen("<svg ", &label, 1);
    let class = if is_half { " class=\"half\"" } else { "" };
    let note =
        if note.is_empty() { String::new() } else { format!("<p class=\"note\">{}</p>", escaped(note)) };
    // A picture may have its heading in itself.
    let heading = if svg.contains(&format!(">\n{}\n<", escaped(caption))) {
        String::new()
    } else {
        format!("<figcaption>{}</figcaption>", escaped(caption))
    };
    format!("<figure{class}>{heading}{legend}<div class=\"box\">{svg}</div>{note}</figure>\n")
}

/// Figures side by side, where there is room.
pub(super) fn side_by_side(figures: &[String]) -> String {
    let figures: Vec<&str> = figures.iter().map(String::as_str).filter(|html| !html.is_empty()).collect();
    if figures.is_empty() {
        return String::new();
    }
    format!("<div class=\"pair\">\n{}</div>\n", figures.concat())
}

/// A whole page.
pub(super) fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n{GENERATOR}\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escaped(title)
    )
}

/// What a page of ours is known by.
pub(super) const GENERATOR: &str = "<meta name=\"generator\" content=\"nearfield bench\">";

const STYLE: &str = include_str!("page.css");
