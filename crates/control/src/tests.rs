//! Changes of the configuration, from the file to the published plan.

use super::*;
use expect_test::expect;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;
use tokio::sync::mpsc;

/// A gateway of which only the configuration is real: published plans come out of a channel.
struct Rig {
    folder: TempDir,
    control: Arc<Control>,
    published: mpsc::Receiver<Arc<Plan>>,
    /// Publishing fails while this is set.
    broken: Arc<AtomicBool>,
}

fn yaml(greeting: &str) -> String {
    format!(
        "listen:\n  public: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\nroutes:\n  hello: {{ match: {{ path: /hello }}, respond: {{ body: {greeting} }} }}\n"
    )
}

fn start(path: &Path, folder: TempDir) -> Rig {
    let (sender, published) = mpsc::channel(16);
    let broken = Arc::new(AtomicBool::new(false));
    let fails = broken.clone();
    let publish: Publish = Box::new(move |plan| {
        let (sender, fails) = (sender.clone(), fails.load(Relaxed));
        Box::pin(async move {
            if fails {
                return Err("127.0.0.1:80: address already in use".to_owned());
            }
            sender.send(plan).await.map_err(|error| error.to_string())
        })
    });
    let control = Control::start(path, publish).unwrap_or_else(|report| panic!("{report}"));
    Rig { folder, control, published, broken }
}

impl Rig {
    fn new() -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidegate.yaml");
        fs::write(&path, yaml("one")).unwrap();
        start(&path, folder)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, text: &str) {
        fs::write(self.at("tidegate.yaml"), text).unwrap();
    }

    fn body(plan: &Plan) -> String {
        let (_, route) = plan.table.routes().next().unwrap();
        match &route.destination {
            plan::Destination::Respond(reply) => String::from_utf8(reply.body.to_vec()).unwrap(),
            plan::Destination::Upstream(_) => panic!("the route responds"),
        }
    }

    /// What serves: its generation and its reply.
    fn serves(&self) -> (u64, String) {
        let plan = self.control.plan();
        (plan.generation, Self::body(&plan))
    }

    fn metric(&self, sample: &str) -> bool {
        self.control.telemetry().render().lines().any(|line| line == sample)
    }
}

fn serving(generation: u64, body: &str) -> (u64, String) {
    (generation, body.to_owned())
}

#[tokio::test]
async fn a_change_is_published_and_the_same_again_is_not() {
    let mut rig = Rig::new();
    assert_eq!((rig.serves(), rig.control.telemetry().workers()), (serving(1, "one"), 2));
    assert_eq!(rig.control.reload().await.unwrap(), Outcome::Unchanged(1));

    rig.write(&yaml("two"));
    assert_eq!(rig.control.reload().await.unwrap(), Outcome::Serving(2));
    assert_eq!(rig.published.recv().await.map(|plan| Rig::body(&plan)), Some("two".to_owned()));
    assert_eq!(rig.serves(), serving(2, "two"));
    assert_eq!(rig.control.reload().await.unwrap(), Outcome::Unchanged(2));
    assert!(rig.published.try_recv().is_err());
    assert!(rig.metric("tidegate_config_generation 2"));
    assert!(rig.metric("tidegate_config_reloads_total{result=\"success\"} 2"));
}

#[tokio::test]
async fn a_mistake_leaves_the_last_good_plan_serving_and_is_told_everywhere() {
    let rig = Rig::new();
    rig.write(&yaml("two").replace("respond", "resond").replace("workers: 2", "workers: many"));
    let failure = rig.control.reload().await.unwrap_err();
    let Failure::Complaints(report) = &failure else { panic!("{failure}") };
    let places: Vec<_> =
        report.errors().map(|complaint| (complaint.at.line, complaint.at.column)).collect();
    assert!(places.contains(&(3, 10)) && places.contains(&(5, 36)), "{report}");
    assert_eq!(rig.serves(), serving(1, "one"));
    assert!(rig.metric("tidegate_config_reloads_total{result=\"failure\"} 1"));
    let status = rig.control.status();
    assert_eq!(status.last_failed.map(|failed| failed.why.clone()), Some(failure.to_string()));

    rig.write(&yaml("one"));
    assert_eq!(rig.control.reload().await.unwrap(), Outcome::Unchanged(1));
    assert!(rig.control.status().last_failed.is_none(), "taken back");
}

#[tokio::test]
async fn a_plan_that_cannot_be_published_does_not_serve() {
    let rig = Rig::new();
    rig.broken.store(true, Relaxed);
    rig.write(&yaml("two"));
    assert!(matches!(rig.control.reload().await, Err(Failure::Unpublished(_))));
    assert!(matches!(rig.control.apply_text(&yaml("three")).await, Err(Failure::Unpublished(_))));
    assert_eq!(rig.serves(), serving(1, "one"));
    let text = fs::read_to_string(rig.at("tidegate.yaml")).unwrap();
    assert_eq!(text, yaml("two"), "the file is as the operator left it");

    rig.broken.store(false, Relaxed);
    assert_eq!(rig.control.reload().await.unwrap(), Outcome::Serving(2));
}

