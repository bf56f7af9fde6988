//! Full disks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::processes::{CommandResult, Treering};
use crate::turns::{line, parsed, positions, turns_of};

/// Each disk size runs out at a different step: while the store is created, at the first commit,
/// in the middle of a later one, or during the final checkpoint.
#[test]
fn a_full_disk_loses_nothing() {
    let Some(unshare) = namespaces() else {
        eprintln!(
            "SKIPPED a_full_disk_loses_nothing: neither `unshare -rm` nor `unshare -m` may mount a tmpfs"
        );
        return;
    };
    for kib in [16, 40, 72, 104, 136, 200, 512, 2048] {
        fill(unshare, kib);
    }
}

/// Runs in its own mount namespace, so that nothing stays mounted even if the test is killed.
const FILL: &str = r#"
set -u
cd "$1"
mount -t tmpfs -o "size=$2k" none disk || exit 99
treering() { program="$1"; shift; "$program" --home disk/home --json "$@"; }
treering "$3" append --key k < input > append.out 2> append.err; echo $? > append.code
treering "$3" append --key k < one > again.out 2> again.err; echo $? > again.code
for command in sessions stats verify export; do
    treering "$3" $command > $command.out 2> $command.err; echo $? > $command.code
done
if [ -e disk/home ]; then cp -r disk/home copy; fi
mount -o remount,size=64m disk
treering "$3" verify > freed.out 2> freed.err; echo $? > freed.code
treering "$3" export > kept.out 2> kept.err; echo $? > kept.code
treering "$3" append --key k < input > replay.out 2> replay.err; echo $? > replay.code
treering "$3" export > whole.out 2> whole.err; echo $? > whole.code
treering "$3" verify > last.out 2> last.err; echo $? > last.code
"#;

fn namespaces() -> Option<&'static str> {
    let works = |flags: &&str| {
        let script = "mount -t tmpfs -o size=64k none /mnt";
        let run = Command::new("unshare").args([flags, "sh", "-c", script]).output();
        run.is_ok_and(|run| run.status.success())
    };
    ["-rm", "-m"].into_iter().find(works)
}

fn fill(unshare: &str, kib: usize) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let ids: Vec<String> = (0..1000).map(|no| format!("f.{no}.{}", 100 + no)).collect();
    fs::create_dir(at("disk")).unwrap();
    fs::write(at("input"), ids.iter().map(|id| line(id)).collect::<String>()).unwrap();
    fs::write(at("one"), line("one.0.1")).unwrap();
    let script = Command::new("unshare")
        .args([unshare, "sh", "-c", FILL, "fill"])
        .args([
            folder.path().as_os_str(),
            kib.to_string().as_ref(),
            env!("CARGO_BIN_EXE_treering").as_ref(),
        ])
        .output()
        .unwrap();
    assert_ne!(script.status.code(), Some(99), "{}", String::from_utf8_lossy(&script.stderr));
    let step = |name: &str| {
        let text = |kind: &str| fs::read_to_string(at(&format!("{name}.{kind}"))).unwrap();
        let code = text("code").trim().parse().unwrap();
        CommandResult {
            description: format!("{name} on {kib} KiB"),
            code,
            output: text("out"),
            errors: text("err"),
        }
    };
    let acknowledged = while_full(&step, &ids);
    let kept = once_freed(&step, &ids, &acknowledged);
    if at("copy").exists() {
        let copy = Treering::at(&at("copy"));
        copy.verify();
        assert_eq!(copy.turns().remove("k").unwrap_or_default(), kept, "{kib} KiB: the copy");
    }
}

/// Writers fail with a clear error and readers still work. Returns the acknowledged turns.
fn while_full(step: &dyn Fn(&str) -> CommandResult, ids: &[String]) -> Vec<String> {
    let home = Path::new("disk/home");
    let appended = step("append");
    let error = appended.expect_error(home);
    assert!(error.error.contains("no space left"), "{}: {error:?}", appended.description);
    let messages = appended.output.lines().flat_map(|ack| positions(&parsed(ack))).count();
    let mut acknowledged = ids[..messages / 2].to_vec();
    for reading in ["sessions", "stats", "verify", "export"] {
        let ended = step(reading);
        if messages > 0 {
            ended.expect_success();
        } else if ended.code != 0 {
            ended.expect_error(home);
        }
    }
    let again = step("again");
    // A small turn may still fit although the background work after it does not.
    if again.output.lines().any(|ack| !positions(&parsed(ack)).is_empty()) {
        acknowledged.push("one.0.1".into());
    }
    if again.code != 0 {
        let error = again.expect_error(home);
        assert!(error.error.contains("no space left"), "{}: {error:?}", again.description);
    }
    acknowledged
}

/// With free space again, the store holds exactly the acknowledged turns, and a replay adds the
/// rest. Returns the turns that were stored before the replay.
fn once_freed(
    step: &dyn Fn(&str) -> CommandResult,
    ids: &[String],
    acknowledged: &[String],
) -> Vec<String> {
    step("freed").expect_success();
    let found = step("kept");
    let description = found.description.clone();
    let kept = turns_of(&found.expect_success()).remove("k").unwrap_or_default();
    assert_eq!(kept, acknowledged, "{description}");
    step("replay").expect_success();
    let turns = turns_of(&step("whole").expect_success()).remove("k").unwrap();
    let unique: BTreeSet<&String> = turns.iter().collect();
    assert_eq!(unique.len(), turns.len(), "{description}: turns are there twice");
    assert!(
        ids.iter().all(|id| unique.contains(id)),
        "{description}: the replay did not complete the turns"
    );
    step("last").expect_success();
    kept
}
