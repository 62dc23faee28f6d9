//! `tidegate-bench` as users run it. A run needs `tidegate` in the same folder, which `cargo test --workspace` builds.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate-bench");

fn bench(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn started(arguments: &[&str]) -> Child {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Until it holds, for at most a minute.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

fn children(pid: u32) -> Vec<u32> {
    let folder = fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = folder.into_iter().flatten().flatten();
    let lists =
        tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    lists
        .flat_map(|list| {
            list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()
        })
        .collect()
}

fn is_gateway(pid: &u32) -> bool {
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split('\0');
    words.next().is_some_and(|program| program.ends_with("/tidegate"))
        && words.next() == Some("run")
}

fn is_backend(pid: &u32) -> bool {
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split('\0').nth(1) == Some("backend")
}

fn row_of(folder: &Path, users: u32) -> PathBuf {
    folder.join(format!("plain/2G_heap/{users}_users/1024B/0ms_sleep/row.json"))
}

#[test]
fn scenarios_are_listed() {
    let listed = out(&bench(&["list", "--document", "000"]));
    assert_eq!(listed.lines().count(), 3, "{listed}");
    assert!(
        listed.lines().any(|line| line.starts_with("mixed ") && line.contains(" 000  1 ")),
        "{listed}"
    );
    let json: serde_json::Value = serde_json::from_str(&out(&bench(&["list", "--json"]))).unwrap();
    let names: Vec<&str> =
        json.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    for name in
        ["plain", "scen10saxonendurance100", "scengobench0", "jwt", "websocket-ramp", "DirectProxy"]
    {
        assert!(names.contains(&name), "{name}");
    }
    assert!(out(&bench(&["list", "--document", "004"])).contains("SecureProxy"));
}

#[test]
fn costs_are_a_group_of_their_own() {
    let listed = out(&bench(&["list", "--document", "costs"]));
    for name in ["h2-10", "jwt-unseen", "flow-clone4", "soap-typed", "calls-grpc", "hub-deliver"] {
        let named = |line: &str| line.starts_with(&format!("{name} ")) && line.contains(" costs ");
        assert!(listed.lines().any(named), "{name}: {listed}");
    }
    let names = |what: &str| out(&bench(&["run", what, "-t"]));
    assert!(
        names("costs-flows").contains("flow-build") && !names("costs-flows").contains("soap-0")
    );
    assert!(names("costs").contains("soap-0") && !names("costs").contains("DirectProxy"));
    assert!(!out(&bench(&["run", "-t"])).contains("soap-0"), "they are none of the documents'");
}

#[test]
fn another_build_takes_turns_and_a_row_with_an_error_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("results");
    let at = at.to_str().unwrap();
    let program = Path::new(PROGRAM).with_file_name("tidegate");
    let before = program.to_str().unwrap();
    let file = folder.path().join("mine.yaml");
    fs::write(folder.path().join("gateway.yaml"), GATEWAY).unwrap();
    fs::write(&file, SCENARIOS).unwrap();
    let file = file.to_str().unwrap();
    let arguments = ["run", file, "--rounds", "2", "--before", before, "--out", at];
    let ran = bench(&arguments);
    assert!(ran.status.success(), "{}", err(&ran));
    let text = out(&ran);
    for part in [
        "| good | 4 | 1024 | tidegate |",
        "| good | 4 | 1024 | before |",
        "| good, 4 users, 1024 B | CPU <= 1.03 of the build before |",
        "| good, 4 users, 1024 B | memory <= 4096 MiB |",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(text.contains("| wrong, 4 users, 1024 B | no error |"), "{text}");
    for name in [
        "good@before/2G_heap/4_users/1024B/0ms_sleep/round-2",
        "good/2G_heap/4_users/1024B/0ms_sleep",
    ] {
        let row = json(&Path::new(at).join(name).join("row.json"));
        assert!(row["cost"]["requests"].as_u64().unwrap() > 0, "{row}");
        assert!(row["cost"]["cpu_us"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert!(Path::new(at).join("good@before/2G_heap/4_users/1024B/0ms_sleep/before").is_dir());
    let strict = bench(&[&arguments[..], &["--strict", "--resume"]].concat());
    assert_eq!(strict.status.code(), Some(2), "other parameters: {}", err(&strict));
    let elsewhere = format!("{at}-strict");
    let strict = bench(&["run", file, "-i", "wrong", "--strict", "--out", &elsewhere]);
    assert_eq!(strict.status.code(), Some(1), "{}", out(&strict));
    let reported = out(&bench(&["report", at]));
    assert!(!reported.contains("## Targets"), "the program does not know this file: {reported}");
}

const GATEWAY: &str = r#"listen: { public: { address: "${LISTEN}" } }
admin: { address: "${ADMIN}" }
workers: "${WORKERS}"
upstreams: { echo: { targets: ["http://${ECHO}"] } }
routes: { echo: { match: { path: "/echo/**" }, upstream: echo } }
"#;

const SCENARIOS: &str = r#"document: costs
gateway: gateway.yaml
backends: { echo: { kind: echo } }
duration: 3s
warm_up: 1s
scenarios:
  good:
    title: Good
    description: What the backend answers
    users: 4
    sizes: 1KiB
    requests: [{ path: /echo/x, headers: { content-type: application/json }, payload: filled, expect: { echo: true } }]
    targets: [{ memory_max: 4GiB }]
  wrong:
    title: Wrong
    description: Something else is expected
    users: 4
    sizes: 1KiB
    requests: [{ path: /echo/x, headers: { content-type: application/json }, payload: filled, expect: { status: 404 } }]
"#;

#[test]
fn the_time_is_estimated_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let out_folder = folder.path().join("results");
    let told = bench(&[
        "run",
        "002",
        "--quick",
        "-e",
        "nothing",
        "-t",
        "--out",
        out_folder.to_str().unwrap(),
    ]);
    assert!(told.status.success(), "{}", err(&told));
    assert!(
        out(&told).starts_with("Scenario | Combination(s) | Estimated Time\n"),
        "{}",
        out(&told)
    );
    assert!(out(&told).contains("Total"), "{}", out(&told));
    assert!(!out_folder.exists());
    for wrong in [
        &["run", "nosuch", "-t"][..],
        &["run", "-e", ".", "-t"],
        &["run", "plain", "-d", "1", "-w", "1"],
    ] {
        assert_eq!(bench(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn each_mistake_of_a_file_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.yaml");
    fs::write(&file, "document: \"009\"\ngateway: 7\nbackends: { a: { kind: b } }\nduration: x\nwarm_up: y\nscenarios: []\n").unwrap();
    let told = bench(&["run", file.to_str().unwrap(), "-t"]);
    assert_eq!(told.status.code(), Some(2));
    for place in
        ["mine.yaml:1:11", "mine.yaml:3:24", "mine.yaml:4:11", "mine.yaml:5:10", "mine.yaml:6:12"]
    {
        assert!(err(&told).contains(place), "{place}: {}", err(&told));
    }
}

#[test]
fn a_small_scenario_runs_and_a_full_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let arguments = ["run", "plain", "-u", "4", "-d", "3", "-w", "1", "-p", "0", "--out", at];
    let ran = bench(&arguments);
    assert!(ran.status.success(), "{}", err(&ran));
    let row = row_of(folder.path(), 4);
    let text = fs::read_to_string(&row).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (json["users"].as_u64(), json["scenario"].as_str()),
        (Some(4), Some("plain")),
        "{text}"
    );
    let place = row.parent().unwrap();
    let summary = fs::read_to_string(place.join("results-measurement-summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert!(summary["HTTP Request"]["samples"].as_u64().unwrap() > 10, "{summary}");
    assert_eq!(summary["HTTP Request"]["errors"].as_u64(), Some(0), "{summary}");
    for server in ["tidegate", "netty", "jmeter"] {
        let samples =
            fs::read_to_string(place.join(format!("{server}/{server}_process.csv"))).unwrap();
        assert!(samples.lines().count() >= 3, "{server}: {samples}");
        assert!(place.join(format!("{server}/{server}_sar_report_cpu.csv")).exists());
    }
    assert_eq!(bench(&arguments).status.code(), Some(2), "the folder is not empty");
    let other = bench(&["run", "plain", "-u", "5", "-d", "3", "-w", "1", "--out", at, "--resume"]);
    assert_eq!(other.status.code(), Some(2), "{}", err(&other));
    assert!(err(&other).contains("other parameters"), "{}", err(&other));
}

#[test]
fn a_row_of_two_labels_has_the_statistics_of_each_and_of_both() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let ran = bench(&["run", "mixed", "-u", "4", "-d", "3", "-w", "1", "-p", "0", "--out", at]);
    assert!(ran.status.success(), "{}", err(&ran));
    let row = folder.path().join("mixed/2G_heap/4_users/1024B/0ms_sleep");
    let both = json(&row.join("row.json"))["all_labels"].clone();
    let each = json(&row.join("results-measurement-summary.json"));
    let each: Vec<&serde_json::Value> = each.as_object().unwrap().values().collect();
    let sum = |name: &str| each.iter().map(|one| one[name].as_f64().unwrap()).sum::<f64>();
    assert_eq!(each.len(), 2);
    assert_eq!(both["samples"].as_f64(), Some(sum("samples")));
    let (mean, low) = (both["mean"].as_f64().unwrap(), each.iter().map(|one| one["mean"].as_f64()));
    let (low, high) = low.fold((f64::MAX, 0.0_f64), |(low, high), one| {
        (low.min(one.unwrap()), high.max(one.unwrap()))
    });
    assert!((low..=high).contains(&mean), "{both}");
}

#[test]
fn a_killed_run_leaves_no_process_and_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let arguments =
        ["run", "plain", "-u", "2", "-u", "4", "-d", "3", "-w", "1", "-p", "0", "--out", at];
    let mut run = started(&arguments);
    wait_until("the first row", || row_of(folder.path(), 2).exists());
    wait_until("a gateway", || children(run.id()).iter().any(is_gateway));
    let left = children(run.id());
    signal("-KILL", run.id());
    run.wait().unwrap();
    wait_until("children ended", || left.iter().all(|pid| !is_gateway(pid)));
    assert!(!row_of(folder.path(), 4).exists());
    let first = fs::metadata(row_of(folder.path(), 2)).unwrap().modified().unwrap();
    let resumed = bench(&[&arguments[..], &["--resume"]].concat());
    assert!(resumed.status.success(), "{}", err(&resumed));
    assert!(row_of(folder.path(), 4).exists());
    assert_eq!(
        fs::metadata(row_of(folder.path(), 2)).unwrap().modified().unwrap(),
        first,
        "it ran again"
    );
}

#[test]
fn an_interruption_ends_all_children() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let mut run = started(&["run", "plain", "-u", "2", "-d", "60", "-w", "1", "--out", at]);
    wait_until("a gateway", || children(run.id()).iter().any(is_gateway));
    let left = children(run.id());
    signal("-INT", run.id());
    assert_eq!(run.wait().unwrap().code(), Some(130));
    assert!(left.iter().all(|pid| !is_gateway(pid)), "a gateway is left");
    assert!(!row_of(folder.path(), 2).exists());
}

/// Runs two rows, kills some processes during the first, and returns the marks of both.
fn marks_with_killed(killed: fn(&u32) -> bool) -> [serde_json::Value; 2] {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let mut run = started(&[
        "run", "plain", "-u", "2", "-u", "4", "-d", "6", "-w", "1", "-p", "0", "--out", at,
    ]);
    wait_until("a gateway", || children(run.id()).iter().any(is_gateway));
    thread::sleep(Duration::from_secs(2));
    for pid in children(run.id()).into_iter().filter(killed) {
        signal("-KILL", pid);
    }
    assert_eq!(run.wait().unwrap().code(), Some(1));
    [2, 4].map(|users| json(&row_of(folder.path(), users)).get("marks").cloned().unwrap())
}

#[test]
fn a_gateway_that_dies_is_a_mark_and_the_next_row_runs() {
    let [first, next] = marks_with_killed(is_gateway).map(|marks| marks.to_string());
    assert!(first.contains("gateway stopped"), "{first}");
    assert!(!next.contains("gateway stopped"), "{next}");
}

#[test]
fn a_backend_that_dies_is_a_mark_and_the_next_row_runs() {
    let [first, next] = marks_with_killed(is_backend);
    assert_eq!(first, serde_json::json!(["backend stopped"]));
    assert!(!next.to_string().contains("stopped"), "{next}");
}

#[test]
fn a_full_disk_is_a_mark_the_next_row_runs_and_the_run_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let arguments = ["run", "plain", "-u", "2", "-u", "4", "-u", "6", "-d", "4", "-w", "1", "-p"];
    let arguments = [&arguments[..], &["0", "--out", at]].concat();
    let mut run = started(&arguments);
    wait_until("a gateway", || children(run.id()).iter().any(is_gateway));
    // Under this name, a file is written before it gets its own. Here it has no room.
    let full = |users, name: &str| {
        let place = row_of(folder.path(), users).with_file_name(format!("{name}.part"));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/dev/full", &place).unwrap();
        place
    };
    // The first row has room for its small file with the mark, the second one for nothing.
    let places = [full(2, "results.hdr"), full(4, "results.hdr"), full(4, "row.json")];
    assert_eq!(run.wait().unwrap().code(), Some(1));
    assert_eq!(json(&row_of(folder.path(), 2))["marks"], serde_json::json!(["disk full"]));
    assert!(!row_of(folder.path(), 4).exists());
    assert!(!json(&row_of(folder.path(), 6))["marks"].to_string().contains("disk full"));
    for place in places {
        fs::remove_file(place).unwrap();
    }
    let resumed = bench(&[&arguments[..], &["--resume"]].concat());
    assert!(resumed.status.success(), "{}", err(&resumed));
    for users in [2, 4] {
        let row = json(&row_of(folder.path(), users));
        assert!(!row["marks"].to_string().contains("disk full"), "{row}");
    }
}

/// An agent and its address. It ends when it is dropped.
struct Agent {
    process: Child,
    address: String,
}

impl Agent {
    fn start() -> Agent {
        let mut command = Command::new(PROGRAM);
        command.args(["agent", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Agent { process, address }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn two_load_servers_share_the_users_and_their_results_merge() {
    let folder = tempfile::tempdir().unwrap();
    let agents = [Agent::start(), Agent::start()];
    let names = format!("{},{}", agents[0].address, agents[1].address);
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let arguments = |out: &str, more: &[&str]| {
        let fixed = ["run", "plain", "-d", "3", "-w", "1", "-p", "0", "--load-servers", &names];
        let all = fixed.iter().chain(more).map(|word| (*word).to_owned());
        all.chain(["--out".to_owned(), at(out)]).collect::<Vec<String>>()
    };
    let run = |out: &str, more: &[&str]| {
        let words = arguments(out, more);
        bench(&words.iter().map(String::as_str).collect::<Vec<&str>>())
    };
    let ran = run("merged", &["-u", "4"]);
    assert!(ran.status.success(), "{}", err(&ran));
    let row = row_of(&folder.path().join("merged"), 4);
    let summary = json(&row.with_file_name("results-measurement-summary.json"));
    assert!(summary["HTTP Request"]["samples"].as_u64().unwrap() > 10, "{summary}");
    assert_eq!(summary["HTTP Request"]["errors"], 0, "{summary}");
    let metadata = json(&folder.path().join("merged/test-metadata.json"));
    assert_eq!(metadata["jmeter_servers"], "2");
    let log = fs::read_to_string(row.with_file_name("results.hdr")).unwrap();
    assert!(log.starts_with('#') && log.contains("Tag=measurement:HTTP_Request,"), "{log}");
    for wrong in [&["-u", "5"][..], &["-u", "4", "-n", "3"], &["-u", "4", "--jtl"]] {
        let refused = run("refused", wrong);
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}: {}", err(&refused));
    }
    // One of them goes while it sends: the row says so, and has the results of the other.
    let [left, mut gone] = agents;
    let words = arguments("lost", &["-u", "4"]);
    let mut lost = started(&words.iter().map(String::as_str).collect::<Vec<&str>>());
    wait_until("a gateway", || children(lost.id()).iter().any(is_gateway));
    thread::sleep(Duration::from_millis(1500));
    gone.process.kill().unwrap();
    assert_eq!(lost.wait().unwrap().code(), Some(1));
    let text = fs::read_to_string(row_of(&folder.path().join("lost"), 4)).unwrap();
    assert!(text.contains("agent lost"), "{text}");
    drop(left);
}

#[test]
fn several_generators_of_this_machine_share_the_users() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let ran = bench(&[
        "run", "plain", "-u", "4", "-n", "2", "-d", "3", "-w", "1", "-p", "0", "--out", at,
    ]);
    assert!(ran.status.success(), "{}", err(&ran));
    let row = row_of(folder.path(), 4);
    assert!(!fs::read_to_string(&row).unwrap().contains("agent lost"));
    let samples = fs::read_to_string(row.with_file_name("jmeter").join("jmeter_process.csv"));
    assert!(samples.unwrap().lines().count() >= 3);
}

#[test]
fn folders_are_compared_and_one_is_not_enough() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (before, after, page) = (at("before"), at("after"), at("compared.html"));
    let program = Path::new(PROGRAM).with_file_name("tidegate");
    let beside = format!("{after}={}", program.display());
    let ran = bench(&[
        "run", "plain", "-u", "2", "-d", "2", "-w", "1", "-p", "0", "--rounds", "2", "--out",
        &before, "--beside", &beside,
    ]);
    assert!(ran.status.success(), "{}", err(&ran));
    let compared = bench(&["compare", &before, &after, "--html", &page]);
    assert!(compared.status.success(), "{}", err(&compared));
    let text = out(&compared);
    let line = text.lines().find(|line| line.contains("Throughput")).unwrap();
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    assert_eq!(cells[..6], ["plain", "tidegate", "2G", "2", "1024", "0"], "{text}");
    assert!(cells[10].contains(" to ") && cells[12] == "2 and 2", "{line}");
    assert!(!text.contains("not run in turn"), "{text}");
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("<svg") && html.contains("after compared with before"));
    assert_eq!(bench(&["compare", &before]).status.code(), Some(2));
    assert_eq!(bench(&["compare", &before, &at("nosuch")]).status.code(), Some(1));
}

#[test]
fn each_row_has_a_gateway_of_its_own_and_says_what_it_ran_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let ran = bench(&[
        "run", "scen1", "-u", "2", "-u", "4", "-d", "2", "-w", "1", "-p", "0", "--out", at,
    ]);
    assert!(ran.status.success(), "{}", err(&ran));
    let rows = [2, 4].map(|users| {
        json(&folder.path().join(format!("scen1/2G_heap/{users}_users/346B/0ms_sleep/row.json")))
    });
    let started = rows.each_ref().map(|row| row["gateway_started"].as_u64().unwrap());
    assert!(started[1] > started[0], "{started:?}");
    // The document has four workers; the gateway has at most one for each of its cores.
    let workers = rows[0]["workers"].as_u64().unwrap();
    assert!((1..=4).contains(&workers), "{workers}");
    let metadata = json(&folder.path().join("test-metadata.json"));
    let facts = metadata["system_info"].as_array().unwrap();
    for (class, description) in [
        ("System", "CPU(s)"),
        ("System", "Thread(s) per core"),
        ("System", "Core(s) per socket"),
        ("System", "Socket(s)"),
        ("System", "Model name"),
        ("System", "System memory"),
        ("System", "Block Device"),
        ("Operating System", "Release"),
        ("Operating System", "Kernel"),
    ] {
        let of = |fact: &&serde_json::Value| {
            fact["class"] == class && fact["description"] == description
        };
        let fact = facts.iter().find(of).unwrap_or_else(|| panic!("{description}"));
        assert!(!fact["value"].as_str().unwrap().is_empty(), "{fact}");
    }
    let row = folder.path().join("scen1/2G_heap/4_users/346B/0ms_sleep/tidegate");
    for kind in ["loadavg", "cpu", "memory", "network"] {
        let report = fs::read_to_string(row.join(format!("tidegate_sar_report_{kind}.csv")));
        assert!(report.unwrap().lines().count() >= 2, "{kind}");
    }
}

#[test]
fn the_gateway_is_looked_at_after_event_streams() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let ran = bench(&["run", "sse", "-u", "20", "-d", "3", "-w", "1", "-p", "0", "--out", at]);
    assert!(ran.status.success(), "{}", err(&ran));
    let place = folder.path().join("sse/2G_heap/20_users/82B/0ms_sleep");
    let row = json(&place.join("row.json"));
    let settled = &row["settled"];
    assert!(settled["seconds"].as_u64().unwrap() >= 2, "{row}");
    // No connection of a client is left; those to the backend, one for each stream, may be kept for reuse.
    let fds = |name: &str| settled[name].as_u64().unwrap();
    assert!(fds("fds") <= fds("idle_fds") + 20 + 4, "{row}");
    // Each event counts in its second.
    let seconds = fs::read_to_string(place.join("results-seconds.csv")).unwrap();
    let samples = seconds.lines().skip(1).map(|line| line.split(',').nth(2).unwrap());
    let samples: u64 = samples.map(|count| count.parse::<u64>().unwrap()).sum();
    assert!(samples >= row["streams"]["received"].as_u64().unwrap(), "{seconds}");
}

#[test]
fn rows_are_split_over_stacks_and_reported_together() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for stack in ["1/2", "2/2"] {
        let out = at(&stack.replace('/', "-"));
        let ran = bench(&[
            "run", "plain", "-u", "2", "-u", "4", "-d", "2", "-w", "1", "-p", "0", "--stack",
            stack, "--out", &out,
        ]);
        assert!(ran.status.success(), "{}", err(&ran));
    }
    let reported = bench(&["report", &at("1-2"), "--with", &at("2-2")]);
    let text = out(&reported);
    assert!(text.contains("| 2 | 1KiB |") && text.contains("| 4 | 1KiB |"), "{text}");
    assert!(text.contains("| 2-2: System |"), "{text}");
    assert_eq!(bench(&["run", "plain", "--stack", "3/2", "-t"]).status.code(), Some(2));
}
