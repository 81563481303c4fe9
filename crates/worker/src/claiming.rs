//! One look for work: from which queues, how much of each, and where the next look begins.
//!
//! Owned by one poller and forgotten with it: losing it costs fairness for the length of one round. What a look takes is decided in the
//! database ([`claims`]); here lies only what connects one look with the next: the tenant with which the last one ended, what groups of
//! queues with different weights are owed ([`crate::claiming::weights`]), and when queues with limits are worth asking again.

pub(crate) mod poller;
pub(crate) mod prefetch;
pub(crate) mod weights;

use std::time::{Duration, Instant};

use sched_model::domain::ids::TenantId;
use sched_model::running::claims::{self, Claimed, Wanted};
use sched_model::{Conn, DbError, recovery::dead_workers};
use sched_runtime::monotonic_clock::monotonic;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::attempt::executor;
use crate::claiming::weights::Group;
use crate::session::Session;

/// Queues whose limits left no room are asked again no sooner than this, unless a notification says that there is some.
const LIMITED_PAUSE: Duration = Duration::from_millis(100);

/// What a look for work gave.
#[derive(Debug)]
pub(crate) enum Look {
    /// Work for every free slot.
    Full,
    /// Less.
    Found {
        /// Whether there was any.
        some: bool,
        /// Whether others were about to take what was there.
        is_contended: bool,
        /// When something becomes claimable: a dispatch that waits for its time, or a queue whose rate was exhausted.
        next_claimable: Option<Duration>,
    },
}

/// What one look leaves for the next.
#[derive(Debug)]
pub(crate) struct Claiming {
    /// Whether a claim may have taken effect without our knowing. A poller before this one may have died in the middle of one.
    is_unknown: bool,
    /// The last look left places and found nothing, but for what [`claims::claim_lone`] had taken before it.
    is_idle: bool,
    /// A notification came since.
    is_told: bool,
    groups: Vec<Group>,
    /// For each group the tenant with which its last claim ended.
    last: Vec<TenantId>,
    limited: Limited,
}

/// Queues with limits.
#[derive(Debug, Default)]
struct Limited {
    /// Something waited in one at the last look.
    is_waiting: bool,
    /// Not worth asking before.
    not_before: Option<Instant>,
    /// Whether the single place of a look is theirs this time.
    has_turn: bool,
}

/// What remains of a look, and what it saw so far.
#[derive(Debug)]
struct Progress {
    places: Vec<OwnedSemaphorePermit>,
    /// How many dispatches were claimed.
    found: usize,
    is_contended: bool,
    has_limited: bool,
    room_in: Option<Duration>,
}

impl Claiming {
    pub(crate) fn new(session: &Session) -> Self {
        let config = &session.worker.config;
        let groups = weights::groups(&config.queues, &config.queue_weights);
        // Workers that start together begin at different tenants.
        let last = groups.iter().map(|_| TenantId(uuid::Uuid::new_v4())).collect();
        Self { is_unknown: true, is_idle: false, is_told: false, groups, last, limited: Limited::default() }
    }

    /// A notification came: something waits, or there may be room in a queue whose limit was reached.
    pub(crate) fn woken(&mut self) {
        self.is_told = true;
        self.limited.not_before = None;
    }

    /// Claims for these places and starts what it got.
    ///
    /// # Errors
    /// When the database cannot be asked. The next look then asks first what it holds for us.
    pub(crate) async fn look(
        &mut self,
        session: &Session,
        places: Vec<OwnedSemaphorePermit>,
    ) -> Result<Look, DbError> {
        let mut conn = session.worker.database.conn().await?;
        if self.is_unknown {
            hand_back_unknown(session, &mut conn).await?;
        }
        // Whatever goes wrong from here, a claim may have been on its way.
        self.is_unknown = true;
        let mut progress =
            Progress { places, found: 0, is_contended: false, has_limited: false, room_in: None };
        if std::mem::take(&mut self.is_told) && self.is_idle && progress.places.len() > 1 {
            self.take_lone(session, &mut conn, &mut progress).await?;
        }
        let lone = progress.found;
        let half = self.limited.share_of(progress.places.len());
        self.take_limited(session, &mut conn, &mut progress, half).await?;
        self.take_in_turn(session, &mut conn, &mut progress).await?;
        self.limited.is_waiting = progress.has_limited;
        let rest = if progress.has_limited { progress.places.len() } else { 0 };
        self.take_limited(session, &mut conn, &mut progress, rest).await?;
        let result = if progress.places.is_empty() {
            "full"
        } else if progress.found > 0 {
            "partial"
        } else {
            "empty"
        };
        metrics::counter!("sched_claims_total", "result" => result).increment(1);
        let look = if progress.places.is_empty() {
            Look::Full
        } else {
            // The places are free for what is claimed ahead meanwhile.
            progress.places.clear();
            let retry = claims::next_claimable(&mut conn, &session.worker.config.queues).await?;
            let next_claimable = [retry, progress.room_in].into_iter().flatten().min();
            Look::Found { some: progress.found > 0, is_contended: progress.is_contended, next_claimable }
        };
        self.is_idle = matches!(look, Look::Found { .. }) && progress.found == lone;
        self.is_unknown = false;
        Ok(look)
    }

