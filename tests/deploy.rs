//! deploy/: the figures of the documents are in the manifests, and the started programs do their work within them.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Wire, tidegate_with, until};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy");

/// A document's figures: name, MiB, thousandths of a processor; then concurrency.
type Document = ([(&'static str, u64, u64); 5], u64);

const DOCUMENTS: [(&str, Document); 2] = [
    (
        "router-cpu1",
        (
            [
                ("ADAPTER", 500, 500),
                ("ENFORCER", 1000, 1000),
                ("ROUTER", 500, 1000),
                ("BACKEND", 6114, 2000),
                ("INTERCEPTOR", 500, 1000),
            ],
            2,
        ),
    ),
    (
        "router-cpu2",
        (
            [
                ("ADAPTER", 500, 500),
                ("ENFORCER", 2000, 1000),
                ("ROUTER", 500, 2000),
                ("BACKEND", 6114, 2000),
                ("INTERCEPTOR", 500, 1000),
            ],
            4,
        ),
    ),
];

fn profile(name: &str) -> HashMap<String, u64> {
    let text = fs::read_to_string(format!("{FOLDER}/profiles/{name}.env")).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once('='));
    lines.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

fn render(profile: &str, file: &str, variables: &[(&str, &str)]) -> Result<String, String> {
    let mut command = Command::new("bash");
    command.arg(format!("{FOLDER}/render.sh")).args([profile, file]);
    let run = command.envs(variables.iter().copied()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if run.status.success() { Ok(text(run.stdout)) } else { Err(text(run.stderr)) }
}

/// The part of a manifest that begins with one line and ends before another.
fn part<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("no {from:?} in {text}"));
    rest.split_once(to).map_or(rest, |(part, _)| part)
}

#[test]
fn manifests_set_exactly_the_limits_of_the_documents() {
    for (name, (parts, concurrency)) in DOCUMENTS {
        let profile = profile(name);
        for (part, memory, cpu) in parts {
            assert_eq!(profile[&format!("{part}_MEMORY")], memory, "{name} {part}");
            assert_eq!(profile[&format!("{part}_CPU")], cpu, "{name} {part}");
        }
        let together = |what: &str| -> u64 {
            ["ADAPTER", "ENFORCER", "ROUTER"]
                .iter()
                .map(|part| profile[&format!("{part}_{what}")])
                .sum()
        };
        let gateway = (together("MEMORY"), together("CPU"));
        assert_eq!((profile["GATEWAY_MEMORY"], profile["GATEWAY_CPU"]), gateway);

        let compose = render(name, "compose.yaml", &[]).unwrap();
        let kubernetes = render(name, "kubernetes.yaml", &[]).unwrap();
        for (service, (memory, cpu)) in
            [("gateway", gateway), ("backend", (6114, 2000)), ("interceptor", (500, 1000))]
        {
            let start =
                compose.lines().position(|line| line.starts_with(&format!("  {service}"))).unwrap();
            let mut block =
                compose.lines().skip(start + 1).take_while(|line| line.starts_with("    "));
            let block: Vec<&str> = block.by_ref().map(str::trim).collect();
            assert!(block.contains(&format!("mem_limit: {memory}m").as_str()), "{name} {block:?}");
            assert!(block.contains(&"cpu_period: 100000"), "{name} {block:?}");
            assert!(
                block.contains(&format!("cpu_quota: {}", cpu * 100).as_str()),
                "{name} {block:?}"
            );

            let container = part(&kubernetes, &format!("- name: {service}\n"), "\n---");
            let limits = format!("limits: {{ memory: {memory}Mi, cpu: {cpu}m }}");
            assert!(container.contains(&limits), "{name} {container}");
        }
        assert!(compose.contains("mem_reservation: 4096m"), "{compose}");
        assert!(compose.contains(&format!("WORKERS: \"{concurrency}\"")), "{compose}");
        assert!(kubernetes.contains("requests: { memory: 4096Mi, cpu: 2000m }"), "{kubernetes}");
        assert!(kubernetes.contains(
            "kind: StatefulSet\nmetadata: { name: interceptor }\nspec:\n  replicas: 2\n"
        ));
    }
}

#[test]
fn figures_are_parameters_and_none_is_forgotten() {
    let other = render(
        "router-cpu1",
        "compose.yaml",
        &[("GATEWAY_MEMORY", "512"), ("GATEWAY_CPU", "1000")],
    );
    let other = other.unwrap();
    assert!(other.contains("mem_limit: 512m") && other.contains("cpu_quota: 100000"), "{other}");
    // A setting that a profile leaves open comes from the environment.
    let said = render("router-cpu1", "tidegate.yaml", &[]).unwrap_err();
    assert!(said.contains("tidegate.yaml names LISTEN"), "{said}");
    let said = tidegate_with(&["check", &format!("{FOLDER}/tidegate.yaml")], &[]);
    assert_eq!(said.code, Some(1), "a variable that is not set is a complaint: {said:?}");
    assert!(said.stderr.contains("the environment has no variable `LISTEN`"), "{}", said.stderr);
}

/// The rules that spread the SOAP gateway's load tests over nodes: gateway, services and load each have their own nodes, except
/// in scenario 0 and the endurance runs. These have more services, and may use any node for services and load.
#[test]
fn parts_keep_apart_and_replicas_are_those_of_the_runs() {
    for (name, apart, replicas, parallel) in
        [("soap", "1", 1, 1), ("soap-scenario0", "0", 2, 1), ("soap-endurance", "0", 3, 10)]
    {
        let manifests = render(name, "kubernetes-soap.yaml", &[]).unwrap();
        let of = |kind: &str, name: &str| {
            let head = format!("kind: {kind}\nmetadata: {{ name: {name} }}\n");
            part(&manifests, &head, "\n---").to_owned()
        };
        let parts = [
            ("gateway", of("Deployment", "soap-gateway"), "replicas: 1\n".to_owned()),
            ("service", of("Deployment", "calculator"), format!("replicas: {replicas}\n")),
            ("service", of("Deployment", "calculator2"), format!("replicas: {replicas}\n")),
            ("service", of("Deployment", "httpbin"), format!("replicas: {replicas}\n")),
            ("load", of("TestRun", "load"), format!("parallelism: {parallel}\n")),
        ];
        for (part_name, manifest, count) in &parts {
            assert!(
                manifest.contains(&format!("part: {part_name}, apart: \"{apart}\"")),
                "{manifest}"
            );
            assert!(manifest.contains(count), "{name}: {count} in {manifest}");
            // Avoids nodes with a pod of another part, if the parts are to be separated.
            let rule = part(manifest, "podAntiAffinity:\n", "containers:");
            let rule: Vec<&str> = rule.lines().map(str::trim).collect();
            let expected = format!(
                "matchExpressions: [{{ key: part, operator: NotIn, values: [{part_name}] }}]"
            );
            assert_eq!(
                rule[..5],
                [
                    "requiredDuringSchedulingIgnoredDuringExecution:",
                    "- topologyKey: kubernetes.io/hostname",
                    "labelSelector:",
                    "matchLabels: { apart: \"1\" }",
                    &expected,
                ],
                "{name} {part_name}"
            );
        }
        let (_, gateway, _) = &parts[0];
        assert!(gateway.contains("limits: { memory: 8192Mi, cpu: 4000m }"), "{gateway}");
        assert!(gateway.contains("name: WORKERS, value: \"4\""), "{gateway}");
        // One at a time, so that a run begins with a gateway that was started anew.
        assert!(gateway.contains("strategy: { type: Recreate }"), "{gateway}");
    }
}

/// The folder that the manifests of the SOAP gateway mount: the example with the cluster's names.
#[test]
fn the_configuration_of_the_soap_runs_is_good() {
    let folder = tempfile::tempdir().unwrap();
    let made =
        Command::new("bash").arg(format!("{FOLDER}/soap.sh")).arg(folder.path()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let entries = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
    // A ConfigMap has files and no folders.
    assert!(entries.into_iter().all(|entry| entry.path().is_file()));
    let file = folder.path().join("tidegate.yaml");
    let said = tidegate_with(&["check", file.to_str().unwrap()], &[("WORKERS", "4")]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let text = fs::read_to_string(file).unwrap();
    let manifests = render("soap", "kubernetes-soap.yaml", &[]).unwrap();
    for name in ["calculator", "calculator2", "httpbin"] {
        assert!(
            text.contains(&format!("{name}: {{ targets: [\"http://{name}:9000\"] }}")),
            "{text}"
        );
        assert!(manifests.contains(&format!("kind: Service\nmetadata: {{ name: {name} }}\n")));
    }
    assert!(text.contains("0.0.0.0:8443") && manifests.contains("https://soap-gateway:8443"));
}

/// deploy/local.sh, ended with the test.
struct Local {
    process: Child,
    said: BufReader<std::process::ChildStderr>,
    keys: tempfile::TempDir,
}

impl Local {
    fn start(profile: &str) -> Local {
        let keys = tempfile::tempdir().unwrap();
        let mut process = Command::new("bash")
            .arg(format!("{FOLDER}/local.sh"))
            .arg(profile)
            .env("TIDEGATE", env!("CARGO_BIN_EXE_tidegate"))
            .env("KEYS", keys.path())
            .envs([("PORT", "0"), ("ADMIN", "127.0.0.1:0")])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stderr.take().unwrap());
        Local { process, said, keys }
    }

    /// The address after this text in its log.
    fn address(&mut self, text: &str) -> SocketAddr {
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "it ended without {text:?}");
            if let Some((_, address)) = line.trim_end().rsplit_once(text) {
                return address.parse().unwrap();
            }
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.process);
        let _ = kill_process(pid, Signal::TERM);
        let _ = self.process.wait();
    }
}

#[test]
fn on_one_machine_the_load_is_served_within_the_limits() {
    for (name, (_, concurrency)) in DOCUMENTS {
        let mut local = Local::start(name);
        let public = local.address("listening listener=\"public\" address=");
        let admin = local.address("admin API address=");
        let token = fs::read_to_string(local.keys.path().join("token")).unwrap();
        let token = token.trim().to_owned();
        let users: Vec<_> = (0..20)
            .map(|user| {
                let token = token.clone();
                thread::spawn(move || {
                    let mut wire = Wire::connect(public);
                    for round in 0..50 {
                        let path = ["plain", "intercepted"][round % 2];
                        let body = format!("{user:0>4}{round:0>1020}");
                        let reply = wire.ask(format!(
                            "POST /echo/1.0.0/{path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
                            body.len()
                        ));
                        assert_eq!((reply.status(), reply.text() == body), (200, true), "{reply:?}");
                    }
                })
            })
            .collect();
        users.into_iter().for_each(|user| user.join().unwrap());
        let get = format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n\r\n");
        let metrics = Wire::connect(admin).ask(get).text();
        let value = |name: &str| -> u64 {
            let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
        };
        assert_eq!(value("tidegate_workers"), concurrency);
        let most = profile(name)["GATEWAY_MEMORY"] << 20;
        assert!(value("process_resident_memory_bytes") < most);
        let asked = |at: &str| metrics.contains(&format!("upstream=\"{at}\""));
        assert!(asked("backend") && asked("interceptor"), "{metrics}");
        drop(local);
        until("its port is closed", || std::net::TcpStream::connect(public).is_err());
    }
}
