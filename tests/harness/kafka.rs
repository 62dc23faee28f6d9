//! An Apache Kafka broker in its own folder, and Kafka's tools as peers. The black-box suite and the tests of the crate `kafka` share this
//! file.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A running broker. It is killed when dropped, and also when the process of the tests ends in any way.
pub(crate) struct Kafka {
    process: Child,
    folder: TempDir,
    port: u16,
    secure_port: u16,
}

/// Optional settings of a broker.
#[derive(Default)]
pub(crate) struct Extras<'e> {
    /// PEM of a certificate and its key, for the listener that requires TLS and a password.
    pub(crate) identity: Option<(&'e str, &'e str)>,
    /// The port that it advertises to its clients instead of its own.
    pub(crate) advertised: Option<u16>,
}

/// The number of attempts to find ports that are still free when the broker starts.
const ATTEMPTS: usize = 5;

/// Java takes seconds to start on an idle machine, and this machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a program and kills it when its standard input ends, which happens at the latest when the process that started it ends.
pub(crate) const GUARDED: &str = "exec 3<&0; \"$@\" & child=$!; (read -r _ <&3; kill -9 $child) & wait $child; kill $! 2>/dev/null";

/// Java options of the broker and its tools: little memory, and fast start instead of peak speed.
const JAVA: &[&str] = &["-Xmx256m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

impl Kafka {
    /// Returns the broker that all tests of this process share. Each test needs its own topic names.
    pub(crate) fn shared() -> &'static Kafka {
        static SHARED: OnceLock<Kafka> = OnceLock::new();
        SHARED.get_or_init(|| Kafka::start(&Extras::default()))
    }

    /// Starts a broker on loopback ports.
    pub(crate) fn start(extras: &Extras<'_>) -> Kafka {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..ATTEMPTS {
            let free: Vec<TcpListener> =
                (0..3).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
            let ports: Vec<u16> =
                free.iter().map(|free| free.local_addr().unwrap().port()).collect();
            drop(free);
            let (port, secure_port) = (ports[0], ports[1]);
            let settings = settings(folder.path(), extras, &ports);
            std::fs::write(folder.path().join("server.properties"), settings).unwrap();
            format(folder.path());
            let mut process = serve(folder.path());
            if is_up(&mut process, port) {
                return Kafka { process, folder, port, secure_port };
            }
        }
        panic!("no broker: {}", log(folder.path()));
    }

    /// Returns the address of the listener without authentication.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the address of the listener with TLS. The user is `tester`, the password is `geheim`.
    pub(crate) fn secure_address(&self) -> String {
        format!("localhost:{}", self.secure_port)
    }

    /// Kills the broker.
    pub(crate) fn kill(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().unwrap();
    }

    /// Starts the broker again after a kill, on the same ports and with the same data.
    pub(crate) fn start_again(&mut self) {
        self.process = serve(self.folder.path());
        assert!(is_up(&mut self.process, self.port), "no broker: {}", log(self.folder.path()));
    }

    /// Runs one of Kafka's tools, by its class below `org.apache.kafka.tools`, and returns its output.
    pub(crate) fn tool(&self, class: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let mut command = java();
        command.arg(format!("org.apache.kafka.tools.{class}"));
        command.args(["--bootstrap-server", &self.address()]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("java; scripts/setup.sh installs it");
        child.stdin.take().unwrap().write_all(input).unwrap();
        said(child.wait_with_output().unwrap())
    }

    /// Returns the first messages of a topic as printed by Kafka's consumer: headers, a tab, the value.
    pub(crate) fn consumed(&self, topic: &str, count: usize) -> Vec<u8> {
        let count = count.to_string();
        let arguments = ["--topic", topic, "--from-beginning", "--max-messages", &count];
        let more = ["--timeout-ms", "60000", "--formatter-property", "print.headers=true"];
        self.tool("consumer.ConsoleConsumer", &[arguments.as_slice(), &more].concat(), b"")
    }

    /// Writes messages with Kafka's producer, one per line: headers, a tab, the value.
    pub(crate) fn produce(&self, topic: &str, compression: &str, lines: &str) {
        let arguments = ["--topic", topic, "--reader-property", "parse.headers=true"];
        // Without this timeout the producer drops messages that the broker has not accepted within 1.5 seconds, and still succeeds.
        let more = ["--compression-codec", compression, "--request-timeout-ms", "60000"];
        self.tool("ConsoleProducer", &[arguments.as_slice(), &more].concat(), lines.as_bytes());
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        self.kill();
    }
}

