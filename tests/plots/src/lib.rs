//! Plots of measurements as SVG: lines and dots over one axis, bounds as dashed lines, spans of
//! time as shades.
//!
//! All plots use `plotters` through this crate and look alike. Values that are not numbers are
//! omitted. A file is written as a whole after drawing: a program that dies leaves the previous
//! file or none.

use std::fs;
use std::path::{Path, PathBuf};

use plotters::prelude::*;

const SIZE: (u32, u32) = (960, 480);
/// Space above the largest value, as a share of it.
const ROOM: f64 = 1.12;
const ROOM_OF_BARS: f64 = 1.6;
/// Half of the width of a bar; positions are 1 apart.
const HALF_BAR: f64 = 0.35;
/// Colours for colour-blind readers (Okabe and Ito), one series after the other.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
];
const SHADE: RGBColor = RGBColor(128, 128, 128);
const FONT: &str = "sans-serif";

#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    #[error("{0}: there is nothing to plot")]
    Empty(String),
    #[error("failed to draw {title}: {reason}")]
    Draw { title: String, reason: String },
    #[error("failed to write {}", .0.display())]
    Write(PathBuf, #[source] std::io::Error),
}

#[derive(Debug, Clone)]
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    mark: Mark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Line,
    Dots,
    Bar,
}

#[derive(Debug, Clone)]
pub struct Plot {
    title: String,
    x: String,
    y: String,
    series: Vec<Series>,
    levels: Vec<(String, f64)>,
    spans: Vec<(f64, f64)>,
}

impl Plot {
    /// Both axes begin at zero.
    #[must_use]
    pub fn new(title: &str, x: &str, y: &str) -> Self {
        let (title, x, y) = (title.to_owned(), x.to_owned(), y.to_owned());
        Self { title, x, y, series: Vec::new(), levels: Vec::new(), spans: Vec::new() }
    }

    #[must_use]
    pub fn line(mut self, name: &str, points: Vec<(f64, f64)>) -> Self {
        self.add(name, points, Mark::Line);
        self
    }

    /// Marks each point; for few points.
    #[must_use]
    pub fn dots(mut self, name: &str, points: Vec<(f64, f64)>) -> Self {
        self.add(name, points, Mark::Dots);
        self
    }

    /// A bar from zero at a position of the horizontal axis. Positions count from 1; the legend has
    /// the name and the height.
    #[must_use]
    pub fn bar(mut self, name: &str, position: f64, height: f64) -> Self {
        self.add(&format!("{name}: {}", number(height)), vec![(position, height)], Mark::Bar);
        self
    }

    /// A bound: a dashed line at a height.
    #[must_use]
    pub fn level(mut self, name: &str, height: f64) -> Self {
        self.levels.push((name.to_owned(), height));
        self
    }

    #[must_use]
    pub fn span(mut self, from: f64, until: f64) -> Self {
        self.spans.push((from, until));
        self
    }

    fn add(&mut self, name: &str, mut points: Vec<(f64, f64)>, mark: Mark) {
        points.retain(|(x, y)| x.is_finite() && y.is_finite());
        if !points.is_empty() {
            self.series.push(Series { name: name.to_owned(), points, mark });
        }
    }

