//! The processor time of PostgreSQL, including ended processes. Linux only.
//!
//! For running processes it comes from the scheduler of the kernel, in nanoseconds; for ended
//! processes from the counters of their parent.

use std::fs;

use anyhow::Context;

/// Ticks per second of the older counters of the kernel.
const TICKS: f64 = 100.0;

/// Processor seconds so far of the server with this process id.
pub(super) fn of_server(postmaster: i32) -> anyhow::Result<f64> {
    let mut seconds = ended(postmaster)?;
    for entry in fs::read_dir("/proc").context("failed to read /proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // A process that ends now is counted with its parent later.
        if (pid == postmaster || parent(pid) == Some(postmaster))
            && let Ok(counted) = fs::read_to_string(format!("/proc/{pid}/schedstat"))
        {
            let first = counted.split_whitespace().next();
            seconds += first.and_then(|text| text.parse::<f64>().ok()).unwrap_or_default() / 1e9;
        }
    }
    Ok(seconds)
}

/// Processor seconds of the ended children.
fn ended(pid: i32) -> anyhow::Result<f64> {
    let fields = stat(pid).context("failed to read the server's /proc entry")?;
    let ticks = |position: usize| -> f64 {
        fields.get(position).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default()
    };
    // cutime and cstime, fields 16 and 17; the first two are cut off.
    Ok((ticks(13) + ticks(14)) / TICKS)
}

fn parent(pid: i32) -> Option<i32> {
    stat(pid)?.get(1)?.parse().ok()
}

/// The fields after the name, which may contain any character.
fn stat(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_increases_the_processor_time_of_its_process() {
        let pid = i32::try_from(std::process::id()).expect("process ids fit into an i32");
        let before = of_server(pid).expect("readable");
        let busy = (0..20_000_000_u64).fold(0_u64, |sum, n| std::hint::black_box(sum.wrapping_add(n * n)));
        assert_ne!(busy, 1);
        assert!(of_server(pid).expect("readable") >= before);
        assert!(parent(pid).is_some());
    }
}
