//! The command line.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use backends::token::Algorithm;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::argument_values::{
    admin_url, algorithm, claim, duration, header, json_object, mapped, name, path, target, web_url,
};
use crate::catalog_arguments::{CatalogArguments, ImportApictl};
use crate::operations::{Access, Ctl};

/// A gateway for HTTP APIs and SOAP/XML services, with message flows, live streams and WebSub hubs.
#[derive(Parser)]
#[command(
    version,
    after_help = "\
Examples:
  tidegate demo                                 see it work, with backends of its own
  tidegate check gateway.yaml                   every mistake as file:line:column
  tidegate run gateway.yaml                     serve; the file is reloaded when it changes
  tidegate explain gateway.yaml GET http://api.example.com/orders/7
                                                which route, and why not the others
  tidegate test gateway.yaml                    the cases of a configuration, without a network
  tidegate diff gateway.yaml new.yaml           what would change, by its path
  tidegate backend echo --port 9000             something to put behind it

The log goes to standard error. TIDEGATE_LOG sets its level (error, warn, info, debug);
TIDEGATE_LOG_FORMAT=json writes each record as a JSON object on a line of its own.
Exit codes: 0 done, 1 failed, 2 wrong usage."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Serve a configuration until a signal ends it.
    ///
    /// The configuration is reloaded when one of its files changes, on SIGHUP and by the admin API. If the new configuration has
    /// a mistake, the previous one stays in service. On SIGTERM and Ctrl-C, active requests are completed first.
    #[command(after_help = "\
Examples:
  tidegate run                                  serve ./tidegate.yaml
  tidegate run /etc/tidegate/                   serve every *.yaml of a folder as one configuration
  kill -HUP PID                                 reload the files, and reopen the access log")]
    Run {
        /// A YAML file, or a directory of them.
        #[arg(default_value = "tidegate.yaml")]
        file: PathBuf,
    },
    /// Restart the program of a running gateway without interrupting service. The log of the gateway shows the result.
    #[command(after_help = "\
Examples:
  tidegate upgrade 4711                         the same as kill -USR2 4711")]
    Upgrade {
        /// The id of the gateway's process.
        pid: i32,
    },
    /// Check a configuration: exit code 0, or 1 with every complaint as file:line:column.
    #[command(after_help = "\
Examples:
  tidegate check                                check ./tidegate.yaml
  tidegate check gateway.yaml
  tidegate check --strict --format json gateway.yaml
                                                for a pipeline: warnings fail, complaints as JSON
  tidegate check --schema > tidegate.schema.json
                                                for an editor: begin the file with
                                                # yaml-language-server: $schema=tidegate.schema.json")]
    Check {
        /// A YAML file, or a directory of them.
        #[arg(default_value = "tidegate.yaml")]
        file: PathBuf,
        /// Fail on warnings too.
        #[arg(long)]
        strict: bool,
        /// The format of complaints: text, on standard error, or json, on standard output.
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
        /// Print the JSON Schema of the configuration instead, for editors.
        #[arg(long, conflicts_with_all = ["file", "strict", "format"])]
        schema: bool,
    },
    /// Print a configuration with every default and its routes; with METHOD and URL, what happens to that request.
    ///
    /// With METHOD and URL, each policy of the route is printed with its verdict, its place in the configuration and what it changes.
    /// A verdict that depends on the body needs --data.
    ///
    /// With --run, the request in a file is sent through the whole gateway without a network: calls are answered as the `cases` of
    /// the configuration say. Each policy and each step of the flow is printed with what it made of the message, on the way down and
    /// up. What looks like a secret in a body is masked.
    #[command(after_help = "\
