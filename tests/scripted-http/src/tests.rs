use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::time::Duration;

use super::*;

const LIMIT: Duration = Duration::from_secs(60);

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

fn call(server: &Server, request: &str) -> String {
    let mut stream = connect(server);
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn get(server: &Server, path: &str) -> String {
    call(server, &format!("GET {path} HTTP/1.1\r\n\r\n"))
}

fn wait_for(server: &Server, condition: impl Fn(&Server) -> bool) {
    for _ in 0..6_000 {
        if condition(server) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("timeout: {server:?}");
}

fn wait_for_ends(server: &Server, count: usize) {
    wait_for(server, |server| server.ended_connections() == count);
}

#[test]
fn request_is_recorded_with_headers_and_body() {
    let server = Server::start(Response::new(201).header("X-A", "b").body("made"));
    let body = serde_json::json!({"text": "x".repeat(100_000)}).to_string();
    let head = format!("POST /a?b=c HTTP/1.1\r\nX-Name:  Value \r\nContent-Length: {}\r\n\r\n", body.len());
    let response = call(&server, &(head + &body));
    assert_eq!(response, "HTTP/1.1 201 \r\nContent-Length: 4\r\nX-A: b\r\nConnection: close\r\n\r\nmade");
    let [request] = &server.requests()[..] else { panic!("{server:?}") };
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/a?b=c"));
    assert_eq!(request.version, "HTTP/1.1");
    assert_eq!((request.header("x-NAME"), request.header("absent")), (Some("Value"), None));
    assert_eq!((request.text(), request.json()["text"].as_str().unwrap().len()), (body, 100_000));
}

#[test]
fn incomplete_request_is_not_recorded() {
    let server = Server::start(Response::new(200));
    for part in ["GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab"] {
        let mut stream = connect(&server);
        stream.write_all(part.as_bytes()).unwrap();
    }
    wait_for_ends(&server, 2);
    assert_eq!((server.connections(), server.requests()), (2, Vec::new()));
}

#[test]
fn last_response_of_a_sequence_repeats() {
    let server = Server::start(sequence([503, 404, 200].map(Response::new)));
    let statuses = [(); 5].map(|()| get(&server, "/").split(' ').nth(1).unwrap().to_owned());
    assert_eq!(statuses, ["503", "404", "200", "200", "200"]);
}

#[test]
fn closure_chooses_the_steps_of_a_request() {
    let server = Server::start(|request: &Request| match request.path.as_str() {
        "/known" => vec![Response::new(200).body("found").into()],
        _ => vec![],
    });
    assert_eq!(get(&server, "/known"), "HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nfound");
    assert_eq!(get(&server, "/unknown"), "");
    assert_eq!((server.connections(), server.requests().len()), (2, 2));
}

#[test]
fn next_step_keeps_the_connection() {
    let server = Server::start([Step::send("one\n"), Step::Next]);
    let mut stream = BufReader::new(connect(&server));
    // The second and the third request arrive together.
    for (requests, responses) in [("GET /1 HTTP/1.1\r\n\r\n", 1), ("GET /2 H\r\n\r\nGET /3 H\r\n\r\n", 2)] {
        stream.get_mut().write_all(requests.as_bytes()).unwrap();
        for _ in 0..responses {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            assert_eq!(line, "one\n");
        }
    }
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!((server.connections(), server.ended_connections()), (1, 0));
    assert_eq!(paths, ["/1", "/2", "/3"]);
    drop(stream);
    wait_for_ends(&server, 1);
}

#[test]
fn endless_steps_end_with_the_client() {
    for step in [Step::Flood(vec![b'x'; 1 << 16]), Step::Drip(b"x".to_vec(), Duration::from_millis(1))] {
        let server = Server::start([step]);
        let mut stream = connect(&server);
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut bytes = [0; 20];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [b'x'; 20]);
        drop(stream);
        wait_for_ends(&server, 1);
    }
}

#[test]
fn reset_step_resets_the_connection() {
    let server = Server::start([Step::Reset]);
    let mut stream = connect(&server);
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn hanging_connection_does_not_delay_another() {
    let server = Server::start(|request: &Request| match request.path.as_str() {
        "/hang" => vec![Step::Hang],
        _ => Response::new(200).steps(request),
    });
    let mut hanging = connect(&server);
    hanging.write_all(b"GET /hang HTTP/1.1\r\n\r\n").unwrap();
    wait_for(&server, |server| server.requests().len() == 1);
    assert!(get(&server, "/").starts_with("HTTP/1.1 200 "));
    wait_for_ends(&server, 1);
    drop(hanging);
    wait_for_ends(&server, 2);
}

#[tokio::test]
async fn dropped_server_closes_its_port_and_connections() {
    let server = Server::start([Step::Hang]);
    let (address, mut open) = (server.address(), connect(&server));
    open.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    wait_for(&server, |server| server.requests().len() == 1);
    drop(server);
    assert_eq!(open.read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn server_listens_on_a_given_address() {
    for host in ["127.0.0.1", "[::1]"] {
        // A container may have no IPv6.
        if host == "[::1]" && TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
            continue;
        }
        let first = Server::bound(format!("{host}:0"), Response::new(200));
        let address = first.address();
        assert_eq!(first.url("/a"), format!("http://{host}:{}/a", address.port()));
        assert!(get(&first, "/a").starts_with("HTTP/1.1 200 "));
        drop(first);
        assert_eq!(Server::bound(address, Response::new(200)).address(), address);
    }
}

#[test]
#[should_panic(expected = "failed to start a server on 127.0.0.1:")]
fn taken_port_is_reported() {
    let first = Server::start(Response::new(200));
    Server::bound(first.address(), Response::new(200));
}
