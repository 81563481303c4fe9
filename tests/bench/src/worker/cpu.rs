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

/// Processor seconds so far of all threads of a process, in steps of 10 ms.
pub(super) fn of_process(pid: i32) -> anyhow::Result<f64> {
    // utime and stime, fields 14 and 15; the first two are cut off.
    ticks(pid, 11)
}

/// Processor seconds of the ended children.
fn ended(pid: i32) -> anyhow::Result<f64> {
    // cutime and cstime, fields 16 and 17.
    ticks(pid, 13)
}

/// The sum of two adjacent counters of the kernel, in seconds.
fn ticks(pid: i32, position: usize) -> anyhow::Result<f64> {
    let fields = stat(pid).with_context(|| format!("failed to read /proc/{pid}/stat"))?;
    let both = fields.iter().skip(position).take(2);
    Ok(both.filter_map(|text| text.parse::<f64>().ok()).sum::<f64>() / TICKS)
}

fn parent(pid: i32) -> Option<i32> {
    stat(pid)?.get(1)?.parse().ok()
}

/// The fields of a line of `/proc/<pid>/stat` after the name, which may contain any character.
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
        assert!(of_process(pid).expect("readable") > 0.0);
        assert!(parent(pid).is_some());
    }
}
