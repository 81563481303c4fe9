//! The processor time that PostgreSQL has used: all processes of the server, those that ended included.
//!
//! Read from `/proc`: for those that live what the scheduler of the kernel has counted, in nanoseconds; for those that ended what their
//! parent was told. Linux only.

use std::fs;

use anyhow::Context;

/// Ticks of the kernel's older counters in a second; fixed for all programs.
const TICKS: f64 = 100.0;

/// Seconds that the server with this process id has used so far.
pub(super) fn of_server(postmaster: i32) -> anyhow::Result<f64> {
    let mut seconds = ended(postmaster)?;
    for entry in fs::read_dir("/proc").context("failed to read /proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // One that ends just now is counted with its parent the next time.
        if (pid == postmaster || parent(pid) == Some(postmaster))
            && let Ok(counted) = fs::read_to_string(format!("/proc/{pid}/schedstat"))
        {
            let first = counted.split_whitespace().next();
            seconds += first.and_then(|text| text.parse::<f64>().ok()).unwrap_or_default() / 1e9;
        }
    }
    Ok(seconds)
}

/// Seconds of the children that have ended.
fn ended(pid: i32) -> anyhow::Result<f64> {
    let fields = stat(pid).context("failed to read the server's /proc entry")?;
    let ticks = |position: usize| -> f64 {
        fields.get(position).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default()
    };
    // cutime and cstime, the 16th and 17th field of the line; the first two are cut off.
    Ok((ticks(13) + ticks(14)) / TICKS)
}

fn parent(pid: i32) -> Option<i32> {
    stat(pid)?.get(1)?.parse().ok()
}

/// The fields after the name, which may hold anything.
fn stat(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_seen_in_the_time_of_its_process() {
        let pid = i32::try_from(std::process::id()).expect("a process id");
        let before = of_server(pid).expect("readable");
        let busy = (0..20_000_000_u64).fold(0_u64, |sum, n| std::hint::black_box(sum.wrapping_add(n * n)));
        assert_ne!(busy, 1);
        assert!(of_server(pid).expect("readable") >= before);
        assert!(parent(pid).is_some());
    }
}
