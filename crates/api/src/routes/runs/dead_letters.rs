//! Dead letters: list and discard them, and settle many at once.
//!
//! A bulk command settles one page in one transaction, with an event for each and one audit entry
//! with the filter and the count. It returns the cursor of the next page. A client that was cut off
//! starts again, and meets only open dead letters.

use actix_web::{HttpResponse, web};
use sched_model::dispatching::retries::RetryOrder;
use sched_model::domain::ids::{DispatchId, JobId, ProjectId, TenantId};
use sched_model::domain::run_state::Settlement;
use sched_model::events::append::{self, NewEvent};
use sched_model::running::dead_letters::{self, DiscardOrder, Discarded, Filter, State as Chosen};
use sched_model::running::executions;
use sched_model::{
    Conn,
    connection::database_clock,
    definitions::functions,
    identity::{audit, tenants},
};
use sched_wire::{
    DeadLetter, DeadLetterChoice, DeadLettersCommand, DeadLettersQuery, DeadLettersSettled, Page,
    RefusedCount, RetriedDeadLetter, TimeSort,
};
use serde_json::json;

use super::cancellations::{checked_reason, reason};
use super::retries;
use crate::convert::moment::moment;
use crate::convert::response;
use crate::error::ApiError;
use crate::error::conflict::{Conflict, code_of};
use crate::error::field_error::FieldError;
use crate::http::call::Call;
use crate::http::extract::{Body, Query, id};
use crate::http::pagination::Pages;
use crate::http::reply::Reply;
use crate::identity::Identity;
use crate::routes::jobs::filter as job_filter;
use crate::routes::operations::auditing::{self, SettlementCounts};
use crate::routes::{Answer, State, built_in};

const PAGE: i64 = 500;

const LIST: &str = "dead-letters";

const LIST_OLDEST_FIRST: &str = "dead-letters, oldest first";

const SAMPLE: i64 = 10;

/// `GET /dead-letters`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<DeadLettersQuery>,
) -> Answer<Page<DeadLetter>> {
    let tenant = identity.tenant();
    let pages = pages(&query)?;
    let chosen = match query.state.unwrap_or(DeadLetterChoice::Open) {
        DeadLetterChoice::Open => Chosen::Open,
        DeadLetterChoice::Retried => Chosen::Settled(Settlement::Retried),
        DeadLetterChoice::Discarded => Chosen::Settled(Settlement::Discarded),
        DeadLetterChoice::All => Chosen::Any,
    };
    let rows = state
        .read(&identity, "list_dead_letters", async |conn: &mut Conn| {
            let filter = filter_of_query(conn, tenant, &query, chosen).await?;
            Ok(dead_letters::list(conn, tenant, &filter, pages.rows()).await?)
        })
        .await?;
    let url = state.public_url.as_deref();
    let letter = |letter| response::dead_letter(letter, None, url);
    Ok(web::Json(pages.page(rows, |letter| letter.row.dispatch_id.to_string(), letter)))
}

/// `GET /dead-letters/{id}`
pub(crate) async fn get(state: State, identity: Identity, text: web::Path<String>) -> Answer<DeadLetter> {
    let (tenant, id) = (identity.tenant(), DispatchId(id(&text)?));
    let url = state.public_url.as_deref();
    let shown = state
        .read(&identity, "show_dead_letter", async |conn: &mut Conn| shown(conn, (tenant, id), url).await)
        .await?;
    Ok(web::Json(shown))
}

async fn shown(
    conn: &mut Conn,
    (tenant, id): (TenantId, DispatchId),
    public_url: Option<&str>,
) -> Result<DeadLetter, ApiError> {
    let found = dead_letters::by_id(conn, tenant, id).await?.ok_or_else(|| none(id))?;
    let mut tail = None;
    if let Some(attempt) = found.last_attempt() {
        tail = executions::output_tails(conn, &[(tenant, attempt)]).await?.remove(&attempt);
    }
    Ok(response::dead_letter(found, tail, public_url))
}

fn none(id: DispatchId) -> ApiError {
    ApiError::NotFound { kind: "dead letter", name: id.to_string() }
}

