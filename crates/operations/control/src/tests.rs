//! Tests of configuration changes, from the file to the published plan.

use super::*;
use expect_test::expect;
use std::fs;
use std::os::unix::fs::symlink;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// A gateway without workers: published plans are sent to a channel.
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
        let peer = "192.0.2.1:1".parse().unwrap();
        let caller = policy::Caller::new(peer, peer, policy::Scheme::Http, 0);
        let mut ex = policy::Exchange::new(caller.into(), Default::default());
        let head = message::RequestHead::new(message::Protocol::Http11, b"GET", b"/");
        let mut request = message::Request { head, body: message::Body::Empty };
        let mut answer = pin!(route.destination.answer(&mut ex, &mut request));
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(message::Reply { body: message::Body::Whole(bytes, _), .. })) => {
                String::from_utf8(bytes.to_vec()).unwrap()
            }
            Poll::Ready(_) | Poll::Pending => panic!("the route responds"),
        }
    }

    /// The plan in service: its generation and its reply.
    fn serves(&self) -> (u64, String) {
        let plan = self.control.plan();
        (plan.generation, Self::body(&plan))
    }

    fn metric(&self, sample: &str) -> bool {
        self.control.telemetry().render().lines().any(|line| line == sample)
    }
}

/// Runs a test while the watch is running.
async fn watching(control: &Arc<Control>, test: impl Future<Output = ()>) {
    tokio::select! {
        () = control.clone().watch() => panic!("watching never ends"),
        () = test => {}
    }
}

fn serving(generation: u64, body: &str) -> (u64, String) {
    (generation, body.to_owned())
}

#[tokio::test]
async fn a_change_is_published_once() {
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
async fn a_mistake_leaves_the_last_good_plan_in_service_and_is_reported_everywhere() {
    let rig = Rig::new();
    rig.write(&yaml("two").replace("respond", "resond").replace("workers: 2", "workers: many"));
    let failure = rig.control.reload().await.unwrap_err();
    let Failure::Complaints(report) = &failure else { panic!("{failure}") };
    let places: Vec<_> =
        report.errors().map(|complaint| (complaint.at.line, complaint.at.column)).collect();
    assert!(places.contains(&(3, 10)) && places.contains(&(5, 37)), "{report}");
    assert_eq!(rig.serves(), serving(1, "one"));
    assert!(rig.metric("tidegate_config_reloads_total{result=\"failure\"} 1"));
    let status = rig.control.status();
    assert_eq!(status.last_failed.map(|failed| failed.why.clone()), Some(failure.to_string()));

    rig.write(&yaml("one"));
    assert_eq!(rig.control.reload().await.unwrap(), Outcome::Unchanged(1));
    assert!(rig.control.status().last_failed.is_none(), "the mistake was undone");
}

#[tokio::test]
async fn a_plan_that_cannot_be_published_does_not_go_into_service() {
    let rig = Rig::new();
    rig.broken.store(true, Relaxed);
    rig.write(&yaml("two"));
    assert!(matches!(rig.control.reload().await, Err(Failure::Unpublished(_))));
    assert!(matches!(apply(&rig.control, yaml("three")).await, Err(Failure::Unpublished(_))));
    assert_eq!(rig.serves(), serving(1, "one"));
    let text = fs::read_to_string(rig.at("tidegate.yaml")).unwrap();
    assert_eq!(text, yaml("two"), "the file is unchanged");

    rig.broken.store(false, Relaxed);
    assert_eq!(rig.control.reload().await.unwrap(), Outcome::Serving(2));
}

#[tokio::test]
async fn a_text_goes_into_service_and_is_written_to_the_file() {
    let rig = Rig::new();
    assert_eq!(apply(&rig.control, yaml("one")).await.unwrap(), Outcome::Unchanged(1));
    assert_eq!(apply(&rig.control, yaml("two")).await.unwrap(), Outcome::Serving(2));
    assert_eq!(rig.serves(), serving(2, "two"));
    assert_eq!(fs::read_to_string(rig.at("tidegate.yaml")).unwrap(), yaml("two"));
    assert_eq!(rig.control.config_text(), yaml("two"));
    assert_eq!(
        rig.control.reload().await.unwrap(),
        Outcome::Unchanged(2),
        "our own write is not a change"
    );

    assert!(matches!(
        apply(&rig.control, "routes: 7".to_owned()).await,
        Err(Failure::Complaints(_))
    ));
    assert_eq!(fs::read_to_string(rig.at("tidegate.yaml")).unwrap(), yaml("two"));
    assert_eq!(fs::read_dir(rig.folder.path()).unwrap().count(), 1, "no drafts are left");
}

#[tokio::test]
async fn a_text_in_service_that_cannot_be_written_is_not_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    fs::write(&path, yaml("one")).unwrap();
    let file = path.clone();
    // The file is replaced with a folder while the plan is published.
    let publish: Publish = Box::new(move |_| {
        fs::remove_file(&file).and_then(|()| fs::create_dir(&file)).unwrap();
        Box::pin(async { Ok(()) })
    });
    let control = Control::start(&path, publish).unwrap_or_else(|report| panic!("{report}"));
    let outcome = apply(&control, yaml("two")).await.unwrap();
    assert!(
        matches!(&outcome, Outcome::Unwritten(2, why) if why.contains("directory")),
        "{outcome:?}"
    );
    assert_eq!(Rig::body(&control.plan()), "two");
    let metrics = control.telemetry().render();
    assert!(metrics.contains("tidegate_config_reloads_total{result=\"failure\"} 0"), "{metrics}");
    assert!(control.status().last_failed.is_none());
}

