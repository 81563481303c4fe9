//! One claim: its queues, the number of runs of each, and the start of the next claim.
//!
//! One poller owns this state. If the poller dies, the next round is less fair. The database
//! decides which runs a claim takes ([`ClaimConnection`]).

pub(crate) mod fleet;
pub(crate) mod poller;
pub(crate) mod prefetch;
pub(crate) mod weights;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sched_model::domain::ids::TenantId;
use sched_runtime::monotonic_clock::monotonic;
use tokio::sync::OwnedSemaphorePermit;

use crate::attempt::counters;
use crate::attempt::executor::Attempt;
use crate::attempt::stops::Stops;
use crate::attempt::{in_place, result};
use crate::backend::{ClaimConnection, ClaimOutcome, ClaimRequest, Claimed, DbError};
use crate::claiming::weights::Group;
use crate::session::Session;

/// Pause after a claim from queues whose limits left no room. A notification ends it.
const LIMITED_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) enum ClaimResult {
    /// A run for every free slot.
    Full,
    /// Fewer runs than free slots.
    Partial {
        some: bool,
        /// Other workers had locked claimable runs.
        is_contended: bool,
        /// Time until a run is due, or the rate limit of its queue permits it.
        next_claimable: Option<Duration>,
    },
}

/// The state between two claims.
#[derive(Debug)]
pub(crate) struct Claiming {
    /// A claim may have taken effect without an answer, also one of a poller that died.
    is_unknown: bool,
    /// The latest claim left places free and found no run, except by
    /// [`ClaimConnection::claim_lone`].
    is_idle: bool,
    /// A notification has arrived since the latest claim.
    is_notified: bool,
    groups: Vec<Group>,
    /// The last tenant of the latest claim, per group.
    last: Vec<TenantId>,
    limited: Limited,
}

#[derive(Debug, Default)]
struct Limited {
    /// A run waited in one of them at the latest claim.
    is_waiting: bool,
    /// Pause of claims from them.
    not_before: Option<Instant>,
    /// A claim with a single place is theirs this time.
    has_turn: bool,
}

#[derive(Debug)]
struct Progress<'a> {
    /// The session that claims.
    session: &'a Session,
    places: Vec<OwnedSemaphorePermit>,
    found: usize,
    is_contended: bool,
    has_limited: bool,
    room_in: Option<Duration>,
    /// Time until a run that is not due yet becomes claimable.
    next_claimable: Option<Duration>,
}

impl Claiming {
    pub(crate) fn new(session: &Session) -> Self {
        let config = &session.worker.config;
        let groups = weights::groups(&config.queues, &config.queue_weights);
        // Workers that start together start with different tenants.
        let last = groups.iter().map(|_| TenantId(uuid::Uuid::new_v4())).collect();
        Self {
            is_unknown: true,
            is_idle: false,
            is_notified: false,
            groups,
            last,
            limited: Limited::default(),
        }
    }

    /// A run waits, or a queue at its limit may have room.
    pub(crate) fn notified(&mut self) {
        self.is_notified = true;
        self.limited.not_before = None;
    }

    /// The error may hide a claim that took effect. The next call first reads which attempts the
    /// database holds for this worker.
    pub(crate) async fn claim(
        &mut self,
        session: &Session,
        places: Vec<OwnedSemaphorePermit>,
    ) -> Result<ClaimResult, DbError> {
        let result = self.try_claim(session, places).await;
        let has_runs = !matches!(result, Ok(ClaimResult::Partial { some: false, .. }));
        session.trust.send_if_modified(|trust| match result {
            Ok(_) => trust.claim_ended(monotonic(), has_runs),
            Err(_) => trust.claim_failed(monotonic()),
        });
        result
    }