    /// Draws the plot and writes it to a file.
    ///
    /// # Errors
    /// If no series has a point, drawing fails, or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), PlotError> {
        fs::write(path, self.svg()?).map_err(|error| PlotError::Write(path.to_owned(), error))
    }

    /// # Errors
    /// If no series has a point, or drawing fails.
    pub fn svg(&self) -> Result<String, PlotError> {
        if self.series.is_empty() {
            return Err(PlotError::Empty(self.title.clone()));
        }
        let mut text = String::new();
        self.draw(&mut text)
            .map_err(|error| PlotError::Draw { title: self.title.clone(), reason: error.to_string() })?;
        Ok(text)
    }

    fn draw(&self, text: &mut String) -> Result<(), Box<dyn std::error::Error + '_>> {
        let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let (width, height) = self.extent();
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, (FONT, 24))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(72)
            .build_cartesian_2d(0.0..width, 0.0..height)?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            // The positions of bars have no meaning.
            .x_label_formatter(&|x| if self.has_bars() { String::new() } else { number(*x) })
            .y_label_formatter(&|y| number(*y))
            .light_line_style(TRANSPARENT)
            .label_style((FONT, 16))
            .axis_desc_style((FONT, 18))
            .draw()?;
        let shades = self.spans.iter().map(|(from, until)| {
            Rectangle::new([(from.max(0.0), 0.0), (until.min(width), height)], SHADE.mix(0.18).filled())
        });
        chart.draw_series(shades)?;
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let style = colour.stroke_width(2);
            if series.mark == Mark::Bar {
                let bars = series
                    .points
                    .iter()
                    .map(|(x, y)| Rectangle::new([(x - HALF_BAR, 0.0), (x + HALF_BAR, *y)], colour.filled()));
                chart
                    .draw_series(bars)?
                    .label(&series.name)
                    .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 18, y + 5)], colour.filled()));
                continue;
            }
            chart
                .draw_series(LineSeries::new(series.points.iter().copied(), style))?
                .label(&series.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
            if series.mark == Mark::Dots {
                chart
                    .draw_series(series.points.iter().map(|point| Circle::new(*point, 4, colour.filled())))?;
            }
        }
        for (name, at) in &self.levels {
            let dashed = DashedLineSeries::new([(0.0, *at), (width, *at)], 8, 5, RED.stroke_width(1));
            chart
                .draw_series(dashed)?
                .label(name)
                .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], RED));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(SHADE)
            .label_font((FONT, 16))
            .draw()?;
        area.present()?;
        drop(chart);
        Ok(())
    }

    fn has_bars(&self) -> bool {
        self.series.iter().any(|series| series.mark == Mark::Bar)
    }

    fn extent(&self) -> (f64, f64) {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let width = points().map(|(x, _)| *x).fold(0.0, f64::max);
        let height = points().map(|(_, y)| *y).chain(self.levels.iter().map(|(_, at)| *at));
        // The legend covers the upper part of the first bars.
        let room = if self.has_bars() { ROOM_OF_BARS } else { ROOM };
        let width = if self.has_bars() { width + 1.0 } else { width };
        let height = height.fold(0.0, f64::max) * room;
        // If everything is zero, there is still an axis.
        let axis = |length: f64| if length > 0.0 { length } else { 1.0 };
        (axis(width), axis(height))
    }
}

/// The distribution as a line: for each value, the percentage of values that do not exceed it.
#[must_use]
pub fn distribution(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let at_most = |(value, position): (f64, f64)| (value, 100.0 * position / count);
    sorted.into_iter().zip((1_u32..).map(f64::from)).map(at_most).collect()
}

fn number(value: f64) -> String {
    let rounded = |value: f64| {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match value.abs() {
        size if size >= 1e9 => format!("{} G", rounded(value / 1e9)),
        size if size >= 1e6 => format!("{} M", rounded(value / 1e6)),
        size if size >= 1e4 => format!("{} k", rounded(value / 1e3)),
        size if size >= 0.01 || size == 0.0 => rounded(value),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plot_shows_its_names_and_is_reproducible() {
        let plot = Plot::new("Lateness < 1 s", "minutes", "ms")
            .line("p99", vec![(0.0, 1.0), (1.0, 2.0)])
            .dots("p50", vec![(0.0, 0.5), (1.0, 0.7)])
            .level("the bound", 3.0)
            .span(0.2, 0.4);
        let svg = plot.svg().unwrap();
        for text in ["Lateness &lt; 1 s", "minutes", "p99", "p50", "the bound"] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
        assert!(svg.trim_end().ends_with("</svg>"), "{svg}");
        assert_eq!(svg, plot.svg().unwrap());
    }

    #[test]
    fn empty_series_and_nan_are_not_plotted() {
        let plot = Plot::new("empty", "x", "y").line("a", vec![(0.0, f64::NAN)]);
        assert!(matches!(plot.svg(), Err(PlotError::Empty(title)) if title == "empty"));
        assert!(Plot::new("zero", "x", "y").line("a", vec![(0.0, 0.0)]).svg().is_ok());
    }

    #[test]
    fn distribution_ends_at_the_largest_value() {
        assert_eq!(
            distribution(&[3.0, 1.0, f64::NAN, 2.0, 2.0]),
            [(1.0, 25.0), (2.0, 50.0), (2.0, 75.0), (3.0, 100.0)]
        );
        assert!(distribution(&[]).is_empty());
    }

    #[test]
    fn bars_show_their_names_and_heights() {
        let plot =
            Plot::new("Throughput", "", "per second").bar("ours", 1.0, 50_000.0).bar("theirs", 2.0, 40_000.0);
        let svg = plot.svg().unwrap();
        assert!(svg.contains("ours: 50 k") && svg.contains("theirs: 40 k"), "{svg}");
    }

    #[test]
    fn labels_are_short() {
        let labels: Vec<String> =
            [0.0, 0.05, 2.5, 250.0, 15_000.0, 1e7, 2.5e9].into_iter().map(number).collect();
        assert_eq!(labels, ["0", "0.05", "2.5", "250", "15 k", "10 M", "2.5 G"]);
    }
}
