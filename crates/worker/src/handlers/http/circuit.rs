//! Circuit breakers: a worker stops calling an endpoint that fails repeatedly.
//!
//! Closed: calls pass, and consecutive failures are counted. Open: calls are rejected until the
//! cooldown ends. Then one call passes as a probe. Its success closes the circuit, its failure
//! opens it again. The state is lost with the process, which costs a few calls. Each tenant has
//! separate circuits, so that no tenant can block an endpoint for another tenant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sched_model::domain::handler_config::CircuitBreaker;
use uuid::Uuid;

/// Further endpoints have no breaker.
const MAX_ENDPOINTS: usize = 10_000;
/// Wait of other calls during a probe: the usual upper bound of a connect.
const PROBE_PAUSE: Duration = Duration::from_secs(5);

/// An endpoint without a failure for this long, and for twice its cooldown, is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// An endpoint, as seen by a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Endpoint {
    pub(super) tenant: Uuid,
    /// `https://host:port`.
    pub(super) origin: String,
}

/// Closed circuits without failures have no entry.
#[derive(Debug, Clone, Default)]
pub(super) struct Circuits(Arc<Mutex<HashMap<Endpoint, Circuit>>>);

#[derive(Debug, Clone, Copy)]
struct Circuit {
    failures: u32,
    failed_at: Instant,
    cooldown: Duration,
    opened: Option<Instant>,
    is_probing: bool,
}

/// A pass that is dropped without a report counts as neither success nor failure.
#[derive(Debug)]
pub(super) struct Pass {
    circuits: Circuits,
    endpoint: Endpoint,
    settings: CircuitBreaker,
    is_probe: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) rest: Duration,
}

impl Circuits {
    pub(super) fn enter(
        &self,
        endpoint: Endpoint,
        settings: CircuitBreaker,
        now: Instant,
    ) -> Result<Pass, Open> {
        let mut is_probe = false;
        if settings.failures > 0 {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(circuit) = all.get_mut(&endpoint)
                && let Some(opened) = circuit.opened
            {
                let cooldown = Duration::from_secs(settings.cooldown_seconds.into());
                let passed = now.saturating_duration_since(opened);
                if passed < cooldown {
                    return Err(Open { rest: cooldown - passed });
                }
                if circuit.is_probing {
                    return Err(Open { rest: PROBE_PAUSE });
                }
                circuit.is_probing = true;
                is_probe = true;
            }
        }
        Ok(Pass { circuits: self.clone(), endpoint, settings, is_probe })
    }

    pub(super) fn clean_up(&self, now: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.len();
        all.retain(|_, circuit| {
            let kept_for = FORGOTTEN_AFTER.max(circuit.cooldown * 2);
            circuit.is_probing || now.saturating_duration_since(circuit.failed_at) < kept_for
        });
        if all.len() < before {
            publish(&all);
        }
    }
}

/// No label for the endpoint: endpoints are many and belong to tenants.
fn publish(all: &HashMap<Endpoint, Circuit>) {
    let open = all.values().filter(|circuit| circuit.opened.is_some()).count();
    metrics::gauge!("sched_http_circuits_open").set(u32::try_from(open).map_or(f64::MAX, f64::from));
}

impl Pass {
    pub(super) fn succeeded(mut self) {
        let mut all = self.circuits.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = all.get(&self.endpoint).is_some_and(|circuit| circuit.opened.is_some());
        // The call may have begun before the circuit opened.
        if self.is_probe || !is_open {
            all.remove(&self.endpoint);
        }
        if self.is_probe {
            publish(&all);
            tracing::info!(http.endpoint = self.endpoint.origin, "endpoint works again; circuit closed");
        }
        drop(all);
        self.is_probe = false;
    }

    pub(super) fn failed(mut self, now: Instant) {
        if self.settings.failures == 0 {
            return;
        }
        let mut all = self.circuits.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_ENDPOINTS && !all.contains_key(&self.endpoint) {
            return;
        }
        let cooldown = Duration::from_secs(self.settings.cooldown_seconds.into());
        let circuit = all.entry(self.endpoint.clone()).or_insert(Circuit {
            failures: 0,
            failed_at: now,
            cooldown,
            opened: None,
            is_probing: false,
        });
        circuit.failures = circuit.failures.saturating_add(1);
        (circuit.failed_at, circuit.cooldown) = (now, cooldown);
        let opens = circuit.opened.is_none() && circuit.failures >= self.settings.failures;
        if self.is_probe || opens {
            circuit.opened = Some(now);
            circuit.is_probing = false;
            tracing::warn!(
                http.endpoint = self.endpoint.origin,
                failures = circuit.failures,
                cooldown_seconds = self.settings.cooldown_seconds,
                "endpoint fails repeatedly; circuit opened"
            );
            publish(&all);
        }
        drop(all);
        self.is_probe = false;
    }
}

