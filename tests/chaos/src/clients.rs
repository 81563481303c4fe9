//! Clients that create, change, pause, trigger and cancel jobs through the API during the faults,
//! and log the responses.
//!
//! A client repeats a trigger with its idempotency key until an API answers, if necessary after the
//! faults. Every other request is sent once, and every second trigger once more without a key: without
//! a response, its outcome is not checked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sched_runtime::monotonic_clock;
use serde_json::{Value, json};
use test_support::http::{self, Answer, Request};
use tokio::time::sleep;

use crate::jobs;
use crate::plan::{Action, PlannedAction, SWITCHED};
use crate::timeline::{Lines, now};

/// Maximum number of sends of one trigger during the faults.
const TRIES: usize = 6;
const AGAIN: Duration = Duration::from_millis(400);

/// Pages that a user of the other tenant reads; a user of the first reads the two after these.
const PAGES_OF_THEIRS: usize = 4;

#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) apis: Vec<SocketAddr>,
    pub(crate) answers: Arc<Lines>,
    pub(crate) their_bearer: String,
}

#[derive(Debug, Clone)]
struct Trigger {
    job: String,
    key: String,
    dispatch: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Client {
    number: u64,
    shared: Arc<SharedState>,
    triggers: Vec<Trigger>,
    created: usize,
    api: usize,
}

impl Client {
    pub(crate) fn new(number: u64, shared: Arc<SharedState>) -> Self {
        Self { number, shared, triggers: Vec::new(), created: 0, api: 0 }
    }

    /// Sends the planned requests; returns itself for the requests after the faults.
    pub(crate) async fn run(
        mut self,
        actions: Vec<PlannedAction>,
        since_start: impl Fn() -> Duration,
    ) -> Self {
        for planned in actions {
            sleep(planned.at.saturating_sub(since_start())).await;
            self.act(planned.action).await;
        }
        self
    }

    /// Sends unanswered triggers again; false while one still has no answer.
    pub(crate) async fn finish(&mut self) -> bool {
        let mut is_done = true;
        for number in 0..self.triggers.len() {
            if self.triggers.get(number).is_some_and(|trigger| trigger.dispatch.is_none()) {
                is_done &= self.send_trigger(number).await;
            }
        }
        is_done
    }

    async fn act(&mut self, action: Action) {
        match action {
            Action::Trigger { job, is_long } => {
                let job = if is_long { "by-hand-long".to_owned() } else { format!("by-hand-{job}") };
                let key = format!("client-{}-{}", self.number, self.triggers.len());
                self.triggers.push(Trigger { job: job.clone(), key, dispatch: None });
                self.send_trigger(self.triggers.len() - 1).await;
                if self.triggers.len().is_multiple_of(2) {
                    self.trigger_without_key(&job).await;
                }
            }
            Action::Again if !self.triggers.is_empty() => {
                self.send_trigger(self.triggers.len() - 1).await;
            }
            Action::Create { seconds } => self.create(seconds).await,
            Action::Apply { job, choice } => self.apply(job, choice).await,
            Action::Pause { job, seconds } => {
                let until = seconds.map_or_else(|| "never".to_owned(), |seconds| format!("+{seconds}s"));
                self.change(job, "pause", json!({"reason": "chaos", "until": until})).await;
            }
            Action::Resume { job } => self.change(job, "resume", Value::Null).await,
            Action::Disable { job } => self.change(job, "disable", Value::Null).await,
            Action::Enable { job } => self.change(job, "enable", Value::Null).await,
            Action::Hold { resource } => {
                self.switch(resource, "pause", Some(json!({"reason": "chaos"}))).await
            }
            Action::Release { resource } => self.switch(resource, "resume", None).await,
            Action::Cancel => self.cancel().await,
            Action::CancelJob { job } => {
                let path = format!("/api/v1/jobs/changed-{job}/cancel");
                let answer = self.send(Request::post(&path, &json!({}))).await;
                self.record(
                    answer.as_ref(),
                    json!({"action": "cancel-job", "target": format!("changed-{job}")}),
                );
            }
            Action::Retry => self.retry().await,
            Action::Peek { page } => self.peek(page).await,
            Action::StepDown => {
                let answer =
                    self.send(Request::post("/api/v1/schedulers/leader/step-down", &json!({}))).await;
                self.record(answer.as_ref(), json!({"action": "step-down", "target": "leader"}));
            }
            Action::Again => {}
        }
    }

