//! Targets that functions may not call, in every known disguise, called through the handler.
//!
//! A listener on all addresses of this machine, on the targets' port, detects calls.

use std::net::Ipv4Addr;
use std::sync::Arc;

use sched_worker::handlers::http::{HttpHandler, HttpSettings, PortList};
use sched_worker::handlers::{ErrorClass, Outcome, Report};
use scripted_http::{Response, Server};
use serde_json::json;

use super::support::{ScriptedResolver, run, settings};

/// One address of every non-public network, and clouds' metadata addresses.
const ADDRESSES: [[u8; 4]; 23] = [
    [0, 0, 0, 0],
    [0, 1, 2, 3],
    [10, 0, 0, 1],
    [10, 255, 255, 255],
    [100, 64, 0, 1],
    [100, 100, 100, 200],
    [127, 0, 0, 1],
    [127, 255, 255, 254],
    [168, 63, 129, 16],
    [169, 254, 169, 254],
    [169, 254, 170, 2],
    [172, 16, 0, 1],
    [172, 31, 255, 255],
    [192, 0, 0, 192],
    [192, 0, 2, 1],
    [192, 88, 99, 1],
    [192, 168, 1, 1],
    [198, 18, 0, 1],
    [198, 51, 100, 7],
    [203, 0, 113, 9],
    [224, 0, 0, 1],
    [240, 0, 0, 1],
    [255, 255, 255, 255],
];

/// All notations of an IPv4 address in a URL and in an IPv6 address.
fn disguises(address: [u8; 4]) -> Vec<String> {
    let [a, b, c, d] = address;
    let v4 = Ipv4Addr::from(address);
    let number = u32::from(v4);
    let (high, low) = (number >> 16, number & 0xffff);
    let full_width: String = v4
        .to_string()
        .chars()
        .map(|digit| digit.to_digit(10).map_or(digit, |digit| char::from_u32(0xff10 + digit).unwrap()))
        .collect();
    let escaped: String = v4.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect();
    vec![
        v4.to_string(),
        format!("{v4}."),
        number.to_string(),
        format!("{number:#010x}"),
        format!("{number:#X}").replace("0X", "0x"),
        format!("0{number:o}"),
        format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("{a}.{}", (u32::from(b) << 16) | (u32::from(c) << 8) | u32::from(d)),
        format!("{a}.{b}.{}", (u32::from(c) << 8) | u32::from(d)),
        full_width,
        v4.to_string().replace('.', "。"),
        escaped,
        format!("[::ffff:{v4}]"),
        format!("[::FFFF:{high:x}:{low:x}]"),
        format!("[0:0:0:0:0:ffff:{high:04x}:{low:04x}]"),
        format!("[::{v4}]"),
        format!("[::ffff:0:{v4}]"),
        format!("[64:ff9b::{v4}]"),
        format!("[64:ff9b:1::{v4}]"),
        format!("[2002:{high:x}:{low:x}::1]"),
        format!("[2001:0:4136:e378:8000:63bf:{:x}:{:x}]", !high & 0xffff, !low & 0xffff),
    ]
}

/// IPv6 addresses that are not public.
const V6: [&str; 32] = [
    "::",
    "::1",
    "0:0:0:0:0:0:0:1",
    "::2",
    "100::1",
    "1::1",
    "fc00::1",
    "fd00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fdff:ffff::1",
    "fe80::1",
    "fe80::a9fe:a9fe",
    "febf::1",
    "fec0::1",
    "feff::1",
    "ff00::1",
    "ff02::1",
    "ff05::2",
    "ff0e::1",
    "2001:db8::1",
    "2001:db8:ffff::1",
    "2001::1",
    "2001:10::1",
    "2001:20::1",
    "2001:2::1",
    "2002::1",
    "3fff::1",
    "4000::1",
    "64:ff9b::808:808",
    "2606:4700:1:2:0:5efe:10.0.0.1",
    "2606:4700:1:2:200:5efe:a9fe:a9fe",
];

