//! Parts of a bench, by name.

/// Measures the parts that were asked for on the command line; all of them where none was.
pub fn measure(parts: &[(&str, fn())]) {
    // Cargo adds options of its own.
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
    let unknown = asked.iter().find(|name| !names.contains(&name.as_str()));
    assert_eq!(unknown, None, "no such part; there are {}", names.join(", "));
    for (name, measure) in parts {
        if asked.is_empty() || asked.iter().any(|it| it == name) {
            measure();
        }
    }
}
