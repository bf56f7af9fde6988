//! Writers that are killed at random moments.

use std::os::unix::process::ExitStatusExt as _;

use tempfile::TempDir;

use crate::processes::{Treering, WriterProcess};
use crate::rng::SeededRng;
use crate::turns::{line, positions};

/// Writers are killed at random moments: while they create the store, recover it, commit,
/// checkpoint or exit.
#[test]
fn killed_writers_lose_nothing_and_leave_no_partial_turns() {
    const KILLS_PER_RUN: u64 = 20;
    let min_kills: u64 =
        std::env::var("TREERING_CRASH_KILLS").map_or(300, |kills| kills.parse().unwrap());
    let mut chance = SeededRng::seeded();
    let (mut kills, mut acknowledged, mut unanswered) = (0, 0, 0);
    for no in 0.. {
        if kills >= min_kills {
            break;
        }
        let mut run = StoreRun::begin(no);
        let mut unchecked = 0;
        while run.kills < KILLS_PER_RUN {
            run.round(&mut chance);
            unchecked += 1;
            if unchecked == 10 {
                run.check();
                unchecked = 0;
            }
        }
        run.check();
        kills += run.kills;
        let end = run.end();
        acknowledged += end.0;
        unanswered += end.1;
    }
    println!("{kills} kills: {acknowledged} turns acknowledged, {unanswered} more found whole");
    assert!(acknowledged > kills, "the writers hardly wrote; the kills come too early");
}

/// One store and the series of writers that are killed on it. Every other store also has a writer
/// that survives and keeps the WAL open; in some the turns are large enough to force checkpoints.
struct StoreRun {
    treering: Treering,
    _folder: TempDir,
    heavy: bool,
    other_writer: Option<WriterProcess>,
    survived: Vec<String>,
    rounds: Vec<Round>,
    kills: u64,
    acknowledged: usize,
    unanswered: usize,
}

/// The turns sent to one killed writer, and its acknowledgements.
struct Round {
    sent: Vec<String>,
    positions: Vec<u64>,
    /// The number of its turns in the store, once counted.
    kept: Option<usize>,
}

impl StoreRun {
    fn begin(no: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let treering = Treering::at(&folder.path().join("home"));
        // A survivor creates the store. Without one, the kills also hit its creation.
        let other_writer = (no % 2 == 1).then(|| WriterProcess::start(&treering, "survivor"));
        Self {
            treering,
            _folder: folder,
            heavy: no % 5 == 2,
            other_writer,
            survived: Vec::new(),
            rounds: Vec::new(),
            kills: 0,
            acknowledged: 0,
            unanswered: 0,
        }
    }

    fn round(&mut self, chance: &mut SeededRng) {
        let round = self.rounds.len();
        let mut writer = WriterProcess::start(&self.treering, "victim");
        let (mut sent, mut acks) = (Vec::new(), Vec::new());
        for _ in 0..chance.below(6) + 1 {
            let mut lines = String::new();
            for _ in 0..chance.below(6) + 1 {
                let words = if self.heavy { 2000 + chance.below(8000) } else { chance.below(60) };
                let id = format!("r{round}.{}.{words}", sent.len());
                lines += &line(&id);
                sent.push(id);
            }
            writer.send(&lines);
            if chance.below(2) == 0 {
                acks.push(writer.acknowledgement());
            }
        }
        match chance.below(4) {
            0 => {}
            1 => {
                writer.close();
                chance.pause(4_000);
            }
            _ => chance.pause(15_000),
        }
        let (status, rest, errors) = writer.kill();
        assert_eq!(errors, "", "a writer complained before it was killed");
        acks.extend(rest);
        self.kills += u64::from(status.signal() == Some(9));
        let positions: Vec<u64> = acks.iter().flat_map(positions).collect();
        self.acknowledged += positions.len() / 2;
        self.rounds.push(Round { sent, positions, kept: None });
        if let Some(other_writer) = &mut self.other_writer {
            let id = format!("s.{round}.3");
            other_writer.send(&line(&id));
            other_writer.acknowledgement();
            self.survived.push(id);
        }
    }

    /// The store holds a prefix of each writer's turns that includes every acknowledged one.
    /// Replaying the last writer's input adds exactly the missing turns.
    fn check(&mut self) {
        self.check_stored();
        let Some(last) = self.rounds.last_mut() else { return };
        let input: String = last.sent.iter().map(|id| line(id)).collect();
        last.kept = None;
        self.treering.run(&["append", "--key", "victim"], input.as_bytes()).expect_success();
        self.check_stored();
        let last = self.rounds.last().unwrap();
        assert_eq!(last.kept, Some(last.sent.len()), "a replay did not complete its turns");
        self.treering.verify();
    }

    fn check_stored(&mut self) {
        let home = std::fs::read_dir(&self.treering.home).unwrap();
        let damaged = home
            .filter(|it| it.as_ref().unwrap().file_name().to_string_lossy().contains("damaged"));
        assert_eq!(damaged.count(), 0, "the log of a killed writer was called damaged");
        let stored = self.treering.turns().remove("victim").unwrap_or_default();
        let mut from = 0;
        for round in &mut self.rounds {
            let kept = round.kept.unwrap_or_else(|| {
                let pairs = round.sent.iter().zip(&stored[from..]);
                pairs.take_while(|(sent, stored)| sent == stored).count()
            });
            assert!(
                stored[from..].starts_with(&round.sent[..kept]),
                "turns that were there are gone"
            );
            assert!(
                kept * 2 >= round.positions.len(),
                "acknowledged turns of {:?} are lost",
                round.sent
            );
            let first = 2 * from as u64;
            let positions: Vec<u64> = (first..first + round.positions.len() as u64).collect();
            assert_eq!(
                round.positions, positions,
                "acknowledged positions are not where the turns are"
            );
            if round.kept.is_none() {
                self.unanswered += kept - round.positions.len() / 2;
            }
            round.kept = Some(kept);
            from += kept;
        }
        assert_eq!(stored.len(), from, "turns that nobody wrote, or twice: {:?}", &stored[from..]);
    }

    fn end(self) -> (u64, usize) {
        if let Some(other_writer) = self.other_writer {
            other_writer.finish().expect_success();
            assert_eq!(self.treering.turns()["survivor"], self.survived);
            self.treering.verify();
        }
        (self.acknowledged as u64, self.unanswered)
    }
}