/// Names of this machine and of metadata services, and URLs that are invalid or hide another URL.
const URLS: [&str; 41] = [
    "http://localhost:PORT/",
    "http://LOCALHOST:PORT/",
    "http://localhost.:PORT/",
    "http://LocalHost.LocalDomain:PORT/",
    "http://a.b.localhost:PORT/",
    "http://ip6-localhost:PORT/",
    "http://ip6-loopback:PORT/",
    "http://loc%61lhost:PORT/",
    "http://metadata.packet.net/userdata",
    "https://METADATA.platformequinix.com./",
    "http://ｌｏｃａｌｈｏｓｔ:PORT/",
    "http://LOCALHOſT:PORT/",
    "http://user@127.0.0.1:PORT/",
    "http://user:password@127.0.0.1:PORT/",
    "http://example.com@127.0.0.1:PORT/",
    "http://example.com:80@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT\\@example.com/",
    "http://127.0.0.1:PORT#@example.com/",
    "http://127.0.0.1:PORT/#/",
    "http://127.0.0.1:PORT?@example.com/",
    "http:127.0.0.1:PORT/",
    "http:/127.0.0.1:PORT/",
    "http:///127.0.0.1:PORT/",
    "http:\\\\127.0.0.1:PORT\\",
    "http://\t127.0.0.1:PORT/",
    "http://127.0.\n0.1:PORT/",
    " http://127.0.0.1:PORT/",
    "//127.0.0.1:PORT/",
    "127.0.0.1:PORT",
    "http://[fe80::1%25eth0]:PORT/",
    "http://[::1%25lo]:PORT/",
    "http://[::1]:PORT/../",
    "http://127.0.0.1:0/",
    "http://0:PORT/",
    "http://0x7f.1:PORT/",
    "http://127.0.0.1:{{args.port}}/",
    "file:///etc/passwd",
    "ftp://127.0.0.1:PORT/",
    "gopher://127.0.0.1:PORT/_x",
    "dict://127.0.0.1:PORT/x",
    "unix:/var/run/docker.sock",
];

/// Ports that are rejected even on public addresses.
const PORTS: [u16; 13] = [1, 22, 25, 53, 110, 143, 2375, 3306, 5432, 6379, 6667, 10080, 11211];

struct Tally {
    blocked: usize,
    through: Vec<String>,
}

impl Tally {
    fn record(&mut self, what: &str, report: &Report, accepted: &[ErrorClass]) {
        if report.error_class.is_some_and(|class| accepted.contains(&class)) {
            self.blocked += 1;
        } else {
            self.through.push(format!("{what}: {:?} {:?}", report.error_class, report.error_message));
        }
    }
}

const REFUSED: [ErrorClass; 2] = [ErrorClass::TargetRefused, ErrorClass::InvalidConfig];

#[tokio::test]
async fn hostile_targets_are_all_blocked() {
    let canary = Server::bound("0.0.0.0:0", Response::new(200));
    let port = canary.address().port();
    let resolver = Arc::new(ScriptedResolver::default());
    let handler =
        HttpHandler::new(HttpSettings { resolver: resolver.clone(), ..HttpSettings::default() }).unwrap();
    let mut tally = Tally { blocked: 0, through: Vec::new() };

    let mut urls: Vec<String> = URLS.iter().map(|url| url.replace("PORT", &port.to_string())).collect();
    urls.extend(
        ADDRESSES.iter().flat_map(|address| disguises(*address)).map(|host| format!("http://{host}:{port}/")),
    );
    urls.extend(V6.iter().map(|address| format!("http://[{address}]:{port}/")));
    urls.extend(PORTS.iter().map(|port| format!("http://8.8.8.8:{port}/")));
    // Names with rejected addresses, alone and among public ones, in either order.
    for (number, address) in ADDRESSES.iter().enumerate() {
        let refused = Ipv4Addr::from(*address).to_string();
        let mapped = format!("::ffff:{refused}");
        let answers: [&[&str]; 4] = [
            &[&refused],
            &["8.8.8.8", &refused],
            &[&refused, "2606:4700::1111", "8.8.8.8"],
            &["8.8.8.8", &mapped],
        ];
        for (kind, answer) in answers.iter().enumerate() {
            let name = format!("n{number}-{kind}.example.com");
            resolver.name(&name, &[answer]);
            urls.push(format!("https://{name}:{port}/"));
        }
    }
    for (number, address) in V6.iter().enumerate() {
        let name = format!("v6-{number}.example.com");
        resolver.name(&name, &[&["2606:4700::1111", address]]);
        urls.push(format!("http://{name}:{port}/"));
    }
    for url in &urls {
        let report = run(&handler, json!({"url": url, "circuit_breaker": {"failures": 0}})).await;
        tally.record(url, &report, &REFUSED);
    }

    let redirects = redirects(&mut tally, &canary).await;
    let rebound = rebinding(&mut tally, &canary).await;
    let all = urls.len()
        + redirects
        + rebound
        + own_database(&mut tally, &canary).await
        + ports(&mut tally, &canary).await;
    println!("blocked {} of {all}", tally.blocked);
    assert_eq!(tally.through, Vec::<String>::new());
    assert!(all >= 300 && tally.blocked == all);
    assert_eq!(canary.connections(), 0, "not one connection was opened");
}

