//! The recorded workloads without faults.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rusqlite::Connection;
use treering_core::ports::{ConversationFilter, IndexFiles};
use treering_core::{
    ConversationState, Embedder, ForgetTarget, ItemSelection, Node, NodeContent, Policy,
    StoreError, TenantId, TurnNo,
};
use treering_engine::{
    Engine, EngineParts, Forget, JobScope, NewSummary, SummaryParents, Update, UpdateStrategy,
    Worker,
};
use treering_providers::StaticEmbedder;
use treering_stores::{EmbeddedStore, IndexFolder, Sync};
use treering_testkit::disk::{Disk, DiskTrace, scratch_folder};
use treering_testkit::{BagOfWordsEmbedder, FakeClock, PrefixSummarizer};

use crate::FORGOTTEN;
use crate::common::{parts_over, start};
use crate::turns::{append, label, transcript};

/// A recording, and how its crash states are opened and checked.
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) log: DiskTrace,
    pub(crate) setup: Setup,
    /// The expected transcript of a migrated store; other stores hold labeled turns.
    pub(crate) transcript: Option<Vec<String>>,
    /// The index folders that the workload left behind, oldest first. The file system may have
    /// kept any of them, whatever it lost of the store.
    pub(crate) indexes: Vec<tempfile::TempDir>,
}

/// The configuration of an engine.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) policy: Policy,
    pub(crate) embedders: Vec<Arc<dyn Embedder>>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { policy: Policy::default(), embedders: vec![Arc::new(StaticEmbedder::new())] }
    }
}

impl Setup {
    /// Opens the store in a folder so that a commit survives a power cut.
    pub(crate) fn open(&self, folder: &Path) -> Result<Engine, StoreError> {
        // Later than every lease of the workload, so that the jobs of a crashed worker are free
        // again.
        self.open_at(folder, 3_600_000_000)
    }

    fn open_at(&self, folder: &Path, micros: i64) -> Result<Engine, StoreError> {
        let store = EmbeddedStore::open(folder, Sync::Full)?;
        let clock = Arc::new(FakeClock::at(start().plus_micros(micros)));
        let (policy, embedders) = (self.policy.clone(), self.embedders.clone());
        let parts = parts_over(
            Arc::new(store),
            policy,
            Arc::new(PrefixSummarizer::default()),
            clock,
            embedders,
        );
        let files: Arc<dyn IndexFiles> = Arc::new(IndexFolder::new(folder));
        let parts = EngineParts { index_files: Some(files), ..parts };
        Ok(Engine::new(parts, TenantId::default()))
    }
}

/// A workload in progress.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) disk: Disk,
    pub(crate) setup: Setup,
}

impl Bench {
    pub(crate) fn new(setup: Setup) -> Self {
        Self::with_fixture(setup, None)
    }

    fn with_fixture(setup: Setup, fixture: Option<&Path>) -> Self {
        let folder = scratch_folder().unwrap();
        if let Some(fixture) = fixture {
            std::fs::copy(fixture, folder.path().join(EmbeddedStore::FILE)).unwrap();
        }
        let disk = Disk::watch(folder.path()).unwrap();
        Self { folder, disk, setup }
    }

    pub(crate) fn open(&self) -> Engine {
        self.setup.open_at(self.folder.path(), 0).unwrap()
    }

    /// Appends turns and records each acknowledgement.
    fn append_all(
        &self,
        engine: &Engine,
        conversation: &str,
        writer: usize,
        numbers: std::ops::Range<usize>,
    ) {
        for number in numbers {
            let label = label(conversation, writer, number);
            append(engine, &label).unwrap();
            self.disk.acknowledge(&label);
        }
    }

    /// Runs a checkpoint as another process would.
    pub(crate) fn checkpoint(&self, mode: &str) -> rusqlite::Result<()> {
        let connection = Connection::open(self.folder.path().join(EmbeddedStore::FILE))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
    }

    pub(crate) fn finish(self, name: &str) -> Workload {
        Workload {
            name: name.into(),
            log: self.disk.log(),
            setup: self.setup,
            transcript: None,
            indexes: Vec::new(),
        }
    }
}

pub(crate) fn one_writer() -> Workload {
    let bench = Bench::new(Setup::default());
    bench.append_all(&bench.open(), "alone", 0, 0..60);
    bench.finish("one writer")
}

