//! Graphs as values, drawn as SVG for the report and as pixels for PNG files.
//!
//! Owns colours, markers and axes. It measures nothing: a graph without points is not drawn.

use std::path::Path;
use std::sync::Once;

use anyhow::{Result, anyhow};
use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::png;

/// A line graph.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// The name of its file, without the extension.
    pub name: String,
    /// The document whose rows it shows.
    pub document: String,
    /// The heading.
    pub title: String,
    /// The axes, with units.
    pub x: String,
    /// See `x`.
    pub y: String,
    /// True if the horizontal axis is logarithmic, as for users from 10 to 1000.
    pub is_log: bool,
    /// True if the horizontal axis is the time of one row.
    pub is_over_time: bool,
    /// One line each.
    pub series: Vec<Series>,
}

/// One line of a graph.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Its name in the key.
    pub name: String,
    /// An index of [`COLOURS`].
    pub colour: usize,
    /// The points, in the order of x.
    pub points: Vec<(f64, f64)>,
}

/// The colours of Okabe and Ito, which are distinguishable with any colour vision, without the yellow, which is hardly visible on paper.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(128, 128, 128),
    // For graphs with more lines. Their marks differ, too.
    RGBColor(140, 86, 60),
    RGBColor(118, 80, 190),
    RGBColor(140, 160, 40),
];
/// Placeholder for the text colour, which a browser chooses by its colour mode.
const INK: RGBColor = RGBColor(1, 2, 3);
const GRID: RGBColor = RGBColor(1, 2, 4);
/// Small, so that its texts stay readable when a telephone shrinks the graph to its width.
const SIZE: (u32, u32) = (500, 340);
/// The height of a line of the title, and of one of the key.
const LINE: u32 = 20;
/// The width of the key, and the maximum length of names of which four fit beside each other instead of three.
const KEY_WIDTH: u32 = 474;
const KEY_NAME_SHORT: usize = 9;
/// Maximum share of the width for a line of the title. Fonts of browsers may be wider than the one that is measured.
const TITLE_MAX: f64 = 0.85;
/// PNG files have twice as many pixels, for screens and paper.
const PNG_SCALE: u32 = 2;
const FONT: &str = "sans-serif";
/// Minimum distance of two labels of an axis, as a share of its length.
const APART: f64 = 0.09;

/// Returns the colour of a gateway, which is the same in all graphs.
#[must_use]
pub(super) fn gateway_colour(name: &str) -> usize {
    match name {
        "tidegate" => 0,
        "nginx" => 1,
        "haproxy" => 2,
        "envoy" => 3,
        "synapse" => 4,
        "spring" => 5,
        "envoy-authz" => 7,
        "envoy-proc" => 8,
        "nginx-compiles" => 9,
        _ => 6,
    }
}

impl Chart {
    /// Returns true if it has no point.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }

    /// Returns the graph as SVG in the colours of the page, or `None` without points.
    ///
    /// # Errors
    ///
    /// If it cannot be drawn.
    pub fn svg(&self) -> Result<Option<String>> {
        if self.is_empty() {
            return Ok(None);
        }
        svg(self).map(Some)
    }

