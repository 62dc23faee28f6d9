use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::*;
use crate::generator::{Share, Target, Work, run};

/// How a hub treats its subscribers.
#[derive(Clone, Copy)]
enum Treatment {
    Right,
    /// Signs with another secret.
    WrongSecret,
    /// Omits the first subscriber.
    OneMissing,
}

/// Starts a hub that verifies each subscription and delivers each event once.
fn hub(treatment: Treatment) -> SocketAddr {
    let bound = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = bound.local_addr().unwrap();
    let subscribers = Arc::new(Mutex::new(Vec::<(String, String)>::new()));
    thread::spawn(move || {
        for stream in bound.incoming() {
            let (stream, subscribers) = (stream.unwrap(), Arc::clone(&subscribers));
            thread::spawn(move || serve(stream, &subscribers, treatment));
        }
    });
    address
}

fn serve(mut stream: TcpStream, subscribers: &Mutex<Vec<(String, String)>>, treatment: Treatment) {
    while let Some((head, body)) = read(&mut stream) {
        stream.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").unwrap();
        if head.starts_with("POST /publish") {
            let all = subscribers.lock().unwrap().clone();
            let first = usize::from(matches!(treatment, Treatment::OneMissing));
            for (callback, secret) in all.iter().skip(first) {
                let secret = match treatment {
                    Treatment::WrongSecret => "other",
                    Treatment::Right | Treatment::OneMissing => secret,
                };
                let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
                let tag = hmac::sign(&key, &body);
                let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
                let fields =
                    format!("X-Hub-Signature: sha256={hex}\r\nContent-Length: {}\r\n", body.len());
                send(callback, "POST", "", &fields, &body);
            }
            continue;
        }
        let form: std::collections::BTreeMap<_, _> =
            form_urlencoded::parse(&body).into_owned().collect();
        let callback = form["hub.callback"].clone();
        // An event may be published as soon as the last subscription is confirmed.
        subscribers.lock().unwrap().push((callback.clone(), form["hub.secret"].clone()));
        send(&callback, "GET", "?hub.challenge=abc", "", b"");
    }
}

fn send(callback: &str, method: &str, query: &str, fields: &str, body: &[u8]) {
    let (host, path) = callback.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!("{method} /{path}{query} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    assert!(read(&mut stream).unwrap().0.starts_with("HTTP/1.1 200 "));
}

fn read(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut received = Vec::new();
    loop {
        if let Some((head, length)) = sizes(&received)
            && received.len() >= head + length
        {
            let body = received.split_off(head);
            return Some((String::from_utf8(received).unwrap(), body));
        }
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
        received.extend_from_slice(&bytes[..count]);
    }
}

fn counts(treatment: Treatment) -> WebSubCounts {
    // A missing delivery is waited for, so the time is short. On a busy machine, the other deliveries may take long.
    let response_max = match treatment {
        Treatment::OneMissing => Duration::from_secs(3),
        Treatment::Right | Treatment::WrongSecret => Duration::from_secs(30),
    };
    let load = Load {
        target: Target { address: hub(treatment), host: "hub".to_owned(), tls: None },
        work: Work::Websub(WebSub {
            subscribers: 5,
            callback: "127.0.0.1".parse().unwrap(),
            path: "/hub".to_owned(),
            publish: "/publish?topic=news".to_owned(),
            topic: "news".to_owned(),
            headers: Vec::new(),
            message_bytes: 8000,
            events: 2,
        }),
        warm_up: Duration::from_millis(1),
        duration: Duration::from_secs(1),
        connect_max: Duration::from_secs(5),
        response_max,
        seed: 1,
        threads: 1,
        share: Share::default(),
    };
    let outcome = run(&load, &Control::default(), None).unwrap();
    let Some(Streams::Websub(counts)) = outcome.streams else { panic!("{outcome:?}") };
    counts
}

#[test]
fn each_event_is_delivered_to_each_subscriber() {
    let right = counts(Treatment::Right);
    assert_eq!((right.subscribers, right.undelivered, right.bad_signatures), (5, 0, 0));
    assert!(right.last_delivery_ms.is_some_and(|ms| ms > 0.0), "{right:?}");
    let wrong = counts(Treatment::WrongSecret);
    assert_eq!((wrong.undelivered, wrong.bad_signatures), (0, 10));
    let missing = counts(Treatment::OneMissing);
    assert_eq!((missing.undelivered, missing.bad_signatures), (2, 0));
}
