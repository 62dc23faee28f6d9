//! Tests of files, folders and references.
#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]

use std::fs;
use std::path::{Path, PathBuf};

use config::Config;
use expect_test::{Expect, expect};
use tempfile::TempDir;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn load(folder: &TempDir) -> (Config, Vec<PathBuf>) {
    let loaded = config::load(&folder.path().join("conf"));
    assert!(loaded.report.is_empty(), "{}", loaded.report);
    (loaded.config.unwrap(), loaded.files)
}

fn complaints(folder: &TempDir, path: &str, expected: Expect) {
    let report = config::load(&folder.path().join(path)).report;
    assert!(report.has_errors(), "this should not be readable");
    let prefix = format!("{}/", folder.path().display());
    expected.assert_eq(&report.to_string().replace(&prefix, ""));
}

fn below(folder: &TempDir, files: &[PathBuf]) -> Vec<String> {
    let name = |file: &PathBuf| file.strip_prefix(folder.path()).unwrap().display().to_string();
    files.iter().map(name).collect()
}

#[test]
fn the_files_of_a_folder_are_one_configuration() {
    let folder = folder(&[
        ("conf/10-listen.yaml", "listen: { a: { address: \"[::]:0\" } }\nworkers: 2\n"),
        ("conf/20-more.yml", "listen: { b: { address: \"[::]:0\" } }\n"),
        ("conf/.hidden.yaml", "nonsense\n"),
        ("conf/notes.txt", "nonsense\n"),
    ]);
    let (config, files) = load(&folder);
    assert_eq!(config.listen.names().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(config.workers.unwrap().value.get(), 2);
    assert_eq!(below(&folder, &files), ["conf", "conf/10-listen.yaml", "conf/20-more.yml"]);
}

#[test]
fn a_name_in_two_files_is_a_complaint() {
    let folder = folder(&[
        ("a.yaml", "listen:\n  a: { address: \"[::]:0\" }\nworkers: 2\n"),
        (
            "b.yaml",
            "workers: 3\nlisten:\n  b: { address: \"[::]:0\" }\n  a: { address: \"[::]:0\" }\n",
        ),
        ("c.yaml", "\n"),
        ("d.yaml", "listen: [1]\n"),
    ]);
    complaints(
        &folder,
        "",
        expect![[r#"
        b.yaml:1:1: `workers` is in two files; the other is at a.yaml:3:1
          help: keep one of the two
        b.yaml:4:3: `a` is in two files; the other is at a.yaml:2:3
          help: keep one of the two, or give it another name
        c.yaml:1:1: the file is empty
          help: write at least `listen: { public: { address: "0.0.0.0:8080" } }`
        d.yaml:1:9: expected a map from names to values, found a list
          help: write `{ key: value }`, or one `key: value` on each line
    "#]],
    );
}

#[test]
fn what_cannot_be_read() {
    let folder = folder(&[("empty/readme", ""), ("latin.yaml", "")]);
    fs::write(folder.path().join("latin.yaml"), b"listen:\n  caf\xe9: {}\n").unwrap();
    complaints(
        &folder,
        "missing.yaml",
        expect![[r#"
        missing.yaml:1:1: cannot read this: there is no such file
          help: name a readable YAML file, or a folder of them
    "#]],
    );
    complaints(
        &folder,
        "empty",
        expect![[r#"
        empty:1:1: cannot read this: the folder has no file that ends in .yaml or .yml
          help: name a readable YAML file, or a folder of them
    "#]],
    );
    complaints(
        &folder,
        "latin.yaml",
        expect![[r#"
        latin.yaml:1:1: cannot read this: it is not UTF-8 text on line 2
          help: name a readable YAML file, or a folder of them
    "#]],
    );
}

#[test]
fn paths_start_at_the_file_that_names_them() {
    let folder = folder(&[
        (
            "conf/gate.yaml",
            "listen: { a: { address: \"[::]:0\", tls: { certificate: tls/a.pem, key: /k.pem } } }\n",
        ),
        (
            "conf/more.yaml",
            "routes: { r: { match: {}, respond: { body: \"${file:hello.txt}!\" } } }\n",
        ),
        ("conf/hello.txt", "hello\n"),
    ]);
    let (config, files) = load(&folder);
    let tls = &config.listen.get("a").unwrap().tls.as_ref().unwrap().value;
    let path = |file: &Option<config::Spanned<config::FilePath>>| {
        file.as_ref().unwrap().value.as_path().to_owned()
    };
    assert_eq!(path(&tls.certificate), folder.path().join("conf/tls/a.pem"));
    assert_eq!(path(&tls.key), Path::new("/k.pem"));
    let respond = config.routes.get("r").unwrap().value.respond.as_ref().unwrap();
    assert_eq!(respond.value.body.value, "hello!");
    assert!(files.contains(&folder.path().join("conf/hello.txt")));
    assert!(files.contains(&folder.path().join("conf/tls/a.pem")));
}

#[test]
fn references_that_lead_nowhere() {
    let folder = folder(&[(
        "gate.yaml",
        r#"listen: { a: { address: "${TIDEGATE_NO_SUCH}" } }
routes:
  a: { match: {}, respond: { body: "${file:none.txt} ${file:.} $${kept}" } }
  b: { match: {}, respond: { body: "${open" } }
"#,
    )]);
    complaints(
        &folder,
        "gate.yaml",
        expect![[r#"
            gate.yaml:1:25: the environment has no variable `TIDEGATE_NO_SUCH`
              help: set it before the start, use `${file:PATH}` for a file, or write `$${TIDEGATE_NO_SUCH}` for that literal text
            gate.yaml:3:36: cannot read `none.txt`: there is no such file
              help: name a text file that the gateway may read; a relative path starts at this file's folder
            gate.yaml:3:36: cannot read `.`: it is a folder
              help: name a text file that the gateway may read; a relative path starts at this file's folder
            gate.yaml:4:36: a `${` without its `}`
              help: close it with `}`, or write `$${` for a literal `${`
        "#]],
    );
}

#[test]
fn a_folder_of_bundles_that_cannot_be_listed_is_a_complaint() {
    let folder = folder(&[
        ("conf/gate.yaml", "bundles: { folder: ../notes.txt }\n"),
        ("notes.txt", "a file and not a folder\n"),
    ]);
    complaints(
        &folder,
        "conf/gate.yaml",
        expect![[r#"
            conf/../notes.txt:1:1: cannot read this: Not a directory (os error 20)
              help: name a readable YAML file, or a folder of them
        "#]],
    );
}

#[test]
fn the_folder_of_bundles_may_be_a_reference() {
    let folder = folder(&[
        ("conf/gate.yaml", "bundles: { folder: \"../${file:where}\" }\n"),
        ("conf/where", "bundles"),
        ("bundles/a/routes.yaml", "routes: { a: { match: {}, respond: { body: a } } }\n"),
    ]);
    let loaded = config::load(&folder.path().join("conf/gate.yaml"));
    assert!(loaded.report.is_empty(), "{}", loaded.report);
    assert_eq!(loaded.config.unwrap().routes.names().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn more_bundles_than_the_limit_are_a_complaint() {
    let folder = folder(&[("gate.yaml", "bundles: { folder: bundles }\n")]);
    for number in 0..=1_000 {
        fs::create_dir_all(folder.path().join(format!("bundles/b{number}"))).unwrap();
    }
    complaints(
        &folder,
        "gate.yaml",
        expect![[r#"
            bundles:1:1: cannot read this: the folder has more than 1000 bundles
              help: name a readable YAML file, or a folder of them
        "#]],
    );
}