/// Redirects to rejected targets are plain responses.
async fn redirects(tally: &mut Tally, canary: &Server) -> usize {
    let targets = [
        format!("http://127.0.0.2:{}/", canary.address().port()),
        format!("http://2130706434:{}/", canary.address().port()),
        format!("//127.0.0.2:{}/", canary.address().port()),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "file:///etc/passwd".to_owned(),
    ];
    let mut count = 0;
    for status in [301, 302, 303, 307, 308] {
        for target in &targets {
            let redirect = Response::new(status).header("Location", target);
            let server = Server::start(redirect.header("Refresh", &format!("0; url={target}")));
            let handler = HttpHandler::new(settings(&[&server.address().to_string()])).unwrap();
            let report = run(&handler, json!({"url": server.url("/"), "method": "GET"})).await;
            tally.record(&format!("{status} to {target}"), &report, &[ErrorClass::RequestRejected]);
            assert_eq!(server.connections(), 1, "{status} to {target}");
            count += 1;
        }
    }
    count
}

/// Names with changing answers: the first is checked and used, the second is checked again.
async fn rebinding(tally: &mut Tally, canary: &Server) -> usize {
    let server = Server::start(Response::new(200).body("first"));
    let (resolver, port) = (Arc::new(ScriptedResolver::default()), server.address().port());
    let allowed = [server.address().to_string()];
    let settings = settings(&allowed.each_ref().map(String::as_str));
    let handler = HttpHandler::new(HttpSettings { resolver: resolver.clone(), ..settings }).unwrap();
    assert_ne!(port, canary.address().port());
    let second = ["127.0.0.2", "10.0.0.1", "169.254.169.254", "::1", "0.0.0.0", "::ffff:127.0.0.2"];
    for (number, address) in second.iter().enumerate() {
        let name = format!("rebind{number}.example.com");
        resolver.name(&name, &[&["127.0.0.1"], &[address]]);
        let config = json!({"url": format!("http://{name}:{port}/")});
        let asked = resolver.queries.load(std::sync::atomic::Ordering::SeqCst);
        let report = run(&handler, config.clone()).await;
        assert_eq!(report.stdout.head, "first", "{:?}", report.error_message);
        let asked = resolver.queries.load(std::sync::atomic::Ordering::SeqCst) - asked;
        assert_eq!(asked, 1, "the checked address is the called one");
        tally.record(&format!("{name}, then {address}"), &run(&handler, config).await, &REFUSED);
    }
    second.len()
}