#[tokio::test]
async fn a_text_that_could_not_be_written_stays_in_service_until_the_file_changes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let path = at("tidegate.yaml");
    fs::write(&path, yaml("one")).unwrap();
    fs::write(at("secret"), "two").unwrap();
    let draft = at(&format!(".tidegate.yaml.{}.new", std::process::id()));
    // The draft is gone when the plan is in service.
    let publish: Publish = Box::new(move |_| {
        drop(fs::remove_file(&draft));
        Box::pin(async { Ok(()) })
    });
    let control = Control::start(&path, publish).unwrap_or_else(|report| panic!("{report}"));
    let text = yaml("\"${file:secret}\"");
    let outcome = apply(&control, text.clone()).await.unwrap();
    assert!(matches!(outcome, Outcome::Unwritten(2, _)), "{outcome:?}");
    assert_eq!(control.reload().await.unwrap(), Outcome::Unchanged(2));
    let hash = control.status().hash;

    // A file that it depends on changes.
    for (secret, generation) in [("three", 3), ("four", 4)] {
        fs::write(at("secret"), secret).unwrap();
        assert_eq!(control.reload().await.unwrap(), Outcome::Serving(generation));
        assert_eq!(Rig::body(&control.plan()), secret);
    }
    fs::write(at("secret"), "two").unwrap();
    assert_eq!(control.reload().await.unwrap(), Outcome::Serving(5));
    assert_eq!(control.status().hash, hash, "the hash is that of the plan in service");
    fs::remove_file(at("secret")).unwrap();
    assert!(matches!(control.reload().await, Err(Failure::Complaints(_))));
    fs::write(at("secret"), "two").unwrap();
    assert_eq!(control.reload().await.unwrap(), Outcome::Unchanged(5));

    // A repeated request tries again.
    let outcome = apply(&control, text.clone()).await.unwrap();
    assert!(matches!(outcome, Outcome::Unwritten(6, _)), "{outcome:?}");

    fs::write(&path, yaml("five")).unwrap();
    assert_eq!(control.reload().await.unwrap(), Outcome::Serving(7));
    assert_eq!(Rig::body(&control.plan()), "five");
    fs::write(at("secret"), "six").unwrap();
    assert_eq!(control.reload().await.unwrap(), Outcome::Unchanged(7));
}

#[tokio::test]
async fn a_text_is_compared_with_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), yaml("one")).unwrap();
    let path = folder.path().to_owned();
    let rig = start(&path, folder);
    assert_eq!(rig.control.compare(Sent::Text(yaml("one"))).await.unwrap().0, []);
    let found = rig.control.compare(Sent::Text(yaml("two"))).await.unwrap().0;
    assert_eq!(
        found.iter().map(|one| one.path.as_str()).collect::<Vec<_>>(),
        ["routes.hello.respond.body"]
    );
    fs::write(rig.at("body"), "three").unwrap();
    let beside = rig.control.check(Sent::Text(yaml("\"${file:body}\""))).await.unwrap();
    assert!(beside.is_empty(), "{beside}");
}

