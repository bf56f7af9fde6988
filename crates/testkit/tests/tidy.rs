//! Style checks. `tidy.toml` lists the exceptions, which may shrink but never grow.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Maximum number of lines of a function.
const LONGEST_FUNCTION: usize = 70;
/// Maximum number of lines of a file, without its tests.
const LONGEST_FILE: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every Rust file below a folder of the workspace, with its path from the root.
fn sources(folder: &str) -> Vec<(String, String)> {
    fn search(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                search(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let root = root();
    let mut found = Vec::new();
    search(&root.join(folder), &mut found);
    found.sort();
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
        (name, std::fs::read_to_string(&path).unwrap())
    };
    found.into_iter().map(read).collect()
}

fn table(path: &str) -> toml::Table {
    std::fs::read_to_string(root().join(path)).unwrap().parse().unwrap()
}

/// The exceptions of `tidy.toml` under a heading: a name and its maximum size.
fn exceptions(heading: &str) -> BTreeMap<String, usize> {
    let listed = table("tidy.toml");
    let entries = listed[heading].as_table().unwrap();
    entries.iter().map(|(name, size)| (name.clone(), size.as_integer().unwrap() as usize)).collect()
}

/// Fails on sizes over the limit without an exception, and on exceptions larger than needed.
fn assert_within_limits(
    title: &str,
    limit: usize,
    exceptions: &BTreeMap<String, usize>,
    sizes: &BTreeMap<String, usize>,
) {
    let mut problems = Vec::new();
    for (name, size) in sizes {
        let allowed = exceptions.get(name).copied().unwrap_or(limit);
        if *size > allowed {
            problems.push(format!("{name} has {size} lines, and {allowed} are allowed"));
        }
    }
    for (name, exception) in exceptions {
        match sizes.get(name) {
            Some(size) if size == exception && *size > limit => {}
            Some(size) if *size <= limit => {
                problems.push(format!("{name} needs no exception any more"));
            }
            Some(size) => problems.push(format!("the exception of {name} can shrink to {size}")),
            None => problems.push(format!("{name} has an exception and does not exist")),
        }
    }
    assert!(problems.is_empty(), "{title}:\n{}", problems.join("\n"));
}

/// The allowed dependencies between crates: `cli → server → treering → engine → core ← stores, providers, importers`.
#[test]
fn crates_depend_only_downwards() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("core", &[][..]),
        ("engine", &["core"]),
        ("stores", &["core"]),
        ("providers", &["core"]),
        ("importers", &["core"]),
        ("testkit", &["core"]),
        ("treering", &["core", "engine", "stores", "providers", "importers"]),
        ("server", &["core", "engine", "treering"]),
        ("cli", &["core", "engine", "treering", "server"]),
    ]);
    for entry in std::fs::read_dir(root().join("crates")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let manifest = table(&format!("crates/{name}/Cargo.toml"));
        let Some(dependencies) = manifest.get("dependencies").and_then(|found| found.as_table())
        else {
            continue;
        };
        let workspace_crates: BTreeSet<&str> = dependencies
            .keys()
            .filter_map(|dependency| match dependency.as_str() {
                "treering" => Some("treering"),
                other => other.strip_prefix("treering-"),
            })
            .collect();
        let may: BTreeSet<&str> = allowed[name.as_str()].iter().copied().collect();
        assert!(
            workspace_crates.is_subset(&may),
            "{name} depends on {workspace_crates:?}, and may depend on {may:?}"
        );
    }
}

/// Paths outside of the pure domain.
const OUTSIDE: [&[&str]; 12] = [
    &["std", "fs"],
    &["std", "io"],
    &["std", "net"],
    &["std", "env"],
    &["std", "process"],
    &["std", "thread"],
    &["std", "sync"],
    &["std", "os"],
    &["std", "time", "SystemTime"],
    &["std", "time", "Instant"],
    &["SystemTime"],
    &["Instant"],
];

