//! Named parts of a benchmark.

/// Runs the parts named on the command line, or all of them if none is named.
pub fn measure(parts: &[(&str, fn())]) {
    // Skip the options that Cargo adds.
    let requested: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
    let unknown = requested.iter().find(|name| !names.contains(&name.as_str()));
    assert_eq!(unknown, None, "no such part; there are {}", names.join(", "));
    for (name, measure) in parts {
        if requested.is_empty() || requested.iter().any(|it| it == name) {
            measure();
        }
    }
}
