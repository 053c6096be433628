//! The roofline: what a case computes a second, by how much it computes a byte, under what the device can do.

use anyhow::Result;

use super::axis::Axis;
use super::fields::{SUITES, describe};
use super::figures::{OPERATIONS_A_SECOND, best_ms, intensity, operations, over};
use super::page::paragraph;
use super::palette::color;
use super::part::Part;
use super::plot::{Look, Plot, Point, Series};
use crate::bench::lines::{Line, of};
use crate::bench::svg::FAINT;
use crate::bench::units::rate_text;

const X: Axis = over("intensity: operations a byte");

pub(super) fn html(part: &Part<'_>) -> Result<String> {
    let mut points: Vec<Series> = vec![];
    for (number, (suite, title)) in SUITES.into_iter().enumerate() {
        let mut of_suite: Vec<Point> =
            part.cases(suite).into_iter().filter_map(|case| point(case, suite)).collect();
        label_few(&mut of_suite);
        if !of_suite.is_empty() {
            points.push(Series {
                name: title.into(),
                color: color(number),
                look: Look::Points,
                points: of_suite,
            });
        }
    }
    if points.is_empty() {
        return Ok(String::new());
    }
    let intensities = || points.iter().flat_map(|series| &series.points).map(|point| point.x);
    let least = intensities().fold(f64::INFINITY, f64::min);
    let most = intensities().fold(0.0, f64::max);
    let mut series = roofs(part, least, most);
    series.extend(points);
    let plot = Plot {
        caption: "Operations a second over operations a byte".into(),
        note: String::new(),
        x: X,
        y: OPERATIONS_A_SECOND,
        series,
        is_half: false,
    };
    let lead = "A point is a case, by the least that it has to read and to compute and by its time on the device, or by \
        wall clock where that is not known. On the slope bandwidth is the limit, under a flat roof the arithmetic is. \
        A point above its roof found its data in a cache, or was spared a part of the least.";
    Ok(paragraph(lead) + &plot.html()?)
}

fn point(case: &Line, suite: &str) -> Option<Point> {
    let computed = || Some(case.positive("operations")? / (best_ms(case)? / 1e3));
    let y = case.positive("operations_per_s").or_else(computed)?;
    Some(Point { x: intensity(case)?, y, label: short_name(case, suite) })
}

/// In few words: which of its kind a case is.
fn short_name(case: &Line, suite: &str) -> String {
    let few: &[&str] = match suite {
        "exact" | "breakeven" => &["rows", "dim", "queries"],
        "ivf" => &["probes", "queries"],
        "reduce" => &["operation", "elements"],
        "select" => &["rows", "length", "k"],
        "distance" => &["rows", "dim", "queries"],
        _ => of(suite),
    };
    describe(case, few)
}

/// Of many points only the ends have a name: the highest, the lowest, and those that compute most and least a byte.
fn label_few(points: &mut [Point]) {
    type Order = fn(&Point) -> f64;
    let orders: [Order; 4] = [|point| point.y, |point| -point.y, |point| point.x, |point| -point.x];
    let ends = orders.map(|order| {
        let by =
            |(_, one): &(usize, &Point), (_, other): &(usize, &Point)| order(one).total_cmp(&order(other));
        points.iter().enumerate().max_by(by).map(|(number, _)| number)
    });
    for (number, point) in points.iter_mut().enumerate() {
        if !ends.contains(&Some(number)) {
            point.label.clear();
        }
    }
}

/// The slope of the bandwidth, and a flat roof for each kind of arithmetic.
fn roofs(part: &Part<'_>, least: f64, most: f64) -> Vec<Series> {
    let bandwidth = part.positive("read_bytes_per_s").or_else(|| part.positive("copy_bytes_per_s"));
    let flat = [
        ("f32 multiply-add", "flops_per_s"),
        ("8-bit integers", "integer_ops_per_s"),
        ("cooperative matrices", "matrix_flops_per_s"),
    ];
    let flat = flat.into_iter().filter_map(|(name, key)| Some((name, part.positive(key)?)));
    let flat: Vec<(&str, f64)> = flat.collect();
    let bare = |points| Series { name: String::new(), color: FAINT, look: Look::Bare, points };
    let unnamed = |x: f64, y: f64| Point { x, y, label: String::new() };
    let mut series = vec![];
    let highest = flat.iter().map(|(_, roof)| *roof).fold(0.0, f64::max);
    // Where the last slope meets the last roof is to be seen.
    let end =
        bandwidth.filter(|_| highest > 0.0).map_or(most, |bytes| (2.0 * most).max(3.0 * highest / bytes));
    for (name, roof) in flat {
        let start = bandwidth.map_or(least, |bytes| roof / bytes);
        let label = format!("{name}, {}", operations(roof));
        series.push(bare(vec![unnamed(start.min(end), roof), Point { x: end, y: roof, label }]));
    }
    if let Some(bytes) = bandwidth {
        let top = if highest > 0.0 { highest / bytes } else { most };
        let how = if part.positive("read_bytes_per_s").is_some() { "reading" } else { "copying" };
        let label = format!("{how}, {}", rate_text(bytes));
        series.push(bare(vec![
            unnamed(least.min(top), least.min(top) * bytes),
            Point { x: top, y: top * bytes, label },
        ]));
    }
    series
}
