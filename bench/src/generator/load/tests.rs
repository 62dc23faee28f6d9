use super::*;

fn load(groups: Vec<Group>) -> Load {
    Load {
        target: Target {
            address: "127.0.0.1:8080".parse().unwrap(),
            host: "gateway".to_owned(),
            tls: None,
        },
        work: Work::Requests(Requests { groups, tables: BTreeMap::new() }),
        warm_up: Duration::from_secs(5),
        duration: Duration::from_secs(15),
        connect_max: Duration::from_secs(10),
        response_max: Duration::from_secs(30),
        seed: 0,
        threads: 1,
        share: Share::default(),
    }
}

fn group(stages: &[(u32, u64)]) -> Group {
    let stage = |&(users, over)| Stage { users, over: Duration::from_secs(over) };
    let request = Template {
        label: "HTTP Request".to_owned(),
        weight: 1,
        method: "POST".to_owned(),
        path: Text::same("/echo"),
        headers: Vec::new(),
        body: Text::same("hello"),
        expected: Expected { body: ExpectedBody::Echo, ..Expected::default() },
    };
    Group {
        stages: stages.iter().map(stage).collect(),
        think: Duration::ZERO,
        requests: vec![request],
    }
}

#[test]
fn users_follow_the_stages() {
    let ramp = group(&[(10, 10), (10, 5), (20, 10)]);
    let cases = [(0, 0.0), (5, 5.0), (10, 10.0), (14, 10.0), (20, 15.0), (25, 20.0), (999, 20.0)];
    for (at, users) in cases {
        let found = ramp.users_at(Duration::from_secs(at));
        assert!((found - users).abs() < 1e-9, "{at} s: {found}");
    }
    assert_eq!((ramp.users_max(), ramp.ramp_end()), (20, Duration::from_secs(25)));
    assert_eq!(group(&[(6, 30), (20, 30), (20, 900)]).ramp_end(), Duration::from_secs(60));
    let at_once = group(&[(7, 0)]);
    assert!((at_once.users_at(Duration::ZERO) - 7.0).abs() < 1e-9);
}

#[test]
fn users_divide_evenly_or_not_at_all() {
    let whole = load(vec![group(&[(100, 5)]), group(&[(50, 5)])]);
    let half = whole.part(1, 2).unwrap();
    assert_eq!((half.connections(), half.share), (75, Share { part: 1, of: 2 }));
    assert_eq!((half.warm_up, half.duration), (whole.warm_up, whole.duration));
    for (part, of) in [(0, 3), (2, 2), (0, 0)] {
        assert!(whole.part(part, of).is_err(), "{part} of {of}");
    }
    assert!(half.part(0, 5).is_err(), "a share is not divided again");
}

#[test]
fn a_load_is_sent_as_text() {
    let whole = load(vec![group(&[(100, 5)])]);
    let json = serde_json::to_string(&whole).unwrap();
    assert_eq!(serde_json::from_str::<Load>(&json).unwrap(), whole);
    let unknown = json.replacen("\"seed\"", "\"sead\"", 1);
    assert!(serde_json::from_str::<Load>(&unknown).unwrap_err().to_string().contains("sead"));
}

#[test]
fn every_mistake_is_named() {
    assert_eq!(load(vec![group(&[(1, 1)])]).complaints(), Vec::<String>::new());
    let mut bad = group(&[]);
    let request = bad.requests.first_mut().unwrap();
    request.weight = 0;
    request.method = "GET /".to_owned();
    request.path = "/a b${tokens.jwt}".parse().unwrap();
    request.headers = vec![
        ("content-length".to_owned(), Text::same("7")),
        ("x y".to_owned(), Text::same("a\r\nb: c")),
    ];
    request.expected.status = 99;
    let mut load = load(vec![bad]);
    load.warm_up = load.duration;
    load.connect_max = Duration::ZERO;
    load.response_max = Duration::from_secs(9999);
    load.threads = 0;
    load.share = Share { part: 1, of: 1 };
    load.target.host = "a\nb".to_owned();
    let complaints = load.complaints().join("\n");
    for expected in [
        "`warm_up` must be shorter",
        "`connect_max` must be above",
        "`response_max` must be above",
        "`threads` must be from 1",
        "`share.part` must be below",
        "0 connections: they must be",
        "`target.host` must be",
        "`stages` must have",
        "`weight` must be",
        "`GET /` is not a method",
        "there is no table `tokens`",
        "must have no space",
        "`content-length` is written by",
        "`x y` is not a header",
        "has control characters",
        "the expected status must be",
    ] {
        assert!(complaints.contains(expected), "{expected}: {complaints}");
    }
}
