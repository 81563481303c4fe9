//! Paths of the API and what each of their methods asks for.
//!
//! A [`Path`] takes a handler only together with what is needed to reach it, so a route that asks for nothing cannot be written
//! by accident: it does not compile. That the caller is known was settled before ([`crate::guard`]); here it is whether they may.

use actix_web::body::BoxBody;
use actix_web::dev::{AppService, HttpServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::{Error, FromRequest, Handler, HttpMessage, HttpResponse, Resource, Responder, Route, web};
use sched_model::domain::identity::Permission;

use crate::error::ApiError;
use crate::identity::Identity;

/// What a method of a path asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
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
pub(crate) struct Path(Resource);

/// A path that takes the methods of `allow`, for which handlers are to follow.
pub(crate) fn at(path: &str, allow: &'static str) -> Path {
    let refuse = move || async move { Err::<HttpResponse, _>(ApiError::MethodNotAllowed { allow }) };
    Path(web::resource(path).default_service(web::to(refuse)))
}

impl Path {
    pub(crate) fn get<F, Args>(self, needs: impl Into<Needs>, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.with(web::get().to(handler), needs.into())
    }

    pub(crate) fn post<F, Args>(self, needs: impl Into<Needs>, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.with(web::post().to(handler), needs.into())
    }

    pub(crate) fn put<F, Args>(self, needs: impl Into<Needs>, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.with(web::put().to(handler), needs.into())
    }

    pub(crate) fn delete<F, Args>(self, needs: impl Into<Needs>, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.with(web::delete().to(handler), needs.into())
    }

    fn with(self, route: Route, needs: Needs) -> Self {
        let checked =
            from_fn(move |request: ServiceRequest, next: Next<BoxBody>| check(needs, request, next));
        Self(self.0.route(route.wrap(checked)))
    }
}

impl HttpServiceFactory for Path {
    fn register(self, config: &mut AppService) {
        self.0.register(config);
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
    let identity = identity.ok_or(ApiError::Unauthenticated(None))?;
    match needs {
        Needs::Permission(permission) if !identity.known().permissions.has(permission) => {
            Err(ApiError::Forbidden(permission))
        }
        Needs::Permission(_) | Needs::Identity => Ok(()),
    }
}
