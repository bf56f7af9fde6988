//! Examples of facts.

use super::*;

type List = fn(&Facts) -> &Vec<String>;

fn check(list: List, text: &str, expected: &[&str]) {
    assert_eq!(list(&Facts::of(text)), expected, "{text:?}");
}

#[test]
fn paths_and_addresses() {
    let paths: List = |facts| &facts.paths;
    check(
        paths,
        "See `src/main.rs:12`, ./tide.toml and /etc/hosts.",
        &["src/main.rs", "./tide.toml", "/etc/hosts"],
    );
    check(paths, "main.py, main.py; C:\\temp\\a.txt", &["main.py", "C:\\temp\\a.txt"]);
    check(paths, "and/or he/she 9/12 e.g. done.Then 3.5", &[]);
    check(paths, "in `.ci/steps` and .5/.6 of it", &[".ci/steps"]);
    check(paths, "~/code/tidewatch/ crates/core/src", &["~/code/tidewatch/", "crates/core/src"]);
    check(
        |facts| &facts.urls,
        "(https://a.b/c?d=1), www.x.org.",
        &["https://a.b/c?d=1", "www.x.org"],
    );
}

#[test]
fn identifiers() {
    let identifiers: List = |facts| &facts.identifiers;
    check(
        identifiers,
        "windowChars snake_case foo() A::b MAX_LEN `NodeContent` --dry-run `tide` load(x, y)",
        &[
            "windowChars",
            "snake_case",
            "foo",
            "A::b",
            "MAX_LEN",
            "NodeContent",
            "--dry-run",
            "tide",
            "load",
        ],
    );
    check(identifiers, "We use TideGauge on GitHub. `TideGauge` reads it.", &["TideGauge"]);
    check(identifiers, "HttpServerConfig raised a ParseError", &["HttpServerConfig", "ParseError"]);
    check(identifiers, "McDonald went well-known (really) it's _emphasis_ I", &[]);
}

#[test]
fn numbers_compare_in_one_way() {
    let numbers: List = |facts| &facts.numbers;
    check(
        numbers,
        "1,000 and 1000 and 3.5 GB, 20 %, 20% or 20 percent; $5",
        &["1,000", "3.5 GB", "20 %", "$5"],
    );
    check(
        numbers,
        "20 min, 20 minutes, 3,5 km, v1.2.3, 2nd",
        &["20 min", "3,5 km", "v1.2.3", "2nd"],
    );
    check(numbers, "Person1 b2b x86", &[]);
}

#[test]
fn dates_compare_in_one_way() {
    let dates: List = |facts| &facts.dates;
    check(dates, "2025-12-09 is 9 December 2025 and December 9th, 2025", &["2025-12-09"]);
    check(
        dates,
        "May 7, 2023; le 3 mars; at 10:30, 8 pm, 9h30",
        &["May 7 2023", "3 mars", "10:30", "8 pm", "9h30"],
    );
    check(dates, "Dec. 9 it was, at 6? May be. Room 5. March on!", &["Dec 9"]);
    check(dates, "in May 2024 I may 2025年12月9日", &["May 2024", "2025年12月9日"]);
    check(
        |facts| &facts.relative_dates,
        "Yesterday, last Friday and demain",
        &["Yesterday", "last Friday", "Friday", "demain"],
    );
}

#[test]
fn names_are_what_capitals_mean() {
    let names: List = |facts| &facts.names;
    check(names, "Yesterday Yann Le Goff went to Kerzavel.", &["Yann Le Goff", "Kerzavel"]);
    check(names, "Then Ana called. Ana is from Viana do Castelo.", &["Ana", "Viana do Castelo"]);
    check(names, "We use NASA's data on Monday in May. It works.", &["NASA"]);
    check(names, "Melanie said hi. I saw Melanie.", &["Melanie"]);
    check(names, "On part de l'Île avec Zoé.", &["Île", "Zoé"]);
    check(
        names,
        "GitHub and iCloud are names; so is MacBook Air.",
        &["GitHub", "iCloud", "MacBook Air"],
    );
    check(names, "Update Kerzavel. Fix Harbor Pilot. Add NOTE.", &["Kerzavel", "Harbor Pilot"]);
    check(names, "**Tide Gauges**: every gauge is read twice; gauges drift.", &[]);
    check(names, "**Port Kerzavel**: every gauge is read twice.", &["Port Kerzavel"]);
    check(names, "今日は東京。 مرحبا 😀 Ok.", &[]);
}

#[test]
fn other_ways_of_writing_are_known() {
    let source = Facts::of(
        "On 9 December 2025 Ana put 1,000 boats and 3.5 GB into crates/core/src/brief.rs, see Brief::chars.",
    );
    let check = |text: &str, unknown: &[&str]| {
        assert_eq!(source.partition_known(&Facts::of(text)).1, unknown, "{text:?}");
    };
    check("It was 2025-12-09 and Ana had 1000 in brief.rs, 3.5 of them.", &[]);
    check("On December 9 we read Brief::chars().", &[]);
    check(
        "So Anna paid 1001 on 10 December in src/text.rs.",
        &["src/text.rs", "1001", "10 December", "Anna"],
    );
}

#[test]
fn everything_is_known_to_itself() {
    for text in [
        "Ana: 3.5 GB at 10:30 in a/b.rs",
        "#Person1#'s 1_000",
        "v2 12th 20-30 min 5'9\"",
        "10.5.3.1 :: () a::",
    ] {
        let facts = Facts::of(text);
        assert_eq!(facts.partition_known(&facts).1, Vec::<&str>::new(), "{text:?}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_knows_its_own_facts(text in "[\\PC\n]{0,120}") {
        let facts = Facts::of(&text);
        proptest::prop_assert_eq!(facts.partition_known(&facts).1, Vec::<&str>::new());
    }

    #[test]
    fn likely_text_knows_its_own_facts(text in "([A-Z]?[a-z]{1,6}|[0-9]{1,5}|[ .,:;/_()'#%-]|GB|min|May|pm|\n){0,40}") {
        let facts = Facts::of(&text);
        proptest::prop_assert_eq!(facts.partition_known(&facts).1, Vec::<&str>::new());
    }
}