#[tokio::test]
async fn a_text_serves_and_stands_in_the_file() {
    let rig = Rig::new();
    assert_eq!(rig.control.apply_text(&yaml("one")).await.unwrap(), Outcome::Unchanged(1));
    assert_eq!(rig.control.apply_text(&yaml("two")).await.unwrap(), Outcome::Serving(2));
    assert_eq!(rig.serves(), serving(2, "two"));
    assert_eq!(fs::read_to_string(rig.at("tidegate.yaml")).unwrap(), yaml("two"));
    assert_eq!(rig.control.config_text(), yaml("two"));
    assert_eq!(
        rig.control.reload().await.unwrap(),
        Outcome::Unchanged(2),
        "our own write is no change"
    );

    assert!(matches!(rig.control.apply_text("routes: 7").await, Err(Failure::Complaints(_))));
    assert_eq!(fs::read_to_string(rig.at("tidegate.yaml")).unwrap(), yaml("two"));
    assert_eq!(fs::read_dir(rig.folder.path()).unwrap().count(), 1, "no drafts are left");
}

#[tokio::test]
async fn a_check_changes_nothing() {
    let rig = Rig::new();
    assert!(!rig.control.check_text(&yaml("two")).await.unwrap().has_errors());
    let report =
        rig.control.check_text("listen: {}\nroutes: { a: { upstream: b } }").await.unwrap();
    assert!(report.errors().count() >= 2, "{report}");
    assert_eq!(rig.serves(), serving(1, "one"));
    assert!(rig.control.status().last_failed.is_none());
}

#[tokio::test]
async fn a_folder_is_shown_whole_and_not_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let (all, routes) = yaml("one")
        .split_once("routes")
        .map(|(a, b)| (a.to_owned(), format!("routes{b}")))
        .unwrap();
    fs::write(folder.path().join("a.yaml"), &all).unwrap();
    fs::write(folder.path().join("b.yaml"), &routes).unwrap();
    let path = folder.path().to_owned();
    let rig = start(&path, folder);
    let text = rig.control.config_text();
    assert!(text.contains(&all) && text.contains(&routes) && text.contains("b.yaml\n"), "{text}");
    assert!(matches!(rig.control.apply_text(&yaml("two")).await, Err(Failure::Unwritable(_))));

    fs::write(rig.at("b.yaml"), routes.replace("one", "two")).unwrap();
    assert_eq!(rig.control.reload().await.unwrap(), Outcome::Serving(2));
    fs::rename(rig.at("b.yaml"), rig.at("c.yaml")).unwrap();
    assert_eq!(
        rig.control.reload().await.unwrap(),
        Outcome::Serving(3),
        "a name is content of a folder"
    );
}

#[tokio::test]
async fn secrets_are_shown_as_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    fs::write(folder.path().join("secret"), "hunter2").unwrap();
    fs::write(&path, yaml("\"${file:secret}\"")).unwrap();
    let rig = start(&path, folder);
    assert_eq!(rig.serves(), serving(1, "hunter2"));
    let shown = [rig.control.config_text(), view::plan(&rig.control.plan()).to_string()];
    assert!(shown.iter().all(|text| !text.contains("hunter2")), "{shown:?}");
    assert!(shown[0].contains("${file:secret}"));
}

/// The clock is paused: the pauses between two looks pass as soon as nobody has anything else to do.
#[tokio::test(start_paused = true)]
async fn watching_brings_every_kind_of_change_into_service() {
    let mut rig = Rig::new();
    fs::write(rig.at("secret"), "three").unwrap();
    let watch = tokio::spawn(rig.control.clone().watch());

    rig.write(&yaml("two"));
    assert_eq!(rig.published.recv().await.map(|plan| Rig::body(&plan)), Some("two".to_owned()));

    // Renamed over, as editors do.
    fs::write(rig.at("new"), yaml("\"${file:secret}\"")).unwrap();
    fs::rename(rig.at("new"), rig.at("tidegate.yaml")).unwrap();
    assert_eq!(rig.published.recv().await.map(|plan| Rig::body(&plan)), Some("three".to_owned()));

    // A file that the configuration names.
    fs::write(rig.at("secret"), "four").unwrap();
    assert_eq!(rig.published.recv().await.map(|plan| Rig::body(&plan)), Some("four".to_owned()));

    // A link that turns, as Kubernetes does.
    for (version, secret) in [("v1", "five"), ("v2", "six")] {
        fs::create_dir(rig.at(version)).unwrap();
        fs::write(rig.at(version).join("secret"), secret).unwrap();
        symlink(rig.at(version), rig.at("turned")).unwrap();
        fs::rename(rig.at("turned"), rig.at("data")).unwrap();
        if version == "v1" {
            symlink(rig.at("data").join("secret"), rig.at("linked")).unwrap();
            fs::rename(rig.at("linked"), rig.at("secret")).unwrap();
        }
        assert_eq!(
            rig.published.recv().await.map(|plan| Rig::body(&plan)),
            Some(secret.to_owned())
        );
    }
    watch.abort();
}

