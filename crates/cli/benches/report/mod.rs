//! Prints a measurement next to its goal.

use std::time::Duration;

pub(crate) fn row(label: &str, measured: f64, goal: f64, unit: &str) {
    let verdict = if measured <= goal { "" } else { "MISSED" };
    println!(
        "  {label:<54}{:>12}{:>12}{verdict:>10}",
        format!("{measured:.2} {unit}"),
        format!("≤ {goal:.0} {unit}")
    );
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
