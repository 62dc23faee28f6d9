//! docs/checklist.md, SECURITY.md and the guide's page of failures name tests that are there.

use std::fs;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// True if the suite has a test `module::name`.
fn is_there(test: &str) -> bool {
    let Some((module, name)) = test.rsplit_once("::") else { return false };
    let file = format!("{ROOT}/tests/{}.rs", module.replace("::", "/"));
    let text = fs::read_to_string(file).unwrap_or_default();
    text.contains(&format!("#[test]\nfn {name}()"))
}

#[test]
fn every_test_that_is_named_is_there() {
    for file in ["docs/checklist.md", "SECURITY.md", "docs/guide/failures.md"] {
        let text = fs::read_to_string(format!("{ROOT}/{file}")).unwrap();
        let (_, table) = text.split_once("| --- |").unwrap();
        let named: Vec<&str> = table.split('`').filter(|word| word.contains("::")).collect();
        assert!(named.len() > 30, "{file}: {named:?}");
        let missing: Vec<&&str> = named.iter().filter(|test| !is_there(test)).collect();
        assert!(missing.is_empty(), "{file}: {missing:?}");
    }
    assert!(!is_there("jwt::no_such_test"));
}
