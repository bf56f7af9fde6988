//! Checks that every test which `docs/seeds.md` names exists.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// Minimum number of rows of the page.
const FEWEST_ROWS: usize = 200;
/// The cells of a row: section, requirement, where it is met, test.
const CELLS: usize = 4;
/// The test cell of a requirement that no test checks.
const NO_TEST: &str = "–";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The rows of every table of the page, without headings.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let is_row = |line: &&str| line.starts_with('|') && !line.starts_with("|---");
    let cells = |line| {
        let line: &str = line;
        let inner = line.strip_prefix('|').unwrap();
        let inner = inner.strip_suffix('|').unwrap_or(inner);
        inner.split('|').map(str::trim).collect::<Vec<_>>()
    };
    let is_heading = |row: &Vec<&str>| row[0] == "document §";
    page.lines().filter(is_row).map(cells).filter(|row| !is_heading(row)).collect()
}

/// The backticked tests of a cell, as file and function.
fn tests(cell: &str) -> Vec<(&str, &str)> {
    let quoted = cell.split('`').skip(1).step_by(2);
    quoted.filter_map(|name| name.split_once("::")).collect()
}

/// Whether a source has a test of this name that runs.
fn is_test(source: &str, name: &str) -> bool {
    let Some(at) = source.find(&format!("fn {name}(")) else { return false };
    let before = source[..at].lines().rev().skip(usize::from(!source[..at].ends_with('\n')));
    let attributes: Vec<&str> = before
        .map(str::trim)
        .take_while(|line| !line.is_empty() && *line != "}" && !line.ends_with('{'))
        .filter(|line| line.starts_with("#["))
        .collect();
    let is_macro = source[..at].contains("proptest!");
    attributes.iter().any(|line| line.starts_with("#[test]"))
        && (is_macro || !attributes.iter().any(|line| line.starts_with("#[ignore")))
}

/// The scenarios in brackets after tests that do not exist.
fn missing_scenarios(cell: &str) -> Vec<String> {
    let names = cell.split('(').skip(1).filter_map(|rest| rest.split(')').next());
    let names = names.flat_map(|list| list.split(", ")).map(|name| name.trim_matches('`'));
    let folder = root().join("crates/engine/tests/scenarios");
    let exists = |name: &str| {
        let mut files = std::fs::read_dir(&folder).unwrap().flatten();
        files.any(|file| file.file_name().to_string_lossy().starts_with(name))
    };
    let missing = names.filter(|name| !exists(name));
    missing.map(|name| format!("there is no scenario {name}")).collect()
}

/// The problems of a row.
fn problems(row: &[&str]) -> Vec<String> {
    if row.len() != CELLS || row.iter().any(|cell| cell.is_empty()) {
        return vec![format!("not {CELLS} filled cells: {}", row.join(" | "))];
    }
    let test_names = tests(row[CELLS - 1]);
    if test_names.is_empty() && row[CELLS - 1] != NO_TEST {
        return vec![format!("neither a test nor {NO_TEST}: {}", row.join(" | "))];
    }
    let is_missing = |(file, name): &(&str, &str)| {
        let source = std::fs::read_to_string(root().join("crates").join(file)).unwrap_or_default();
        // A store runs the checks of the contract from a list.
        let is_check = file.contains("/contract/") && source.contains(&format!("fn {name}("));
        !is_check && !is_test(&source, name)
    };
    let missing = test_names.into_iter().filter(is_missing);
    let mut problems = missing_scenarios(row[CELLS - 1]);
    problems.extend(missing.map(|(file, name)| format!("there is no test {file}::{name}")));
    problems
}

#[test]
fn every_test_that_the_page_names_exists() {
    let page = std::fs::read_to_string(root().join("docs/seeds.md")).unwrap();
    let rows = rows(&page);
    assert!(rows.len() >= FEWEST_ROWS, "{} rows", rows.len());
    let problems: Vec<String> = rows.iter().flat_map(|row| problems(row)).collect();
    assert!(problems.is_empty(), "docs/seeds.md:\n{}", problems.join("\n"));
}

#[test]
fn every_benchmark_that_the_page_names_exists() {
    let page = std::fs::read_to_string(root().join("docs/benchmarks.md")).unwrap();
    let named = page.split("cargo bench --bench ").skip(1);
    let named: Vec<&str> = named.filter_map(|rest| rest.split_whitespace().next()).collect();
    assert!(named.len() > 5, "{named:?}");
    for name in named {
        let name = name.trim_matches('`');
        let benches = root().join("crates/cli/benches");
        let is_there = benches.join(format!("{name}.rs")).exists() || benches.join(name).exists();
        assert!(is_there, "docs/benchmarks.md names the benchmark {name}");
    }
}

#[test]
fn a_bad_row_is_reported() {
    let this_test = "`testkit/tests/seeds.rs::a_bad_row_is_reported`";
    assert_eq!(problems(&["000 1", "It works.", "`append`", this_test]), [""; 0]);
    assert_eq!(problems(&["000 1", "It works.", "not yet", NO_TEST]), [""; 0]);
    let bad_cells = ["`testkit/tests/seeds.rs::nothing`", "`testkit/tests/none.rs::a`", "none", ""];
    for cell in bad_cells {
        assert_eq!(problems(&["000 1", "It works.", "`append`", cell]).len(), 1, "{cell}");
    }
    assert_eq!(problems(&["000 1", "It works.", NO_TEST]).len(), 1);
}
