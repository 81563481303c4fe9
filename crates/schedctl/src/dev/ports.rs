//! Ports of 127.0.0.1 for the daemons. Another process may take a free port a moment later; the
//! daemon then fails and restarts, on another port unless its port is fixed.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

#[derive(Debug, thiserror::Error)]
pub(crate) enum PortError {
    #[error("port {port} of 127.0.0.1 is not available for {user}; choose another with {flag}")]
    Taken {
        port: u16,
        user: &'static str,
        flag: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("there is no free port on 127.0.0.1")]
    None(#[source] io::Error),
}

/// `port` if it is free, any port for 0.
pub(super) fn for_api(port: u16) -> Result<u16, PortError> {
    if port == 0 {
        return free();
    }
    available(port, "the API", "--api-port, where 0 selects a free one")
}

/// `port` if it is free.
pub(super) fn available(port: u16, user: &'static str, flag: &'static str) -> Result<u16, PortError> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_listener) => Ok(port),
        Err(source) => Err(PortError::Taken { port, user, flag, source }),
    }
}

pub(super) fn free() -> Result<u16, PortError> {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(PortError::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_refused_with_the_way_out() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = for_api(port).unwrap_err().to_string();
        assert!(error.contains(&port.to_string()) && error.contains("--api-port"), "{error}");
        drop(taken);
        assert_eq!(for_api(port).unwrap(), port);
        assert_ne!(for_api(0).unwrap(), 0);
    }
}
