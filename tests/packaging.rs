//! Installation: the unit and its contract with systemd, manual pages, completions, `make install`, the container.
//! `make deb` tries the package itself (scripts/try-deb.sh).

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Gate, Gateway, Origin, PATIENCE, Wire, tidegate};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

fn file(path: &str) -> String {
    fs::read_to_string(format!("{ROOT}/{path}")).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A gateway that was started by a service manager, which listens at `socket`.
struct Managed {
    process: Child,
    folder: tempfile::TempDir,
    manager: UnixDatagram,
}

impl Managed {
    fn start(folder: tempfile::TempDir, manager: UnixDatagram, name: &str) -> Managed {
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        fs::write(folder.path().join("tidegate.yaml"), configuration("one")).unwrap();
        let process = Command::new(PROGRAM)
            .arg("run")
            .current_dir(folder.path())
            .env("NOTIFY_SOCKET", name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        Managed { process, folder, manager }
    }

    #[track_caller]
    fn told(&self) -> String {
        let mut datagram = [0; 4096];
        let length = self.manager.recv(&mut datagram).expect("the manager is told");
        String::from_utf8(datagram[..length].to_vec()).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// The address in its log.
    fn hello(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
        let (_, after) =
            log.rsplit_once("listening listener=\"public\" address=").expect("an address");
        let address = after.split_whitespace().next().unwrap().parse().unwrap();
        Wire::connect(address).get("/hello").text()
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn configuration(body: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\ndrain: {{ delay: 10ms }}\nshutdown: {{ drain: 7s }}\n\
         routes: {{ hello: {{ match: {{ path: /hello }}, respond: {{ body: {body} }} }} }}\n"
    )
}

#[test]
fn a_service_manager_is_told_when_it_serves_reloads_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    let mut managed = Managed::start(folder, manager, socket.to_str().unwrap());

    assert_eq!(managed.told(), "READY=1\nSTATUS=Serving.");
    // It is open by then, not about to be.
    assert_eq!(managed.hello(), "one");
    managed.signal(Signal::HUP);
    assert!(managed.told().starts_with("RELOADING=1\n"));
    assert_eq!(managed.told(), "READY=1\nSTATUS=Serving.");

    fs::write(managed.folder.path().join("tidegate.yaml"), "routs: {}\n").unwrap();
    managed.signal(Signal::HUP);
    assert!(managed.told().starts_with("RELOADING=1\n"));
    let refused = managed.told();
    assert!(refused.starts_with("READY=1\nSTATUS=Serving the last good"), "{refused}");
    assert_eq!(managed.hello(), "one");

    managed.signal(Signal::TERM);
    let stopping = managed.told();
    // The times of `drain.delay` and `shutdown.drain`, and some for the rest.
    assert!(stopping.starts_with("STOPPING=1\nEXTEND_TIMEOUT_USEC=22010000\n"), "{stopping}");
    assert_eq!(managed.process.wait().unwrap().code(), Some(0));
}

#[test]
fn a_managers_socket_may_be_abstract_or_gone() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("tidegate-{}", folder.path().display());
    let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let managed = Managed::start(folder, manager, &format!("@{name}"));
    assert!(managed.told().starts_with("READY=1\n"));

    let folder = tempfile::tempdir().unwrap();
    let nobody = folder.path().join("nobody");
    let elsewhere = UnixDatagram::unbound().unwrap();
    let managed = Managed::start(folder, elsewhere, nobody.to_str().unwrap());
    let log = managed.folder.path().join("log");
    crate::harness::until("it serves and says that nobody listens", || {
        let log = fs::read_to_string(&log).unwrap();
        log.contains("the configuration is in service")
            && log.contains("the service manager cannot be notified")
    });
}

#[test]
fn ready_tells_one_that_serves_from_one_that_drains_and_from_none() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::start(move |peer| {
        while peer.request().is_some() {
            held.wait();
            peer.try_send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let gateway = Gateway::start(format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\ndrain: {{ delay: 0s }}\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\nroutes: {{ all: {{ match: {{}}, upstream: origin }} }}\n",
        origin.url()
    ));
    let url = format!("http://{}", gateway.admin());
    let ready = || tidegate(&["ready", "--admin", &url]);
    assert_eq!(ready().code, Some(0), "{:?}", ready());
    let mut busy = gateway.wire();
    busy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(1);
    gateway.signal(Signal::TERM);
    gateway.wait_for_log("draining");
    let draining = ready();
    assert_eq!(draining.code, Some(1), "{draining:?}");
    assert!(draining.stderr.contains("is not ready: 503"), "{draining:?}");
    gate.open();
    assert_eq!(busy.read_reply().status(), 200);
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
    let gone = ready();
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert!(gone.stderr.contains("cannot reach"), "{gone:?}");
}

/// The values of a directive of the unit, in their order.
fn directives(unit: &str, name: &str) -> Vec<String> {
    let values = unit.lines().filter_map(|line| line.strip_prefix(&format!("{name}=")));
    values.map(str::to_owned).collect()
}

#[test]
fn the_unit_starts_what_there_is_and_systemd_takes_it() {
    let unit = file("deploy/package/tidegate.service");
    for (name, value) in [
        ("Type", "notify"),
        ("DynamicUser", "yes"),
        ("LimitNOFILE", "1048576"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
    ] {
        assert_eq!(directives(&unit, name), [value], "{name}");
    }
    let reload = directives(&unit, "ExecReload");
    assert_eq!(reload.last().map(String::as_str), Some("/bin/kill -HUP $MAINPID"));
    // The program knows the commands of the unit, with the configuration of the package.
    let shipped = format!("{ROOT}/deploy/package/tidegate.yaml");
    assert_eq!(
        directives(&unit, "ExecStart"),
        ["/usr/bin/tidegate run /etc/tidegate/tidegate.yaml"]
    );
    assert_eq!(reload[0], "/usr/bin/tidegate check /etc/tidegate/tidegate.yaml");
    let checked = tidegate(&["check", &shipped]);
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""));

    // systemd has the last word if it is there; the program is where it was built.
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("tidegate.service");
    fs::write(&here, unit.replace("/usr/bin/tidegate", PROGRAM)).unwrap();
    let analyze = |arguments: &[&str]| {
        Command::new("systemd-analyze").args(arguments).arg(&here).output().ok()
    };
    for arguments in [
        &["verify", "--man=no"][..],
        &["security", "--offline=true", "--threshold=25", "--no-pager"],
    ] {
        let Some(said) = analyze(arguments) else { return };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            said.status.success() && said.stderr.is_empty(),
            "{arguments:?}: {}{}",
            text(&said.stderr),
            text(&said.stdout)
        );
    }
}

/// The commands that `tidegate help` lists.
fn commands() -> Vec<String> {
    let help = tidegate(&["help"]).stdout;
    let (_, rest) = help.split_once("Commands:\n").unwrap();
    let (list, _) = rest.split_once("\n\n").unwrap();
    // The description of a command may continue in the next line, with more indentation.
    let lines = list.lines().filter_map(|line| line.strip_prefix("  "));
    let names =
        lines.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).filter(|name| name != "help").collect()
}