/// `POST /dead-letters/{id}/discard`
pub(crate) async fn discard(
    call: Call,
    text: web::Path<String>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let (tenant, id) = (call.tenant(), DispatchId(id(&text)?));
    let reason = reason(body)?;
    let reason = reason.as_deref();
    let written = call
        .write("discard_dead_letter", async |conn: &mut Conn| {
            built_in::dispatches(conn, &call.identity, &[id]).await?;
            let order = DiscardOrder { tenant, by: &call.by.actor, reason };
            match dead_letters::discard(conn, &order, id).await? {
                Discarded::Done { job_id, project_id } => {
                    audit::write(conn, &[auditing::of_discarded(id, reason, &call.by)]).await?;
                    let event = discarded_event(tenant, (id, job_id, project_id), reason, &call.by.actor);
                    append::append(conn, &[event]).await?;
                }
                Discarded::Already => {}
                Discarded::Retried(dispatch) => {
                    return Err(ApiError::Conflict(Conflict::AlreadyRetried(dispatch)));
                }
                Discarded::NoSuchDeadLetter => return Err(none(id)),
            }
            let url = call.state.public_url.as_deref();
            Ok::<_, ApiError>((Reply::ok(&shown(conn, (tenant, id), url).await?)?, ()))
        })
        .await?;
    Ok(written.response)
}

/// `POST /dead-letters/retry`
pub(crate) async fn retry_many(call: Call, body: Body) -> Result<HttpResponse, ApiError> {
    let tenant = call.tenant();
    let command = command(body)?;
    if command.reason.is_some() {
        let message = "is taken by discarding only";
        return Err(ApiError::Refused(vec![FieldError::invalid("/reason", message)]));
    }
    if command.dry_run {
        return dry_run(&call.state, &call.identity, &command).await;
    }
    let traceparent = call.by.trace.to_string();
    let order = RetryOrder { tenant, by: &call.by.actor, traceparent: Some(&traceparent) };
    let written = call
        .write("retry_dead_letters", async |conn: &mut Conn| {
            let filter = filter_of_command(conn, &call.identity, &command).await?;
            let settled = dead_letters::retry_page(conn, &order, &filter, PAGE).await?;
            let events: Vec<NewEvent> = settled
                .done
                .iter()
                .map(|retry| retries::event(tenant, retry, settled.jobs.get(&retry.job_id), &call.by.actor))
                .collect();
            append::append(conn, &events).await?;
            let done = settled.done.len();
            let counts = SettlementCounts { done, refused: settled.barred.values().sum() };
            let entry = auditing::of_dead_letters("retry_dead_letters", &command, counts, &call.by);
            audit::write(conn, &[entry]).await?;
            let queues: Vec<String> = settled.done.iter().map(|retry| retry.queue.clone()).collect();
            let refused = settled
                .barred
                .iter()
                .map(|(bar, count)| RefusedCount { code: code_of(*bar).to_owned(), count: *count });
            let retried = settled
                .done
                .iter()
                .map(|retry| RetriedDeadLetter { run_id: retry.of.0, retried_as: retry.dispatch_id.0 });
            let answer = DeadLettersSettled {
                retried: retried.collect(),
                ..answer(done, refused.collect(), settled.next)?
            };
            Ok::<_, ApiError>((Reply::ok(&answer)?, queues))
        })
        .await?;
    call.state.hints.count_created(written.extra.as_deref().unwrap_or_default());
    Ok(written.response)
}

/// `POST /dead-letters/discard`
pub(crate) async fn discard_many(call: Call, body: Body) -> Result<HttpResponse, ApiError> {
    let tenant = call.tenant();
    let mut command = command(body)?;
    command.reason = checked_reason(command.reason)?;
    if command.dry_run {
        return dry_run(&call.state, &call.identity, &command).await;
    }
    let reason = command.reason.as_deref();
    let written = call
        .write("discard_dead_letters", async |conn: &mut Conn| {
            let filter = filter_of_command(conn, &call.identity, &command).await?;
            let order = DiscardOrder { tenant, by: &call.by.actor, reason };
            let settled = dead_letters::discard_page(conn, &order, &filter, PAGE).await?;
            let events: Vec<NewEvent> = settled
                .done
                .iter()
                .map(|done| discarded_event(tenant, *done, reason, &call.by.actor))
                .collect();
            append::append(conn, &events).await?;
            let done = settled.done.len();
            let counts = SettlementCounts { done, refused: 0 };
            let entry = auditing::of_dead_letters("discard_dead_letters", &command, counts, &call.by);
            audit::write(conn, &[entry]).await?;
            Ok::<_, ApiError>((Reply::ok(&answer(done, Vec::new(), settled.next)?)?, ()))
        })
        .await?;
    Ok(written.response)
}

fn command(body: Body) -> Result<DeadLettersCommand, ApiError> {
    let command: DeadLettersCommand = body.read_or_default()?;
    let filters = [
        &command.job,
        &command.project,
        &command.queue,
        &command.error_class,
        &command.since,
        &command.until,
    ];
    let message = match (filters.iter().any(|filter| filter.is_some()), command.all) {
        (false, false) => "must be true when no filter selects dead letters",
        (true, true) => "must not be given beside a filter",
        (true, false) | (false, true) => return Ok(command),
    };
    Err(ApiError::Refused(vec![FieldError::invalid("/all", message)]))
}