    async fn try_claim(
        &mut self,
        session: &Session,
        places: Vec<OwnedSemaphorePermit>,
    ) -> Result<ClaimResult, DbError> {
        let mut conn = session.worker.backend.claims().await?;
        if self.is_unknown {
            release_unknown(session, &mut conn).await?;
        }
        // From here on, any failure may hide a claim that took effect.
        self.is_unknown = true;
        let mut progress = Progress {
            session,
            places,
            found: 0,
            is_contended: false,
            has_limited: false,
            room_in: None,
            next_claimable: None,
        };
        if std::mem::take(&mut self.is_notified) && self.is_idle && progress.places.len() > 1 {
            self.take_lone(&mut conn, &mut progress).await?;
        }
        let lone = progress.found;
        let half = self.limited.share_of(progress.places.len());
        self.take_limited(&mut conn, &mut progress, half).await?;
        self.take_in_turn(&mut conn, &mut progress).await?;
        self.limited.is_waiting = progress.has_limited;
        let rest = if progress.has_limited { progress.places.len() } else { 0 };
        self.take_limited(&mut conn, &mut progress, rest).await?;
        let result = if progress.places.is_empty() {
            "full"
        } else if progress.found > 0 {
            "partial"
        } else {
            "empty"
        };
        metrics::counter!("sched_claims_total", "result" => result).increment(1);
        let claim_result = if progress.places.is_empty() {
            ClaimResult::Full
        } else {
            ClaimResult::Partial {
                some: progress.found > 0,
                is_contended: progress.is_contended,
                next_claimable: [progress.next_claimable, progress.room_in].into_iter().flatten().min(),
            }
        };
        self.is_idle = matches!(claim_result, ClaimResult::Partial { .. }) && progress.found == lone;
        self.is_unknown = false;
        Ok(claim_result)
    }

    /// No group pays for this run, because no other run waited.
    async fn take_lone(
        &mut self,
        conn: &mut ClaimConnection,
        progress: &mut Progress<'_>,
    ) -> Result<(), DbError> {
        let (session, sent_at) = (progress.session, monotonic());
        let (queues, lease_ms) = (&session.worker.config.queues, lease_of_claim(session));
        let looked = conn.claim_lone(session.id, queues, lease_ms).await?;
        metrics::histogram!("sched_claim_seconds").record(sent_at.elapsed().as_secs_f64());
        progress.start(looked, sent_at);
        Ok(())
    }

    /// Each group gets its share, until no run or no place is left.
    async fn take_in_turn(
        &mut self,
        conn: &mut ClaimConnection,
        progress: &mut Progress<'_>,
    ) -> Result<(), DbError> {
        let session = progress.session;
        let mut has_work = vec![true; self.groups.len()];
        while !progress.places.is_empty() && has_work.contains(&true) {
            let shares = weights::split(&mut self.groups, &has_work, progress.places.len());
            let groups = self.groups.iter_mut().zip(&mut self.last).zip(&mut has_work).zip(shares);
            for (((group, last), has_work), places) in groups.filter(|(_, places)| *places > 0) {
                let wanted = ClaimRequest {
                    worker: session.id,
                    queues: &group.queues,
                    limit: limit(places),
                    last: *last,
                    lease_ms: lease_of_claim(session),
                };
                let sent_at = monotonic();
                let looked = conn.claim(&wanted).await?;
                metrics::histogram!("sched_claim_seconds").record(sent_at.elapsed().as_secs_f64());
                *last = looked.last;
                progress.has_limited |= looked.has_limited;
                progress.is_contended |= looked.claimed.is_empty() && looked.shared_by > 0;
                // If one of several tenants had fewer runs than its share, another may have more.
                *has_work =
                    looked.claimed.len() == places || (looked.shared_by > 1 && !looked.claimed.is_empty());
                group.used(looked.claimed.len());
                progress.next_claimable =
                    [progress.next_claimable, looked.next_claimable].into_iter().flatten().min();
                progress.start(looked, sent_at);
            }
        }
        Ok(())
    }