/// Seals the search index between appends.
pub(crate) fn sealed_index() -> Workload {
    let bench = Bench::new(Setup::default());
    let engine = bench.open();
    let mut indexes = Vec::new();
    for round in 0..5 {
        bench.append_all(&engine, "sealed", 0, 10 * round..10 * (round + 1));
        engine.load_index().unwrap();
        engine.seal_index(1).unwrap();
        let copy = tempfile::tempdir().unwrap();
        copy_index(bench.folder.path(), copy.path());
        indexes.push(copy);
    }
    drop(engine);
    Workload { indexes, ..bench.finish("sealed index") }
}

/// Replaces the index of one home with that of another.
pub(crate) fn copy_index(from: &Path, to: &Path) {
    let folder = |home: &Path| home.join("index/tenant-default");
    drop(std::fs::remove_dir_all(folder(to)));
    std::fs::create_dir_all(folder(to)).unwrap();
    for entry in std::fs::read_dir(folder(from)).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder(to).join(path.file_name().unwrap())).unwrap();
    }
}

/// A turn and a conversation are forgotten, with their bytes. The forgotten turns are not
/// acknowledged before, because later states must lack them.
pub(crate) fn forgetting() -> Workload {
    let bench = Bench::new(growing());
    let engine = bench.open();
    bench.append_all(&engine, "kept", 0, 0..4);
    append(&engine, &label("kept", 0, 4)).unwrap();
    bench.append_all(&engine, "kept", 0, 5..8);
    (0..4).for_each(|number| append(&engine, &label("gone", 0, number)).unwrap());
    work(&engine);
    let named = |name: &str| engine.find(name).unwrap().id;
    let turn = ForgetTarget::Items(named("kept"), ItemSelection::Turn(TurnNo(4)));
    let forget = |target, labels: Vec<String>| {
        engine.forget(&Forget::new(target)).unwrap();
        labels.iter().for_each(|label| bench.disk.acknowledge(&format!("{FORGOTTEN}{label}")));
    };
    forget(turn, vec![label("kept", 0, 4)]);
    bench.append_all(&engine, "kept", 0, 8..10);
    let gone = ForgetTarget::Conversation(named("gone"));
    forget(gone, (0..4).map(|number| label("gone", 0, number)).collect());
    drop(engine);
    bench.finish("forgetting")
}

/// Each writer has its own conversation, and all share another.
pub(crate) fn sixteen_writers() -> Workload {
    let bench = Bench::new(Setup::default());
    let engine = bench.open();
    thread::scope(|scope| {
        for writer in 0..16 {
            let (bench, engine) = (&bench, &engine);
            scope.spawn(move || {
                for number in 0..4 {
                    bench.append_all(engine, &format!("own{writer}"), writer, number..number + 1);
                    bench.append_all(engine, "shared", writer, number..number + 1);
                }
            });
        }
    });
    drop(engine);
    bench.finish("sixteen writers")
}

/// Small windows and groups, so that nodes of several levels are written.
fn growing() -> Setup {
    let assignments =
        ["window_chars=400", "min_flush_chars=0", "group_children=2", "group_chars=off"];
    let policy = Policy::default().with(&assignments.map(|text| text.parse().unwrap())).unwrap();
    Setup { policy, ..Setup::default() }
}

pub(crate) fn work(engine: &Engine) {
    Worker::new(engine.clone()).unwrap().run(&JobScope::default(), &|_, _| {}).unwrap();
}

pub(crate) fn sealing() -> Workload {
    let bench = Bench::new(growing());
    let engine = bench.open();
    for round in 0..6 {
        bench.append_all(&engine, "grows", 0, round * 5..(round + 1) * 5);
        work(&engine);
    }
    // The top is written, dropped with the next turn, and regenerated.
    for round in 6..8 {
        let id = engine.find("grows").unwrap().id;
        engine.set_state(id, ConversationState::Closed).unwrap();
        work(&engine);
        bench.append_all(&engine, "grows", 0, round * 5..round * 5 + 1);
    }
    drop(engine);
    bench.finish("sealing and nodes")
}