#[test]
fn every_command_has_a_manual_page_and_completes() {
    let folder = tempfile::tempdir().unwrap();
    let made = tidegate(&["manual", "pages", folder.path().to_str().unwrap()]);
    assert_eq!((made.code, made.stderr.as_str()), (Some(0), ""));
    let commands = commands();
    assert!(commands.len() > 7 && !commands.contains(&"manual".to_owned()), "{commands:?}");
    let completions = |shell: &str| {
        let run = tidegate(&["completions", shell]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
        run.stdout
    };
    let scripts = ["bash", "zsh", "fish"].map(completions);
    for command in &commands {
        let page = folder.path().join(format!("tidegate-{command}.1"));
        let page = fs::read_to_string(&page).unwrap_or_else(|e| panic!("{command}: {e}"));
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH DESCRIPTION"), "{page}");
        assert!(scripts.iter().all(|script| script.contains(command)), "{command}");
    }
    let run = fs::read_to_string(folder.path().join("tidegate-run.1")).unwrap();
    assert!(run.contains("\n\\&  kill \\-HUP PID "), "examples keep their lines: {run}");
    let pages = fs::read_dir(folder.path()).unwrap().count();
    assert!(pages > commands.len(), "there is one of the program, and of commands of commands");
    assert_eq!(tidegate(&["completions", "tcsh"]).code, Some(2));

    // A shell itself asks.
    let script = folder.path().join("tidegate.bash");
    fs::write(&script, &scripts[0]).unwrap();
    let asks = "source \"$1\"; COMP_WORDS=(tidegate im); COMP_CWORD=1; _tidegate tidegate im tidegate; echo \"${COMPREPLY[*]}\"";
    let said = Command::new("bash").args(["-c", asks, "bash"]).arg(&script).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), "import\n", "{said:?}");
}

#[test]
fn make_install_puts_the_program_its_pages_and_completions_below_a_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let run = Command::new("bash")
        .arg(format!("{ROOT}/scripts/install.sh"))
        .env("PROGRAM", PROGRAM)
        .env("DESTDIR", folder.path())
        .env("PREFIX", "/opt/tidegate")
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let below = folder.path().join("opt/tidegate");
    for (path, text) in [
        ("share/man/man1/tidegate.1", ".TH TIDEGATE"),
        ("share/man/man1/tidegate-import-wsdl.1", ".TH TIDEGATE-IMPORT-WSDL"),
        ("share/bash-completion/completions/tidegate", "_tidegate"),
        ("share/zsh/site-functions/_tidegate", "#compdef tidegate"),
        ("share/fish/vendor_completions.d/tidegate.fish", "complete -c tidegate"),
    ] {
        let found = fs::read_to_string(below.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert!(found.replace("\\-", "-").contains(text), "{path}: {found}");
    }
    let version = Command::new(below.join("bin/tidegate")).arg("--version").output().unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("tidegate "), "{version:?}");
}

