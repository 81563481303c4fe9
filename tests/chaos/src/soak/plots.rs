//! The plots of a soak: the samples over the minutes of the run. Decides nothing.

use std::path::Path;

use plots::{Plot, PlotError};

use super::samples::{HOT, Sample};
use crate::fleet::daemon_name;
use crate::plan::{Kind, count_of};

const MIB: f64 = 1024.0 * 1024.0;

pub(super) fn write(samples: &[Sample], into: &Path) -> Result<Vec<String>, PlotError> {
    let mut written = Vec::new();
    for (name, plot) in all(samples) {
        let file = format!("{name}.svg");
        shaded(plot, samples).write(&into.join(&file))?;
        written.push(file);
    }
    Ok(written)
}

fn all(samples: &[Sample]) -> Vec<(String, Plot)> {
    let line = |of: &dyn Fn(&Sample) -> f64| -> Vec<(f64, f64)> {
        samples.iter().map(|sample| (sample.seconds / 60.0, of(sample))).collect()
    };
    let mut plots = vec![
        (
            "claims".to_owned(),
            Plot::new("Claims (shaded: an old snapshot is held)", "minutes", "milliseconds")
                .line("p99", line(&|sample| sample.claims.quantile(0.99) * 1e3))
                .line("p50", line(&|sample| sample.claims.quantile(0.5) * 1e3)),
        ),
        (
            "lateness".to_owned(),
            Plot::new("Lateness of dispatches, faults included", "minutes", "milliseconds")
                .line("p99", line(&|sample| sample.lateness.quantile(0.99) * 1e3))
                .line("p50", line(&|sample| sample.lateness.quantile(0.5) * 1e3)),
        ),
        (
            "fires".to_owned(),
            Plot::new("Dispatches made, and rows removed by retention, per look", "minutes", "rows")
                .line("runs", line(&|sample| sample.lateness.count()))
                .line("removed", line(&|sample| sample.pruned)),
        ),
        (
            "sessions".to_owned(),
            Plot::new("Sessions of the database", "minutes", "sessions")
                .line("sessions", line(&|sample| sample.sessions.map_or(f64::NAN, |count| count as f64))),
        ),
    ];
    for kind in [Kind::Api, Kind::Scheduler, Kind::Worker] {
        let (mut memory, mut files) = (
            Plot::new(&format!("Resident memory: {}", daemon_name(kind)), "minutes", "MiB"),
            Plot::new(&format!("Open files: {}", daemon_name(kind)), "minutes", "files"),
        );
        for number in 0..count_of(kind) {
            let name = format!("{}-{number}", daemon_name(kind));
            let process = |sample: &Sample| sample.daemons.iter().find(|one| one.name == name).cloned();
            memory = memory
                .line(&name, line(&|sample| process(sample).map_or(f64::NAN, |one| one.resident / MIB)));
            files = files.line(&name, line(&|sample| process(sample).map_or(f64::NAN, |one| one.files)));
        }
        // Without data from the kernel there is nothing to plot.
        if samples.iter().any(|sample| sample.daemons.iter().any(|one| one.kind == kind)) {
            plots.push((format!("memory-{}", daemon_name(kind)), memory));
            plots.push((format!("files-{}", daemon_name(kind)), files));
        }
    }
    let (mut sizes, mut dead) = (
        Plot::new("Sizes of hot tables with their indexes", "minutes", "MiB"),
        Plot::new("Dead rows of hot tables", "minutes", "rows"),
    );
    for name in HOT {
        let table = |sample: &Sample| sample.tables.iter().find(|one| one.name == name).cloned();
        sizes = sizes.line(name, line(&|sample| table(sample).map_or(f64::NAN, |one| one.bytes / MIB)));
        dead = dead.line(name, line(&|sample| table(sample).map_or(f64::NAN, |one| one.dead)));
    }
    plots.push(("sizes".to_owned(), sizes));
    plots.push(("dead-rows".to_owned(), dead));
    plots
}

fn shaded(plot: Plot, samples: &[Sample]) -> Plot {
    let held = || samples.iter().filter(|sample| sample.has_old_snapshot).map(|sample| sample.seconds / 60.0);
    match (held().next(), held().next_back()) {
        (Some(first), Some(last)) => plot.span(first, last),
        _ => plot,
    }
}