fn settings(folder: &Path, extras: &Extras<'_>, ports: &[u16]) -> String {
    let (port, secure, controller) = (ports[0], ports[1], ports[2]);
    let advertised = extras.advertised.unwrap_or(port);
    let is_secure = extras.identity.is_some();
    let listener = |address: &str, port| {
        if is_secure { format!(",SECURE://{address}:{port}") } else { String::new() }
    };
    let mut text = format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         listeners=PLAIN://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{}\n\
         advertised.listeners=PLAIN://127.0.0.1:{advertised}{}\n\
         controller.quorum.bootstrap.servers=127.0.0.1:{controller}\n\
         controller.listener.names=CONTROLLER\n\
         inter.broker.listener.name=PLAIN\n\
         listener.security.protocol.map=PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL\n\
         log.dirs={}\n\
         auto.create.topics.enable=false\n\
         offsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=1\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.num.partitions=1\n\
         transaction.state.log.min.isr=1\n\
         group.initial.rebalance.delay.ms=0\n\
         num.network.threads=2\n\
         num.io.threads=2\n",
        listener("127.0.0.1", secure),
        listener("localhost", secure),
        folder.join("data").display(),
    );
    if let Some((certificate, key)) = extras.identity {
        let line = |pem: &str| pem.trim().replace('\n', "\\n");
        let module = "org.apache.kafka.common.security";
        write!(
            text,
            "ssl.keystore.type=PEM\n\
             ssl.keystore.certificate.chain={}\n\
             ssl.keystore.key={}\n\
             sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
             listener.name.secure.plain.sasl.jaas.config={module}.plain.PlainLoginModule required user_tester=\"geheim\";\n\
             listener.name.secure.scram-sha-256.sasl.jaas.config={module}.scram.ScramLoginModule required;\n\
             listener.name.secure.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;\n",
            line(certificate),
            line(key),
        )
        .unwrap();
    }
    text
}

/// Creates the data folder of the broker again.
fn format(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder.join("data"));
    let mut command = java();
    command.args(["kafka.tools.StorageTool", "format", "--standalone"]);
    command.args(["--cluster-id", "dGlkZWdhdGUtdGlkZWdhdA"]);
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        command.args(["--add-scram", &format!("{mechanism}=[name=tester,password=geheim]")]);
    }
    said(command.arg("--config").arg(folder.join("server.properties")).output().unwrap());
}

fn serve(folder: &Path) -> Child {
    let log = std::fs::File::create(folder.join("log")).unwrap();
    let java = java();
    let mut command = Command::new("sh");
    command.args(["-c", GUARDED, "sh"]).arg(java.get_program()).args(java.get_args());
    command.arg("kafka.Kafka").arg(folder.join("server.properties"));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("sh")
}

/// Waits until the broker answers. Returns false if it has ended.
fn is_up(process: &mut Child, port: u16) -> bool {
    let began = Instant::now();
    loop {
        if process.try_wait().unwrap().is_some() {
            return false;
        }
        if answers(port).is_ok() {
            return true;
        }
        assert!(began.elapsed() < PATIENCE, "the broker does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Requests the supported API versions.
fn answers(port: u16) -> std::io::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // The length, API key 18 in version 0, a correlation id, and no client id.
    stream.write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff])?;
    let mut answer = [0; 10];
    stream.read_exact(&mut answer)?;
    assert_eq!(answer[4..], [0, 0, 0, 7, 0, 0], "another program listens there");
    Ok(())
}

fn java() -> Command {
    let mut command = Command::new("java");
    let jars = home().join("*");
    command.args(JAVA).arg("-cp").arg(jars);
    command
}

/// Returns the folder in which `scripts/kafka.sh` has installed the program.
fn home() -> PathBuf {
    let binary = std::env::current_exe().unwrap();
    // target/debug/deps/NAME
    let home = binary.ancestors().nth(3).unwrap().join("kafka");
    assert!(
        home.join("stamp").is_file(),
        "no {}; scripts/setup.sh tests puts it there",
        home.display()
    );
    home
}

fn log(folder: &Path) -> String {
    let text = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    text.lines().rev().take(40).collect::<Vec<_>>().join("\n")
}

fn said(output: Output) -> Vec<u8> {
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    output.stdout
}