/// Finds uses of paths outside of the pure domain.
#[derive(Default)]
struct ImpurePaths(Vec<String>);
impl<'ast> Visit<'ast> for ImpurePaths {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.check(&segments);
        visit::visit_path(self, path);
    }
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&item.tree, Vec::new());
    }
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        if signature.asyncness.is_some() {
            self.0.push(format!("async fn {}", signature.ident));
        }
        visit::visit_signature(self, signature);
    }
}
impl ImpurePaths {
    fn check(&mut self, path: &[String]) {
        if OUTSIDE.iter().any(|outside| {
            path.iter().map(String::as_str).take(outside.len()).eq(outside.iter().copied())
        }) {
            self.0.push(path.join("::"));
        }
    }
    fn tree(&mut self, tree: &syn::UseTree, mut path: Vec<String>) {
        match tree {
            syn::UseTree::Path(it) => {
                path.push(it.ident.to_string());
                self.tree(&it.tree, path);
            }
            syn::UseTree::Group(it) => {
                it.items.iter().for_each(|tree| self.tree(tree, path.clone()));
            }
            syn::UseTree::Name(it) => {
                path.push(it.ident.to_string());
                self.check(&path);
            }
            syn::UseTree::Rename(it) => {
                path.push(it.ident.to_string());
                self.check(&path);
            }
            _ => self.check(&path),
        }
    }
}

/// `core` is pure: no I/O, no clocks, no async.
#[test]
fn the_core_does_no_io() {
    let mut problems = Vec::new();
    for (name, text) in sources("crates/core/src") {
        let mut visitor = ImpurePaths::default();
        visitor.visit_file(&syn::parse_file(&text).unwrap());
        problems.extend(visitor.0.into_iter().map(|path| format!("{name}: {path}")));
    }
    assert!(problems.is_empty(), "the core reaches outside:\n{}", problems.join("\n"));
    let manifest = table("crates/core/Cargo.toml");
    let mut uses: Vec<&str> =
        manifest["dependencies"].as_table().unwrap().keys().map(String::as_str).collect();
    uses.sort_unstable();
    assert_eq!(
        uses,
        [
            "blake3",
            "jiff",
            "rust-stemmers",
            "serde",
            "serde_json",
            "thiserror",
            "unicode-normalization",
            "unicode-segmentation"
        ],
        "a new dependency of the core: is it pure?"
    );
}

#[test]
fn functions_are_short() {
    struct Functions {
        file: String,
        sizes: BTreeMap<String, usize>,
    }
    impl Functions {
        fn measure(&mut self, name: &syn::Ident, block: &syn::Block) {
            let (start, end) = (block.span().start().line, block.span().end().line);
            let size = self.sizes.entry(format!("{}::{name}", self.file)).or_default();
            *size = (*size).max(end + 1 - start);
        }
    }
    impl<'ast> Visit<'ast> for Functions {
        fn visit_item_fn(&mut self, it: &'ast syn::ItemFn) {
            self.measure(&it.sig.ident, &it.block);
            visit::visit_item_fn(self, it);
        }
        fn visit_impl_item_fn(&mut self, it: &'ast syn::ImplItemFn) {
            self.measure(&it.sig.ident, &it.block);
            visit::visit_impl_item_fn(self, it);
        }
    }
    let mut sizes = BTreeMap::new();
    for (file, text) in sources("crates") {
        let mut functions = Functions { file, sizes: BTreeMap::new() };
        functions.visit_file(&syn::parse_file(&text).unwrap());
        sizes.extend(functions.sizes);
    }
    assert_within_limits("functions", LONGEST_FUNCTION, &exceptions("functions"), &sizes);
}

#[test]
fn files_are_short() {
    let is_product = |name: &str| name.contains("/src/");
    let lines = |text: &str| text.split("#[cfg(test)]").next().unwrap_or_default().lines().count();
    let sizes = sources("crates")
        .into_iter()
        .filter(|(name, _)| is_product(name))
        .map(|(name, text)| (name, lines(&text)))
        .collect();
    assert_within_limits("files", LONGEST_FILE, &exceptions("files"), &sizes);
}

#[test]
fn modules_begin_with_documentation() {
    let silent: Vec<String> = sources("crates")
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(name, _)| name)
        .collect();
    assert!(silent.is_empty(), "these begin without `//!`: {silent:?}");
}

/// Checks every dependency against the licenses that `deny.toml` allows, without `cargo deny`.
#[test]
fn licenses_are_allowed() {
    let allowed: BTreeSet<String> = table("deny.toml")["licenses"]["allow"]
        .as_array()
        .unwrap()
        .iter()
        .map(|license| license.as_str().unwrap().to_owned())
        .collect();
    let version = Command::new("rustc").arg("-vV").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--all-features",
            "--locked",
            "--filter-platform",
            host,
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut problems = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let license = package["license"].as_str().unwrap_or("none").replace('/', " OR ");
        // One of the alternatives must be allowed, with all of its parts.
        let fits = license.split(" OR ").any(|choice| {
            choice.split(" AND ").all(|part| allowed.contains(part.trim_matches(['(', ')', ' '])))
        });
        if !fits {
            problems.push(format!("{}: {license}", package["name"]));
        }
    }
    assert!(
        problems.is_empty(),
        "licenses that deny.toml does not allow:\n{}",
        problems.join("\n")
    );
}