/// Updates with overrides, which replace queued jobs and regroup nodes, and summaries of a caller.
pub(crate) fn overrides() -> Workload {
    let bench = Bench::new(growing());
    let engine = bench.open();
    for round in 0..4 {
        bench.append_all(&engine, "grows", 0, round * 5..(round + 1) * 5);
        let all = engine.listed_conversations(&ConversationFilter::all(1)).unwrap();
        let id = all[0].conversation.id;
        let strategy = match round {
            3 => UpdateStrategy::Full,
            _ => UpdateStrategy::Incremental,
        };
        let policy = ["group_children=3", "length@2=0.3"].map(|text| text.parse().unwrap());
        let update = Update { strategy, policy: policy.to_vec(), ..Update::default() };
        engine.update(id, &update).unwrap();
        work(&engine);
        let node = engine.tree(id).unwrap().nodes.into_iter().find(|node| node.parent.is_some());
        let siblings: Vec<Node> = match node {
            Some(node) => engine
                .tree(id)
                .unwrap()
                .nodes
                .into_iter()
                .filter(|it| (it.level(), it.parent) == (node.level(), node.parent))
                .collect(),
            None => continue,
        };
        let content = NodeContent { overview: format!("Round {round}."), ..NodeContent::default() };
        let parents = SummaryParents::Nodes(siblings.into_iter().map(|node| node.id).collect());
        engine.store_summary(id, NewSummary { parents, content, turns: None }).unwrap();
        work(&engine);
    }
    drop(engine);
    bench.finish("overrides and stored summaries")
}

/// The WAL is checkpointed in every mode, and by closing the store.
pub(crate) fn checkpoints() -> Workload {
    let bench = Bench::new(Setup::default());
    let mut from = 0;
    for _ in 0..3 {
        let engine = bench.open();
        for mode in ["PASSIVE", "RESTART", "TRUNCATE", "FULL"] {
            bench.append_all(&engine, "alone", 0, from..from + 5);
            from += 5;
            bench.checkpoint(mode).unwrap();
        }
        bench.append_all(&engine, "alone", 0, from..from + 2);
        from += 2;
    }
    bench.finish("checkpoints")
}

/// Enough turns for an automatic checkpoint of the WAL.
pub(crate) fn long_log() -> Workload {
    let bench = Bench::new(Setup::default());
    bench.append_all(&bench.open(), "alone", 0, 0..1600);
    bench.finish("a long log")
}

pub(crate) fn import() -> Workload {
    let bench = Bench::new(Setup::default());
    let engine = bench.open();
    bench.append_all(&engine, "alone", 0, 0..3);
    bench.append_all(&engine, "import", 0, 0..1);
    bench.append_all(&engine, "import", 0, 0..1);
    bench.append_all(&engine, "alone", 0, 3..6);
    drop(engine);
    bench.finish("an import, replayed")
}

/// The stores of all released versions, in order.
pub(crate) fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../stores/tests/fixtures");
    let mut fixtures: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    fixtures.sort();
    fixtures
}

/// Opens and migrates a store of an older version, whose contents were all acknowledged.
pub(crate) fn migration(fixture: &Path) -> Workload {
    let bench = Bench::with_fixture(Setup::default(), Some(fixture));
    let engine = bench.open();
    let transcript = Some(transcript(&engine));
    drop(engine);
    let name = format!("migration of {}", fixture.file_stem().unwrap().display());
    Workload { transcript, ..bench.finish(&name) }
}

/// Stored vectors, and a reindex to another model.
pub(crate) fn index() -> Workload {
    let (first, second): (Arc<dyn Embedder>, Arc<dyn Embedder>) = (
        Arc::new(BagOfWordsEmbedder::named("first")),
        Arc::new(BagOfWordsEmbedder::named("second")),
    );
    let bench =
        Bench::new(Setup { embedders: vec![first.clone(), second.clone()], ..Setup::default() });
    let engine = bench.open();
    for round in 0..4 {
        bench.append_all(&engine, "indexed", 0, round * 5..(round + 1) * 5);
        work(&engine);
    }
    drop(engine);
    let bench =
        Bench { setup: Setup { embedders: vec![second, first], ..Setup::default() }, ..bench };
    let engine = bench.open();
    bench.append_all(&engine, "indexed", 0, 20..23);
    engine.reindex(&mut |_| ()).unwrap();
    bench.append_all(&engine, "indexed", 0, 23..26);
    work(&engine);
    drop(engine);
    bench.finish("index and reindex")
}