impl Drop for Pass {
    /// The next call becomes the probe.
    fn drop(&mut self) {
        if self.is_probe {
            let mut all = self.circuits.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(circuit) = all.get_mut(&self.endpoint) {
                circuit.is_probing = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sched_runtime::monotonic_clock::monotonic;

    use super::*;

    const SETTINGS: CircuitBreaker = CircuitBreaker { failures: 3, cooldown_seconds: 30 };

    fn endpoint(origin: &str) -> Endpoint {
        Endpoint { tenant: Uuid::nil(), origin: origin.to_owned() }
    }

    fn enter(circuits: &Circuits, now: Instant) -> Result<Pass, Open> {
        circuits.enter(endpoint("https://a.b"), SETTINGS, now)
    }

    fn opened(now: Instant) -> Circuits {
        let circuits = Circuits::default();
        for _ in 0..3 {
            enter(&circuits, now).unwrap().failed(now);
        }
        circuits
    }

    #[test]
    fn consecutive_failures_open_and_a_probe_closes_the_circuit() {
        let now = monotonic();
        let seconds = |seconds| now + Duration::from_secs(seconds);
        let circuits = opened(now);
        assert_eq!(enter(&circuits, seconds(10)).unwrap_err(), Open { rest: Duration::from_secs(20) });
        let probe = enter(&circuits, seconds(30)).unwrap();
        assert_eq!(enter(&circuits, seconds(30)).unwrap_err(), Open { rest: PROBE_PAUSE });
        probe.succeeded();
        enter(&circuits, seconds(30)).unwrap().failed(seconds(30));
        assert!(enter(&circuits, seconds(30)).is_ok(), "one failure after it closed does not open it");
    }

    #[test]
    fn failed_probe_reopens_and_aborted_probe_frees_the_slot() {
        let now = monotonic();
        let later = now + Duration::from_secs(31);
        let circuits = opened(now);
        drop(enter(&circuits, later).unwrap());
        enter(&circuits, later).unwrap().failed(later);
        assert_eq!(enter(&circuits, later).unwrap_err(), Open { rest: Duration::from_secs(30) });
    }

    #[test]
    fn old_endpoints_are_forgotten_to_free_room() {
        let now = monotonic();
        let circuits = opened(now);
        let later = now + FORGOTTEN_AFTER;
        for n in 1..MAX_ENDPOINTS {
            circuits.enter(endpoint(&n.to_string()), SETTINGS, later).unwrap().failed(later);
        }
        let fail = |now: Instant| {
            (0..3).for_each(|_| {
                circuits.enter(endpoint("new"), SETTINGS, now).unwrap().failed(now);
            })
        };
        fail(later);
        assert!(
            circuits.enter(endpoint("new"), SETTINGS, later).is_ok(),
            "there are too many to remember it"
        );
        circuits.clean_up(later - Duration::from_secs(1));
        assert_eq!(circuits.0.lock().unwrap().len(), MAX_ENDPOINTS, "none is old enough");
        circuits.clean_up(later);
        fail(later);
        assert!(circuits.enter(endpoint("new"), SETTINGS, later).is_err(), "it has a breaker now");
        circuits.clean_up(later + FORGOTTEN_AFTER);
        assert!(circuits.0.lock().unwrap().is_empty());
    }

    #[test]
    fn success_resets_the_failure_count() {
        let now = monotonic();
        let circuits = Circuits::default();
        for _ in 0..10 {
            enter(&circuits, now).unwrap().failed(now);
            enter(&circuits, now).unwrap().failed(now);
            enter(&circuits, now).unwrap().succeeded();
        }
        assert!(enter(&circuits, now).is_ok());
    }

    #[test]
    fn late_success_does_not_close_the_circuit() {
        let now = monotonic();
        let circuits = Circuits::default();
        let late = enter(&circuits, now).unwrap();
        for _ in 0..3 {
            enter(&circuits, now).unwrap().failed(now);
        }
        late.succeeded();
        assert!(enter(&circuits, now).is_err());
        let of_other = Endpoint { tenant: Uuid::max(), ..endpoint("https://a.b") };
        assert!(circuits.enter(of_other, SETTINGS, now).is_ok(), "another tenant");
        assert!(circuits.enter(endpoint("https://c.d"), SETTINGS, now).is_ok(), "another endpoint");
        let off = CircuitBreaker { failures: 0, cooldown_seconds: 30 };
        assert!(circuits.enter(endpoint("https://a.b"), off, now).is_ok(), "a function without a breaker");
    }
}