/// Words and sentence openings that comments must not use.
const BANNED_WORDS: [&str; 9] =
    ["anew", "whoever", "told", "hence", "thereof", "moot", "purse", "grove", "lend"];
const BANNED_OPENINGS: [&str; 6] = ["Who ", "Whoever ", "What ", "Whatever ", "Where ", "Whose "];

/// `tidy.toml` lists the files with exceptions.
#[test]
fn comments_avoid_banned_words() {
    let mut counts = BTreeMap::new();
    for (name, text) in sources("crates") {
        let comments = text.lines().map(str::trim_start).filter_map(|line| {
            let rest = line.strip_prefix("//")?;
            Some(rest.trim_start_matches(['/', '!']).trim())
        });
        let is_odd = |comment: &str| {
            let lower = comment.to_lowercase();
            let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
            let is_banned = BANNED_OPENINGS.iter().any(|opening| comment.starts_with(opening));
            (is_banned && !comment.contains('?'))
                || BANNED_WORDS.iter().any(|banned| words.contains(banned))
        };
        let violations = comments.filter(|comment| is_odd(comment)).count();
        if violations > 0 {
            counts.insert(name, violations);
        }
    }
    assert_within_limits("comments", 0, &exceptions("comments"), &counts);
}

/// Phrases and spellings with a plain or American form. Phrases count in code, tests and documents.
const BANNED_PHRASES: [&str; 11] = [
    "handed out",
    "hand out",
    "hands out",
    "written again",
    "that is there",
    "do so no longer",
    "take it back",
    "takes it back",
    "summaris",
    "labelled",
    "neighbour",
];

/// The documents at the root and in `docs`, and the texts for models, with their paths.
fn documents() -> Vec<(String, String)> {
    let output =
        Command::new("git").args(["ls-files", "*.md"]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).unwrap();
    let is_ours = |name: &&str| !name.contains("/fixtures/");
    let names = names.lines().filter(is_ours);
    names
        .map(|name| (name.to_owned(), std::fs::read_to_string(root().join(name)).unwrap()))
        .collect()
}

/// The quoted parts of a line of code.
fn quoted(line: &str) -> String {
    line.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" ")
}

/// Whether a line uses a banned word: in documents anywhere, in product code in a string.
fn uses_banned_word(name: &str, line: &str) -> bool {
    let text = match (name.ends_with(".md"), name.contains("/src/")) {
        (true, _) => line.to_lowercase(),
        (false, true) => quoted(line).to_lowercase(),
        (false, false) => return false,
    };
    text.split(|c: char| !c.is_alphanumeric()).any(|word| BANNED_WORDS.contains(&word))
}

/// `tidy.toml` lists the files with lists of words, aliases and quotations.
#[test]
fn texts_avoid_banned_words_and_phrases() {
    let is_this_file = |name: &str| name.ends_with("testkit/tests/tidy.rs");
    let code = ["crates", "fuzz"].into_iter().flat_map(sources);
    let mut counts = BTreeMap::new();
    for (name, text) in code.chain(documents()).filter(|(name, _)| !is_this_file(name)) {
        let is_odd = |line: &&str| {
            let lower = line.to_lowercase();
            let has_phrase = BANNED_PHRASES.iter().any(|phrase| lower.contains(phrase));
            has_phrase || uses_banned_word(&name, line)
        };
        let violations = text.lines().filter(is_odd).count();
        if violations > 0 {
            counts.insert(name, violations);
        }
    }
    assert_within_limits("banned words", 0, &exceptions("words"), &counts);
}

/// A folder of modules has a `mod.rs`.
#[test]
fn modules_have_one_layout() {
    let is_beside_folder = |name: &String| root().join(name.trim_end_matches(".rs")).is_dir();
    let files = sources("crates").into_iter().map(|(name, _)| name);
    let files: Vec<String> =
        files.filter(|name| name.contains("/src/")).filter(is_beside_folder).collect();
    assert!(files.is_empty(), "move these to mod.rs in their folders: {files:?}");
}