Examples:
  tidegate explain gateway.yaml
  tidegate explain gateway.yaml --run request.http
  tidegate explain fault rate_limited           what a fault means, and what to do
  tidegate explain gateway.yaml GET http://api.example.com/orders/7
  tidegate explain gateway.yaml POST /orders -H 'x-tier: gold' --from 10.0.0.7
  tidegate explain gateway.yaml POST /orders -H 'content-type: application/json' --data @order.json")]
    Explain {
        /// A YAML file, or a directory of them; required with METHOD and URL.
        #[arg(default_value = "tidegate.yaml")]
        file: PathBuf,
        /// The method of a request; or, after the word `fault`, the name of a fault to explain.
        method: Option<String>,
        /// Its URL: http://host/path?query, or just the path.
        url: Option<String>,
        /// A header of the request; may be given again.
        #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header, requires = "url")]
        headers: Vec<(String, String)>,
        /// The body of the request; `@FILE` for the bytes of a file, `@-` for standard input.
        #[arg(short = 'd', long, visible_alias = "body", value_name = "BODY", requires = "url")]
        data: Option<String>,
        /// The client's address.
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", requires = "url")]
        from: IpAddr,
        /// A file with a request as HTTP/1.1 writes it: request line, headers, an empty line, the body.
        #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "url"])]
        run: Option<PathBuf>,
    },
    /// Run the cases of a configuration without a network: exit code 0 if all pass, 1 if one fails, 2 if they cannot be run.
    ///
    /// Each case sends its request through a gateway of its own, answers the calls that it lists, and compares the calls and the
    /// reply with what it expects. XML and JSON are compared by meaning. The case fails if a call is made that it does not list, or if
    /// a listed call is not made. `docs/guide/cases.md` has more.
    #[command(after_help = "\
Examples:
  tidegate test gateway.yaml
  tidegate test gateway.yaml --only '^orders'   the cases whose names match
  tidegate test gateway.yaml --junit cases.xml  the outcomes for a build server, too")]
    Test {
        /// A YAML file, or a directory of them.
        #[arg(default_value = "tidegate.yaml")]
        file: PathBuf,
        /// Run only the cases whose names this regular expression finds.
        #[arg(long, value_name = "REGEX")]
        only: Option<String>,
        /// Also write the results as JUnit XML to this file; an error instead of them if the cases cannot be run.
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
    },
    /// Compare two configurations: exit code 0 for no difference, 1 for some, 2 if they cannot be compared.
    ///
    /// Only differences in meaning are printed: the order of names and explicit defaults do not count. Files beside the
    /// configurations are compared by content. A secret that changes is named but not shown.
    ///
    /// With --replay, recorded requests are sent through both configurations in memory. Those with different results are listed:
    /// another route, reply, fault, or other calls of upstreams. Upstreams answer as recorded.
    #[command(after_help = "\
Examples:
  tidegate diff tidegate.yaml new.yaml --replay access.log
                                                what would become of yesterday's requests
  tidegate diff tidegate.yaml new.yaml          + is added, - is removed, ~ is changed
  tidegate diff --admin http://127.0.0.1:9901 new.yaml
                                                what PUT /config would change in a running gateway")]
    Diff {
        /// The old and the new configuration, each a YAML file or a directory of them; with --admin the new file alone.
        #[arg(required = true, num_args = 1..=2, value_names = ["OLD", "NEW"])]
        files: Vec<PathBuf>,
        /// Compare with the running gateway at this admin URL. That gateway reads the files that NEW names.
        #[arg(long, value_name = "URL", value_parser = admin_url)]
        admin: Option<String>,
        /// Compare the results of the requests in this file: lines of an access log in JSON, or a HAR file.
        #[arg(long, value_name = "FILE", conflicts_with = "admin")]
        replay: Option<PathBuf>,
        #[command(flatten)]
        access: Access,
    },
    /// Write the configuration of a running gateway into a file, or into a folder where it serves one.
    ///
    /// Secrets in the configuration are written as `***`; `sync` and `diff` replace that with the value in service. Exit code 0: written;
    /// 1: not written; 2: no gateway or no permission.
    #[command(after_help = "\