    /// Writes the graph as a PNG file. Returns false, and writes nothing, without points.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write_png(&self, folder: &Path) -> Result<bool> {
        if self.is_empty() {
            return Ok(false);
        }
        let (width, height) = (SIZE.0 * PNG_SCALE, SIZE.1 * PNG_SCALE);
        let mut pixels = vec![0; (width * height * 3) as usize];
        {
            let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
            register_font();
            area.fill(&WHITE).map_err(|error| anyhow!("{error}"))?;
            let grid = RGBColor(225, 225, 225);
            self.draw(&area, Pen { scale: PNG_SCALE, ink: BLACK, grid })?;
            area.present().map_err(|error| anyhow!("{error}"))?;
        }
        let file = folder.join(format!("{}.png", self.name));
        crate::folder::write_whole(&file, &png::encode(&pixels, width, height)?)?;
        Ok(true)
    }

    /// Returns the values of x that a logarithmic axis names: those of the points, without any so close to the one before that their
    /// labels would touch.
    fn log_labels(&self) -> Vec<f64> {
        let mut all: Vec<f64> =
            self.series.iter().flat_map(|one| &one.points).map(|(x, _)| x.ln()).collect();
        all.sort_by(f64::total_cmp);
        let apart = all.first().zip(all.last()).map_or(0.0, |(low, high)| (high - low) * APART);
        let mut labels: Vec<f64> = Vec::new();
        for x in all {
            if labels.last().is_none_or(|last| x - last > apart) {
                labels.push(x);
            }
        }
        labels.into_iter().map(f64::exp).collect()
    }

    /// Returns the title in lines that fit.
    fn title_lines<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        pen: Pen,
    ) -> Result<Vec<String>> {
        let told = |error: DrawingAreaErrorKind<B::ErrorType>| anyhow!("{}: {error}", self.title);
        let fits = f64::from(area.dim_in_pixel().0) * TITLE_MAX;
        let mut lines = vec![String::new()];
        for word in self.title.split(' ') {
            let line = lines.last().map_or("", String::as_str);
            let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
            let (width, _) = area.estimate_text_size(&longer, &pen.text(15)).map_err(told)?;
            if line.is_empty() || f64::from(width) <= fits {
                lines.pop();
                lines.push(longer);
            } else {
                lines.push(word.to_owned());
            }
        }
        Ok(lines)
    }

    /// Returns how many entries of the key fit beside each other.
    fn key_columns(&self) -> u32 {
        let are_short = self.series.iter().all(|series| series.name.len() <= KEY_NAME_SHORT);
        if are_short { 4 } else { 3 }
    }

    /// Draws the key above the axes, where it hides no point.
    fn draw_key<B: DrawingBackend>(&self, head: &DrawingArea<B, Shift>, pen: Pen) -> Result<()> {
        let told = |error: DrawingAreaErrorKind<B::ErrorType>| anyhow!("{}: {error}", self.title);
        let columns = self.key_columns();
        for (place, series) in self.series.iter().enumerate() {
            let place = u32::try_from(place).unwrap_or(0);
            let x = pen.px(16 + place % columns * (KEY_WIDTH / columns));
            let y = pen.px(LINE / 2 + place / columns * LINE);
            let colour = colour(series.colour);
            head.draw(&PathElement::new(
                vec![(x, y), (x + pen.px(22), y)],
                colour.stroke_width(2 * pen.scale),
            ))
            .map_err(told)?;
            mark(head, (x + pen.px(11), y), series.colour, pen).map_err(told)?;
            head.draw(&Text::new(
                series.name.clone(),
                (x + pen.px(28), y),
                pen.text(13).pos(Pos::new(HPos::Left, VPos::Center)),
            ))
            .map_err(told)?;
        }
        Ok(())
    }
}

/// The colours and the scale of a drawing.
#[derive(Clone, Copy)]
pub(super) struct Pen {
    /// Pixels of one unit of length.
    pub(super) scale: u32,
    /// Colour of texts and axes.
    pub(super) ink: RGBColor,
    /// Colour of the lines of the grid.
    grid: RGBColor,
}

impl Pen {
    /// Converts a length to pixels.
    pub(super) fn px(self, length: u32) -> i32 {
        i32::try_from(length * self.scale).unwrap_or(i32::MAX)
    }

    /// The style of a text of this size.
    pub(super) fn text(self, size: u32) -> TextStyle<'static> {
        (FONT, size * self.scale).into_font().color(&self.ink)
    }

    /// Styles the axes, their labels and the grid.
    pub(super) fn style<'m, 'a, 'b, X: Ranged, Y: Ranged, B: DrawingBackend>(
        self,
        mesh: &'m mut MeshStyle<'a, 'b, X, Y, B>,
    ) -> &'m mut MeshStyle<'a, 'b, X, Y, B> {
        mesh.bold_line_style(self.grid.stroke_width(self.scale))
            .light_line_style(TRANSPARENT)
            .axis_style(self.ink.stroke_width(self.scale))
            .label_style(self.text(13))
            .axis_desc_style(self.text(13))
    }
}

/// Something that can be drawn in any colours and at any scale.
pub(super) trait Drawing {
    /// The text for screen readers.
    fn title(&self) -> &str;
    /// Width and height.
    fn size(&self) -> (u32, u32);
    /// Draws it; lengths are multiplied by the pen's scale.
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, pen: Pen) -> Result<()>;
}

/// Returns a drawing as SVG in the colours of the page.
pub(super) fn svg(of: &impl Drawing) -> Result<String> {
    register_font();
    let (mut text, size) = (String::new(), of.size());
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        of.draw(&area, Pen { scale: 1, ink: INK, grid: GRID })?;
        area.present().map_err(|error| anyhow!("{error}"))?;
    }
    let sized = format!("width=\"{}\" height=\"{}\" ", size.0, size.1);
    let label = format!("role=\"img\" aria-label=\"{}\" ", super::table::escaped(of.title()));
    let text = text.replacen(&sized, &label, 1);
    Ok(text.replace("#010203", "currentColor").replace("#010204", "var(--grid)"))
}

impl Drawing for Chart {
    fn title(&self) -> &str {
        &self.title
    }