/// The name of a type and of one of its functions, in code spans such as `Memory::open`.
fn named_functions(text: &str) -> Vec<(&str, &str)> {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let spans = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let spans = spans.map(|span| span.split(['(', ' ']).next().unwrap_or_default());
    let pairs = spans.filter_map(|span| span.rsplit_once("::"));
    pairs
        .map(|(path, function)| (path.rsplit("::").next().unwrap_or(path), function))
        .filter(|(owner, function)| is_name(owner) && is_name(function) && !function.is_empty())
        .filter(|(owner, _)| owner.starts_with(|c: char| c.is_ascii_uppercase()))
        .collect()
}

/// Collects the items of types: functions, fields, variants and constants.
#[derive(Default)]
struct TypeItems(BTreeSet<(String, String)>);
impl TypeItems {
    fn add(&mut self, owner: &impl ToString, item: &impl ToString) {
        self.0.insert((owner.to_string(), item.to_string()));
    }
}
impl<'ast> Visit<'ast> for TypeItems {
    fn visit_item_impl(&mut self, it: &'ast syn::ItemImpl) {
        let syn::Type::Path(path) = &*it.self_ty else { return };
        let Some(owner) = path.path.segments.last() else { return };
        for item in &it.items {
            match item {
                syn::ImplItem::Fn(function) => self.add(&owner.ident, &function.sig.ident),
                syn::ImplItem::Const(constant) => self.add(&owner.ident, &constant.ident),
                _ => {}
            }
        }
    }
    fn visit_item_trait(&mut self, it: &'ast syn::ItemTrait) {
        for item in &it.items {
            if let syn::TraitItem::Fn(function) = item {
                self.add(&it.ident, &function.sig.ident);
            }
        }
    }
    fn visit_item_struct(&mut self, it: &'ast syn::ItemStruct) {
        for name in it.fields.iter().filter_map(|field| field.ident.as_ref()) {
            self.add(&it.ident, name);
        }
    }
    fn visit_item_enum(&mut self, it: &'ast syn::ItemEnum) {
        it.variants.iter().for_each(|variant| self.add(&it.ident, &variant.ident));
    }
}

/// Documents name only functions, fields and variants that exist.
#[test]
fn functions_named_in_documents_exist() {
    let mut items = TypeItems::default();
    for (_, text) in sources("crates").into_iter().filter(|(name, _)| name.contains("/src/")) {
        items.visit_file(&syn::parse_file(&text).unwrap());
    }
    let mut problems = Vec::new();
    for (file, text) in documents() {
        for (owner, item) in named_functions(&text) {
            if !items.0.contains(&(owner.to_owned(), item.to_owned())) {
                problems.push(format!("{file}: {owner}::{item}"));
            }
        }
    }
    assert!(problems.is_empty(), "documents name what does not exist:\n{}", problems.join("\n"));
    assert!(named_functions("See `Memory::open(home)` and `a::Memory::find`.").len() == 2);
}

/// A type name denotes one idea. `tidy.toml` lists the names that are declared more than once.
#[test]
fn type_names_are_declared_once() {
    /// Names that every command or parser declares for itself.
    const SHARED: [&str; 6] = ["Args", "View", "Err", "Error", "Output", "Result"];
    #[derive(Default)]
    struct Types(Vec<String>);
    impl<'ast> Visit<'ast> for Types {
        fn visit_item_struct(&mut self, it: &'ast syn::ItemStruct) {
            self.0.push(it.ident.to_string());
        }
        fn visit_item_enum(&mut self, it: &'ast syn::ItemEnum) {
            self.0.push(it.ident.to_string());
        }
        fn visit_item_trait(&mut self, it: &'ast syn::ItemTrait) {
            self.0.push(it.ident.to_string());
        }
        fn visit_item_type(&mut self, it: &'ast syn::ItemType) {
            self.0.push(it.ident.to_string());
        }
        fn visit_item_mod(&mut self, it: &'ast syn::ItemMod) {
            // Test modules name their own.
            if it.ident != "tests" {
                visit::visit_item_mod(self, it);
            }
        }
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, text) in sources("crates").into_iter().filter(|(name, _)| name.contains("/src/")) {
        let mut types = Types::default();
        types.visit_file(&syn::parse_file(&text).unwrap());
        types.0.into_iter().for_each(|name| *counts.entry(name).or_default() += 1);
    }
    counts.retain(|name, count| *count > 1 && !SHARED.contains(&name.as_str()));
    assert_within_limits("type names", 1, &exceptions("types"), &counts);
}