Examples:
  tidegate dump --admin http://127.0.0.1:9901 tidegate.yaml
  tidegate dump --admin https://gateway:9901 --ca ca.pem --token \"$TOKEN\" --secrets backup/")]
    Dump {
        /// The gateway's admin API.
        #[arg(long, value_name = "URL", value_parser = admin_url, default_value = ADMIN_URL)]
        admin: String,
        #[command(flatten)]
        access: Access,
        /// Write secrets too. That needs the role `write`.
        #[arg(long)]
        secrets: bool,
        /// The file or the folder.
        path: PathBuf,
    },
    /// Bring a file or a folder into service in a running gateway, and print the differences it makes.
    ///
    /// Nothing is sent if there are no differences. If somebody else changes the configuration meanwhile, the gateway refuses. Exit code
    /// 0: done or nothing to do; 1: refused; 2: no gateway or no permission.
    #[command(after_help = "\
Examples:
  tidegate sync --admin http://127.0.0.1:9901 tidegate.yaml
  tidegate sync --admin http://127.0.0.1:9901 --dry-run gateway/
                                                the differences alone: 0 for none, 1 for some")]
    Sync {
        /// The gateway's admin API.
        #[arg(long, value_name = "URL", value_parser = admin_url, default_value = ADMIN_URL)]
        admin: String,
        #[command(flatten)]
        access: Access,
        /// Change nothing, and exit as `diff` does.
        #[arg(long)]
        dry_run: bool,
        /// A YAML file, or a folder where the gateway serves one.
        path: PathBuf,
    },
    /// Inspect and operate a running gateway: queues, hubs, schedules, upstreams, flows, traces, refusals, history.
    ///
    /// Answers are printed as JSON. Exit code 0: done; 1: refused; 2: no gateway or no permission.
    #[command(after_help = "\
Examples:
  tidegate ctl queues orders                    one queue in numbers
  tidegate ctl dead queue orders                its dead messages
  tidegate ctl retry queue orders 0000017       process one of them again
  tidegate ctl rollback 7                       bring an earlier configuration into service")]
    Ctl {
        /// The gateway's admin API.
        #[arg(long, value_name = "URL", value_parser = admin_url, default_value = ADMIN_URL)]
        admin: String,
        #[command(flatten)]
        access: Access,
        #[command(subcommand)]
        what: Ctl,
    },
    /// List the APIs and applications of a running catalog, subscribe, and get tokens.
    Catalog(CatalogArguments),
    /// Start a gateway and backends in one process, send requests through them, and print what happened.
    ///
    /// With a terminal it stays up until Ctrl-C; without one it ends after the last request.
    Demo(Demo),
    /// Run a backend for use as an upstream of the gateway.
    Backend(Backend),
    /// Run load tests, with the program `tidegate-bench` of the same folder.
    #[command(disable_help_flag = true)]
    Bench {
        /// Passed to that program; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Turn an API document into configuration.
    Import {
        #[command(subcommand)]
        what: Import,
    },
    /// Check, compact or export the store of a stopped gateway.
    Store {
        #[command(subcommand)]
        what: StoreCommand,
    },
    /// Make a JWT for tests, or print the public keys (JWKS) to verify it with.
    Token(Token),
    /// Ask a running gateway whether it is ready: exit code 0 if it takes requests, 1 if it does not answer or is draining.
    #[command(after_help = "\
Examples:
  tidegate ready                                for health checks of containers, and for scripts
  tidegate ready --admin http://127.0.0.1:9901 --timeout 500ms")]
    Ready {
        /// The address of its admin API.
        #[arg(long, value_name = "URL", value_parser = admin_url, default_value = ADMIN_URL)]
        admin: String,
        #[command(flatten)]
        access: Access,
        /// The longest wait for an answer.
        #[arg(long, value_parser = duration, default_value = "2s")]
        timeout: Duration,
    },
    /// Print completions of this command line for a shell.
    #[command(after_help = "\
Examples:
  tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate
  tidegate completions zsh > ~/.zfunc/_tidegate
                                                fpath+=~/.zfunc before compinit in ~/.zshrc
  tidegate completions fish > ~/.config/fish/completions/tidegate.fish")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write texts about the program for packages and the guide.
    #[command(hide = true)]
    Manual {
        #[command(subcommand)]
        what: Manual,
    },
}

