//! The stores of all released versions open, verify clean, and accept new turns.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use crate::common::{assert_sound, sample};
use treering_core::{ForgetTarget, ItemSelection, Labels, MessageIdx, TurnNo};
use treering_engine::{Amendment, Forget};
use treering_stores::EmbeddedStore;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../stores/tests/fixtures")
}

#[test]
fn stores_of_every_released_version_verify_clean() {
    let mut fixtures: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|it| it.unwrap().path()).collect();
    fixtures.sort();
    assert_eq!(fixtures.len(), 12);
    for fixture in fixtures {
        let home = tempfile::tempdir().unwrap();
        std::fs::copy(&fixture, home.path().join(EmbeddedStore::FILE)).unwrap();
        let engine = sample::open(home.path());
        let report = engine.verify(|_| ()).unwrap();
        assert!(report.is_clean(), "{}: {:#?}", fixture.display(), report.problems);
        sample::work(&engine);
        assert_sound(&engine);
        assert!(engine.repair().unwrap().trees.is_empty(), "{}", fixture.display());
        assert_sound(&engine);
    }
}

/// Writes the store of the current version into the fixtures. Run it once for each schema version
/// before its release: `cargo test -p treering-engine --test integration fixtures -- --ignored`. Never change
/// the file of a released version.
#[test]
#[ignore = "writes a fixture"]
fn write_the_fixture_of_this_version() {
    let home = tempfile::tempdir().unwrap();
    sample::write(home.path());
    // The bytes of the second turn stay in the file.
    let engine = sample::open(home.path());
    let harbour = engine.find("harbour").unwrap().id;
    let labels = Labels::parse(["source=codex", "user=42"]).unwrap();
    engine.set_labels(harbour, &labels, &[]).unwrap();
    let edit = Amendment::Edit { text: "The berth is 12.".into(), regenerate: None };
    engine.amend(harbour, MessageIdx(0), edit).unwrap();
    for text in ["It is berth 13.", "It is berth 14."] {
        let correct = Amendment::Correct { text: Some(text.into()) };
        engine.amend(harbour, MessageIdx(1), correct).unwrap();
    }
    let target = ForgetTarget::Items(harbour, ItemSelection::Turn(TurnNo(1)));
    engine.forget(&Forget { fast: true, ..Forget::new(target) }).unwrap();
    drop(engine);
    let file = home.path().join(EmbeddedStore::FILE);
    std::fs::copy(file, folder().join("schema-0012.sqlite")).unwrap();
}