    async fn take_limited(
        &mut self,
        conn: &mut ClaimConnection,
        progress: &mut Progress<'_>,
        mut places: usize,
    ) -> Result<(), DbError> {
        let session = progress.session;
        let queues = &session.worker.config.queues;
        while places > 0 && self.limited.not_before.is_none_or(|instant| instant <= monotonic()) {
            let last = TenantId(uuid::Uuid::nil());
            let lease_ms = lease_of_claim(session);
            let wanted = ClaimRequest { worker: session.id, queues, limit: limit(places), last, lease_ms };
            let sent_at = monotonic();
            let looked = conn.claim_limited(&wanted).await?;
            let claimed = looked.claimed.len();
            if claimed < places {
                progress.room_in = looked.room_in;
            }
            places = places.saturating_sub(claimed);
            if claimed == 0 {
                let pause = looked.room_in.map_or(LIMITED_PAUSE, |room_in| room_in.min(LIMITED_PAUSE));
                self.limited.not_before = Some(monotonic() + pause);
            }
            let may_have_more = looked.shared_by > 1;
            progress.start(looked, sent_at);
            if !may_have_more {
                break;
            }
        }
        Ok(())
    }
}

impl Limited {
    /// Places that these queues get first: half while a run waits in one, and a single place every
    /// other time.
    fn share_of(&mut self, places: usize) -> usize {
        if !self.is_waiting {
            return 0;
        }
        self.has_turn = !self.has_turn;
        if places == 1 { usize::from(self.has_turn) } else { places / 2 }
    }
}

impl Progress<'_> {
    fn start(&mut self, looked: ClaimOutcome, sent_at: Instant) {
        let claimed = looked.claimed;
        if looked.is_renewed {
            // Before the attempts start, which need the trust.
            self.session.trust.send_modify(|trust| trust.claim_renewed(sent_at, !claimed.is_empty()));
        }
        self.found += claimed.len();
        if claimed.is_empty() {
            return;
        }
        let attempts = attempts(self.session, claimed, &mut self.places);
        record(self.session, &attempts);
        in_place::start(attempts);
    }
}

fn lease_of_claim(session: &Session) -> Option<i32> {
    session.trust.borrow().lease_of_claim()
}

fn limit(places: usize) -> u32 {
    u32::try_from(places).unwrap_or(u32::MAX)
}

/// Releases attempts that the database holds for this worker and that the worker does not run.
async fn release_unknown(session: &Session, conn: &mut ClaimConnection) -> Result<(), DbError> {
    let worker = &session.worker;
    for attempt in conn.unknown(session.id, &worker.counters.running.tokens()).await? {
        tracing::warn!(run.id = %attempt.dispatch_id, job.name = attempt.job_name, "releasing a claim whose answer was lost");
        let known = counters::Attempt::over(attempt.dispatch_id, attempt.job_columns());
        worker.counters.running.insert([(attempt.token, known)]);
        worker.completer.send(None, result::released_unknown(&attempt), None).await;
    }
    Ok(())
}

/// One shared session for all attempts of a claim, and a place for each.
fn attempts(
    session: &Session,
    claimed: Vec<Claimed>,
    places: &mut Vec<OwnedSemaphorePermit>,
) -> Vec<Attempt> {
    let (session, received) = (Arc::new(session.clone()), monotonic());
    let release = Arc::new(session.release.clone());
    let attempt = |claimed| Attempt {
        session: session.clone(),
        claimed: Box::new(claimed),
        stops: Arc::new(Stops::new(release.clone())),
        place: places.pop(),
        received,
    };
    claimed.into_iter().map(attempt).collect()
}

/// Before the attempts start.
fn record(session: &Session, attempts: &[Attempt]) {
    let (worker, counters) = (&session.worker, &session.worker.counters);
    if let Some(first) = attempts.first() {
        worker.completer.expect(first.claimed.claim_id, attempts.len());
        worker.prefetch.claimed(attempts.len());
    }
    counters.running.insert(attempts.iter().map(|one| {
        let (id, job) = (one.claimed.dispatch_id, one.claimed.job.clone());
        (one.claimed.token, counters::Attempt::new(id, job, one.stops.clone()))
    }));
    for Attempt { claimed, .. } in attempts {
        if let Some(queue) = &claimed.limited_queue {
            counters.limited.insert(claimed.token, queue.clone());
        }
        let wait = (claimed.claimed_at - claimed.available_at).to_std().unwrap_or(Duration::ZERO);
        worker.meters.dispatch_wait.record(wait.as_secs_f64());
    }
}
