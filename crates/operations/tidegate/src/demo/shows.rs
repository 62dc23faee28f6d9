//! The features that the demo shows: a request, the expected answer and the actual answer for each.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::ANSWER_MAX;
use super::client::{get, post, send, websocket};
use crate::log::say;

/// Runs all of them in order and prints the results. Returns the number of failures.
pub(super) async fn all(gateway: SocketAddr, admin: Option<SocketAddr>) -> usize {
    let mut failed = 0;
    let mut tell = |what: &str, outcome: anyhow::Result<String>| match outcome {
        Ok(seen) => say(&format!("  ok      {what:<34} {seen}")),
        Err(error) => {
            failed += 1;
            say(&format!("  FAILED  {what:<34} {error:#}"));
        }
    };
    tell("GET /hello", hello(gateway).await);
    tell("POST /echo/post", echo(gateway).await);
    tell("GET /echo/who, thirty times", balance(gateway).await);
    tell("GET /orders/7", orders(gateway).await);
    tell("POST /add (JSON to SOAP and back)", add(gateway).await);
    tell("POST /calculator, no SOAP", not_soap(gateway).await);
    tell("POST /news/publish, then read", news(gateway).await);
    tell("GET /ticks (server-sent events)", ticks(gateway).await);
    tell("GET /chat (WebSocket)", chat(gateway).await);
    tell("GET /nowhere", problem(gateway, "/nowhere", 404, "no_route").await);
    tell("GET /down", problem(gateway, "/down", 502, "connect_failure").await);
    tell("bytes that two parsers could disagree on", smuggled(gateway).await);
    if let Some(admin) = admin {
        tell("GET /metrics (admin)", metrics(admin).await);
    }
    failed
}

async fn hello(gateway: SocketAddr) -> anyhow::Result<String> {
    let answer = get(gateway, "/hello").await?;
    ensure!(
        answer.status == 200 && answer.body == "hello\n",
        "status {}: {}",
        answer.status,
        answer.body
    );
    Ok("200, answered by the gateway itself".to_owned())
}

async fn echo(gateway: SocketAddr) -> anyhow::Result<String> {
    let body = "forty-two";
    let answer = post(gateway, "/echo/post", "text/plain", body).await?;
    ensure!(
        answer.status == 200 && answer.body == body,
        "status {}: {}",
        answer.status,
        answer.body
    );
    // Harmless: an absent header is not the expected one.
    let path = answer.header("x-echo-path").unwrap_or_default();
    ensure!(path == "/post", "the upstream saw {path}");
    Ok("200, the body came back; the upstream saw /post".to_owned())
}

async fn balance(gateway: SocketAddr) -> anyhow::Result<String> {
    let (mut one, mut two) = (0, 0);
    for _ in 0..30 {
        match get(gateway, "/echo/who").await?.header("x-backend") {
            Some("one") => one += 1,
            Some("two") => two += 1,
            other => bail!("answered by {other:?}"),
        }
    }
    // Each worker balances by itself, so the shares only approximate the weights.
    ensure!(one > 0 && two > 0, "one target got everything");
    Ok(format!("30 requests balanced by weight 1:2: {one} and {two}"))
}

async fn orders(gateway: SocketAddr) -> anyhow::Result<String> {
    let answer = get(gateway, "/orders/7").await?;
    ensure!(answer.status == 200, "status {}", answer.status);
    ensure!(answer.body.contains("/anything/order-7"), "not rewritten: {}", answer.body);
    ensure!(answer.body.to_ascii_lowercase().contains("x-tier"), "no x-tier: {}", answer.body);
    // Harmless: an absent header is not the expected one.
    let added = answer.header("x-demo").unwrap_or_default();
    ensure!(added == "seen by a policy", "x-demo: {added}");
    Ok("200, rewritten to /anything/order-7, headers set by a policy".to_owned())
}

