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
        !source.contains(&format!("fn {name}("))
    };
    let missing = test_names.into_iter().filter(is_missing);
    missing.map(|(file, name)| format!("there is no test {file}::{name}")).collect()
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
