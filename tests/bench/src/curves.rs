//! The plots of the figures. Each curve belongs to one plot of its suite.

use std::collections::BTreeMap;
use std::path::Path;

use plots::Plot;
use serde_json::{Value, json};

/// Maximal number of drawn points of a distribution, without its tail.
const DRAWN: usize = 2_000;
const TAIL: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shown {
    Lateness,
    Waits,
    History,
    Workers,
    Throughput,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    shown: Shown,
    name: String,
    points: Vec<(f64, f64)>,
}

impl Curve {
    pub(crate) fn through(shown: Shown, name: impl Into<String>, points: &[(f64, f64)]) -> Self {
        Self { shown, name: name.into(), points: points.to_vec() }
    }

    /// The distribution of single values, in milliseconds.
    pub(crate) fn distribution(shown: Shown, name: impl Into<String>, values: &[f64]) -> Self {
        Self { shown, name: name.into(), points: plots::distribution(values) }
    }

    /// One bar of a comparison, at its position from 1.
    pub(crate) fn bar(shown: Shown, name: impl Into<String>, (position, height): (f64, f64)) -> Self {
        Self { shown, name: name.into(), points: vec![(position, height)] }
    }

    pub(crate) fn json(&self) -> Value {
        json!({"plot": self.shown.file(), "name": self.name, "points": self.points})
    }
}

impl Shown {
    const fn file(self) -> &'static str {
        match self {
            Self::Lateness => "lateness",
            Self::Waits => "waits",
            Self::History => "history",
            Self::Workers => "workers",
            Self::Throughput => "throughput",
        }
    }

    fn plot(self) -> Plot {
        match self {
            Self::Lateness => Plot::new("Lateness of dispatches", "milliseconds, or less", "% of dispatches"),
            Self::Waits => Plot::new(
                "From the commit of a trigger to its handler",
                "milliseconds, or less",
                "% of triggers",
            ),
            Self::History => {
                Plot::new("Throughput with a long history", "finished dispatches", "dispatches per second")
            }
            Self::Workers => Plot::new("Throughput of a fleet", "worker processes", "dispatches per second"),
            Self::Throughput => Plot::new("Drain of a backlog, same machine and run", "", "jobs per second"),
        }
    }

    fn drawn(self, plot: Plot, curve: &Curve) -> Plot {
        match self {
            Self::Lateness | Self::Waits => plot.line(&curve.name, thinned(&curve.points)),
            Self::History | Self::Workers => plot.dots(&curve.name, curve.points.clone()),
            Self::Throughput => curve
                .points
                .iter()
                .fold(plot, |plot, (position, height)| plot.bar(&curve.name, *position, *height)),
        }
    }
}

pub(crate) fn draw<'a>(
    into: &Path,
    suite: &str,
    curves: impl IntoIterator<Item = &'a Curve>,
) -> anyhow::Result<Vec<String>> {
    let mut plots = BTreeMap::<Shown, Plot>::new();
    for curve in curves {
        let plot = plots.remove(&curve.shown).unwrap_or_else(|| curve.shown.plot());
        plots.insert(curve.shown, curve.shown.drawn(plot, curve));
    }
    let mut files = Vec::new();
    for (shown, plot) in plots {
        let file = format!("{suite}-{}.svg", shown.file());
        plot.write(&into.join(&file))?;
        files.push(file);
    }
    Ok(files)
}

/// Removes points that do not change the curve, except in the tail.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let every = (points.len() / DRAWN).max(1);
    let tail = points.len().saturating_sub(TAIL);
    let is_drawn = |position: usize| position.is_multiple_of(every) || position >= tail;
    points.iter().enumerate().filter(|(position, _)| is_drawn(*position)).map(|(_, point)| *point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Bar, Figure, Goal, Reference};

    #[test]
    fn compared_curves_share_a_plot_and_keep_their_tails() {
        let values: Vec<f64> = (0..50_000).map(f64::from).collect();
        let drawn = thinned(&plots::distribution(&values));
        assert!((DRAWN..DRAWN + 2 * TAIL).contains(&drawn.len()), "{} points", drawn.len());
        assert_eq!(drawn.last(), Some(&(49_999.0, 100.0)));

        let figure = |name: &str, curve| {
            Figure::new(
                name,
                "ms",
                &[1.0],
                Goal { reference: Reference::none("nothing"), bar: Bar::AtMost(1.0) },
            )
            .curve(curve)
        };
        let figures = [
            figure("a", Curve::distribution(Shown::Waits, "ours", &values)),
            figure("b", Curve::distribution(Shown::Waits, "theirs", &[1.0, 2.0])),
            figure("c", Curve::through(Shown::Workers, "drain", &[(1.0, 5.0), (2.0, 9.0)])),
        ];
        let folder = tempfile::tempdir().unwrap();
        let files = draw(folder.path(), "worker", figures.iter().flat_map(|figure| &figure.curves)).unwrap();
        assert_eq!(files, ["worker-waits.svg", "worker-workers.svg"]);
        let waits = std::fs::read_to_string(folder.path().join("worker-waits.svg")).unwrap();
        assert!(waits.contains("ours") && waits.contains("theirs"));
        assert_eq!(figures[2].json()["curves"][0]["points"][1][1], 9.0);
    }
}
