//! The cost of parsing one head. `cargo bench -p http1`

use http1::{Decoder, Framing, Limits, MethodKind};

fn main() {
    divan::main();
}

/// A head of 350 bytes, as curl and most service clients send it.
const SERVICE: &[u8] = b"POST /orders/7421?expand=lines HTTP/1.1\r\n\
    Host: api.example.com:8080\r\n\
    User-Agent: curl/8.5.0\r\n\
    Accept: */*\r\n\
    Authorization: Bearer eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2ln\r\n\
    Content-Type: application/json\r\n\
    X-Request-Id: 6b1f9b8e-0d5c-4c38-9f2b-0f5b9f6f7f11\r\n\
    Content-Length: 1024\r\n\r\n";

/// A head of 700 bytes, as a browser sends it.
const BROWSER: &[u8] = b"GET /shop/catalogue/items?page=2&sort=price&order=asc HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    Connection: keep-alive\r\n\
    sec-ch-ua: \"Chromium\";v=\"120\", \"Not?A_Brand\";v=\"24\"\r\n\
    sec-ch-ua-mobile: ?0\r\n\
    sec-ch-ua-platform: \"Linux\"\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Sec-Fetch-Dest: document\r\n\
    Referer: https://www.example.com/shop/catalogue\r\n\
    Accept-Encoding: gzip, deflate, br\r\n\
    Accept-Language: en-GB,en;q=0.9\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=1\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
    Server: nginx\r\n\
    Date: Sat, 21 Nov 2026 10:00:00 GMT\r\n\
    Content-Type: application/json\r\n\
    Content-Length: 1024\r\n\
    Connection: keep-alive\r\n\r\n";

fn head_of(client: &str) -> &'static [u8] {
    if client == "service" { SERVICE } else { BROWSER }
}

#[divan::bench(args = ["service", "browser"], sample_size = 1000)]
fn request(bencher: divan::Bencher<'_, '_>, client: &str) {
    let head = head_of(client);
    let (limits, mut lines) = (Limits::default(), Vec::new());
    bencher.bench_local(|| http1::parse_request(divan::black_box(head), &limits, &mut lines));
}

#[divan::bench(sample_size = 1000)]
fn response(bencher: divan::Bencher<'_, '_>) {
    let (limits, mut lines) = (Limits::default(), Vec::new());
    let head = divan::black_box(RESPONSE);
    bencher.bench_local(|| http1::parse_response(head, &limits, MethodKind::default(), &mut lines));
}

/// httparse alone, the lower bound of the above.
#[divan::bench(args = ["service", "browser"], sample_size = 1000)]
fn httparse_alone(bencher: divan::Bencher<'_, '_>, client: &str) {
    let head = head_of(client);
    bencher.bench_local(|| {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        httparse::Request::new(&mut headers).parse(divan::black_box(head)).is_ok()
    });
}

/// A body of 64 KiB in chunks of 4 KiB.
#[divan::bench(sample_size = 100)]
fn chunked(bencher: divan::Bencher<'_, '_>) {
    let mut body = Vec::new();
    for _ in 0..16 {
        http1::chunk_header(4096, &mut body);
        body.extend_from_slice(&[b'x'; 4096]);
        body.extend_from_slice(b"\r\n");
    }
    http1::last_chunk(b"", &mut body);
    let mut out = Vec::with_capacity(1 << 17);
    bencher.bench_local(|| {
        out.clear();
        Decoder::new(Framing::Chunked).decode(divan::black_box(&body), &mut out)
    });
}
