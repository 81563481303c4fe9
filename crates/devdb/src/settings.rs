//! Server settings of both kinds of cluster, given on the command line: the data folder has no
//! special configuration.

use crate::Durability;

/// A small server with UTC and without replication.
const COMMON: [&str; 7] = [
    "wal_level=minimal",
    "max_wal_senders=0",
    "TimeZone=UTC",
    "log_timezone=UTC",
    "log_line_prefix=%m [%p] %d ",
    // Avoids a line every five minutes.
    "log_checkpoints=off",
    "unix_socket_permissions=0700",
];

/// Defaults, stated because completions must survive a power cut with any template.
const DURABLE: [&str; 5] = [
    "fsync=on",
    "full_page_writes=on",
    "synchronous_commit=on",
    "shared_buffers=128MB",
    "max_wal_size=512MB",
];

/// A throw-away cluster is not needed after a crash.
const THROW_AWAY: [&str; 5] = [
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "shared_buffers=64MB",
    // A later vacuum would disturb the timings of tests.
    "autovacuum_naptime=30s",
];

pub(crate) fn all(durability: Durability, max_connections: u16, loopback: bool) -> Vec<String> {
    let own = match durability {
        Durability::Durable => DURABLE,
        Durability::ThrowAway => THROW_AWAY,
    };
    let mut settings: Vec<String> = COMMON.iter().chain(&own).map(ToString::to_string).collect();
    settings.push(format!("max_connections={max_connections}"));
    settings.push(format!("listen_addresses={}", if loopback { "127.0.0.1" } else { "" }));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durable_cluster_never_trades_durability_for_speed() {
        let settings = all(Durability::Durable, 200, false);
        for needed in ["fsync=on", "full_page_writes=on", "synchronous_commit=on"] {
            assert!(settings.iter().any(|setting| setting == needed), "{needed} is missing in {settings:?}");
        }
    }

    #[test]
    fn nothing_listens_on_tcp_unless_asked_for() {
        assert!(all(Durability::ThrowAway, 10, false).contains(&"listen_addresses=".to_owned()));
        assert!(all(Durability::ThrowAway, 10, true).contains(&"listen_addresses=127.0.0.1".to_owned()));
    }
}
