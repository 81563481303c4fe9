//! The stream of events over a WebSocket: the same messages, one JSON text each.
//!
//! A program sends its key in the header `Authorization`, as everywhere. A browser can set no header of a WebSocket but the subprotocols it
//! offers, so it offers two: ours, which is answered, and one that carries the key, which is not. The key stands in no address, and
//! nobody is let in before it was looked at. What a client sends besides signs of life is not read.

use std::time::{Duration, Instant};

use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use actix_web::{HttpRequest, HttpResponse, rt, web};
use actix_ws::{CloseCode, CloseReason, Message, MessageStream, Session};
use futures_util::StreamExt;
use sched_runtime::clock::monotonic;
use sched_wire::{EVENTS_PROTOCOL, EndReason, EventStreamQuery, KEY_PROTOCOL, StreamMessage};

use super::State;
use super::events::asked;
use crate::error::ApiError;
use crate::events::listener::Listener;
use crate::extract::Query;
use crate::identity::Identity;

/// Time between two pings.
const PING_EVERY: Duration = Duration::from_secs(15);
/// Silence after which a client is gone.
const SILENCE: Duration = Duration::from_secs(60);
/// Longest message that is taken; none is read.
const LONGEST: usize = 4096;

/// Takes the key of a browser from where it stands and puts it where keys are looked for.
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
    state: State,
    identity: Identity,
    request: HttpRequest,
    Query(query): Query<EventStreamQuery>,
    body: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let patience = state.stream_patience;
    let asked = asked(state, identity, request.headers(), &query).await?;
    let upgraded = actix_ws::handle_with_protocols(&request, body, &[EVENTS_PROTOCOL]);
    let (response, session, messages) = upgraded.map_err(|error| ApiError::NoUpgrade(error.to_string()))?;
    let listener = Listener::open(asked).await?;
    // Ends with the connection: its messages do, and what is sent is refused.
    rt::spawn(serve(listener, session, messages.max_frame_size(LONGEST), patience));
    Ok(response)
}

async fn serve(
    mut listener: Listener,
    mut session: Session,
    mut messages: MessageStream,
    patience: Duration,
) {
    let mut ping = tokio::time::interval(PING_EVERY);
    let mut heard: Instant = monotonic();
    let mut end = None;
    loop {
        tokio::select! {
            told = listener.next() => {
                let Some(told) = told else { break };
                for message in &told {
                    if let StreamMessage::End { reason } = message {
                        end = Some(*reason);
                    }
                    // Strings and numbers only: writing them cannot fail.
                    let text = serde_json::to_string(message).unwrap_or_default();
                    if !matches!(tokio::time::timeout(patience, session.text(text)).await, Ok(Ok(()))) {
                        return;
                    }
                }
            }
            message = messages.next() => {
                heard = monotonic();
                match message {
                    Some(Ok(Message::Ping(bytes))) => {
                        if !matches!(tokio::time::timeout(patience, session.pong(&bytes)).await, Ok(Ok(()))) {
                            return;
                        }
                    }
                    Some(Ok(Message::Pong(_) | Message::Text(_) | Message::Binary(_) | Message::Continuation(_) | Message::Nop)) => {}
                    Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                }
            }
            _ = ping.tick() => {
                if heard.elapsed() >= SILENCE
                    || !matches!(tokio::time::timeout(patience, session.ping(b"")).await, Ok(Ok(())))
                {
                    return;
                }
            }
        }
    }
    let code = match end {
        None => CloseCode::Normal,
        Some(EndReason::Stopping) => CloseCode::Away,
        Some(EndReason::Revoked) => CloseCode::Policy,
        Some(EndReason::Unavailable) => CloseCode::Again,
    };
    let description = end.map(|reason| reason.as_str().to_owned());
    // A client that has gone needs no farewell.
    let _ = tokio::time::timeout(patience, session.close(Some(CloseReason { code, description }))).await;
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
