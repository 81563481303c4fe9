//! The native handlers of a program by name, with their types erased.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use sched_model::domain::handler_config::check_handler_name;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::storable;
use super::alive::Alive;
use super::context::Ctx;
use super::error::HandlerError;
use super::panics::{self, Panic};

/// Larger results are not stored.
const MAX_RESULT_BYTES: usize = 1024 * 1024;

#[derive(Debug)]
pub(crate) enum Ending {
    Returned { result: Option<Value>, note: Option<String> },
    Failed(HandlerError),
    Panicked(Panic),
}

pub(crate) type Run = Pin<Box<dyn Future<Output = Ending> + Send>>;

/// It holds the [`Alive`] until it has completely ended.
pub(super) type Handler = Arc<dyn Fn(Ctx, Alive) -> Run + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    #[error("two handlers have the name {name:?}")]
    Duplicate { name: String },
    #[error("{name:?} is not a valid handler name: names that begin with {prefix:?} are reserved for built-in handlers", prefix = sched_model::domain::built_in::PREFIX)]
    Reserved { name: String },
    #[error("{name:?} is not a valid handler name: it {message}")]
    Name { name: String, message: String },
}

#[derive(Clone, Default)]
pub struct Registry(HashMap<String, Handler>);

impl Registry {
    /// Adds an asynchronous handler.
    ///
    /// # Errors
    /// The name is registered or invalid.
    pub fn add<F, Fut, A, R, E>(&mut self, name: &str, handler: F) -> Result<(), RegisterError>
    where
        F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        A: DeserializeOwned,
        R: Serialize,
        E: Into<HandlerError>,
    {
        self.insert(
            name,
            Arc::new(move |ctx, alive| {
                let args = match read_args(ctx.raw_args()) {
                    Ok(args) => args,
                    Err(error) => return Box::pin(std::future::ready(Ending::Failed(error))),
                };
                let work = handler(ctx, args);
                Box::pin(async move {
                    let ending = ending(work.await);
                    drop(alive);
                    ending
                })
            }),
        )
    }

    /// Adds a blocking handler, which runs on a separate thread.
    ///
    /// # Errors
    /// The name is registered or invalid.
    pub fn add_blocking<F, A, R, E>(&mut self, name: &str, handler: F) -> Result<(), RegisterError>
    where
        F: Fn(Ctx, A) -> Result<R, E> + Send + Sync + 'static,
        A: DeserializeOwned,
        R: Serialize,
        E: Into<HandlerError>,
    {
        let handler = Arc::new(handler);
        self.insert(
            name,
            Arc::new(move |ctx, alive| {
                let handler = handler.clone();
                Box::pin(async move {
                    let on_thread = tokio::task::spawn_blocking(move || {
                        // Dropped last: the guard lives as long as the thread is in use.
                        let _alive = alive;
                        let caught = panics::catch(|| match read_args(ctx.raw_args()) {
                            Ok(args) => ending(handler(ctx.clone(), args)),
                            Err(error) => Ending::Failed(error),
                        });
                        caught.unwrap_or_else(Ending::Panicked)
                    });
                    // The remaining error is the shutdown of the runtime.
                    on_thread.await.unwrap_or_else(|error| Ending::Failed(error.into()))
                })
            }),
        )
    }

    fn insert(&mut self, name: &str, handler: Handler) -> Result<(), RegisterError> {
        check_handler_name(name).map_err(|message| RegisterError::Name { name: name.to_owned(), message })?;
        if self.0.contains_key(name) {
            return Err(RegisterError::Duplicate { name: name.to_owned() });
        }
        self.0.insert(name.to_owned(), handler);
        Ok(())
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    pub(super) fn get(&self, name: &str) -> Option<Handler> {
        self.0.get(name).cloned()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registry").field(&self.names()).finish()
    }
}

fn read_args<A: DeserializeOwned>(args: &Value) -> Result<A, HandlerError> {
    A::deserialize(args).map_err(|error| {
        // Only for the location of the error: tracking it costs time.
        let placed = serde_path_to_error::deserialize::<_, A>(args).err();
        let text = placed.map_or_else(|| error.to_string(), |placed| placed.to_string());
        HandlerError::invalid_args(format!("the job's args do not fit the handler: {text}"))
    })
}

fn ending<R: Serialize, E: Into<HandlerError>>(returned: Result<R, E>) -> Ending {
    let value = match returned {
        Ok(value) => value,
        // Here, on the threads of handlers, where panics are caught.
        Err(error) => return Ending::Failed(error.into().described()),
    };
    let unstored = |problem: &dyn fmt::Display| Ending::Returned {
        result: None,
        note: Some(format!("the result was not stored: {problem}")),
    };
    match serde_json::to_value(&value) {
        Ok(Value::Null) => Ending::Returned { result: None, note: None },
        Ok(result) if !fits(&result) => unstored(&format_args!("it is larger than {MAX_RESULT_BYTES} bytes")),
        Ok(result) => Ending::Returned { result: Some(storable::json(result)), note: None },
        Err(error) => unstored(&error),
    }
}

fn fits(value: &Value) -> bool {
    serde_json::to_writer(Room(MAX_RESULT_BYTES), value).is_ok()
}

struct Room(usize);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 =
            self.0.checked_sub(bytes.len()).ok_or_else(|| io::Error::from(io::ErrorKind::StorageFull))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
