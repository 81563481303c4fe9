//! The native handlers of a program by name, each made callable in one way whatever its types are.

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

/// Largest result that is stored, as JSON.
const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// How a handler ended by itself.
#[derive(Debug)]
pub(super) enum Ending {
    /// It returned a value.
    Returned {
        result: Option<Value>,
        /// What was odd about the value.
        note: Option<String>,
    },
    /// It returned an error.
    Failed(HandlerError),
    /// It panicked.
    Panicked(Panic),
}

pub(super) type Run = Pin<Box<dyn Future<Output = Ending> + Send>>;

/// A handler without its types. It keeps the [`Alive`] until all of it has ended.
pub(super) type Handler = Arc<dyn Fn(Ctx, Alive) -> Run + Send + Sync>;

/// A name that cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// Two handlers have the same name.
    #[error("two handlers are called {name:?}")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// The name is kept for built-in handlers.
    #[error("{name:?} is no name for a handler: names that begin with {prefix:?} are kept for built-in ones", prefix = sched_model::domain::built_in::PREFIX)]
    Reserved {
        /// The name.
        name: String,
    },
    /// No function could ever name it.
    #[error("{name:?} is no name for a handler: it {message}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        message: String,
    },
}

/// Handlers by name.
#[derive(Clone, Default)]
pub struct Registry(HashMap<String, Handler>);

impl Registry {
    /// Adds an asynchronous handler.
    ///
    /// # Errors
    /// The name is taken, or no name.
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

    /// Adds a blocking handler, which is run on a thread of its own.
    ///
    /// # Errors
    /// The name is taken, or no name.
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
                        // First in, last out: the thread is taken for as long as this lives.
                        let _alive = alive;
                        let caught = panics::catch(|| match read_args(ctx.raw_args()) {
                            Ok(args) => ending(handler(ctx.clone(), args)),
                            Err(error) => Ending::Failed(error),
                        });
                        caught.unwrap_or_else(Ending::Panicked)
                    });
                    // A panic is caught on the thread; what is left is a runtime that shuts down.
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

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names, in order.
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
        // Read again, for the place of the mistake: keeping track of it costs time, and most arguments are right.
        let placed = serde_path_to_error::deserialize::<_, A>(args).err();
        let text = placed.map_or_else(|| error.to_string(), |placed| placed.to_string());
        HandlerError::invalid_args(format!("the job's args do not fit the handler: {text}"))
    })
}

fn ending<R: Serialize, E: Into<HandlerError>>(returned: Result<R, E>) -> Ending {
    let value = match returned {
        Ok(value) => value,
        Err(error) => return Ending::Failed(error.into()),
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

/// Takes so many bytes and keeps none.
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
