//! One heartbeat and its answer: renewed, step-down, replaced, declared dead, or doubt about the
//! clock.
//!
//! A certain loss stops the lead here; the caller gives up a term or takes over.

use std::time::Instant;

use chrono::{DateTime, Utc};
use sched_model::cluster::leadership::{self, Heartbeat};
use sched_model::domain::clock_jump::Reading;
use sched_model::{Conn, DbError};
use sched_runtime::monotonic_clock::{monotonic, wall};

use super::{Leadership, Loss, Next, vitals};
use crate::leader_scope::failing_tasks;

impl Leadership {
    /// Sends a heartbeat, as part of a try that began at `sent_at`, and reads the answer.
    pub(super) async fn heartbeat(&mut self, conn: &mut Conn, sent_at: Instant) -> Result<Next, DbError> {
        let clock_offset = self.vitals.borrow().clock_offset.map(vitals::seconds);
        let (sent, wall) = (monotonic(), DateTime::<Utc>::from(wall()));
        let failing = failing_tasks(&self.work.borrow());
        let heartbeat = leadership::heartbeat(conn, self.instance.id, clock_offset, &failing).await?;
        let Heartbeat::Recorded { term, leader_since, step_down, at } = heartbeat else {
            self.is_registered = false;
            self.stand_down(Loss::TakenForDead);
            return Ok(Next::Rest);
        };
        let reading = Reading { sent, received: monotonic(), database: at };
        let is_steady = self.observe_clock(reading, wall);
        self.publish(|vitals| vitals.leader_since = leader_since);
        Ok(match (self.held.as_mut(), term) {
            (Some(held), Some(term)) if held.term == term => {
                if !is_steady {
                    Next::Resign(Loss::ClockJumped)
                } else if step_down {
                    Next::Resign(Loss::SteppedDown)
                } else {
                    held.trust.renewed(sent_at);
                    Next::Rest
                }
            }
            (Some(_), _) => {
                self.stand_down(Loss::Replaced);
                Next::Rest
            }
            (None, Some(term)) if step_down || !is_steady => {
                self.hold_back_if(step_down);
                Next::GiveUp(term)
            }
            (None, Some(term)) => Next::GiveUpAndStand(term),
            (None, None) if is_steady => Next::Stand,
            (None, None) => Next::Rest,
        })
    }

    /// Returns whether the database's clock advanced like the own clock since the previous
    /// heartbeat.
    fn observe_clock(&mut self, reading: Reading, wall: DateTime<Utc>) -> bool {
        metrics::histogram!("sched_db_round_trip_seconds").record(reading.round_trip().as_secs_f64());
        self.publish(|vitals| {
            vitals.clock_offset = Some(reading.offset(wall));
            vitals.round_trip = Some(reading.round_trip());
            vitals.last_heartbeat = Some(reading.received);
        });
        let jump = self.clock.observe(reading);
        if let Some(jump) = jump {
            metrics::counter!("sched_clock_jumps_total").increment(1);
            tracing::error!(
                clock.jumped_seconds = vitals::seconds(jump.by),
                "The database's clock jumped against this host's monotonic clock since the last heartbeat, which is refused."
            );
        }
        jump.is_none()
    }
}
