//! Previews of schedules and of the schedule of a job. Read only.
//!
//! Rows are read first, and the connection is returned. Then a separate thread computes the answer.

use actix_web::web;
use sched_model::{Conn, connection::database_clock, definitions::calendars};
use sched_wire::{Preview, PreviewQuery};

use crate::convert::preview::{Defaults, Question, Range, count, named, request};
use crate::error::ApiError;
use crate::http::extract::{Body, Query};
use crate::identity::Identity;
use crate::routes::jobs::{find, no_such_job};
use crate::routes::{Answer, State, compute};

/// `POST /schedules/preview`
pub(crate) async fn of_schedule(state: State, identity: Identity, body: Body) -> Answer<Preview> {
    let tenant = identity.tenant();
    let request = request(body.required()?).map_err(ApiError::Refused)?;
    let names = named(&request);
    let (kept, now) = state
        .read(&identity, "preview_schedule", async |conn: &mut Conn| {
            Ok((calendars::by_names(conn, tenant, &names).await?, database_clock::now(conn).await?))
        })
        .await?;
    let defaults = Defaults { timezone: &state.default_timezone, after: now };
    let question = Question::of_request(tenant, request, &kept, defaults);
    answer(question.map_err(ApiError::Refused)?).await
}

/// `GET /jobs/{id-or-name}/preview`
pub(crate) async fn of_job(
    state: State,
    identity: Identity,
    job: web::Path<String>,
    Query(query): Query<PreviewQuery>,
) -> Answer<Preview> {
    let tenant = identity.tenant();
    let count = count(query.count).map_err(|message| ApiError::parameter("count", message))?;
    let (found, kept, now) = state
        .read(&identity, "preview_job", async |conn: &mut Conn| {
            let found = find(conn, tenant, &job).await?.ok_or_else(|| no_such_job(&job))?;
            let kept = calendars::by_names(conn, tenant, &found.settings.calendars).await?;
            let now = database_clock::now(conn).await?;
            Ok((found, kept, now))
        })
        .await?;
    let range = Range { after: query.after.unwrap_or(now), count };
    answer(Question::of_job(tenant, found, kept, range)).await
}

async fn answer(question: Question) -> Answer<Preview> {
    let answered = compute(move || question.answer()).await?;
    answered.map(web::Json).map_err(|mistake| ApiError::Refused(vec![mistake]))
}