    fn size(&self) -> (u32, u32) {
        SIZE
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, pen: Pen) -> Result<()> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let low = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
        let high = points().map(|(x, _)| *x).fold(f64::NEG_INFINITY, f64::max);
        let top = points().map(|(_, y)| *y).fold(0.0, f64::max);
        let top = if top > 0.0 { top * 1.1 } else { 1.0 };
        let told = |error: DrawingAreaErrorKind<B::ErrorType>| anyhow!("{}: {error}", self.title);
        let mut below = area.clone();
        for line in self.title_lines(area, pen)? {
            let (head, rest) = below.split_vertically(LINE * pen.scale);
            let at = (pen.px(12), pen.px(4));
            head.draw(&Text::new(line, at, pen.text(15))).map_err(told)?;
            below = rest;
        }
        let series = u32::try_from(self.series.len()).unwrap_or(1);
        let key_height = (series.div_ceil(self.key_columns()) * LINE + 6) * pen.scale;
        let (key, body) = below.split_vertically(key_height);
        self.draw_key(&key, pen)?;
        let mut builder = ChartBuilder::on(&body);
        builder.margin(8 * pen.scale);
        builder.x_label_area_size(44 * pen.scale).y_label_area_size(66 * pen.scale);
        macro_rules! plot {
            ($chart:expr) => {{
                let mut chart = $chart.map_err(told)?;
                pen.style(&mut chart.configure_mesh())
                    .disable_x_mesh()
                    .x_desc(self.x.clone())
                    .y_desc(self.y.clone())
                    .x_labels(8)
                    .y_labels(6)
                    .x_label_formatter(&|x| short(*x))
                    .y_label_formatter(&|y| short(*y))
                    .draw()
                    .map_err(told)?;
                for series in &self.series {
                    let colour = colour(series.colour);
                    chart
                        .draw_series(LineSeries::new(
                            series.points.iter().copied(),
                            colour.stroke_width(2 * pen.scale),
                        ))
                        .map_err(told)?;
                    if series.points.len() <= 40 {
                        for (x, y) in &series.points {
                            let at = chart.backend_coord(&(*x, *y));
                            mark(area, at, series.colour, pen).map_err(told)?;
                        }
                    }
                }
            }};
        }
        if self.is_log && low > 0.0 && high > low {
            let x = (low * 0.9..high * 1.1).log_scale().with_key_points(self.log_labels());
            plot!(builder.build_cartesian_2d(x, 0.0..top));
        } else {
            plot!(builder.build_cartesian_2d(linear_range(low, high), 0.0..top));
        }
        Ok(())
    }
}

/// Returns the range of a linear axis: a little more than its points need, but nothing below zero if they are all above.
fn linear_range(low: f64, high: f64) -> std::ops::Range<f64> {
    let margin = if high > low { (high - low) * 0.02 } else { low.abs().max(1.0) * 0.5 };
    let from = low - margin;
    let from = if low >= 0.0 { from.max(0.0) } else { from };
    from..high + margin
}

/// Draws a circle, a square or a triangle, so that lines can be distinguished without colours.
fn mark<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    at: (i32, i32),
    place: usize,
    pen: Pen,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let (base_x, base_y) = area.get_base_pixel();
    let (x, y) = (at.0 - base_x * i32::from(at.0 < 0), at.1 - base_y * i32::from(at.1 < 0));
    let filled = colour(place).filled();
    match place % 3 {
        0 => area.draw(&Circle::new((x, y), 4 * pen.scale, filled)),
        1 => {
            let half = pen.px(4);
            area.draw(&Rectangle::new([(x - half, y - half), (x + half, y + half)], filled))
        }
        _ => area.draw(&TriangleMarker::new((x, y), 5 * pen.scale, filled)),
    }
}

pub(super) fn colour(place: usize) -> RGBColor {
    COLOURS.get(place % COLOURS.len()).copied().unwrap_or(INK)
}

/// Formats 1200 as 1.2k.
fn short(value: f64) -> String {
    let text = |value: f64| super::table::number(Some(value));
    match value.abs() {
        size if size >= 1e6 => format!("{}M", text(value / 1e6)),
        size if size >= 1e4 => format!("{}k", text(value / 1e3)),
        _ => text(value),
    }
}

/// Registers the font in the program, so that PNG files need no system font.
fn register_font() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let registered =
            plotters::style::register_font(FONT, FontStyle::Normal, notosans::REGULAR_TTF);
        debug_assert!(registered.is_ok());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ramps of a quick run take less than a second.
    #[test]
    fn an_axis_fits_its_points_and_names_each_once() {
        let range = linear_range(0.0, 0.67);
        assert!(range.start == 0.0 && range.end > 0.67 && range.end < 0.7, "{range:?}");
        assert_eq!(linear_range(10.0, 10.0), 5.0..15.0);
        assert_eq!(linear_range(0.0, 0.0), 0.0..0.5);
        assert!(linear_range(-2.0, 2.0).start < -2.0);
        let points = [1000.0, 2500.0, 5000.0, 9990.0, 10_000.0].map(|x| (x, 1.0)).to_vec();
        let one = Series { points, ..Series::default() };
        let chart = Chart { series: vec![one.clone(), one], ..Chart::default() };
        let labels: Vec<String> = chart.log_labels().into_iter().map(short).collect();
        assert_eq!(labels, ["1000", "2500", "5000", "9990"]);
        assert_eq!((short(-0.0), short(-0.001)), ("0".to_owned(), "0".to_owned()));
    }
}
