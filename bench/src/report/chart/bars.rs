//! Groups of horizontal bars.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::style::{Area, COLORS, Drawn, FAINT, INK, bold, text, wrapped};

/// Horizontal bars on a common linear scale from zero.
#[derive(Clone, Default)]
pub(crate) struct BarGroup {
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) bars: Vec<Bar>,
    /// A line across the bars, and its name.
    pub(crate) limit: Option<(f64, String)>,
    /// Names of the parts of a bar, for a legend.
    pub(crate) legend: Vec<String>,
}

#[derive(Clone)]
pub(crate) struct Bar {
    pub(crate) label: String,
    /// Length and color of each part.
    pub(crate) parts: Vec<(f64, usize)>,
    pub(crate) text: String,
}

const BAR_HEIGHT: u32 = 26;
const MAX_LABEL: usize = 44;

impl BarGroup {
    fn notes(&self) -> Vec<String> {
        wrapped(&self.note, 84)
    }

    fn heading(&self) -> u32 {
        let lines = u32::from(!self.title.is_empty()) + self.notes().len() as u32;
        20 * lines + if lines > 0 { 10 } else { 0 } + if self.limit.is_some() { 16 } else { 0 }
    }

    pub(super) fn height(&self) -> u32 {
        self.heading() + BAR_HEIGHT * self.bars.len() as u32 + 8
    }

    /// Draws the group with room for labels on the left and for texts on the right, in pixels.
    fn draw(&self, area: &Area<'_>, labels: u32, texts: u32) -> Drawn {
        if !self.title.is_empty() {
            area.draw_text(&self.title, &bold(13), (0, 14))?;
        }
        for (number, note) in self.notes().iter().enumerate() {
            let y = 20 * (number as i32 + i32::from(!self.title.is_empty())) + 14;
            area.draw_text(note, &text(12, FAINT, HPos::Left), (0, y))?;
        }
        let length = |bar: &Bar| bar.parts.iter().map(|(length, _)| length).sum::<f64>();
        let most = self.bars.iter().map(length).chain(self.limit.iter().map(|(limit, _)| *limit));
        let most = most.fold(f64::MIN_POSITIVE, f64::max);
        let count = self.bars.len();
        let mut chart = ChartBuilder::on(area)
            .margin_top(self.heading())
            .margin_bottom(8)
            .margin_right(texts)
            .y_label_area_size(labels)
            // Segments count from the bottom, and a range of them includes its end.
            .build_cartesian_2d(0.0..most, (0..count.saturating_sub(1)).into_segmented())?;
        let label = |segment: &SegmentValue<usize>| match segment {
            SegmentValue::CenterOf(place) => {
                self.bars.iter().rev().nth(*place).map(|bar| shortened(&bar.label)).unwrap_or_default()
            }
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_mesh()
            .disable_x_axis()
            .axis_style(TRANSPARENT)
            .y_labels(count + 1)
            .y_label_formatter(&label)
            .label_style(text(12, INK, HPos::Right))
            .draw()?;
        if let Some((limit, name)) = &self.limit {
            let ends = [(*limit, SegmentValue::Exact(0)), (*limit, SegmentValue::Exact(count))];
            chart.draw_series(LineSeries::new(ends, COLORS[1].stroke_width(1)))?;
            let name = EmptyElement::at((*limit, SegmentValue::Exact(count)))
                + Text::new(name.clone(), (0, -9), text(12, COLORS[1], HPos::Center));
            chart.draw_series([name])?;
        }
        for (place, bar) in self.bars.iter().rev().enumerate() {
            let mut start = 0.0;
            for (length, color) in &bar.parts {
                let corners =
                    [(start, SegmentValue::Exact(place)), (start + length, SegmentValue::Exact(place + 1))];
                let mut block = Rectangle::new(corners, COLORS[color % COLORS.len()].filled());
                block.set_margin(4, 4, 0, 0);
                chart.draw_series([block])?;
                start += length;
            }
            let beside = EmptyElement::at((start, SegmentValue::CenterOf(place)))
                + Text::new(shortened(&bar.text), (7, 0), text(12, INK, HPos::Left));
            chart.draw_series([beside])?;
        }
        Ok(())
    }
}

/// Draws groups below each other, with their bars in line.
pub(super) fn draw(area: &Area<'_>, groups: &[BarGroup]) -> Drawn {
    let room = |text: fn(&Bar) -> &String| {
        let bars = groups.iter().flat_map(|group| &group.bars);
        bars.map(|bar| text(bar).chars().count().min(MAX_LABEL)).max().unwrap_or(0) as u32 * 7 + 14
    };
    let (labels, texts) = (room(|bar| &bar.label), room(|bar| &bar.text));
    let mut rest = area.clone();
    for group in groups {
        let (upper, lower) = rest.split_vertically(group.height());
        group.draw(&upper, labels, texts)?;
        rest = lower;
    }
    Ok(())
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_LABEL) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
