use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::generator::Work;

fn found(name: &str) -> Arc<Scenario> {
    let all = all().unwrap_or_else(|report| panic!("{report:#}"));
    Arc::new(all.into_iter().find(|scenario| scenario.name == name).unwrap())
}

fn run() -> RowLoad {
    RowLoad {
        address: SocketAddr::from(([127, 0, 0, 1], 1)),
        threads: 1,
        token: "token".to_owned(),
        tokens: Arc::default(),
        callback: IpAddr::V4(Ipv4Addr::LOCALHOST),
    }
}

#[test]
fn every_row_of_the_documents_is_there_and_has_a_load() {
    let mut rows = std::collections::BTreeMap::new();
    let mut names = BTreeSet::new();
    for scenario in all().unwrap_or_else(|report| panic!("{report:#}")) {
        let scenario = Arc::new(scenario);
        assert!(names.insert(scenario.name.clone()), "{} is there twice", scenario.name);
        for row in scenario.rows(&Overrides::default()) {
            *rows.entry((scenario.document(), scenario.name.clone())).or_insert(0) += 1;
            let load = row.load(&run()).unwrap();
            assert_eq!(load.complaints(), Vec::<String>::new(), "{}", scenario.name);
        }
    }
    let of = |document: &str| {
        rows.iter().filter(|((d, _), _)| *d == document).map(|(_, n)| n).sum::<i32>()
    };
    assert_eq!([of("000"), of("001"), of("002")], [3, 20, 24]);
    let websockets = ["websocket-1", "websocket-5", "websocket-10"];
    let websockets = websockets.map(|name| rows[&("003", name.to_owned())]);
    assert_eq!(websockets, [7, 7, 8]);
    let seven = [
        "DirectProxy",
        "DirectAPI",
        "XSLTProxy",
        "MessageBuildingProxy",
        "EnrichBackAndForthProxy",
    ];
    for name in seven {
        assert_eq!(rows[&("004", name.to_owned())], 8, "{name}");
    }
    // Two of the other fourteen flows of the reference cannot be expressed, as the file states.
    assert_eq!(rows.keys().filter(|(document, _)| *document == "004").count(), 7 + 14 - 2);
}

#[test]
fn tokens_are_made_for_what_refers_to_them() {
    assert_eq!([found("jwt-unseen").tokens(), found("jwt-rotating").tokens()], [40_000, 10_000]);
    assert_eq!([found("jwt-hot").tokens(), found("plain").tokens()], [0, 0]);
    let row = found("jwt-rotating").rows(&Overrides::default()).remove(0);
    let tokens = Arc::from(["one".to_owned(), "two".to_owned()]);
    let Work::Requests(requests) = row.load(&RowLoad { tokens, ..run() }).unwrap().work else {
        panic!()
    };
    assert_eq!(requests.tables["rotating"].rows, [["one"], ["two"]]);
    assert!(!requests.tables.contains_key("unseen"));
}

#[test]
fn a_target_says_what_is_compared() {
    let text = include_str!("../../scenarios/costs-proxy.yaml");
    for (target, what) in [
        ("{ peer: ngnix, cpu_max: 0.8 }", "`ngnix` is not a gateway"),
        ("{ of: h1, cpu_max: 0.8 }", "the file has no scenario `h1`"),
        ("{ cpu_max: 0.8 }", "does not say what is compared"),
        ("{ peer: nginx, of: h2-1, cpu_max: 0.8 }", "does not say what is compared"),
        ("{ peer: nginx, rate_min: 0.8 }", "does not say what is compared"),
        ("{ memory_max: 1MiB, cpu_us_max: 3 }", "does not say what is compared"),
        ("{ peer: nginx, cpu_max: -1 }", "expected a number above 0"),
    ] {
        let wrong = text.replace("{ memory_each_max: 2560B }", target);
        let report = parse(&wrong, Path::new("costs.yaml")).unwrap_err();
        let told = format!("{report:#}");
        assert!(told.contains(what), "{target}: {told}");
        assert_eq!(report.errors().count(), 1, "{target}: {told}");
    }
}

/// The stages are exactly those of document 001.
#[test]
fn ramps_are_the_documents_and_keep_within_the_warm_up() {
    let seconds = Duration::from_secs;
    let stages = |name: &str, overrides: &Overrides| {
        let row = found(name).rows(overrides).remove(0);
        let Work::Requests(requests) = row.load(&run()).unwrap().work else { panic!() };
        let stages = requests.groups[0].stages.iter();
        stages.map(|stage| (stage.users, stage.over)).collect::<Vec<_>>()
    };
    let documents = Overrides::default();
    assert_eq!(
        stages("scen0", &documents),
        [(25, seconds(30)), (40, seconds(30)), (65, seconds(900))]
    );
    assert_eq!(
        stages("scen1", &documents),
        [(6, seconds(30)), (12, seconds(30)), (20, seconds(30))]
    );
    assert_eq!(stages("plain", &documents), [(100, seconds(60))]);
    let quick = Overrides {
        users: vec![10],
        duration: Some(seconds(4)),
        warm_up: Some(seconds(1)),
        ..Overrides::default()
    };
    let short = stages("scen1", &quick);
    let length: Duration = short.iter().map(|(_, over)| *over).sum();
    assert!(length.abs_diff(seconds(1)) < Duration::from_millis(1), "{short:?}");
    assert_eq!(short.iter().map(|(users, _)| *users).collect::<Vec<_>>(), [3, 6, 10]);
    let mixed = found("mixed").rows(&documents).remove(0).load(&run()).unwrap();
    let Work::Requests(requests) = mixed.work else { panic!() };
    assert_eq!(
        requests.groups.iter().map(|group| group.stages[0].users).collect::<Vec<_>>(),
        [50, 50]
    );
}

/// Each mistake is reported with its place.
#[test]
fn ten_mistakes_get_ten_complaints() {
    let report = parse(MISTAKES, Path::new("wrong.yaml")).unwrap_err();
    let places: Vec<String> =
        report.errors().map(|complaint| report.sources().place(complaint.at)).collect();
    let told = format!("{report:#}");
    assert_eq!(places.len(), 10, "{told}");
    for line in [1, 4, 5, 6, 11, 12, 13, 15, 17, 20] {
        assert!(
            places.iter().any(|place| place.starts_with(&format!("wrong.yaml:{line}:"))),
            "{line}: {told}"
        );
    }
}

pub(super) const MISTAKES: &str = r#"document: "009"
gateway: gateways/jwt.yaml
backends:
  echo: { kind: eco }
duration: soon
warm_up: 1
scenarios:
  one:
    title: One
    description: A scenario
    users: many
    sizes: 1 KB
    ramp: 99
    requests:
      - pth: /echo
        method: POST
        payload: xml
      - path: /echo
        body: hello
        think: short
"#;

#[test]
fn the_program_has_all_files_of_the_folders() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = BTreeSet::new();
    for folder in ["bench/scenarios", "bench/scenarios/gateways"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".yaml") {
                files.insert(format!("{folder}/{name}"));
            }
        }
    }
    let ours = FILES.iter().map(|(path, _)| (*path).to_owned());
    let ours: BTreeSet<String> = ours.filter(|path| path.starts_with("bench/")).collect();
    assert_eq!(ours, files);
}

#[test]
fn the_schema_is_the_programs() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/schema.json");
    let made = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(made == written, "UPDATE_EXPECT=1 cargo test -p bench the_schema writes it anew");
}
