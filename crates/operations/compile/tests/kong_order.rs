//! Imported routes have the same winner as in Kong: random routes and requests are compared with a model of the rules that Kong documents.
//!
//! The model is independent of the import. A route wins by, in this order: more kinds of conditions, plain hosts, more headers, a regular
//! expression with a higher priority, a longer path, a greater age.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use import::kong::{Options, Source, import};
use message::{Protocol, RequestHead};
use plan::Arrival;
use plan::telemetry::Telemetry;
use regex::Regex;

/// Number of sets of routes. With the requests for each, there are 10,000 in total; `KONG_ORDER_SETS=200` makes it 100,000.
const SETS: usize = 20;
const REQUESTS: usize = 500;

const HOSTS: [&str; 6] = ["a.test", "b.a.test", "*.a.test", "*.test", "a.*", "c.other"];
const PATHS: [&str; 12] = [
    "/",
    "/a",
    "/a/",
    "/a/b",
    "/ab",
    "/x",
    "~/x/\\d+",
    "~/a/[^/]+$",
    "~/(a|x)/b",
    "~/a.*z",
    "/x/1",
    "~/[ax]",
];
const METHODS: [&str; 4] = ["GET", "POST", "PUT", "HEAD"];
const ASKED_HOSTS: [&str; 7] =
    ["a.test", "b.a.test", "z.a.test", "c.other", "a.de", "x.test", "none"];
