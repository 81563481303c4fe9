//! The stream of events over a WebSocket: the same messages, one JSON text each.
//!
//! A program sends its key in the header `Authorization`. A browser can set no header of a
//! WebSocket except subprotocols, so it offers two: ours, which is accepted, and one with the key,
//! which is not. The key is never in a URL, and it is checked before the connection is accepted.
//! Messages of the client are ignored, except for pings and pongs.
//!
//! A separate task reads the stream, one piece ahead of the client. So client messages do not
//! interrupt a read. A slow client does not count as gone, because its messages are received during
//! a send.

use std::time::{Duration, Instant};

use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use actix_web::{HttpRequest, HttpResponse, rt, web};
use actix_ws::{CloseCode, CloseReason, Message, MessageStream, Session};
use futures_util::StreamExt;
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::spawn_owned;
use sched_wire::{EVENTS_PROTOCOL, EndReason, EventStreamQuery, KEY_PROTOCOL, StreamMessage};
use tokio::sync::mpsc;

use super::events::stream_request;
use crate::error::ApiError;
use crate::events::listener::Listener;
use crate::http::call::Call;
use crate::http::extract::Query;

/// Limit of frames of a client in [`FRAMES_WITHIN`]. A listening client sends one in fifteen
/// seconds.
const MOST_FRAMES: u32 = 100;
const FRAMES_WITHIN: Duration = Duration::from_secs(10);
const PING_EVERY: Duration = Duration::from_secs(15);
/// Silence after which a client counts as gone.
const SILENCE: Duration = Duration::from_secs(60);
/// Longest accepted message of a client, in bytes. No message is read.
const LONGEST: usize = 4096;

/// Moves the key of a browser from its subprotocol to `Authorization`.
pub(crate) fn take_key(headers: &mut HeaderMap) {
    if headers.contains_key(AUTHORIZATION) {
        return;
    }
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).filter_map(|value| value.to_str().ok());
    let key =
        offered.flat_map(|value| value.split(',')).find_map(|one| one.trim().strip_prefix(KEY_PROTOCOL));
    if let Some(Ok(mut bearer)) = key.map(|key| HeaderValue::from_str(&format!("Bearer {key}"))) {
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
}

/// `GET /ws/events`
pub(crate) async fn open(
    call: Call,
    request: HttpRequest,
    Query(query): Query<EventStreamQuery>,
    body: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let Call { state, identity, .. } = call;
    let patience = state.stream_patience;
    let stream = stream_request(state, identity, request.headers(), &query).await?;
    let upgraded = actix_ws::handle_with_protocols(&request, body, &[EVENTS_PROTOCOL]);
    let (response, session, messages) = upgraded.map_err(|error| ApiError::NoUpgrade(error.to_string()))?;
    let listener = Listener::open(stream).await?;
    // Ends with the connection: then its messages end, and sending fails.
    rt::spawn(serve(listener, session, messages.max_frame_size(LONGEST), patience));
    Ok(response)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CloseCause {
    Stream(Option<EndReason>),
    Client,
    /// The client sent too many frames.
    TooMuch,
    /// The client is gone, or does not read.
    Gone,
}

async fn serve(listener: Listener, session: Session, messages: MessageStream, patience: Duration) {
    let (to, receiver) = mpsc::channel(1);
    // Ends with this function, also during a read.
    let _reading = spawn_owned("event_socket", feed(listener, to));
    let cause = tokio::select! {
        cause = send_messages(receiver, session.clone(), patience) => cause,
        cause = receive_messages(messages, session.clone(), patience) => cause,
    };
    let (code, description) = match cause {
        CloseCause::Gone => return,
        CloseCause::Client | CloseCause::Stream(None) => (CloseCode::Normal, None),
        CloseCause::TooMuch => (CloseCode::Policy, Some("too many frames".to_owned())),
        CloseCause::Stream(Some(reason)) => {
            let code = match reason {
                EndReason::Stopping => CloseCode::Away,
                EndReason::Revoked => CloseCode::Policy,
                EndReason::Unavailable => CloseCode::Again,
            };
            (code, Some(reason.as_str().to_owned()))
        }
    };
    // A client that has gone needs no close frame.
    let _ = tokio::time::timeout(patience, session.close(Some(CloseReason { code, description }))).await;
}

async fn feed(mut listener: Listener, to: mpsc::Sender<Vec<StreamMessage>>) {
    while let Some(messages) = listener.next().await {
        if to.send(messages).await.is_err() {
            return;
        }
    }
}

async fn send_messages(
    mut receiver: mpsc::Receiver<Vec<StreamMessage>>,
    mut session: Session,
    patience: Duration,
) -> CloseCause {
    let mut end = None;
    while let Some(messages) = receiver.recv().await {
        for message in &messages {
            if let StreamMessage::End { reason } = message {
                end = Some(*reason);
            }
            // Strings and numbers only: this cannot fail.
            let text = serde_json::to_string(message).unwrap_or_default();
            if !matches!(tokio::time::timeout(patience, session.text(text)).await, Ok(Ok(()))) {
                return CloseCause::Gone;
            }
        }
    }
    CloseCause::Stream(end)
}

async fn receive_messages(
    mut messages: MessageStream,
    mut session: Session,
    patience: Duration,
) -> CloseCause {
    let mut ping = tokio::time::interval(PING_EVERY);
    let (mut heard, mut frames) = (monotonic(), Frames { since: monotonic(), count: 0 });
    loop {
        let sent = tokio::select! {
            // A received frame counts before its absence.
            biased;
            message = messages.next() => {
                heard = monotonic();
                if frames.are_too_many(heard) {
                    return CloseCause::TooMuch;
                }
                match message {
                    Some(Ok(Message::Ping(bytes))) => {
                        tokio::time::timeout(patience, session.pong(&bytes)).await
                    }
                    Some(Ok(Message::Pong(_) | Message::Text(_) | Message::Binary(_) | Message::Continuation(_) | Message::Nop)) => continue,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return CloseCause::Client,
                }
            }
            _ = ping.tick() => {
                if heard.elapsed() >= SILENCE {
                    return CloseCause::Gone;
                }
                tokio::time::timeout(patience, session.ping(b"")).await
            }
        };
        if !matches!(sent, Ok(Ok(()))) {
            return CloseCause::Gone;
        }
    }
}

#[derive(Debug)]
struct Frames {
    since: Instant,
    count: u32,
}

impl Frames {
    fn are_too_many(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= FRAMES_WITHIN {
            *self = Self { since: now, count: 0 };
        }
        self.count += 1;
        self.count > MOST_FRAMES
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn the_key_of_a_browser_is_found_among_the_subprotocols() {
        for (offered, authorization, expected) in [
            (&["sched.events.v1, sched.bearer.abc_1"][..], None, Some("Bearer abc_1")),
            (&["sched.events.v1", "sched.bearer.x.y-z"], None, Some("Bearer x.y-z")),
            (&["sched.bearer.abc"], Some("Bearer other"), Some("Bearer other")),
            (&["sched.events.v1"], None, None),
            (&[], None, None),
        ] {
            let mut request = TestRequest::get();
            for value in offered {
                request = request.append_header((SEC_WEBSOCKET_PROTOCOL, *value));
            }
            if let Some(value) = authorization {
                request = request.append_header((AUTHORIZATION, value));
            }
            let mut request = request.to_srv_request();
            take_key(request.headers_mut());
            let found = request.headers().get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(found.as_deref(), expected, "{offered:?}");
        }
    }
}
