//! Streamed answers that last as long as the client reads.
//!
//! A separate task produces the stream, one piece ahead of the client. It ends and releases its
//! resources when the client disconnects, or does not accept a piece in time although the
//! connection is open.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::Bytes;
use futures_util::{Stream, StreamExt};
use sched_runtime::tasks::spawn_owned;
use tokio::sync::mpsc;

/// The client must accept each piece within `patience`.
pub(crate) fn server_sent<S>(pieces: S, patience: Duration) -> HttpResponse
where
    S: Stream<Item = String> + Send + 'static,
{
    let (to, from) = mpsc::channel(1);
    let task = spawn_owned("stream", async move {
        let mut pieces = pin!(pieces);
        while let Some(piece) = pieces.next().await {
            match tokio::time::timeout(patience, to.send(Bytes::from(piece))).await {
                Ok(Ok(())) => {}
                Ok(Err(_gone)) => return,
                Err(_) => {
                    metrics::counter!("sched_api_streams_left_total").increment(1);
                    tracing::info!("client does not read its stream; disconnecting");
                    return;
                }
            }
        }
    });
    let body = futures_util::stream::unfold((from, task), |(mut from, task)| async move {
        let piece = from.recv().await?;
        Some((Ok::<_, Infallible>(piece), (from, task)))
    });
    HttpResponse::Ok().content_type("text/event-stream").streaming(body)
}