const ASKED_PATHS: [&str; 12] =
    ["/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "/abz", "/x", "/x/1", "/x/12/3", "/x/b", "/q"];

/// A pseudo-random sequence that is the same in each run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    /// Returns a random selection of a list, without repetition.
    fn some(&mut self, list: &[&'static str], most: usize) -> Vec<&'static str> {
        let count = self.below(most + 1);
        let mut some: Vec<&str> = (0..count).map(|_| list[self.below(list.len())]).collect();
        some.sort_unstable();
        some.dedup();
        some
    }
}

#[derive(Debug)]
struct KongRoute {
    hosts: Vec<&'static str>,
    paths: Vec<&'static str>,
    methods: Vec<&'static str>,
    headers: Vec<(&'static str, Vec<&'static str>)>,
    regex_priority: usize,
    age: usize,
}

struct KongRequest {
    host: &'static str,
    path: &'static str,
    method: &'static str,
    headers: Vec<(&'static str, &'static str)>,
}

impl KongRoute {
    fn random(draw: &mut Draw, age: usize) -> KongRoute {
        let mut route = KongRoute {
            hosts: draw.some(&HOSTS, 2),
            paths: draw.some(&PATHS, 2),
            methods: draw.some(&METHODS, 2),
            headers: Vec::new(),
            regex_priority: draw.below(3),
            age,
        };
        for name in ["x-a", "x-b"] {
            if draw.below(4) == 0 {
                route.headers.push((name, vec!["1", "Two"][draw.below(2)..].to_vec()));
            }
        }
        if route.kinds() == 0 {
            route.paths.push("/");
        }
        route
    }

    fn kinds(&self) -> usize {
        let there = [
            !self.hosts.is_empty(),
            !self.paths.is_empty(),
            !self.methods.is_empty(),
            !self.headers.is_empty(),
        ];
        there.into_iter().filter(|there| *there).count()
    }

    /// Returns the rank of a route for a request, or `None` if it does not match.
    fn worth(
        &self,
        asked: &KongRequest,
        regexes: &HashMap<&str, Regex>,
    ) -> Option<impl Ord + use<>> {
        let host = |wanted: &&str| match (wanted.strip_prefix('*'), wanted.strip_suffix('*')) {
            (Some(end), _) => asked.host.len() > end.len() && asked.host.ends_with(end),
            (_, Some(start)) => asked.host.starts_with(start),
            (None, None) => *wanted == asked.host,
        };
        let header = |(name, values): &(&str, Vec<&str>)| {
            let sent = asked.headers.iter().filter(|(sent, _)| sent == name);
            sent.into_iter().any(|(_, sent)| values.iter().any(|v| v.eq_ignore_ascii_case(sent)))
        };
        let path = |wanted: &&&str| match wanted.strip_prefix('~') {
            Some(_) => regexes[**wanted].is_match(asked.path),
            None => asked.path.starts_with(**wanted),
        };
        let fits = (self.hosts.is_empty() || self.hosts.iter().any(host))
            && (self.methods.is_empty() || self.methods.contains(&asked.method))
            && self.headers.iter().all(header);
        let by_path = |path: &&str| match path.strip_prefix('~') {
            Some(_) => (true, self.regex_priority, 0),
            None => (false, 0, path.len()),
        };
        let best = self.paths.iter().filter(path).map(by_path).max();
        let best = if self.paths.is_empty() { Some((false, 0, 0)) } else { best };
        let plain = !self.hosts.is_empty() && self.hosts.iter().all(|host| !host.contains('*'));
        let headers = self.headers.len();
        best.filter(|_| fits).map(|best| (self.kinds(), plain, headers, best, Reverse(self.age)))
    }

    fn yaml(&self, number: usize) -> String {
        let list = |list: &[&str]| format!("{list:?}");
        let mut text = format!(
            "{{ name: r{number}, created_at: {}, regex_priority: {}",
            self.age, self.regex_priority
        );
        for (key, values) in
            [("hosts", &self.hosts), ("paths", &self.paths), ("methods", &self.methods)]
        {
            if !values.is_empty() {
                write!(text, ", {key}: {}", list(values)).unwrap();
            }
        }
        if !self.headers.is_empty() {
            let headers =
                self.headers.iter().map(|(name, values)| format!("{name}: {}", list(values)));
            write!(text, ", headers: {{ {} }}", headers.collect::<Vec<_>>().join(", ")).unwrap();
        }
        text + " }"
    }
}

#[test]
fn random_routes_have_the_winner_of_kongs_rules() {
    let regexes: HashMap<&str, Regex> = PATHS
        .iter()
        .filter_map(|path| {
            Some((*path, Regex::new(&format!("^(?:{})", path.strip_prefix('~')?)).unwrap()))
        })
        .collect();
    let mut draw = Draw(48);
    let (mut matched, mut most) = (0, 0);
    let asked_for = std::env::var("KONG_ORDER_SETS").ok().and_then(|sets| sets.parse().ok());
    let sets = asked_for.unwrap_or(SETS);
    for _ in 0..sets {
        let count = 2 + draw.below(20);
        let routes: Vec<KongRoute> =
            (0..count).map(|at| KongRoute::random(&mut draw, 1000 + (at * 13) % 1009)).collect();
        let lines: Vec<String> =
            routes.iter().enumerate().map(|(at, route)| route.yaml(at)).collect();
        let text = format!(
            "_format_version: \"3.0\"\nservices:\n  - name: s\n    url: http://127.0.0.1:1\n    routes:\n      - {}\n",
            lines.join("\n      - ")
        );
        let options = Options {
            select_tags: Vec::new(),
            shell_variables: false,
            listen: "127.0.0.1:0".to_owned(),
            listen_tls: "127.0.0.1:0".to_owned(),
            listen_metrics: "127.0.0.1:0".to_owned(),
        };
        let source = Source { name: "kong.yaml".to_owned(), text: text.clone() };
        let made = import(&[source], &options, HashMap::new())
            .unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{text}"));
        most = most.max(made.configuration.matches("priority:").count());
        let loaded = config::parse(&made.configuration, Path::new("tidegate.yaml"));
        assert!(!loaded.report.has_errors(), "{}\n{}", loaded.report, made.configuration);
        let compiled = compile::compile(&loaded, None, &Telemetry::new(1))
            .map_err(|report| report.to_string());
        let table = compiled
            .unwrap_or_else(|why| panic!("{why}\n{text}\n{}", made.configuration))
            .plan
            .table;
        for _ in 0..REQUESTS {
            let asked = KongRequest {
                host: ASKED_HOSTS[draw.below(ASKED_HOSTS.len())],
                path: ASKED_PATHS[draw.below(ASKED_PATHS.len())],
                method: METHODS[draw.below(METHODS.len())],
                headers: [("x-a", "1"), ("x-a", "two"), ("x-b", "TWO")]
                    .into_iter()
                    .filter(|_| draw.below(3) == 0)
                    .collect(),
            };
            let worth = |(_, route): &(usize, &KongRoute)| route.worth(&asked, &regexes);
            let fitting = routes.iter().enumerate().filter(|found| worth(found).is_some());
            let expected = fitting.max_by_key(worth).map(|(at, _)| format!("r{at}"));
            let mut head =
                RequestHead::new(Protocol::Http11, asked.method.as_bytes(), asked.path.as_bytes());
            head.headers.add_known("Host", asked.host.as_bytes());
            for (name, value) in &asked.headers {
                head.headers.add(name, value.as_bytes()).unwrap();
            }
            let arrival = Arrival {
                listener: "public",
                client: IpAddr::V4(Ipv4Addr::LOCALHOST),
                server_name: None,
            };
            let found =
                table.find(arrival, &head, head.path()).map(|found| found.route.name.clone());
            let found = found.filter(|name| name != "no-route-matched");
            let found = found.map(|name| name.split('-').next().unwrap().to_owned());
            matched += usize::from(found.is_some());
            assert_eq!(
                found, expected,
                "{} {}{} {:?}\n{text}\n{}",
                asked.method, asked.host, asked.path, asked.headers, made.configuration
            );
        }
    }
    // Otherwise the test would have compared too little.
    assert!(
        matched > sets * REQUESTS / 4 && most > 3,
        "{matched} of {} matched, {most}",
        sets * REQUESTS
    );
}
