//! Routes: paths, and the requirement of each of their methods.
//!
//! A [`Path`] takes a handler only together with its requirement and its OpenAPI description. So a
//! route without a permission or documentation does not compile. The middleware
//! ([`crate::http::middleware`]) has authenticated the caller; this module checks the permission. A
//! route without query parameters rejects every query.

use actix_web::body::BoxBody;
use actix_web::dev::{AppService, HttpServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::middleware::{Next, from_fn};
use actix_web::{
    Error, FromRequest, Handler, HttpMessage, HttpResponse, Resource, Responder, Route, guard, web,
};
use sched_model::domain::identity::Permission;

use crate::error::ApiError;
use crate::http::extract::no_parameters;
use crate::identity::caller::Identity;
use crate::openapi::OperationDoc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// The answer is the same for every caller.
    Nothing,
    /// A page for browsers, served without a key. A page that needs a session reads its cookie
    /// itself. Pages set their own `Content-Security-Policy`.
    Page,
    Identity,
    Permission(Permission),
}

/// Each path at or below these roots is served without a key ([`Needs::Page`]). `/ui` is reserved
/// for a dashboard.
pub(crate) const PAGES: [&str; 2] = ["/api/docs", "/ui"];

/// Compares the exact name: a path in another encoding is no page.
pub(crate) fn is_page(path: &str) -> bool {
    let is_below =
        |root| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    PAGES.into_iter().any(is_below)
}

impl From<Permission> for Needs {
    fn from(permission: Permission) -> Self {
        Self::Permission(permission)
    }
}

pub(crate) struct Path {
    pattern: &'static str,
    resource: Resource,
    operations: Vec<Operation>,
}

#[derive(Debug)]
pub(crate) struct Operation {
    method: Method,
    needs: Needs,
    says: OperationDoc,
}

impl Operation {
    pub(crate) const fn method(&self) -> &Method {
        &self.method
    }

    pub(crate) const fn needs(&self) -> Needs {
        self.needs
    }

    pub(crate) const fn operation(&self) -> &OperationDoc {
        &self.says
    }

    /// `HEAD` is `GET` without the body. The body of a stream has no end, and a socket has none.
    fn answers_head(&self) -> bool {
        self.method == Method::GET && (self.needs == Needs::Page || self.says.has_whole_answer())
    }

    fn methods(&self) -> impl Iterator<Item = &str> {
        [self.method.as_str()].into_iter().chain(self.answers_head().then_some("HEAD"))
    }
}

pub(crate) fn at(pattern: &'static str) -> Path {
    Path { pattern, resource: web::resource(pattern), operations: Vec::new() }
}

macro_rules! methods {
    ($($name:ident = $method:ident),+ $(,)?) => {
        $(
            pub(crate) fn $name<F, Args>(self, needs: impl Into<Needs>, handler: F, says: OperationDoc) -> Self
            where
                F: Handler<Args>,
                Args: FromRequest + 'static,
                F::Output: Responder + 'static,
            {
                let operation = Operation { method: Method::$method, needs: needs.into(), says };
                let route = match operation.answers_head() {
                    true => web::route().guard(guard::Any(guard::Get()).or(guard::Head())),
                    false => web::$name(),
                };
                self.with(operation, route.to(handler))
            }
        )+
    };
}

impl Path {
    methods! { get = GET, post = POST, put = PUT, patch = PATCH, delete = DELETE }

    pub(crate) const fn pattern(&self) -> &'static str {
        self.pattern
    }

    pub(crate) fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.operations.iter()
    }

    fn with(mut self, operation: Operation, route: Route) -> Self {
        let needs = operation.needs;
        // Pages may be opened with a query that they do not read, such as one of a link.
        let rejects_query = needs != Needs::Page && !operation.says.has_query();
        let checked = from_fn(move |request: ServiceRequest, next: Next<BoxBody>| {
            check(needs, rejects_query, request, next)
        });
        self.operations.push(operation);
        Self { resource: self.resource.route(route.wrap(checked)), ..self }
    }
}

impl HttpServiceFactory for Path {
    fn register(self, config: &mut AppService) {
        let methods: Vec<&str> = self.operations.iter().flat_map(Operation::methods).collect();
        let allow = methods.join(", ");
        let refuse = move || {
            let allow = allow.clone();
            async move { Err::<HttpResponse, _>(ApiError::MethodNotAllowed { allow }) }
        };
        self.resource.default_service(web::to(refuse)).register(config);
    }
}

async fn check(
    needs: Needs,
    rejects_query: bool,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let allowed = allowed(needs, request.extensions().get::<Identity>());
    let checked = allowed.and_then(|()| match rejects_query {
        true => no_parameters(request.query_string()),
        false => Ok(()),
    });
    match checked {
        Ok(()) => next.call(request).await,
        Err(error) => Ok(request.error_response(error)),
    }
}

pub(crate) fn allowed(needs: Needs, identity: Option<&Identity>) -> Result<(), ApiError> {
    if matches!(needs, Needs::Nothing | Needs::Page) {
        return Ok(());
    }
    let identity = identity.ok_or(ApiError::Unauthenticated(None))?;
    match needs {
        Needs::Permission(permission) if !identity.caller().permissions.has(permission) => {
            Err(ApiError::Forbidden(permission))
        }
        Needs::Permission(_) | Needs::Identity | Needs::Nothing | Needs::Page => Ok(()),
    }
}