async fn dry_run(
    state: &State,
    identity: &Identity,
    command: &DeadLettersCommand,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    let (count, sample) = state
        .read(identity, "try_dead_letters", async |conn: &mut Conn| {
            let filter = filter_of_command(conn, identity, command).await?;
            let count = dead_letters::count(conn, tenant, &filter).await?;
            Ok((count, dead_letters::list(conn, tenant, &filter, SAMPLE).await?))
        })
        .await?;
    let url = state.public_url.as_deref();
    let sample = sample.into_iter().map(|letter| response::dead_letter(letter, None, url)).collect();
    let answer = DeadLettersSettled { dry_run: true, count, sample, ..DeadLettersSettled::default() };
    Ok(HttpResponse::Ok().json(answer))
}

fn answer(
    done: usize,
    refused: Vec<RefusedCount>,
    next: Option<DispatchId>,
) -> Result<DeadLettersSettled, ApiError> {
    Ok(DeadLettersSettled {
        dry_run: false,
        count: i64::try_from(done).unwrap_or(i64::MAX),
        refused,
        retried: Vec::new(),
        sample: Vec::new(),
        next_cursor: match next {
            Some(id) => Some(Pages::of(&LIST, None, None)?.cursor(id.to_string())),
            None => None,
        },
    })
}

async fn filter_of_command(
    conn: &mut Conn,
    caller: &Identity,
    command: &DeadLettersCommand,
) -> Result<Filter, ApiError> {
    let command = command.clone();
    let query = DeadLettersQuery {
        state: None,
        job: command.job,
        project: command.project,
        queue: command.queue,
        error_class: command.error_class,
        since: command.since,
        until: command.until,
        sort: None,
        limit: None,
        cursor: command.cursor,
    };
    // These parameters are fields of a body here.
    let filter =
        filter_of_query(conn, caller.tenant(), &query, Chosen::Open).await.map_err(|error| match error {
            ApiError::Parameters(mistakes) => {
                let in_body =
                    |mistake: FieldError| FieldError { pointer: format!("/{}", mistake.pointer), ..mistake };
                ApiError::Refused(mistakes.into_iter().map(in_body).collect())
            }
            error => error,
        })?;
    // Only operators settle dead letters of built-in jobs; for other callers the filter skips them.
    let without = match caller.operates() {
        true => Vec::new(),
        false => functions::system_jobs(conn, caller.tenant()).await?,
    };
    Ok(Filter { without, ..filter })
}

/// Bulk commands use the order newest first.
fn pages(query: &DeadLettersQuery) -> Result<Pages, ApiError> {
    let list = if is_oldest_first(query) { LIST_OLDEST_FIRST } else { LIST };
    Pages::of(&list, query.limit, query.cursor.as_deref())
}

fn is_oldest_first(query: &DeadLettersQuery) -> bool {
    query.sort == Some(TimeSort::CreatedAt)
}

async fn filter_of_query(
    conn: &mut Conn,
    tenant: TenantId,
    query: &DeadLettersQuery,
    state: Chosen,
) -> Result<Filter, ApiError> {
    let after = pages(query)?.after_as()?.map(DispatchId);
    let oldest_first = is_oldest_first(query);
    let job = match &query.job {
        Some(job) => Some(job_filter(conn, tenant, job).await?),
        None => None,
    };
    let project = match &query.project {
        Some(name) => {
            let found = tenants::project_by_name(conn, tenant, name).await?;
            Some(found.ok_or_else(|| ApiError::NotFound { kind: "project", name: name.clone() })?)
        }
        None => None,
    };
    let now = database_clock::now(conn).await?;
    let instant = |name: &str, text: &Option<String>| {
        let at = text.as_ref().map(|text| moment(text, now, "UTC")).transpose();
        at.map_err(|message| ApiError::parameter(name, message))
    };
    let (since, until) = (instant("since", &query.since)?, instant("until", &query.until)?);
    let (queue, error_class) = (query.queue.clone(), query.error_class.clone());
    let without = Vec::new();
    Ok(Filter { state, job, without, project, queue, error_class, since, until, after, oldest_first })
}

fn discarded_event(
    tenant: TenantId,
    (id, job_id, project_id): (DispatchId, JobId, Option<ProjectId>),
    reason: Option<&str>,
    by: &str,
) -> NewEvent {
    NewEvent {
        tenant_id: Some(tenant),
        project_id,
        job_id: Some(job_id),
        dispatch_id: Some(id),
        event_type: append::DEAD_LETTER_DISCARDED,
        payload: json!({"reason": reason, "by": by}),
    }
}
