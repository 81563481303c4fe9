//! A minimal S3 server without authentication.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use scripted_http::{Request, Response, Server, Step};

/// Objects by path, which begins with the bucket.
type Objects = Arc<Mutex<HashMap<String, Vec<u8>>>>;

pub(crate) struct S3 {
    pub(crate) server: Server,
    objects: Objects,
}

impl S3 {
    pub(crate) fn start() -> Self {
        let objects = Objects::default();
        let kept = objects.clone();
        let server = Server::start(move |request: &Request| vec![answer(request, &kept).into(), Step::Next]);
        Self { server, objects }
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.objects.lock().unwrap().keys().cloned().collect();
        paths.sort();
        paths
    }

    pub(crate) fn object(&self, path: &str) -> Vec<u8> {
        self.objects.lock().unwrap()[path].clone()
    }
}

fn answer(request: &Request, objects: &Objects) -> Response {
    let mut objects = objects.lock().unwrap();
    let body = if request.method == "PUT" {
        objects.insert(request.path.clone(), request.body.clone());
        Vec::new()
    } else {
        match objects.get(&request.path) {
            Some(object) => object.clone(),
            None => return Response::new(404),
        }
    };
    let date = "Sat, 21 Nov 2026 10:00:00 GMT";
    Response::new(200).header("ETag", "\"1\"").header("Last-Modified", date).body(body)
}
