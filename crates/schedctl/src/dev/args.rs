//! The command line of `dev`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::ports::{PortError, available};
use crate::values::{duration, whole, within};

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Jobs file to apply after the start; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) apply: Vec<PathBuf>,
    /// Wait until every job of the applied files has succeeded, or one has failed without a retry
    /// left; then stop and exit
    #[arg(long, requires = "apply")]
    pub(crate) once: bool,
    /// Maximum wait of --once
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = duration)]
    pub(crate) once_timeout: Duration,
    /// Port of the API on 127.0.0.1; 0 selects a free one
    #[arg(long, value_name = "PORT", env = "API_PORT", default_value_t = 8080, value_parser = whole::<u16>)]
    pub(crate) api_port: u16,
    /// Port of the health and metrics of the scheduler on 127.0.0.1; default: a free one at each start
    #[arg(long, value_name = "PORT", value_parser = within(1_u16, u16::MAX))]
    pub(crate) scheduler_health_port: Option<u16>,
    /// The same for the worker; further workers take the ports that follow
    #[arg(long, value_name = "PORT", value_parser = within(1_u16, u16::MAX))]
    pub(crate) worker_health_port: Option<u16>,
    /// Number of worker processes
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = within(1_u16, 32))]
    pub(crate) workers: u16,
    /// Worker program to run instead of sched-worker, such as one with native handlers
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) worker_program: Option<PathBuf>,
    /// Maximum concurrent attempts of each worker
    #[arg(long, value_name = "COUNT", env = "WORKER_CONCURRENCY", default_value_t = 10, value_parser = within(1_u16, 1000))]
    pub(crate) concurrency: u16,
    /// Log level of the daemons: off, error, warn, info, debug, trace, or target=level (default
    /// warn)
    #[arg(long, value_name = "LEVEL", env = "LOG_LEVEL")]
    pub(crate) log_level: Option<String>,
    /// Same as --log-level info
    #[arg(long, short, conflicts_with = "log_level")]
    pub(crate) verbose: bool,
    /// Remove the data of earlier starts first
    #[arg(long)]
    pub(crate) reset: bool,
    /// Skip the confirmation before data is removed
    #[arg(long, short)]
    pub(crate) yes: bool,
}

impl DevArgs {
    /// Otherwise a daemon would restart for ever.
    pub(super) fn check_health_ports(&self) -> Result<(), PortError> {
        if let Some(port) = self.scheduler_health_port {
            available(port, "the health of the scheduler", "--scheduler-health-port")?;
        }
        for number in 0..self.worker_health_port.map_or(0, |_| self.workers) {
            let port = self.worker_health_port.unwrap_or_default().saturating_add(number);
            available(port, "the health of a worker", "--worker-health-port")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct TestCli {
        #[command(flatten)]
        args: DevArgs,
    }

    #[test]
    fn taken_health_port_is_refused_with_its_flag() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port().to_string();
        for flag in ["--scheduler-health-port", "--worker-health-port"] {
            let cli = TestCli::try_parse_from(["dev", flag, &port]).unwrap();
            let error = cli.args.check_health_ports().unwrap_err().to_string();
            assert!(error.contains(&port) && error.contains(flag), "{error}");
        }
        let cli = TestCli::try_parse_from(["dev"]).unwrap();
        assert!(cli.args.check_health_ports().is_ok());
    }
}
