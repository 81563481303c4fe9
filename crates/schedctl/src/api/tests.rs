use std::net::TcpListener;

use sched_runtime::exit::{self, ExitStatus as _};
use sched_wire::{ProblemError, Status};
use scripted_http::{Request, Response, Server, sequence};
use secrecy::SecretString;

use super::*;
use crate::endpoint::Source;

/// A server with one response after the other.
fn server(answers: Vec<(u16, String)>) -> (Url, Server) {
    let responses = answers.into_iter().map(|(status, body)| Response::new(status).body(body));
    let server = Server::start(sequence(responses));
    (Url::parse(&server.url("")).unwrap(), server)
}

/// The method and the path of a request.
fn target_of(request: &Request) -> (&str, &str) {
    (&request.method, &request.path)
}

fn api(url: Url) -> Api {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let key = Some(SecretString::from("s3cret".to_owned()));
    Api::new(ApiPlace { url, key, source: Source::Default }).unwrap()
}

#[tokio::test]
async fn a_request_carries_the_key_and_its_path_is_encoded() {
    let (url, server) = server(vec![(200, "[]".into())]);
    let path = ["jobs", "a/b c", "trigger"];
    let _: Vec<u8> = api(url).post(&path, Some((sched_wire::IDEMPOTENCY_KEY, "k1")), &"body").await.unwrap();
    let request = server.requests().remove(0);
    assert_eq!(target_of(&request), ("POST", "/api/v1/jobs/a%2Fb%20c/trigger"));
    assert_eq!(request.version, "HTTP/1.1");
    for (name, value) in
        [("authorization", "Bearer s3cret"), ("idempotency-key", "k1"), ("content-type", "application/json")]
    {
        assert_eq!(request.header(name), Some(value), "{name} in {request:?}");
    }
}

#[tokio::test]
async fn what_is_deleted_answers_with_nothing_and_what_is_put_with_itself() {
    let (url, server) = server(vec![(204, String::new()), (201, "[1]".into())]);
    let api = api(url);
    api.delete(&["calendars", "a b"], &()).await.unwrap();
    let put: Vec<u8> = api.put(&["calendars", "a"], &(), &"body").await.unwrap();
    assert_eq!(put, [1]);
    let sent = server.requests();
    assert_eq!(target_of(&sent[0]), ("DELETE", "/api/v1/calendars/a%20b"));
    assert_eq!(target_of(&sent[1]), ("PUT", "/api/v1/calendars/a"));
}

#[tokio::test]
async fn an_address_with_a_path_keeps_it() {
    let (url, server) = server(vec![(200, "[]".into())]);
    let _: Vec<u8> = api(url.join("/sched/").unwrap()).get(&["jobs"], &()).await.unwrap();
    assert_eq!(target_of(&server.requests()[0]), ("GET", "/sched/api/v1/jobs"));
}

#[tokio::test]
async fn a_list_follows_its_cursor_up_to_the_limit() {
    let page = |items: &str, next: &str| (200, format!(r#"{{"items":{items},"next_cursor":{next}}}"#));
    let (url, server) = server(vec![page("[1,2]", "\"two\""), page("[3]", "\"three\"")]);
    let query = |limit, cursor| sched_wire::PageQuery { limit: Some(limit), cursor };
    let all = api(url).list::<u8, _>(&["jobs"], 3, query).await.unwrap();
    assert_eq!((all.items, all.next_cursor.as_deref()), (vec![1, 2, 3], Some("three")));
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/api/v1/jobs?limit=3", "/api/v1/jobs?limit=1&cursor=two"]);
}

#[tokio::test]
async fn a_problem_is_shown_with_a_line_for_each_field() {
    let mut problem = Problem::new(422, "Unprocessable", "invalid", "the job cannot be\u{1b}[2J accepted");
    problem.errors = vec![ProblemError { pointer: "/timezone".into(), message: "is unknown".into() }];
    let (url, _server) = server(vec![(422, serde_json::to_string(&problem).unwrap())]);
    let error = api(url).get::<Status>(&["status"], &()).await.unwrap_err();
    assert_eq!(error.exit_code(), exit::REFUSED);
    assert_eq!(
        error.to_string(),
        "the job cannot be\\u{1b}[2J accepted (status 422, invalid)\n  /timezone: is unknown"
    );
}

#[test]
fn what_the_api_says_of_its_routes_is_said_of_commands() {
    let of_api =
        "this needs the permission keys:write, which is not yours; `GET /api/v1/me` lists those that are";
    let mut problem = Problem::new(403, "Forbidden", "forbidden", of_api);
    let error = ApiError::Refused(Box::new(problem.clone())).to_string();
    assert!(error.contains("`schedctl whoami` lists those that are") && !error.contains("GET"), "{error}");
    problem.detail =
        "this needs an API key, in the header Authorization: Bearer sched_…, or the cookie of a session"
            .into();
    let error = ApiError::Refused(Box::new(problem.clone())).to_string();
    assert!(
        error.starts_with("this needs an API key, which --api-key-file, SCHED_API_KEY_FILE or"),
        "{error}"
    );
    problem.detail = "the request has a mistake".into();
    let message = "is named; take it from them first, or delete it with force=true".into();
    problem.errors = vec![ProblemError { pointer: "name".into(), message }];
    let error = ApiError::Refused(Box::new(problem)).to_string();
    assert!(error.ends_with("name: is named; take it from them first, or delete it with --force"), "{error}");
}

#[tokio::test]
async fn an_api_that_is_not_there_is_told_from_one_that_is_something_else() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = api(Url::parse(&format!("http://{free}")).unwrap());
    let error = gone.get::<Status>(&["status"], &()).await.unwrap_err();
    assert_eq!(error.exit_code(), exit::REMOTE);
    assert!(error.is_passing() && error.to_string().contains("schedctl dev"), "{error}");

    let (url, _server) = server(vec![(200, "<html>".into()), (404, "nothing".into())]);
    for _ in 0..2 {
        let error = api(url.clone()).get::<Status>(&["status"], &()).await.unwrap_err();
        assert_eq!(error.exit_code(), exit::REMOTE);
        assert!(!error.is_passing() && error.to_string().contains("--api-url"), "{error}");
    }
}

#[tokio::test]
async fn the_fix_for_an_api_of_dev_that_is_away_depends_on_whether_dev_runs() {
    let folder = tempfile::tempdir().unwrap();
    let owned = local_install::Folder::own(folder.path()).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut gone = api(Url::parse(&format!("http://{free}")).unwrap());
    gone.place.source = Source::Dev(local_install::description_of(owned.dir()));
    let error = gone.get::<Status>(&["status"], &()).await.unwrap_err().to_string();
    assert!(error.contains("has stopped: start it again"), "{error}");
    let pid = i32::try_from(std::process::id()).unwrap();
    let dev = local_install::ProcessEntry { name: "schedctl".to_owned(), pid, health_url: None };
    let description = local_install::Description {
        api_url: String::new(),
        database_url: String::new(),
        processes: vec![dev],
    };
    owned.describe(&description).unwrap();
    let error = gone.get::<Status>(&["status"], &()).await.unwrap_err().to_string();
    assert!(error.contains("is running: wait until it has started"), "{error}");
}
