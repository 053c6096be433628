//! A report as one HTML page that needs no other file.

use anyhow::Result;

use plotters::style::RGBColor;

use super::chart::{COLORS, STYLE};
use super::document::{Block, Figure, Page, Section, Table};

/// The mark of our own pages, which may be replaced.
pub(super) const GENERATOR: &str = "<meta name=\"generator\" content=\"nearfield-bench\">";

pub(super) fn render(pages: &[Page]) -> Result<String> {
    let (mut html, mut title) = (String::new(), pages[0].title.clone());
    if pages.len() > 1 {
        title = format!("nearfield on {} devices", pages.len());
        html +=
            &nav((1..).zip(pages).map(|(number, page)| (format!("device-{number}"), page.title.as_str())));
    }
    for (number, page) in (1..).zip(pages) {
        html += &self::page(page, number)?;
    }
    let colors = COLORS.iter().zip(0..).map(|(RGBColor(red, green, blue), number)| {
        format!(".c{number} {{ background: #{red:02x}{green:02x}{blue:02x}; }}\n")
    });
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n{GENERATOR}\n\
         <title>{}</title>\n<style>\n{}{STYLE}{}</style>\n</head>\n<body>\n<main>\n{html}</main>\n</body>\n</html>\n",
        escaped(&title),
        include_str!("page.css"),
        colors.collect::<String>(),
    ))
}

fn page(page: &Page, number: usize) -> Result<String> {
    let mut html = format!("<article id=\"device-{number}\">\n<header>\n{}", element("h1", &page.title));
    html += &page.facts.iter().map(|fact| element("p class=\"faint\"", fact)).collect::<String>();
    html += &commands("Commands of this report", &page.commands);
    html += "</header>\n";
    if !page.highlights.is_empty() {
        let cards = page
            .highlights
            .iter()
            .map(|(value, text)| format!("<li>{}{}</li>\n", element("strong", value), element("span", text)));
        html += &format!("<ul class=\"cards\">\n{}</ul>\n", cards.collect::<String>());
    }
    html += &page.problems.iter().map(|problem| element("p class=\"problem\"", problem)).collect::<String>();
    html += &page.remarks.iter().map(|remark| element("p class=\"remark\"", remark)).collect::<String>();
    let id = |section: &Section| format!("{}-{number}", section.name);
    if page.sections.len() > 2 {
        html += &nav(page.sections.iter().map(|section| (id(section), section.title)));
    }
    for section in &page.sections {
        html += &format!("<section id=\"{}\">\n{}", id(section), element("h2", section.title));
        html += &self::section(section)?;
        html += "</section>\n";
    }
    Ok(html + "</article>\n")
}

fn nav<'a>(links: impl Iterator<Item = (String, &'a str)>) -> String {
    let links = links.map(|(id, title)| format!("<a href=\"#{id}\">{}</a>\n", escaped(title)));
    format!("<nav>\n{}</nav>\n", links.collect::<String>())
}

fn section(section: &Section) -> Result<String> {
    let mut html = element("p", &section.lead);
    let is_figure = |block: &Block| matches!(block, Block::Figure(_));
    for blocks in section.blocks.chunk_by(|one, next| is_figure(one) == is_figure(next)) {
        let rendered = blocks.iter().map(|block| match block {
            Block::Figure(figure) => self::figure(figure),
            Block::Table(table) => Ok(self::table(table)),
        });
        let rendered = rendered.collect::<Result<String>>()?;
        // Line charts stand side by side where there is room.
        html += &match is_figure(&blocks[0]) {
            true => format!("<div class=\"figures\">\n{rendered}</div>\n"),
            false => rendered,
        };
    }
    Ok(html + &commands("Reproduce", &section.commands))
}

fn figure(figure: &Figure) -> Result<String> {
    let label = format!("<svg role=\"img\" aria-label=\"{}\" ", escaped(&figure.caption));
    let svg = figure.chart.svg()?.replacen("<svg ", &label, 1);
    let key = |(name, color)| format!("<li><i class=\"c{color}\"></i>{}</li>", escaped(name));
    let keys: String = figure.chart.legend().into_iter().map(key).collect();
    let legend = if keys.is_empty() { keys } else { format!("<ul class=\"legend\">{keys}</ul>\n") };
    let note = element("p class=\"faint\"", &figure.note);
    let class = if figure.chart.is_wide() { " class=\"wide\"" } else { "" };
    Ok(format!("<figure{class}>\n{}{legend}{svg}{note}</figure>\n", element("figcaption", &figure.caption)))
}

fn table(table: &Table) -> String {
    let mut html = element("h3", &table.title);
    html += &element("p class=\"faint\"", &table.common);
    let class = |number: usize| match &table.columns[number] {
        column if column.is_numeric() => " class=\"number\"",
        column if column.is_text => " class=\"text\"",
        _ => "",
    };
    html += "<div class=\"table\"><table>\n<thead><tr>";
    for (number, column) in table.columns.iter().enumerate() {
        // A unit stays with its name.
        let head = column.head.replace(", ", ",\u{a0}");
        html += &format!("<th scope=\"col\"{}>{}</th>", class(number), escaped(&head));
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in 0..table.rows() {
        html += "<tr>";
        for (number, column) in table.columns.iter().enumerate() {
            let cell = &column.cells[row];
            let text = escaped(&cell.text);
            let text = if cell.is_strong { format!("<b>{text}</b>") } else { text };
            html += &format!("<td{}>{text}</td>", class(number));
        }
        html += "</tr>\n";
    }
    html + "</tbody></table></div>\n"
}

fn commands(title: &str, commands: &[String]) -> String {
    if commands.is_empty() {
        return String::new();
    }
    let text = commands.iter().map(|command| escaped(command)).collect::<Vec<_>>().join("\n");
    format!("<details><summary>{title}</summary><pre>{text}</pre></details>\n")
}

/// An element with text, or nothing without text; `tag` may have attributes.
fn element(tag: &str, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let name = tag.split(' ').next().unwrap_or_default();
    format!("<{tag}>{}</{name}>\n", escaped(text))
}

/// Text for an element or an attribute, without characters that HTML has no place for.
fn escaped(text: &str) -> String {
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
    // A percent sign stays with its number.
    html.replace(" %", "\u{a0}%")
}
