//! What the device can do at best, as it was measured.

use anyhow::Result;

use super::axis::Axis;
use super::figures::{BANDWIDTH, operations};
use super::page::{Side, Table, paragraph};
use super::palette::color;
use super::part::Part;
use super::plot::{Look, Plot, Point, Series};
use crate::bench::units::{rate_text, round_in_units, time_text};

pub(super) fn html(part: &Part<'_>) -> Result<String> {
    let mut table =
        Table::new(&[("ceiling", Side::Left), ("at best", Side::Right), ("measured as", Side::Prose)]);
    type Show = fn(f64) -> String;
    let rows: [(&str, &str, Show, &str); 6] = [
        ("Reading", "read_bytes_per_s", rate_text, "bytes read a second, nothing written"),
        ("Copying", "copy_bytes_per_s", rate_text, "bytes read and bytes written a second"),
        ("f32 multiply-add", "flops_per_s", operations, "a multiply-add counts as two operations"),
        (
            "Cooperative matrices",
            "matrix_flops_per_s",
            operations,
            "products in f16; a multiply-add counts as two",
        ),
        ("8-bit integers", "integer_ops_per_s", operations, "a multiply-add counts as two operations"),
        ("Launch", "latency_ms", |ms| time_text(ms / 1e3), "an empty kernel, and four bytes of its result"),
    ];
    for (name, key, show, how) in rows {
        if let Some(value) = part.positive(key) {
            table.row(vec![name.into(), show(value), how.into()]);
        }
    }
    let series = [("reading", "read_curve"), ("copying", "copy_curve")].into_iter().enumerate();
    let series = series.map(|(number, (name, key))| Series {
        name: name.into(),
        color: color(number),
        look: Look::Line,
        points: part.curve(key).into_iter().map(|(x, y)| Point { x, y, label: String::new() }).collect(),
    });
    let plot = Plot {
        caption: "Bandwidth by the size of what is read or copied".into(),
        note:
            "The start of a kernel weighs on small sets, and a cache speeds them up: a case is held against the bandwidth at its own size."
                .into(),
        x: Axis {
            name: "bytes of the working set",
            is_log: true,
            format: |bytes| round_in_units(bytes, 0, &["B", "kB", "MB", "GB", "TB"]),
        },
        y: BANDWIDTH,
        series: series.collect(),
        is_half: false,
    };
    let html = table.html() + &plot.html()?;
    Ok(match html.is_empty() {
        true => html,
        false => paragraph("Measured in the same run as the cases below, which are held against it.") + &html,
    })
}
