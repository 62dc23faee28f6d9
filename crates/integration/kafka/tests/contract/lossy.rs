//! Lost answers: a record that was written is not written again.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kafka::Kafka;
use store::Logs;

use crate::broker::{self, Extras};
use crate::{one, settings, whole};

/// The API key of the request that writes.
const PRODUCE: [u8; 2] = [0, 0];

#[tokio::test(flavor = "multi_thread")]
async fn an_append_whose_answer_was_lost_is_written_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let broker = broker::Kafka::start(&Extras { advertised: Some(port), ..Extras::default() });
    let lost = Arc::new(AtomicUsize::new(0));
    let (server, losing) = (broker.address(), lost.clone());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
            let losing = losing.clone();
            std::thread::spawn(move || relay(client, server, &losing));
        }
    });
    let logs = Kafka::new(settings(&format!("127.0.0.1:{port}")));
    assert_eq!(logs.append("lossy", one("one"), None).await, Ok(1..=1));
    for position in 2..=4 {
        lost.store(1, Ordering::SeqCst);
        let text = position.to_string();
        assert_eq!(logs.append("lossy", one(&text), None).await, Ok(position..=position));
        assert_eq!(lost.load(Ordering::SeqCst), 0, "an answer was lost");
    }
    let texts = whole(&logs, "lossy").await;
    assert_eq!(
        texts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
        ["one", "2", "3", "4"]
    );
}

/// Relays requests and answers, one after the other. While `lost` is not 0, the answer to a write is dropped together with the connection.
fn relay(mut client: TcpStream, mut server: TcpStream, lost: &AtomicUsize) -> Option<()> {
    loop {
        let request = frame(&mut client)?;
        server.write_all(&request).ok()?;
        let answer = frame(&mut server)?;
        let is_lost = request[4..6] == PRODUCE
            && lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        if is_lost {
            return None;
        }
        client.write_all(&answer).ok()?;
    }
}

fn frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut len = [0; 4];
    stream.read_exact(&mut len).ok()?;
    let mut frame = vec![0; 4 + usize::try_from(u32::from_be_bytes(len)).unwrap()];
    frame[..4].copy_from_slice(&len);
    stream.read_exact(&mut frame[4..]).ok()?;
    Some(frame)
}