    /// Sends a trigger until it is answered; returns whether it was.
    async fn send_trigger(&mut self, number: usize) -> bool {
        let Some(trigger) = self.triggers.get(number).cloned() else { return true };
        let path = format!("/api/v1/jobs/{}/trigger", trigger.job);
        for _ in 0..TRIES {
            let answer = self
                .send(Request::post(&path, &json!({})).with_headers(&[("idempotency-key", &trigger.key)]))
                .await;
            let body = answer.as_ref().map(body_of).unwrap_or_default();
            self.record(answer.as_ref(), json!({"action": "trigger", "target": &trigger.job, "key": trigger.key, "id": body["run_id"]}));
            if answer.is_some_and(|answer| answer.status == 202) {
                if let Some(trigger) = self.triggers.get_mut(number) {
                    trigger.dispatch = body["run_id"].as_str().map(str::to_owned);
                }
                return true;
            }
            sleep(AGAIN).await;
        }
        false
    }

    /// The API inserts such a run with a single statement, without a lock on its job.
    async fn trigger_without_key(&mut self, job: &str) {
        let answer = self.send(Request::post(&format!("/api/v1/jobs/{job}/trigger"), &json!({}))).await;
        let body = answer.as_ref().map(body_of).unwrap_or_default();
        self.record(answer.as_ref(), json!({"action": "trigger", "target": job, "id": body["run_id"]}));
    }

    async fn create(&mut self, seconds: u64) {
        let name = format!("made-{}-{}", self.number, self.created);
        self.created += 1;
        let answer = self
            .send(Request::post(
                "/api/v1/jobs",
                &jobs::new_job(&name, seconds, monotonic_clock::wall().into()),
            ))
            .await;
        let body = answer.as_ref().map(body_of).unwrap_or_default();
        self.record(answer.as_ref(), json!({"action": "create", "target": &name, "id": body["id"]}));
    }

    async fn apply(&mut self, job: usize, choice: u64) {
        let spec = jobs::changed(job, choice);
        let answer = self.send(Request::post("/api/v1/apply", &json!({"jobs": [spec]}))).await;
        self.record(answer.as_ref(), json!({"action": "apply", "target": format!("changed-{job}"), "state": spec["schedule_config"].to_string()}));
    }

    async fn change(&mut self, job: usize, how: &str, body: Value) {
        let path = format!("/api/v1/jobs/changed-{job}/{how}");
        let body = (!body.is_null()).then_some(body);
        let answer =
            self.send(Request { method: "POST", path: &path, headers: &[], body: body.as_ref() }).await;
        let body = answer.as_ref().map(body_of).unwrap_or_default();
        let target = format!("changed-{job}");
        let more = json!({"action": "change", "target": target, "id": body["id"], "version": body["version"], "state": how});
        self.record(answer.as_ref(), more);
    }

    async fn switch(&mut self, resource: usize, how: &str, body: Option<Value>) {
        let Some((collection, name)) = SWITCHED.get(resource) else { return };
        let answer = self
            .send(Request {
                method: "POST",
                path: &format!("/api/v1/{collection}/{name}/{how}"),
                headers: &[],
                body: body.as_ref(),
            })
            .await;
        self.record(
            answer.as_ref(),
            json!({"action": "switch", "target": format!("{collection}/{name}"), "state": how}),
        );
    }