    /// Claims what stands alone in line, which is soon done; the look that follows finds the rest. No group of queues is charged for it, since
    /// nothing of any other waited.
    async fn take_lone(
        &mut self,
        session: &Session,
        conn: &mut Conn,
        progress: &mut Progress,
    ) -> Result<(), DbError> {
        let asked_at = monotonic();
        let claimed = claims::claim_lone(conn, session.id, &session.worker.config.queues).await?;
        metrics::histogram!("sched_claim_seconds").record(asked_at.elapsed().as_secs_f64());
        progress.start(session, claimed.into_iter().collect());
        Ok(())
    }

    /// Claims from the queues without limits, each group its part, until nothing is left or all places are taken.
    async fn take_in_turn(
        &mut self,
        session: &Session,
        conn: &mut Conn,
        progress: &mut Progress,
    ) -> Result<(), DbError> {
        let mut has_work = vec![true; self.groups.len()];
        while !progress.places.is_empty() && has_work.contains(&true) {
            let dealt = weights::deal(&mut self.groups, &has_work, progress.places.len());
            let groups = self.groups.iter_mut().zip(&mut self.last).zip(&mut has_work).zip(dealt);
            for (((group, last), has_work), places) in groups.filter(|(_, places)| *places > 0) {
                let wanted =
                    Wanted { worker: session.id, queues: &group.queues, limit: most(places), last: *last };
                let asked_at = monotonic();
                let looked = claims::look(conn, &wanted).await?;
                metrics::histogram!("sched_claim_seconds").record(asked_at.elapsed().as_secs_f64());
                *last = looked.last;
                progress.has_limited |= looked.has_limited;
                progress.is_contended |= looked.claimed.is_empty() && looked.shared_by > 0;
                // Where several tenants shared and some had less than their share, others may have more.
                *has_work =
                    looked.claimed.len() == places || (looked.shared_by > 1 && !looked.claimed.is_empty());
                group.used(looked.claimed.len());
                progress.start(session, looked.claimed);
            }
        }
        Ok(())
    }

    /// Claims up to `places` from the queues with limits, if they are worth asking.
    async fn take_limited(
        &mut self,
        session: &Session,
        conn: &mut Conn,
        progress: &mut Progress,
        mut places: usize,
    ) -> Result<(), DbError> {
        let queues = &session.worker.config.queues;
        while places > 0 && self.limited.not_before.is_none_or(|instant| instant <= monotonic()) {
            let last = TenantId(uuid::Uuid::nil());
            let wanted = Wanted { worker: session.id, queues, limit: most(places), last };
            let looked = claims::claim_limited(conn, &wanted).await?;
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
            progress.start(session, looked.claimed);
            if !may_have_more {
                break;
            }
        }
        Ok(())
    }
}

impl Limited {
    /// How many of so many places queues with limits get before the others: half of them while something waits in one, and one place
    /// every other time.
    fn share_of(&mut self, places: usize) -> usize {
        if !self.is_waiting {
            return 0;
        }
        self.has_turn = !self.has_turn;
        if places == 1 { usize::from(self.has_turn) } else { places / 2 }
    }
}

impl Progress {
    /// Starts what was claimed, each in a place.
    fn start(&mut self, session: &Session, claimed: Vec<Claimed>) {
        self.found += claimed.len();
        note(session, &claimed);
        for dispatch in claimed {
            executor::start(session, dispatch, self.places.pop());
        }
    }
}

fn most(places: usize) -> u32 {
    u32::try_from(places).unwrap_or(u32::MAX)
}

/// Hands back what the database holds for us and we know nothing of.
async fn hand_back_unknown(session: &Session, conn: &mut Conn) -> Result<(), DbError> {
    let worker = &session.worker;
    for attempt in dead_workers::unknown_claims(conn, session.id, &worker.seen.running.tokens()).await? {
        tracing::warn!(dispatch.id = %attempt.dispatch_id, job.name = attempt.job_name, "A claim whose answer was lost is handed back.");
        let never_run = CancellationToken::new();
        worker.seen.running.insert(attempt.token, attempt.dispatch_id, attempt.job_name.clone(), never_run);
        worker.seen.running.over(attempt.token);
        worker.completer.send(None, executor::never_started(&attempt), None).await;
    }
    Ok(())
}

fn note(session: &Session, claimed: &[Claimed]) {
    let worker = &session.worker;
    if let Some(first) = claimed.first() {
        worker.completer.expect(first.claim_id, claimed.len());
        worker.pace.claimed(claimed.len());
    }
    for dispatch in claimed {
        let (token, id, job) = (dispatch.token, dispatch.dispatch_id, dispatch.job_name.clone());
        worker.seen.running.insert(token, id, job, session.hand_back.child_token());
        if let Some(queue) = &dispatch.limited_queue {
            worker.seen.limited.insert(token, queue.clone());
        }
        let wait = (dispatch.claimed_at - dispatch.available_at).to_std().unwrap_or(Duration::ZERO);
        metrics::histogram!("sched_dispatch_wait_seconds").record(wait.as_secs_f64());
    }
}
