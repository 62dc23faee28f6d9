//! A graph of differences: a line for each row, with its confidence interval, and a mark at zero (forest plot).

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::chart::{self, Drawing, Pen};

/// Differences in percent, one below the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Forest {
    /// The heading.
    pub(super) title: String,
    /// The axis, with its unit.
    pub(super) x: String,
    /// The rows, at least one.
    pub(super) rows: Vec<Interval>,
}

/// One row.
#[derive(Clone, Debug, Default)]
pub(super) struct Interval {
    /// What was compared.
    pub(super) label: String,
    /// The difference.
    pub(super) at: f64,
    /// Its confidence interval, if there is one.
    pub(super) interval: Option<(f64, f64)>,
}

const WIDTH: u32 = 700;
const ROW: u32 = 20;
const HEAD: u32 = 36;
const FOOT: u32 = 64;
/// Width of the labels.
const LEFT: u32 = 290;
/// Maximum difference that is drawn. Intervals that extend further are cut, so that the others stay visible.
const WIDEST: f64 = 100.0;

impl Forest {
    /// Returns the graph as SVG in the colours of the page.
    ///
    /// # Errors
    ///
    /// If it cannot be drawn.
    pub(super) fn svg(&self) -> Result<String> {
        chart::svg(self)
    }

    /// Returns the lowest and the highest value of the axis.
    fn range(&self) -> (f64, f64) {
        let ends = self.rows.iter().flat_map(|row| {
            let (low, high) = row.interval.unwrap_or((row.at, row.at));
            [low.max(row.at - WIDEST), high.min(row.at + WIDEST)]
        });
        let (low, high) = ends.fold((-1.0_f64, 1.0_f64), |(a, b), end| (a.min(end), b.max(end)));
        let margin = (high - low) * 0.05;
        (low - margin, high + margin)
    }
}

impl Drawing for Forest {
    fn title(&self) -> &str {
        &self.title
    }

    fn size(&self) -> (u32, u32) {
        let rows = u32::try_from(self.rows.len()).unwrap_or(1);
        (WIDTH, HEAD + rows * ROW + FOOT)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, pen: Pen) -> Result<()> {
        let told = |error: DrawingAreaErrorKind<B::ErrorType>| anyhow!("{}: {error}", self.title);
        let (head, body) = area.split_vertically(HEAD * pen.scale);
        let at = (pen.px(12), pen.px(6));
        head.draw(&Text::new(self.title.clone(), at, pen.text(15))).map_err(told)?;
        let (labels, body) = body.split_horizontally(LEFT * pen.scale);
        let (low, high) = self.range();
        let rows = self.rows.len() as f64;
        let mut builder = ChartBuilder::on(&body);
        builder.margin(8 * pen.scale).x_label_area_size(44 * pen.scale);
        let mut chart = builder.build_cartesian_2d(low..high, 0.0..rows).map_err(told)?;
        pen.style(&mut chart.configure_mesh())
            .disable_y_mesh()
            .disable_y_axis()
            .x_desc(self.x.clone())
            .x_labels(6)
            .x_label_formatter(&|x| super::table::number(Some(*x)))
            .draw()
            .map_err(told)?;
        let nought =
            PathElement::new(vec![(0.0, 0.0), (0.0, rows)], pen.ink.stroke_width(pen.scale));
        chart.draw_series([nought]).map_err(told)?;
        let (_, above) = body.get_base_pixel();
        for (place, row) in self.rows.iter().enumerate() {
            let y = rows - place as f64 - 0.5;
            let colour = chart::colour(usize::from(row.at < 0.0));
            if let Some((from, to)) = row.interval {
                let ends = vec![(from.max(low), y), (to.min(high), y)];
                let line = PathElement::new(ends, colour.stroke_width(2 * pen.scale));
                chart.draw_series([line]).map_err(told)?;
            }
            let point = Circle::new((row.at, y), 4 * pen.scale, colour.filled());
            chart.draw_series([point]).map_err(told)?;
            let (_, at) = chart.backend_coord(&(low, y));
            let at = (pen.px(8), at - above - pen.px(7));
            labels.draw(&Text::new(row.label.clone(), at, pen.text(12))).map_err(told)?;
        }
        Ok(())
    }
}
