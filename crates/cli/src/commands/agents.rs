//! The agents of this user, for `install`, `status` and `doctor`.

use std::io::{self, Write};
use std::path::PathBuf;

use treering_engine::Engine;

use super::output::{BAD, GOOD, count, paint, print_text};
use super::{CliError, Global};
use treering_server::agents::{
    AgentHealth, AgentPaths, CodingAgent, LaggingTranscript, Program, check,
};

/// The folders of the user's agents.
pub(super) fn agent_paths() -> Result<AgentPaths, CliError> {
    let home = etcetera::home_dir()
        .map_err(|_| CliError::Usage("no home folder found; set HOME".into()))?;
    let folder = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let (config, claude, codex) =
        (folder("XDG_CONFIG_HOME"), folder("CLAUDE_CONFIG_DIR"), folder("CODEX_HOME"));
    Ok(AgentPaths { home, config, claude, codex })
}

/// The command line that agents run.
pub(super) fn program(global: &Global) -> Result<Program, CliError> {
    Ok(Program { path: std::env::current_exe()?, options: global.repeated() })
}

/// The state of every agent whose hooks capture into this home.
pub(super) fn health(global: &Global, engine: &Engine) -> Result<Vec<AgentHealth>, CliError> {
    let Ok(paths) = agent_paths() else { return Ok(Vec::new()) };
    let (home, program) = (global.home()?, program(global)?);
    let mut found = Vec::new();
    for agent in CodingAgent::ALL {
        let health = check(agent, &paths, &program, &home, engine);
        found.extend(health.map_err(|error| CliError::Usage(error.to_string()))?);
    }
    Ok(found)
}

/// The state of an agent's capture, in one sentence.
pub(super) fn captured(health: &AgentHealth) -> String {
    let AgentHealth { transcripts, not_imported, behind, captured_until, .. } = health;
    if let Some(worst) = behind.iter().max_by_key(|lagging| lagging.turns) {
        let LaggingTranscript { path, turns, captured_until } = worst;
        let until = captured_until.map_or_else(
            || "nothing captured".to_owned(),
            |until| format!("captured up to {}", until.to_minute()),
        );
        let others = match behind.len() - 1 {
            0 => String::new(),
            more => format!("; {} behind", count(more as u64, "other transcript")),
        };
        let ahead = count(u64::from(*turns), "turn");
        return format!("{until}; the agent's file is {ahead} ahead: {}{others}", path.display());
    }
    let until = match captured_until {
        Some(until) => format!("captured up to {}", until.to_minute()),
        None if health.problems.is_empty() => "hooks installed".to_owned(),
        None => "nothing captured".to_owned(),
    };
    let files = match transcripts {
        0 => String::new(),
        _ => format!(", {}", count(*transcripts as u64, "transcript")),
    };
    let old = match not_imported {
        0 => String::new(),
        more => format!(", {more} of them from before and not imported"),
    };
    format!("{until}{files}{old}")
}

/// Prints one line for each agent, and its problems.
pub(super) fn print(out: &mut dyn Write, agents: &[AgentHealth]) -> io::Result<()> {
    for health in agents {
        let sign = match health.is_healthy() {
            true => paint(GOOD, "✓"),
            false => paint(BAD, "✗"),
        };
        print_text(out, "", &format!("{sign} {}: {}", health.agent, captured(health)))?;
        for problem in &health.problems {
            print_text(out, "  ", &format!("{} → {}", problem.found, problem.fix))?;
        }
        if !health.behind.is_empty() {
            print_text(out, "  ", &format!("→ {}", catch_up_advice(health)))?;
        }
    }
    Ok(())
}

/// How to store what capture missed.
pub(super) fn catch_up_advice(health: &AgentHealth) -> String {
    let folder = health.behind.first().and_then(|lagging| lagging.path.parent());
    let folder = folder.map(|folder| folder.display().to_string()).unwrap_or_default();
    format!(
        "run `treering import {folder}` to store what is missing; if it happens again, run \
         `treering install {}`",
        health.agent
    )
}