/// The URL of the admin API in the guide.
const ADMIN_URL: &str = "http://127.0.0.1:9901";

#[derive(Subcommand)]
pub(crate) enum Manual {
    /// Manual pages, one for each command, into a folder.
    Pages { folder: PathBuf },
    /// The keys of the configuration, as docs/guide/reference.md.
    Keys,
    /// The kinds of fault, as the table in docs/guide/errors.md.
    Faults,
    /// The metrics, as the table in docs/guide/observe.md.
    Metrics,
    /// How each part of a Synapse artifact is handled, as the tables in docs/guide/synapse.md.
    Synapse,
}

/// The format of complaints.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate demo
  tidegate demo --once --port 0 --admin-port 0  on free ports, and end after the requests")]
pub(crate) struct Demo {
    /// The port of the demo's gateway; 0 takes any free port.
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,
    /// The port of its admin API; 0 takes any free port.
    #[arg(long, default_value_t = 9901)]
    pub(crate) admin_port: u16,
    /// End after the requests, even with a terminal.
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Subcommand)]
pub(crate) enum StoreCommand {
    /// Verify a store and change nothing: exit code 0 if it is intact, 1 if it is damaged or cannot be read.
    #[command(after_help = "\
Examples:
  tidegate store check var/tidegate")]
    Check {
        /// The folder, as `store.path` names it.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Return the space of deleted records to the file system.
    #[command(after_help = "\
Examples:
  tidegate store compact var/tidegate")]
    Compact {
        /// The folder, as `store.path` names it.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Print a store as JSON lines: the records of its logs, then the rows of its tables.
    #[command(after_help = "\
Examples:
  tidegate store export var/tidegate > backup.jsonl
  tidegate store export var/tidegate | jq 'select(.log == \"hub/news/sports\")'")]
    Export {
        /// The folder, as `store.path` names it.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

#[derive(Subcommand)]
pub(crate) enum Import {
    /// Print a configuration with the routes, upstreams and policies of an OpenAPI document.
    #[command(after_help = "\
Examples:
  tidegate import openapi petstore.yaml > tidegate.yaml
  tidegate import openapi petstore.yaml --upstream http://127.0.0.1:9000 --validate")]
    Openapi {
        /// OpenAPI 3.0 or 3.1, or Swagger 2, as YAML or JSON.
        file: PathBuf,
        /// The name of routes and upstreams; the document's file name if absent.
        #[arg(long, value_parser = name)]
        name: Option<String>,
        /// The prefix of the document's paths; its `x-wso2-basePath` if absent.
        #[arg(long, value_name = "PATH", value_parser = path)]
        base_path: Option<String>,
        /// The upstream's URL, instead of the document's endpoints and servers.
        #[arg(long, value_name = "URL", value_parser = target)]
        upstream: Option<String>,
        /// Add policies that validate requests against the document.
        #[arg(long)]
        validate: bool,
    },
    /// Print a configuration that turns a SOAP service into a JSON API, and test the translation of each operation.
    ///
    /// The files that the WSDL imports and includes are read relative to it. For each operation, samples are generated from its
    /// schema, translated to SOAP, validated, and translated back. Exit code 0: all samples come back unchanged, and nothing is left
    /// out; 3: otherwise; 1: nothing was written.
    #[command(after_help = "\
Examples:
  tidegate import wsdl calculator.wsdl > tidegate.yaml
  tidegate import wsdl orders.wsdl --port OrdersSoap12 --prefix /orders/v1
  tidegate import wsdl orders.wsdl --upstream http://127.0.0.1:9000/ws
  tidegate import wsdl orders.wsdl --import http://example.com/types.xsd=types.xsd")]
    Wsdl {
        /// WSDL 1.1 or 2.0.
        file: PathBuf,
        /// The name of the route and the upstream; the file's name if absent.
        #[arg(long, value_parser = name)]
        name: Option<String>,
        /// One of its services; the first if absent.
        #[arg(long)]
        service: Option<String>,
        /// One of its ports; if absent, the first that speaks SOAP 1.1, or else 1.2, over HTTP.
        #[arg(long)]
        port: Option<String>,
        /// The prefix of every operation's path; the name if absent.
        #[arg(long, value_name = "PATH", value_parser = path)]
        prefix: Option<String>,
        /// The upstream's URL, instead of the port's address.
        #[arg(long, value_name = "URL", value_parser = web_url)]
        upstream: Option<String>,
        /// A file for a location that the WSDL or a schema names; may be given again.
        #[arg(long = "import", value_name = "LOCATION=FILE", value_parser = mapped)]
        imports: Vec<(String, PathBuf)>,
    },
    /// Print a configuration equivalent to artifacts of Apache Synapse or WSO2 Micro Integrator.
    ///
    /// Standard error gets a table of what is converted, approximated and refused, each with its place. A comment stands in the
    /// configuration where something was refused. Exit code 0: all is converted; 3: something is approximated or refused; 1: nothing was
    /// written.
    #[command(after_help = "\
Examples:
  tidegate import synapse proxy.xml > tidegate.yaml
  tidegate import synapse orders.car --into gateway/
                                                gateway/tidegate.yaml, stylesheets and schemas")]
    Synapse {
        /// An artifact (XML), a folder of them, or a Composite Application archive (.car).
        path: PathBuf,
        /// A folder for the configuration and the files that it names. Nothing there is overwritten.
        #[arg(long, value_name = "FOLDER")]
        into: Option<PathBuf>,
    },
    /// Print a configuration that serves the API of a project of apictl.
    Apictl(ImportApictl),
    /// Print a configuration equivalent to declarative files of Kong.
    ///
    /// Standard error gets a row for each entity, credential and plugin: converted, approximated or refused, with its place. A route
    /// whose guard is refused answers 503. Exit code 0: all is converted; 3: something is approximated or refused; 1: the files have
    /// mistakes, all of which are told, and nothing was written.
    #[command(after_help = "\
Examples:
  tidegate import kong kong.yaml > tidegate.yaml
  deck gateway dump -o - | tidegate import kong - --into gateway/
                                                gateway/tidegate.yaml, certificates and keys
  tidegate import kong services/ consumers.yaml --select-tag team-a")]
    Kong {
        /// Files in YAML or JSON, folders of them, or `-` for standard input. Together they are one configuration.
        #[arg(required = true, value_name = "FILE|FOLDER|-")]
        paths: Vec<PathBuf>,
        /// A folder for the configuration and the files that it names. Nothing there is overwritten.
        #[arg(long, value_name = "FOLDER")]
        into: Option<PathBuf>,
        /// Only entities with this tag; with several, those that have all.
        #[arg(long = "select-tag", value_name = "TAG")]
        select_tags: Vec<String>,
        /// Keep `$NAME` and `${NAME}` as variables of the environment, for files that a shell or `envsubst` fills in before Kong starts.
        /// Without it, they are text, as for Kong.
        #[arg(long)]
        shell_variables: bool,
        /// The address for plain HTTP.
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8000")]
        listen: String,
        /// The address for HTTPS, where certificates have `snis`.
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8443")]
        listen_tls: String,
        /// The address for metrics, if the files have `prometheus`: that of Kong's Admin API.
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8001")]
        listen_metrics: String,
    },
}

#[derive(Args)]
#[command(after_help = "\
Kinds:
  echo      any method and path: the body comes back, or a text that describes the request
  httpbin   /anything, /size/350B, /status/N, /headers, /delay/SECONDS, ...
  sse       server-sent events: ?interval=1s&count=10&size=500B, with 500 bytes of
            padding; without a size each event has 82 bytes
  reverse   a WebSocket that sends each message back reversed
  calculator
            the SOAP service of examples/soap, at /ws; X_SOAP_REGION names it in its replies
  interceptor
            what the policy `interceptor` calls; see --request-answer
  webhook   a subscriber of a hub: confirms, verifies signatures, prints counts, also at /stats;
            ?fail=2 in the callback fails the first two tries of each event, ?status=503 fails all,
            ?confirm=no confirms nothing

Examples:
  tidegate backend echo --port 9000 --name one
  tidegate backend echo --port 9443 --tls --delay 200ms
  tidegate backend sse --port 9001")]
pub(crate) struct Backend {
    /// echo, httpbin, sse, reverse, calculator, interceptor or webhook.
    pub(crate) kind: backends::Kind,
    /// The port to listen on; 0 takes a free one, which is printed.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) address: IpAddr,
    /// The delay of each reply: 250ms, 2s. Requests are processed concurrently.
    #[arg(long, value_parser = duration, default_value = "0s")]
    pub(crate) delay: Duration,
    /// Speak TLS: with --certificate and --key, or with a certificate made at start.
    #[arg(long)]
    pub(crate) tls: bool,
    /// PEM file of the certificate chain; implies --tls.
    #[arg(long, requires = "key")]
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file of its key.
    #[arg(long, requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
    /// PEM file of certificate authorities: clients must show a certificate signed by one of them.
    #[arg(long, requires = "certificate")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Sent as x-backend with every reply, to tell several backends apart.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The answer of an interceptor to handle-request, as JSON; without it a header is added.
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    pub(crate) request_answer: Option<String>,
    /// The answer of an interceptor to handle-response, as JSON; without it a header is added.
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    pub(crate) response_answer: Option<String>,
    /// The status of an interceptor's answers: 200, 204 for no change, another to fail.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(200..600))]
    pub(crate) status: u16,
    /// Make an interceptor return the body in capitals.
    #[arg(long)]
    pub(crate) capitals: bool,
    /// The `hub.secret` of a webhook's subscriptions: events that are not signed with it are refused.
    #[arg(long, value_name = "TEXT")]
    pub(crate) secret: Option<String>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  tidegate token --key key.pem --issuer https://idp.test --subject ann --scope 'orders:read'
  tidegate token --jwks --key key.pem > jwks.json
  tidegate token --key key.pem --subject user --count 10000 > tokens")]
pub(crate) struct Token {
    /// The file of the private key, made if it does not exist. Without it a new key is used once, and its JWKS is printed too.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The algorithm of a new key: es256 or rs256.
    #[arg(long, default_value = "es256", value_parser = algorithm)]
    pub(crate) algorithm: Algorithm,
    /// Print the JWKS instead of a token.
    #[arg(long)]
    pub(crate) jwks: bool,
    /// Claim iss.
    #[arg(long)]
    pub(crate) issuer: Option<String>,
    /// Claim sub.
    #[arg(long)]
    pub(crate) subject: Option<String>,
    /// Claim aud; may be given again.
    #[arg(long)]
    pub(crate) audience: Vec<String>,
    /// Claim scope: words separated by spaces.
    #[arg(long)]
    pub(crate) scope: Option<String>,
    /// The lifetime of the token: 10m, 1h. A negative one makes a token that has expired: -1m.
    #[arg(long, default_value = "1h", allow_hyphen_values = true, value_parser = expiry)]
    pub(crate) expires: Expiry,
    /// Another claim; the value is JSON, or a text.
    #[arg(long, value_name = "NAME=VALUE", value_parser = claim)]
    pub(crate) claim: Vec<(String, serde_json::Value)>,
    /// The number of tokens, one a line. Each has a `jti` of its own, and its number after the subject.
    #[arg(long, value_name = "N", conflicts_with = "jwks", requires = "key",
          value_parser = clap::value_parser!(u32).range(1..=TOKENS_MAX))]
    pub(crate) count: Option<u32>,
}

/// The end of a token's validity, relative to now.
#[derive(Clone, Copy)]
pub(crate) struct Expiry {
    /// True if it is in the past.
    pub(crate) over: bool,
    pub(crate) time: Duration,
}

fn expiry(text: &str) -> Result<Expiry, String> {
    let time = text.strip_prefix('-');
    Ok(Expiry { over: time.is_some(), time: duration(time.unwrap_or(text))? })
}

/// RSA makes one or two thousand signatures per second, so a larger number is a mistake or takes ten minutes.
const TOKENS_MAX: i64 = 1_000_000;