/// The instructions of a Dockerfile: joined lines, without comments.
fn instructions(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let split = joined.lines().filter_map(|line| line.trim().split_once(' '));
    split.map(|(name, rest)| (name.to_owned(), rest.trim().to_owned())).collect()
}

/// The faults of a Dockerfile with three stages, of which the second has the symbols, by the applicable rules of hadolint.
fn faults_of(dockerfile: &str) -> Vec<String> {
    let known = "FROM WORKDIR COPY RUN USER EXPOSE HEALTHCHECK STOPSIGNAL ENTRYPOINT CMD";
    let instructions = instructions(dockerfile);
    let mut faults = Vec::new();
    let mut stages: Vec<Vec<&(String, String)>> = Vec::new();
    let mut names = HashSet::new();
    for instruction in &instructions {
        let (name, rest) = instruction;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let mut fault = |what: &str| faults.push(format!("{what}: {name} {rest}"));
        match name.as_str() {
            "FROM" => {
                let tagged = words[0].rsplit_once(':').is_some_and(|(_, tag)| tag != "latest");
                if !tagged && words[0] != "scratch" {
                    fault("an image without a version");
                }
                stages.push(Vec::new());
                if let ["AS" | "as", stage] = words[1..] {
                    names.insert(stage.to_owned());
                }
            }
            "WORKDIR" if !rest.starts_with('/') => fault("no absolute path"),
            "COPY" => {
                let from = words[0].strip_prefix("--from=");
                if from.is_some_and(|stage| !names.contains(stage)) {
                    fault("no such stage");
                }
                let sources = &words[..words.len() - 1];
                let lost = |source: &&&str| !Path::new(ROOT).join(source).exists();
                if from.is_none() && sources.iter().any(|source| lost(&source)) {
                    fault("no such file");
                }
            }
            "RUN" if rest.contains("sudo ") || rest.contains("apt-get upgrade") => {
                fault("not here")
            }
            "ENTRYPOINT" | "CMD" if !rest.starts_with('[') => fault("a shell in between"),
            "HEALTHCHECK" if !rest.contains(" CMD [") => fault("a shell in between"),
            _ if !known.split(' ').any(|known| known == name) => fault("unknown"),
            _ => {}
        }
        if let Some(stage) = stages.last_mut() {
            stage.push(instruction);
        }
    }
    let last = stages.last().cloned().unwrap_or_default();
    let values = |of: &str| -> Vec<&str> {
        last.iter().filter(|(name, _)| name == of).map(|(_, rest)| rest.as_str()).collect()
    };
    if stages.len() != 3 {
        faults.push("it has not three stages".to_owned());
    }
    if !values("USER")
        .last()
        .is_some_and(|user| user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)))
    {
        faults.push("it runs as root, or as a name that Kubernetes cannot check".to_owned());
    }
    for one in ["HEALTHCHECK", "ENTRYPOINT", "CMD"] {
        if values(one).len() != 1 {
            faults.push(format!("the image has not one {one}"));
        }
    }
    if !values("RUN").is_empty() {
        faults.push("the image has no shell to run anything".to_owned());
    }
    faults
}

#[test]
fn the_dockerfile_builds_by_itself_and_ends_in_a_small_image_with_a_health_check() {
    let dockerfile = file("Dockerfile");
    assert_eq!(faults_of(&dockerfile), [""; 0]);
    // It builds with the Rust that the project asks for, and with nothing that was built outside.
    let manifest = file("Cargo.toml");
    let (_, rust) = manifest.split_once("rust-version = \"").unwrap();
    let rust = rust.split('"').next().unwrap();
    assert!(dockerfile.contains(&format!("FROM rust:{rust}-")), "{rust}");
    assert!(file(".dockerignore").lines().any(|line| line == "target"));
    // Its commands are the program's.
    assert_eq!(tidegate(&["ready", "--help"]).code, Some(0));
    let served = format!("{ROOT}/deploy/container.yaml");
    let checked = tidegate(&["check", &served]);
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""));

    for (good, bad, fault) in [
        ("rust:1.95-bookworm", "rust:latest", "an image without a version"),
        ("USER 65532:65532", "USER root", "it runs as root"),
        ("--from=build", "--from=built", "no such stage"),
        ("COPY deploy/container.yaml", "COPY deploy/none.yaml", "no such file"),
        ("CMD [\"run\", \"/etc/tidegate/tidegate.yaml\"]", "CMD run", "a shell in between"),
        ("WORKDIR /src", "WORKDIR src", "no absolute path"),
        ("STOPSIGNAL", "ADD", "unknown"),
    ] {
        let broken = dockerfile.replace(good, bad);
        let faults = faults_of(&broken);
        assert!(faults.iter().any(|found| found.starts_with(fault)), "{fault}: {faults:?}");
    }
}
