//! Pages as HTML, as Markdown, and their bars as SVG.

use super::page::{Bar, Page, Table};

/// The mark of our own pages, which may be replaced.
pub(super) const GENERATOR: &str = "<meta name=\"generator\" content=\"nearfield-bench\">";

const STYLE: &str = "\
:root { color-scheme: light dark; }
body { max-width: 75rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }
div, pre { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #8886; text-align: left; white-space: nowrap; }
.number { text-align: right; }
";

pub(super) fn html(pages: &[Page]) -> String {
    let title = pages.iter().map(|page| page.title.as_str()).collect::<Vec<_>>().join(", ");
    let body: String = pages.iter().map(article).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{GENERATOR}\n<title>{}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escaped(&title)
    )
}

fn article(page: &Page) -> String {
    let mut html = format!("<h1>{}</h1>\n", escaped(&page.title));
    for fact in &page.facts {
        html += &format!("<p>{}</p>\n", escaped(fact));
    }
    let commands: Vec<String> = page.commands.iter().map(|command| escaped(command)).collect();
    html += &format!("<details><summary>Commands</summary><pre>{}</pre></details>\n", commands.join("\n"));
    for table in &page.tables {
        html += &format!("<h2>{}</h2>\n<p>{}</p>\n", table.title, escaped(&table.common));
        if table.bars.len() > 1 {
            html += &format!("<div>{}</div>\n", svg(table.title, &table.bars));
        }
        let numeric = numeric(table);
        let row = |cell: &str, texts: &mut dyn Iterator<Item = &str>| -> String {
            let class = |is_number: &bool| if *is_number { " class=\"number\"" } else { "" };
            let cells = numeric.iter().zip(texts);
            let cells = cells.map(|(of, text)| format!("<{cell}{}>{}</{cell}>", class(of), escaped(text)));
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        html += &format!("<div><table>\n{}", row("th", &mut table.head.iter().map(String::as_str)));
        for texts in &table.rows {
            html += &row("td", &mut texts.iter().map(String::as_str));
        }
        html += "</table></div>\n";
    }
    html
}

/// Horizontal bars from zero, as long as their values are high.
fn svg(title: &str, bars: &[Bar]) -> String {
    const HEIGHT: usize = 20;
    let room =
        |text: fn(&Bar) -> &str| bars.iter().map(|bar| text(bar).chars().count()).max().unwrap_or(0) * 7 + 16;
    let (left, right) = (room(|bar| &bar.label), room(|bar| &bar.text));
    let most = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let mut rows = String::new();
    for (y, bar) in (HEIGHT..).step_by(HEIGHT).zip(bars) {
        let (length, text) = (400.0 * bar.value / most, y + 14);
        rows += &format!(
            "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{left}\" y=\"{}\" width=\"{length:.1}\" height=\"14\" fill=\"#2f7dd1\"/>\
             <text x=\"{:.1}\" y=\"{text}\">{}</text>\n",
            left - 8,
            escaped(&bar.label),
            y + 3,
            left as f64 + length + 8.0,
            escaped(&bar.text)
        );
    }
    let (width, height) = (left + 400 + right, HEIGHT * (bars.len() + 1) + 4);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"12\" fill=\"#888\">\n<text x=\"8\" y=\"14\" font-weight=\"bold\">{}</text>\n{rows}</svg>",
        escaped(title)
    )
}

pub(super) fn markdown(pages: &[Page]) -> String {
    let mut text = String::new();
    for page in pages {
        text += &format!("# {}\n\n", plain(&page.title));
        for fact in &page.facts {
            text += &format!("{}\n\n", plain(fact));
        }
        let commands: Vec<String> = page.commands.iter().map(|command| single_line(command)).collect();
        text += &format!("```sh\n{}\n```\n\n", commands.join("\n"));
        for table in &page.tables {
            text += &format!("## {}\n\n{}\n\n", table.title, plain(&table.common));
            let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
            text += &row(table.head.iter().map(|head| plain(head)).collect());
            let sides = numeric(table).into_iter().map(|is_number| if is_number { "--:" } else { "---" });
            text += &row(sides.map(str::to_owned).collect());
            text.extend(table.rows.iter().map(|texts| row(texts.iter().map(|text| plain(text)).collect())));
            text += "\n";
        }
    }
    text.trim_end().to_owned() + "\n"
}

/// Whether the cells of each column are numbers, which align at the right.
fn numeric(table: &Table) -> Vec<bool> {
    let is_number =
        |text: &String| text.is_empty() || text.starts_with(|letter: char| letter.is_ascii_digit());
    (0..table.head.len()).map(|column| table.rows.iter().all(|row| is_number(&row[column]))).collect()
}

/// Replaces control characters, which would end a line or a row, and those that XML has no place for.
fn single_line(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() || letter >= '\u{fffe}', " ")
}

/// Text that Markdown shows as it is.
fn plain(text: &str) -> String {
    let escape = |text: String, letter: char| text.replace(letter, &format!("\\{letter}"));
    ['\\', '|', '<', '*', '_', '`'].into_iter().fold(single_line(text), escape)
}

/// Text for an element or an attribute.
fn escaped(text: &str) -> String {
    let entities = [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&#39;")];
    entities.into_iter().fold(single_line(text), |text, (letter, entity)| text.replace(letter, entity))
}
