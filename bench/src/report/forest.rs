//! A graph of differences: a line for each row, with its interval beside nought.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::chart::{self, Drawing, FONT};

/// Differences in percent, one below the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Forest {
    /// The heading.
    pub(super) title: String,
    /// The axis, with its unit.
    pub(super) x: String,
    /// At least one.
    pub(super) rows: Vec<Interval>,
}

/// One row.
#[derive(Clone, Debug, Default)]
pub(super) struct Interval {
    /// What was compared.
    pub(super) label: String,
    /// The difference.
    pub(super) at: f64,
    /// Its interval of confidence, if there is one.
    pub(super) interval: Option<(f64, f64)>,
}

const WIDTH: u32 = 700;
const ROW: u32 = 20;
const HEAD: u32 = 36;
const FOOT: u32 = 64;
/// For the labels.
const LEFT: u32 = 290;
/// A wider interval is cut: it says nothing, and the others have to be seen.
const WIDEST: f64 = 100.0;

impl Forest {
    /// The graph as SVG in the colours of the page.
    ///
    /// # Errors
    ///
    /// If it cannot be drawn.
    pub(super) fn svg(&self) -> Result<String> {
        chart::svg(self)
    }

    /// What the axis shows.
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

    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        scale: u32,
        ink: RGBColor,
        grid: RGBColor,
    ) -> Result<()> {
        let told = |error: DrawingAreaErrorKind<B::ErrorType>| anyhow!("{}: {error}", self.title);
        let px = |value: u32| i32::try_from(value * scale).unwrap_or(i32::MAX);
        let text = |size: u32| (FONT, size * scale).into_font().color(&ink);
        let (head, body) = area.split_vertically(HEAD * scale);
        head.draw(&Text::new(self.title.clone(), (px(12), px(6)), text(15))).map_err(told)?;
        let (labels, body) = body.split_horizontally(LEFT * scale);
        let (low, high) = self.range();
        let rows = self.rows.len() as f64;
        let mut builder = ChartBuilder::on(&body);
        builder.margin(8 * scale).x_label_area_size(44 * scale);
        let mut chart = builder.build_cartesian_2d(low..high, 0.0..rows).map_err(told)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .bold_line_style(grid.stroke_width(scale))
            .light_line_style(TRANSPARENT)
            .axis_style(ink.stroke_width(scale))
            .label_style(text(12))
            .axis_desc_style(text(13))
            .x_desc(self.x.clone())
            .x_labels(6)
            .x_label_formatter(&|x| super::table::number(Some(*x)))
            .draw()
            .map_err(told)?;
        let nought = PathElement::new(vec![(0.0, 0.0), (0.0, rows)], ink.stroke_width(scale));
        chart.draw_series([nought]).map_err(told)?;
        let (_, above) = body.get_base_pixel();
        for (place, row) in self.rows.iter().enumerate() {
            let y = rows - place as f64 - 0.5;
            let colour = chart::colour(usize::from(row.at < 0.0));
            if let Some((from, to)) = row.interval {
                let ends = vec![(from.max(low), y), (to.min(high), y)];
                let line = PathElement::new(ends, colour.stroke_width(2 * scale));
                chart.draw_series([line]).map_err(told)?;
            }
            let point = Circle::new((row.at, y), 4 * scale, colour.filled());
            chart.draw_series([point]).map_err(told)?;
            let (_, at) = chart.backend_coord(&(low, y));
            let at = (px(8), at - above - px(7));
            labels.draw(&Text::new(row.label.clone(), at, text(12))).map_err(told)?;
        }
        Ok(())
    }
}