async fn add(gateway: SocketAddr) -> anyhow::Result<String> {
    let answer = post(gateway, "/add", "application/json", r#"{"a":40,"b":2}"#).await?;
    let sum = r#"{ "sum": 42 }"#;
    ensure!(answer.status == 200 && answer.body == sum, "{}: {}", answer.status, answer.body);
    Ok(format!("200, a flow called the SOAP service and answered {sum}"))
}

async fn not_soap(gateway: SocketAddr) -> anyhow::Result<String> {
    let answer = post(gateway, "/calculator", "text/xml", "<hello/>").await?;
    let refused = answer.status == 500 && answer.body.contains("soap:Client");
    ensure!(refused, "{}: {}", answer.status, answer.body);
    Ok("500, a SOAP fault of the gateway; the service saw nothing".to_owned())
}

async fn news(gateway: SocketAddr) -> anyhow::Result<String> {
    let published = post(gateway, "/news/publish?topic=sports", "text/plain", "goal").await?;
    ensure!(published.status == 200, "{}: {}", published.status, published.body);
    let read = get(gateway, "/news/topics/sports?after=0").await?;
    ensure!(read.body.contains(r#""body":"goal""#), "{}: {}", read.status, read.body);
    Ok("200, the event is stored; a reader has got it".to_owned())
}

/// The first event must arrive before the last one is sent.
async fn ticks(gateway: SocketAddr) -> anyhow::Result<String> {
    const COUNT: usize = 4;
    let began = kit::clock::now();
    let mut stream = TcpStream::connect(gateway).await?;
    let request = format!(
        "GET /ticks?interval=150ms&count={COUNT} HTTP/1.1\r\nHost: demo\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let (mut text, mut first) = (String::new(), None);
    let reading = async {
        let mut bytes = [0; 4096];
        loop {
            let read = stream.read(&mut bytes).await?;
            if read == 0 {
                return Ok::<_, std::io::Error>(());
            }
            // Harmless: the text is only shown.
            text.push_str(&String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()));
            if first.is_none() && text.contains("data:") {
                first = Some(began.elapsed());
            }
        }
    };
    tokio::time::timeout(ANSWER_MAX, reading).await??;
    let (first, last) = (first.unwrap_or(Duration::MAX), began.elapsed());
    let events = text.matches("data:").count();
    ensure!(events == COUNT, "{events} events");
    ensure!(first * 2 < last, "the first event came after {first:?} of {last:?}");
    Ok(format!(
        "{events} events, the first after {} ms, the last after {} ms",
        first.as_millis(),
        last.as_millis()
    ))
}

async fn chat(gateway: SocketAddr) -> anyhow::Result<String> {
    let back = websocket(gateway, "/chat", "Tidegate \u{2713}").await?;
    ensure!(back == "\u{2713} etagediT", "came back as {back}");
    Ok(format!("101, \"Tidegate \u{2713}\" came back as \"{back}\""))
}

async fn problem(
    gateway: SocketAddr,
    path: &str,
    status: u16,
    fault: &str,
) -> anyhow::Result<String> {
    let answer = get(gateway, path).await?;
    // Harmless: an absent header is not the expected one.
    let kind = answer.header("content-type").unwrap_or_default();
    ensure!(
        answer.status == status && kind == "application/problem+json",
        "{} {kind}",
        answer.status
    );
    ensure!(answer.body.contains(fault), "{}", answer.body);
    Ok(format!("{status}, problem+json says {fault}"))
}

async fn smuggled(gateway: SocketAddr) -> anyhow::Result<String> {
    let request = "POST /echo HTTP/1.1\r\nHost: demo\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let answer = send(gateway, request).await?;
    ensure!(answer.status == 400, "status {}", answer.status);
    Ok("400 and closed, nothing was forwarded".to_owned())
}

async fn metrics(admin: SocketAddr) -> anyhow::Result<String> {
    let answer = get(admin, "/metrics").await?;
    let line = answer.body.lines().find(|l| {
        l.starts_with("tidegate_requests_total") && l.contains("\"echo\"") && l.contains("2xx")
    });
    match line {
        Some(line) => Ok(line.to_owned()),
        None => bail!("no requests are counted for route echo"),
    }
}