#[tokio::test(start_paused = true)]
async fn a_missing_file_heals_the_configuration_when_it_comes() {
    let mut rig = Rig::new();
    let watch = tokio::spawn(rig.control.clone().watch());
    rig.write(&yaml("\"${file:later}\""));
    while rig.control.status().last_failed.is_none() {
        tokio::time::sleep(POLL_EVERY).await;
    }
    assert_eq!(rig.serves(), serving(1, "one"));
    fs::write(rig.at("later"), "healed").unwrap();
    assert_eq!(rig.published.recv().await.map(|plan| Rig::body(&plan)), Some("healed".to_owned()));
    watch.abort();
}

#[tokio::test(start_paused = true)]
async fn a_change_is_in_effect_within_two_seconds() {
    let mut rig = Rig::new();
    let watch = tokio::spawn(rig.control.clone().watch());
    let start = kit::clock::now();
    rig.write(&yaml("two"));
    rig.published.recv().await.unwrap();
    assert!(start.elapsed() <= Duration::from_secs(1), "{:?} beside compiling", start.elapsed());
    watch.abort();
}

#[tokio::test]
async fn changes_at_the_same_time_come_one_after_the_other() {
    let rig = Rig::new();
    let texts: Vec<_> = (0..5).map(|n| yaml(&format!("text{n}"))).collect();
    let (a, b, c, d, e) = tokio::join!(
        rig.control.apply_text(&texts[0]),
        rig.control.apply_text(&texts[1]),
        rig.control.apply_text(&texts[2]),
        rig.control.apply_text(&texts[3]),
        rig.control.apply_text(&texts[4]),
    );
    let mut generations: Vec<_> =
        [a, b, c, d, e].into_iter().map(|outcome| outcome.unwrap()).collect();
    generations.sort_by_key(|outcome| match outcome {
        Outcome::Serving(generation) | Outcome::Unchanged(generation) => *generation,
    });
    assert_eq!(generations, (2..=6).map(Outcome::Serving).collect::<Vec<_>>());
    assert_eq!(fs::read_to_string(rig.at("tidegate.yaml")).unwrap(), rig.control.config_text());
}

#[test]
fn a_wrong_start_says_what_is_wrong() {
    let publish: Publish = Box::new(|_| Box::pin(async { Ok(()) }));
    let Err(report) = Control::start(Path::new("/nonexistent/tidegate.yaml"), publish) else {
        panic!("there is no such file")
    };
    assert!(report.has_errors());
}

#[tokio::test]
async fn a_plan_is_shown_with_its_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    let text = "listen:\n  public: { address: \"127.0.0.1:0\" }\nworkers: 1\nupstreams:\n  orders: { targets: [\"http://127.0.0.1:9\"] }\nroutes:\n  orders: { match: { path: \"/orders/**\", methods: [GET] }, strip_prefix: /orders, upstream: orders }\n";
    fs::write(&path, text).unwrap();
    let rig = start(&path, folder);
    let plan = view::plan(&rig.control.plan());
    expect![[r#"
        {
          "generation": 1,
          "workers": 1,
          "drain_ms": 30000,
          "admin": null,
          "access_log": null,
          "listeners": [
            {
              "name": "public",
              "address": "127.0.0.1:0",
              "tls": false,
              "http2": true,
              "proxy_protocol": false,
              "trusted_proxies": [],
              "limits": {
                "head_bytes_max": 65536,
                "target_bytes_max": 16384,
                "headers_max": 128,
                "connections_max": 65536,
                "streams_max": 128
              },
              "timeout": {
                "head_ms": 10000,
                "body_ms": 30000,
                "idle_ms": 75000,
                "tls_ms": 10000
              }
            }
          ],
          "upstreams": [
            {
              "name": "orders",
              "balance": "round_robin",
              "timeout": {
                "connect_ms": 1000,
                "response_ms": 60000,
                "idle_ms": 60000
              },
              "retry": {
                "attempts": 0,
                "connect_failure": true,
                "reset": false,
                "timeout": false,
                "statuses": [],
                "body_bytes_max": 65536
              },
              "health": null,
              "outlier": null,
              "breaker": {
                "connections": 65536,
                "requests": 65536,
                "pending": 65536
              },
              "idle_max": 1024,
              "dns_refresh_ms": 5000,
              "targets": [
                {
                  "url": "http://127.0.0.1:9",
                  "weight": 1,
                  "addresses": [
                    "127.0.0.1:9"
                  ],
                  "healthy": true,
                  "ejected": false,
                  "requests_active": 0
                }
              ]
            }
          ],
          "routes": [
            {
              "name": "orders",
              "match": {
                "host": null,
                "path": "/orders/**",
                "methods": [
                  "GET"
                ],
                "headers": [],
                "query": []
              },
              "body_bytes_max": null,
              "policies": [],
              "destination": {
                "upstream": "orders",
                "path": {
                  "strip_prefix": "/orders"
                },
                "host": "preserve"
              }
            }
          ]
        }"#]].assert_eq(&serde_json::to_string_pretty(&plan).unwrap());
}
