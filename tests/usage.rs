//! The exit of the program after wrong use, or when its output has no reader.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use crate::harness::{tidegate, tidegate_with};

#[test]
fn wrong_arguments_end_with_2() {
    for arguments in [
        &["token", "--expires", "10"][..],
        &["token", "--expires", "x"],
        &["import", "openapi", "a.yaml", "--base-path", "x"],
        &["import", "openapi", "a.yaml", "--base-path", "/a/../b"],
        &["import", "openapi", "a.yaml", "--name", "é"],
        &["import", "openapi", "a.yaml", "--upstream", "ftp://x"],
        &["import", "wsdl", "a.wsdl", "--prefix", "foo"],
        &["import", "wsdl", "a.wsdl", "--prefix", "/a/../b"],
        &["import", "wsdl", "a.wsdl", "--upstream", "x"],
        &["ready", "--admin", "x"],
        &["ready", "--admin", "ftp://127.0.0.1"],
        &["diff", "--admin", "127.0.0.1:1", "a.yaml"],
    ] {
        let said = tidegate(arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}: {said:?}");
        assert!(said.stderr.contains("invalid value"), "{}", said.stderr);
    }
}

#[test]
fn a_level_that_is_none_is_refused() {
    for (level, code) in [("wran", 2), ("info,wran", 2), ("debug", 0), ("info,listen=debug", 0)] {
        let said = tidegate_with(&["check", "--schema"], &[("TIDEGATE_LOG", level)]);
        assert_eq!(said.code, Some(code), "{level}: {}", said.stderr);
        assert_eq!(said.stderr.contains("write error, warn, info"), code == 2, "{}", said.stderr);
    }
}

#[test]
fn output_that_is_lost_is_a_failure() {
    for arguments in [&["check", "--schema"][..], &["token"], &["token", "--jwks"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let full = File::options().write(true).open("/dev/full").unwrap();
        let run = command.args(arguments).stdin(Stdio::null()).stdout(full).output().unwrap();
        let said = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("standard output cannot be written"), "{said}");
    }
}

#[test]
fn load_tests_are_run_by_the_program_beside_it() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let (alone, beside) = (folder.path().join("tidegate"), folder.path().join("tidegate-bench"));
    fs::copy(env!("CARGO_BIN_EXE_tidegate"), &alone).unwrap();
    let run =
        || Command::new(&alone).args(["bench", "run", "--quick", "-u", "1"]).output().unwrap();

    let missing = run();
    let said = String::from_utf8(missing.stderr).unwrap();
    assert_eq!(missing.status.code(), Some(1), "{said}");
    assert!(said.contains(beside.to_str().unwrap()) && said.contains("does not exist"), "{said}");

    fs::write(&beside, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).unwrap();
    let passed = run();
    assert_eq!(passed.status.code(), Some(7), "{passed:?}");
    assert_eq!(passed.stdout, b"run --quick -u 1\n");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = tidegate(&["backend", "echo", "--port", &port]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains(&format!("127.0.0.1:{port}")), "{}", said.stderr);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let listen =
        |port: &str| format!("listen: {{ public: {{ address: \"127.0.0.1:{port}\" }} }}\n");
    let admin = format!("{}admin: {{ address: \"127.0.0.1:{port}\" }}\n", listen("0"));
    for text in [listen(&port), admin] {
        std::fs::write(&file, text).unwrap();
        let said = tidegate(&["run", file.to_str().unwrap()]);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.stderr.contains(&format!("127.0.0.1:{port} cannot be bound")), "{said:?}");
        assert!(!said.stderr.contains("listening"), "no request is taken: {}", said.stderr);
        assert!(!said.stderr.contains("the configuration is in service"), "{}", said.stderr);
    }
}

#[test]
fn files_that_cannot_be_read_are_told_of_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate.yaml");
    std::fs::write(&gate, "listen: { public: { address: \"127.0.0.1:0\" } }\n").unwrap();
    let (gate, missing) = (gate.to_str().unwrap(), folder.path().join("missing"));
    let (missing, folder) = (missing.to_str().unwrap(), folder.path().to_str().unwrap());
    let (none, is_folder) = ("there is no such file", "it is a folder");
    for (arguments, what) in [
        (&["explain", gate, "--run", missing][..], none),
        (&["explain", gate, "--run", folder], is_folder),
        (&["import", "wsdl", missing], none),
        (&["import", "wsdl", folder], is_folder),
        (&["import", "openapi", folder], is_folder),
        (&["import", "synapse", missing], none),
        (&["token", "--key", folder], is_folder),
    ] {
        let said = tidegate(arguments);
        assert_ne!(said.code, Some(0), "{arguments:?}");
        assert!(said.stderr.contains(what), "{arguments:?}: {said:?}");
        assert!(!said.stderr.contains("os error"), "{arguments:?}: {said:?}");
    }
}

#[test]
fn a_gateway_that_never_answers_is_not_ready() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let said = tidegate(&["ready", "--admin", &url, "--timeout", "100ms"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains("no answer within 100ms"), "{said:?}");
}

#[test]
fn keys_of_tokens_may_be_in_any_usual_form() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.pem");
    let token = || tidegate(&["token", "--key", file.to_str().unwrap()]);
    // SEC 1, as `openssl ecparam -genkey` writes it.
    let key = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIPe3eZJRgJ0LK9VuKsyCr2zGnHYeZsv8wErLKtJzxcD3oAoGCCqGSM49\nAwEHoUQDQgAEhhdCipZnp8ZWZGOB/Yin31C0InZLfbQkrZbL0vlS4DGkyBnDzfaH\n4EQRjIwIogS5DTBpnJwBSi8KjZ/hTVTjBA==\n-----END EC PRIVATE KEY-----\n";
    std::fs::write(&file, key).unwrap();
    assert_eq!(token().code, Some(0), "{:?}", token());
    std::fs::write(&file, "no key").unwrap();
    assert!(token().stderr.contains("private key of ECDSA P-256 or RSA"), "{:?}", token());
}