/// The scheduler's own database, while all networks around it are allowed.
async fn own_database(tally: &mut Tally, canary: &Server) -> usize {
    let port = canary.address().port();
    let resolver = Arc::new(ScriptedResolver::default());
    resolver.name("db.example.com", &[&["10.1.2.3"]]);
    resolver.name("standby.example.com", &[&["2606:4700::7"]]);
    resolver.name("alias.example.com", &[&["10.1.2.3"]]);
    resolver.name("second.example.com", &[&["10.1.2.9", "10.1.2.3"]]);
    resolver.name("mapped.example.com", &[&["::ffff:10.1.2.3"]]);
    resolver.name("other.example.com", &[&["127.0.0.1"]]);
    let database = |hosts: &[(&str, u16)]| {
        hosts.iter().map(|(host, port)| ((*host).to_owned(), *port)).collect::<Vec<_>>()
    };
    let everything =
        ["0.0.0.0/0", "::/0", "db.example.com", "alias.example.com", "localhost", "other.example.com"];
    let handler = |hosts: &[(&str, u16)]| {
        let (resolver, own_database) = (resolver.clone(), database(hosts));
        HttpHandler::new(HttpSettings { resolver, own_database, ..settings(&everything) }).unwrap()
    };
    let far = handler(&[("DB.example.com.", port), ("standby.example.com", 5432)]);
    let mut asked = Vec::new();
    for host in disguises([10, 1, 2, 3]) {
        asked.push((&far, format!("http://{host}:{port}/")));
    }
    for host in
        ["db.example.com", "DB.EXAMPLE.COM.", "alias.example.com", "second.example.com", "mapped.example.com"]
    {
        asked.push((&far, format!("http://{host}:{port}/")));
        // Each server on the ports of all of them.
        asked.push((&far, format!("http://{host}:5432/")));
    }
    asked.push((&far, format!("http://standby.example.com:{port}/")));
    asked.push((&far, format!("http://[2606:4700::7]:{port}/")));
    // All names and addresses of this machine.
    let near = [("localhost", port), ("127.0.0.1", port), ("::1", port)].map(|place| handler(&[place]));
    resolver.name("localhost", &[&["127.0.0.1"]]);
    for handler in &near {
        for host in [
            "127.0.0.1",
            "127.0.0.2",
            "0.0.0.0",
            "2130706433",
            "[::ffff:127.0.0.1]",
            "localhost",
            "other.example.com",
        ] {
            asked.push((handler, format!("http://{host}:{port}/")));
        }
    }
    // If the database's name does not resolve, any target may be the database.
    let unknown = handler(&[("gone.example.com", port)]);
    asked.push((&unknown, format!("http://127.0.0.1:{port}/")));
    for (handler, url) in &asked {
        let report = run(handler, json!({"url": url, "circuit_breaker": {"failures": 0}})).await;
        tally.record(&format!("{url}, which is the database"), &report, &REFUSED);
    }
    assert_eq!(canary.connections(), 0, "not one connection was opened to the database");

    // Only the database is rejected, not its surroundings.
    let server = Server::start(Response::new(200));
    for handler in near.iter().chain([&far]) {
        let report = run(handler, json!({"url": server.url("/")})).await;
        assert_eq!(report.outcome, Outcome::Succeeded, "{report:?}");
    }
    asked.len()
}

/// Unlisted ports, on public and allowed addresses.
async fn ports(tally: &mut Tally, canary: &Server) -> usize {
    let port = canary.address().port();
    let only = |ports: &[&str], allowed: &[&str]| {
        let ports = PortList::parse(ports).unwrap();
        HttpHandler::new(HttpSettings { ports, ..settings(allowed) }).unwrap()
    };
    let handler = only(&["443", "8000-8001"], &["127.0.0.0/8", "localhost"]);
    let urls = [
        "http://8.8.8.8/".to_owned(),
        "http://8.8.8.8:8002/".to_owned(),
        "https://[2606:4700::1111]:444/".to_owned(),
        format!("http://127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
    ];
    for url in &urls {
        let report = run(&handler, json!({"url": url})).await;
        tally.record(&format!("{url}, whose port is not named"), &report, &REFUSED);
        assert!(
            report.error_message.as_deref().unwrap_or_default().contains("WORKER_HTTP_PORTS"),
            "{report:?}"
        );
    }
    assert_eq!(canary.connections(), 0);
    // A target allowed with its port needs no entry in the list of ports.
    let server = Server::start(Response::new(200));
    let port = server.address().port().to_string();
    for (ports, allowed) in
        [(["443"], server.address().to_string()), ([port.as_str()], "127.0.0.1".to_owned())]
    {
        let report = run(&only(&ports, &[&allowed]), json!({"url": server.url("/")})).await;
        assert_eq!(report.outcome, Outcome::Succeeded, "{report:?}");
    }
    urls.len()
}
