//! Paths of the API and what each of their methods asks for.
//!
//! A [`Path`] takes a handler only together with what is needed to reach it and with what the OpenAPI document says of it, so a
//! route that asks for nothing, or that nobody was told of, cannot be written by accident: it does not compile. That the caller is known was settled before ([`crate::http::middleware`]); here it is whether they may.

use actix_web::body::BoxBody;
use actix_web::dev::{AppService, HttpServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::middleware::{Next, from_fn};
use actix_web::{Error, FromRequest, Handler, HttpMessage, HttpResponse, Resource, Responder, Route, web};
use sched_model::domain::identity::Permission;

use crate::error::ApiError;
use crate::identity::Identity;
use crate::openapi::OperationDoc;

/// What a method of a path asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: it is the same for everybody.
    Nothing,
    /// That the caller is known, and nothing else.
    Identity,
    /// A permission.
    Permission(Permission),
}

impl From<Permission> for Needs {
    fn from(permission: Permission) -> Self {
        Self::Permission(permission)
    }
}

/// A path and its methods.
pub(crate) struct Path {
    pattern: &'static str,
    resource: Resource,
    operations: Vec<Operation>,
}

/// A method of a path.
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
}

/// A path below [`sched_wire::BASE_PATH`], for which methods are to follow.
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
                self.with(Method::$method, needs.into(), web::$name().to(handler), says)
            }
        )+
    };
}

impl Path {
    methods! { get = GET, post = POST, put = PUT, patch = PATCH, delete = DELETE }

    /// The path, with the names of its variable parts in braces.
    pub(crate) const fn pattern(&self) -> &'static str {
        self.pattern
    }

    /// Its methods.
    pub(crate) fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.operations.iter()
    }

    fn with(mut self, method: Method, needs: Needs, route: Route, says: OperationDoc) -> Self {
        let checked =
            from_fn(move |request: ServiceRequest, next: Next<BoxBody>| check(needs, request, next));
        self.operations.push(Operation { method, needs, says });
        Self { resource: self.resource.route(route.wrap(checked)), ..self }
    }
}

impl HttpServiceFactory for Path {
    fn register(self, config: &mut AppService) {
        let methods: Vec<&str> = self.operations.iter().map(|one| one.method.as_str()).collect();
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
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let allowed = allowed(needs, request.extensions().get::<Identity>());
    match allowed {
        Ok(()) => next.call(request).await,
        Err(error) => Ok(request.error_response(error)),
    }
}

/// Whether somebody may do what needs this.
pub(crate) fn allowed(needs: Needs, identity: Option<&Identity>) -> Result<(), ApiError> {
    if needs == Needs::Nothing {
        return Ok(());
    }
    let identity = identity.ok_or(ApiError::Unauthenticated(None))?;
    match needs {
        Needs::Permission(permission) if !identity.known().permissions.has(permission) => {
            Err(ApiError::Forbidden(permission))
        }
        Needs::Permission(_) | Needs::Identity | Needs::Nothing => Ok(()),
    }
}