    async fn cancel(&mut self) {
        let Some(dispatch) = self.triggers.iter().rev().find_map(|trigger| trigger.dispatch.clone()) else {
            return;
        };
        let answer = self.send(Request::post(&format!("/api/v1/runs/{dispatch}/cancel"), &json!({}))).await;
        let body = answer.as_ref().map(body_of).unwrap_or_default();
        self.record(
            answer.as_ref(),
            json!({"action": "cancel", "target": &dispatch, "id": dispatch, "state": body["state"]}),
        );
    }

    async fn retry(&mut self) {
        let Some(page) = self.send(Request::get("/api/v1/dead-letters?limit=1")).await else { return };
        let page = body_of(&page);
        let Some(dead) =
            page["items"][0]["run_id"].as_str().or_else(|| page["items"][0]["dispatch"]["id"].as_str())
        else {
            return;
        };
        let answer =
            self.send(Request::post(&format!("/api/v1/dead-letters/{dead}/retry"), &json!({}))).await;
        let body = answer.as_ref().map(body_of).unwrap_or_default();
        self.record(answer.as_ref(), json!({"action": "retry", "target": dead, "id": body["run_id"]}));
    }

    /// Reads as a user of the other tenant, or reads the other tenant's resources.
    async fn peek(&mut self, page: usize) {
        let is_by_us = page >= PAGES_OF_THEIRS;
        let ours = self.triggers.iter().rev().find_map(|trigger| trigger.dispatch.clone());
        let is_ours = page == 2 && ours.is_some();
        let path = match (page, ours) {
            (0 | PAGES_OF_THEIRS, _) => "/api/v1/jobs?limit=200".to_owned(),
            (1 | 5.., _) => "/api/v1/attempts?limit=200".to_owned(),
            (2, Some(dispatch)) => format!("/api/v1/runs/{dispatch}"),
            _ => "/api/v1/runs?limit=200".to_owned(),
        };
        let bearer = self.shared.their_bearer.clone();
        let theirs = [("authorization", bearer.as_str())];
        let headers: &[(&str, &str)] = if is_by_us { &[] } else { &theirs };
        let answer = self.send(Request::get(&path).with_headers(headers)).await;
        let body = answer.as_ref().map(body_of).unwrap_or_default();
        let is_theirs = |item: &Value| {
            let name = item["job"].as_str().or_else(|| item["name"].as_str());
            name.is_some_and(|name| name.starts_with("theirs-"))
        };
        let is_foreign = match body["items"].as_array() {
            Some(items) => items.iter().any(|item| is_theirs(item) == is_by_us),
            None => answer.as_ref().is_some_and(|answer| answer.status == 200),
        };
        // An empty list proves nothing.
        let state = match (is_ours, body["items"].as_array()) {
            (true, _) => "foreign",
            (false, Some(items)) if !items.is_empty() => "items",
            (false, _) => "nothing",
        };
        let tenant = if is_by_us { "default" } else { "other" };
        let more = json!({"action": "peek", "target": path, "tenant": tenant, "is_foreign": is_foreign, "state": state});
        self.record(answer.as_ref(), more);
    }

    /// `more` has at least the fields `action` and `target`.
    fn record(&self, answer: Option<&Answer>, more: Value) {
        let mut line = json!({"at": now(), "client": self.number, "tenant": "default",
                              "status": answer.map(|answer| answer.status)});
        if let (Some(line), Some(more)) = (line.as_object_mut(), more.as_object()) {
            line.extend(more.clone());
        }
        self.shared.answers.add(&line);
    }

    /// Sends a request to one API, and to another when the first does not answer. A request that
    /// may have been received is not sent twice.
    async fn send(&mut self, request: Request<'_>) -> Option<Answer> {
        for _ in 0..self.shared.apis.len() {
            let api = self.shared.apis.get(self.api % self.shared.apis.len()).copied()?;
            match http::request(api, request).await {
                Ok(answer) => return Some(answer),
                Err(error) => {
                    self.api += 1;
                    if error.kind() != std::io::ErrorKind::ConnectionRefused {
                        return None;
                    }
                }
            }
        }
        None
    }
}

/// Null when the body is not JSON, which the status shows as well.
pub(crate) fn body_of(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_default()
}