#[tokio::test]
async fn a_folder_with_a_dangling_link_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), yaml("one")).unwrap();
    let path = folder.path().to_owned();
    let rig = start(&path, folder);
    symlink(rig.at("missing"), rig.at("b.yaml")).unwrap();
    let failure = rig.control.reload().await.unwrap_err().to_string();
    assert!(failure.contains("b.yaml:1:1: cannot read this: there is no such file"), "{failure}");
    assert_eq!(rig.serves(), serving(1, "one"));
}

#[tokio::test]
async fn a_check_changes_nothing() {
    let rig = Rig::new();
    assert!(!rig.control.check(Sent::Text(yaml("two"))).await.unwrap().has_errors());
    let text = "listen: {}\nnonsense: 1\nroutes: { a: { match: { path: /a }, upstream: b } }";
    let report = rig.control.check(Sent::Text(text.to_owned())).await.unwrap();
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
    assert!(matches!(apply(&rig.control, yaml("two")).await, Err(Failure::Unwritable(_))));

    fs::write(rig.at("b.yaml"), routes.replace("one", "two")).unwrap();
    assert_eq!(rig.control.reload().await.unwrap(), Outcome::Serving(2));
    fs::rename(rig.at("b.yaml"), rig.at("c.yaml")).unwrap();
    assert_eq!(
        rig.control.reload().await.unwrap(),
        Outcome::Serving(3),
        "the names of files are part of a folder's content"
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

/// The clock is paused: the pauses between two polls pass as soon as everything else waits.
#[tokio::test(start_paused = true)]
async fn watching_brings_every_kind_of_change_into_service() {
    let Rig { folder, control, mut published, .. } = Rig::new();
    let at = |name: &str| folder.path().join(name);
    let mut next = async || published.recv().await.map(|plan| Rig::body(&plan)).unwrap();
    watching(&control, async {
        fs::write(at("tidegate.yaml"), yaml("two")).unwrap();
        assert_eq!(next().await, "two");

        // Renamed over the old file, as editors do.
        fs::write(at("secret"), "three").unwrap();
        fs::write(at("new"), yaml("\"${file:secret}\"")).unwrap();
        fs::rename(at("new"), at("tidegate.yaml")).unwrap();
        assert_eq!(next().await, "three");

        // A file that the configuration names.
        fs::write(at("secret"), "four").unwrap();
        assert_eq!(next().await, "four");

        // A symbolic link to a folder that is switched, as Kubernetes does: it is created first, then switched.
        for (version, secret) in [("v1", "five"), ("v2", "six")] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("secret"), secret).unwrap();
            symlink(at(version), at("turned")).unwrap();
            fs::rename(at("turned"), at("data")).unwrap();
            if version == "v1" {
                symlink(at("data").join("secret"), at("linked")).unwrap();
                fs::rename(at("linked"), at("secret")).unwrap();
            }
            assert_eq!(next().await, secret);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_configuration_goes_into_service_when_its_missing_file_appears() {
    let mut rig = Rig::new();
    rig.write(&yaml("\"${file:later}\""));
    assert!(matches!(rig.control.reload().await, Err(Failure::Complaints(_))));
    watching(&rig.control, async {
        fs::write(rig.folder.path().join("later"), "healed").unwrap();
        assert_eq!(rig.published.recv().await.map(|plan| Rig::body(&plan)).unwrap(), "healed");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn issue_19_the_watch_does_not_reload_what_a_signal_has_reloaded() {
    let Rig { folder, control, mut published, .. } = Rig::new();
    let write = |text: &str| fs::write(folder.path().join("tidegate.yaml"), text).unwrap();
    watching(&control, async {
        write("no configuration");
        // The watch has seen the change and waits for it to settle, when SIGHUP comes.
        tokio::time::sleep(crate::watch::POLL_EVERY + Duration::from_millis(50)).await;
        assert!(matches!(control.reload().await, Err(Failure::Complaints(_))));
        tokio::time::sleep(8 * crate::watch::POLL_EVERY).await;
        let told = control.telemetry().render();
        let sample = "tidegate_config_reloads_total{result=\"failure\"} 1";
        assert!(told.lines().any(|line| line == sample), "{told}");
        // Undoing the change is noticed as well.
        write(&yaml("two"));
        assert_eq!(published.recv().await.map(|plan| Rig::body(&plan)).unwrap(), "two");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_is_seen_within_a_second() {
    let mut rig = Rig::new();
    let start = kit::clock::now();
    rig.write(&yaml("two"));
    watching(&rig.control, async { drop(rig.published.recv().await.unwrap()) }).await;
    assert!(start.elapsed() <= Duration::from_secs(1), "{:?} beside compiling", start.elapsed());
}

#[tokio::test]
async fn a_change_ends_even_if_nobody_waits_for_it() {
    let mut rig = Rig::new();
    let mut change = Box::pin(apply(&rig.control, yaml("two")));
    let begun = std::future::poll_fn(|cx| Poll::Ready(change.as_mut().poll(cx).is_pending())).await;
    assert!(begun);
    drop(change);
    assert_eq!(rig.published.recv().await.map(|plan| Rig::body(&plan)).unwrap(), "two");
    // The reload waits for the change.
    assert_eq!(rig.control.reload().await.unwrap(), Outcome::Unchanged(2));
    assert_eq!(fs::read_to_string(rig.at("tidegate.yaml")).unwrap(), yaml("two"));
}

#[tokio::test]
async fn concurrent_changes_are_made_one_after_the_other() {
    let rig = Rig::new();
    let texts: Vec<_> = (0..5).map(|n| yaml(&format!("text{n}"))).collect();
    let (a, b, c, d, e) = tokio::join!(
        apply(&rig.control, texts[0].clone()),
        apply(&rig.control, texts[1].clone()),
        apply(&rig.control, texts[2].clone()),
        apply(&rig.control, texts[3].clone()),
        apply(&rig.control, texts[4].clone()),
    );
    let mut generations: Vec<_> =
        [a, b, c, d, e].into_iter().map(|outcome| outcome.unwrap()).collect();
    generations.sort_by_key(|outcome| match outcome {
        Outcome::Serving(generation)
        | Outcome::Unwritten(generation, _)
        | Outcome::Unchanged(generation) => *generation,
    });
    assert_eq!(generations, (2..=6).map(Outcome::Serving).collect::<Vec<_>>());
    assert_eq!(fs::read_to_string(rig.at("tidegate.yaml")).unwrap(), rig.control.config_text());
}

#[tokio::test]
async fn files_that_the_gateway_itself_writes_cause_no_reload() {
    let rig = Rig::new();
    rig.write(&format!("{}telemetry: {{ access_log: {{ path: access.log }} }}\n", yaml("two")));
    assert_eq!(rig.control.reload().await.unwrap(), Outcome::Serving(2));
    let watched = lock(&rig.control.watched).clone();
    fs::write(rig.at("access.log"), "a line\n").unwrap();
    assert_eq!(watched.reread(), watched);
    assert_eq!(rig.control.reload().await.unwrap(), Outcome::Unchanged(2));
}

#[test]
fn a_start_without_a_configuration_file_reports_an_error() {
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
    let text = "listen:\n  public: { address: \"127.0.0.1:0\" }\nworkers: 1\nupstreams:\n  orders: { targets: [\"http://127.0.0.1:9\"] }\nroutes:\n  orders: { match: { path: \"/orders/**\", methods: [GET], headers: { x-tier: gold } }, strip_prefix: /orders, upstream: orders }\n";
    fs::write(&path, text).unwrap();
    let rig = start(&path, folder);
    let plan = rig.control.plan();
    expect![[r#"
        [
          {
            "name": "orders",
            "match": {
              "host": null,
              "path": "/orders/**",
              "priority": 0,
              "listeners": [],
              "sni": [],
              "sources": [],
              "methods": [
                "GET"
              ],
              "headers": [
                {
                  "name": "x-tier",
                  "present": true,
                  "equals": "(not shown)"
                }
              ],
              "query": []
            },
            "body_bytes_max": null,
            "policies": [],
            "destination": {
              "upstream": "orders",
              "mirror": null,
              "path": {
                "strip_prefix": "/orders"
              },
              "host": "preserve"
            }
          }
        ]"#]]
    .assert_eq(&serde_json::to_string_pretty(&view::routes(&plan)).unwrap());
    let upstreams = view::upstreams(&plan);
    expect![[r#"
        [
          {
            "id": "31f4bc71",
            "url": "http://127.0.0.1:9",
            "weight": 1,
            "configured_weight": 1,
            "drain": false,
            "priority": 0,
            "addresses": [
              "127.0.0.1:9"
            ],
            "health": "unknown",
            "healthy": null,
            "ejected": false,
            "suspended_until_unix_ms": null,
            "reason": null,
            "requests_active": 0
          }
        ]"#]]
    .assert_eq(&serde_json::to_string_pretty(&upstreams[0]["targets"]).unwrap());
    for default in ["balance", "timeout", "retry", "health", "breaker"] {
        assert!(upstreams[0].get(default).is_some(), "{default}");
    }
    assert_eq!(view::plan(&plan)["listeners"][0]["address"], "127.0.0.1:0");
}

#[tokio::test]
async fn a_rollback_to_an_unknown_configuration_is_no_refused_one() {
    let rig = Rig::new();
    let failure = rig.control.roll_back(99, ChangeRequest::default()).await.unwrap_err();
    assert_eq!(failure.to_string(), "the history has no configuration 99");
    assert!(rig.control.status().last_failed.is_none());
    assert!(rig.metric("tidegate_config_reloads_total{result=\"failure\"} 0"));
}

#[tokio::test]
async fn an_archive_is_checked_beside_a_large_hidden_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), yaml("one")).unwrap();
    let git = folder.path().join(".git");
    fs::create_dir(&git).unwrap();
    for number in 0..10_001 {
        fs::hard_link(folder.path().join("a.yaml"), git.join(number.to_string())).unwrap();
    }
    let path = folder.path().to_owned();
    let rig = start(&path, folder);
    let archive = |text: String| {
        let files = [("a.yaml".to_owned(), text.into_bytes())];
        Sent::Archive(archive::pack(&files).unwrap())
    };
    let report = rig.control.check(archive(yaml("two"))).await.unwrap();
    assert!(report.is_empty(), "{report}");
    let (found, _) = rig.control.compare(archive(yaml("two"))).await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
}

#[tokio::test]
async fn an_archive_of_two_files_cannot_replace_one_file() {
    let rig = Rig::new();
    let files = ["a.txt", "b.txt"].map(|name| (name.to_owned(), Vec::new()));
    let sent = Sent::Archive(archive::pack(&files).unwrap());
    let failure = rig.control.check(sent).await.unwrap_err().to_string();
    assert_eq!(
        failure,
        "the archive is invalid: the configuration is one file, but the archive has 2"
    );
}

#[tokio::test]
async fn a_change_of_a_target_that_cannot_be_stored_is_in_effect_and_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    let text = "listen:\n  public: { address: \"127.0.0.1:0\" }\nstore: { path: store }\nupstreams:\n  a: { targets: [\"http://127.0.0.1:9\"] }\nroutes:\n  a: { match: { path: / }, upstream: a }\n";
    fs::write(&path, text).unwrap();
    // Nobody opens the store.
    let rig = start(&path, folder);
    let plan = rig.control.plan();
    let id = view::upstreams(&plan)[0]["targets"][0]["id"].as_str().unwrap().to_owned();
    let Err(HubFailure::Unavailable(why)) = rig.control.set_target("a", &id, Some(7), None).await
    else {
        panic!("there is no store to write to")
    };
    assert!(why.starts_with("the change is in effect, but could not be stored"), "{why}");
    assert_eq!(view::upstreams(&plan)[0]["targets"][0]["weight"], 7);
}

/// Sends a text as an operator does.
async fn apply(control: &Arc<Control>, text: String) -> Result<Outcome, Failure> {
    control.put(Sent::Text(text), ChangeRequest::default()).await.map(|(outcome, _)| outcome)
}
