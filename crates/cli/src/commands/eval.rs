//! `treering eval`: measures retrieval on data sets. Never touches the user's own store.

use std::io::{self, Write};
use std::path::PathBuf;

use anstyle::Style;
use serde::Serialize;

use super::CliError;
use super::output::{BOLD, Column, DIM, Output, TextTable, count, grouped, print_dim, print_text};
use crate::eval::{
    Answerability, ContextMethod, EvalContexts, EvalQuestion, EvalResult, measure, read,
};
use treering::Options;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering eval locomo/*.json
  treering eval locomo --context-budget 2000 --categories

The command imports each file into a temporary home, builds its tree, asks its questions and deletes
the home. It reads haystack files, and LoCoMo and LongMemEval files in their original formats.")]
pub(super) struct Args {
    /// Data set files, or folders that contain them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Write the ranking of every question as JSON lines
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// Also build a context of this many tokens for each question and measure what it contains
    #[arg(long, value_name = "TOKENS")]
    context_budget: Option<u32>,
    /// Also show the figures of each category
    #[arg(long)]
    categories: bool,
    /// Also ask each file the questions of the next file, which it cannot answer, and measure how
    /// often search says so
    #[arg(long)]
    unanswerable: bool,
}

#[derive(Serialize)]
struct View {
    files: usize,
    turns: usize,
    nodes: u64,
    questions: usize,
    rows: Vec<Row>,
    p50_us: u64,
    p90_us: u64,
    p99_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    contexts: Option<EvalContextsView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answerability: Option<AnswerabilityView>,
}

#[derive(Serialize)]
struct AnswerabilityView {
    unanswerable: usize,
    unanswerable_nothing: f64,
    unanswerable_weak: f64,
    answerable_weak: f64,
    evidence_lost: f64,
}

#[derive(Serialize)]
struct EvalContextsView {
    budget: u32,
    rows: Vec<ContextRow>,
}

#[derive(Serialize)]
struct ContextRow {
    method: &'static str,
    gold_raw: f64,
    gold_any: f64,
    answer: f64,
    answers: u32,
    cover: f64,
    filled: f64,
    p50_us: u64,
}

#[derive(Serialize)]
struct Row {
    level: &'static str,
    category: String,
    questions: u32,
    recall_1: f64,
    recall_5: f64,
    recall_10: f64,
    recall_20: f64,
    all_5: f64,
    ndcg_10: f64,
}

#[derive(Serialize)]
struct RankingLine<'a> {
    id: &'a str,
    turns: &'a [String],
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a str>,
}

pub(super) fn run(args: &Args, options: &Options, output: &Output) -> Result<(), CliError> {
    let files = files(&args.paths)?;
    if files.is_empty() {
        return Err(CliError::Usage(
            "no .json files found; pass data set files or their folders".into(),
        ));
    }
    let contexts = args.context_budget.map(EvalContexts::new);
    let answerability = args.unanswerable.then(Answerability::default);
    let mut measured = EvalResult { contexts, answerability, ..EvalResult::default() };
    let texts = files
        .iter()
        .map(|path| {
            std::fs::read_to_string(path).map_err(|error| CliError::File(path.clone(), error))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let of_file = |text: &String| -> Vec<EvalQuestion> {
        read(text).into_iter().flatten().flat_map(|haystack| haystack.questions).collect()
    };
    let questions: Vec<Vec<EvalQuestion>> = texts.iter().map(of_file).collect();
    let all: usize = questions.iter().map(Vec::len).sum();
    let bar = output.progress((all * (1 + usize::from(args.unanswerable))) as u64, "asking");
    for (number, (path, text)) in files.iter().zip(&texts).enumerate() {
        let home =
            std::env::temp_dir().join(format!("treering-eval-{}-{number}", std::process::id()));
        let foreign = match &questions[(number + 1) % questions.len()] {
            next if args.unanswerable && questions.len() > 1 => next.as_slice(),
            _ => &[],
        };
        let result = measure(path, text, foreign, &home, options, &mut measured, || bar.inc(1));
        // Best effort: a leftover scratch folder does no harm.
        drop(std::fs::remove_dir_all(&home));
        result.map_err(|error| CliError::Usage(format!("{}: {error}", path.display())))?;
    }
    bar.finish_and_clear();
    if let Some(dump) = &args.dump {
        write_dump(dump, &measured).map_err(|error| CliError::File(dump.clone(), error))?;
    }
    let view = view(args, files.len(), &measured);
    output.show(&view, |out| print(out, &view))?;
    Ok(())
}

fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries =
            std::fs::read_dir(path).map_err(|error| CliError::File(path.clone(), error))?;
        let mut dir_files: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .collect();
        dir_files.sort();
        files.extend(dir_files);
    }
    Ok(files)
}

fn write_dump(path: &PathBuf, measured: &EvalResult) -> io::Result<()> {
    let mut file = io::BufWriter::new(std::fs::File::create(path)?);
    for answered in &measured.answered {
        let context = answered.context.as_deref();
        let (id, turns, score) = (&answered.id, &answered.turns, answered.score);
        serde_json::to_writer(&mut file, &RankingLine { id, turns, score, context })?;
        writeln!(file)?;
    }
    for (id, score) in &measured.unanswered {
        let id = &format!("unanswerable {id}");
        let line = RankingLine { id, turns: &[], score: *score, context: None };
        serde_json::to_writer(&mut file, &line)?;
        writeln!(file)?;
    }
    file.flush()
}

fn view(args: &Args, files: usize, measured: &EvalResult) -> View {
    let rows =
        measured.figures.iter().filter(|((_, category), _)| args.categories || category == "ALL");
    let micros = |quantile: f64| {
        u64::try_from(measured.percentile(quantile).as_micros()).unwrap_or(u64::MAX)
    };
    View {
        files,
        turns: measured.turns,
        nodes: measured.nodes,
        questions: measured.answered.len(),
        rows: rows
            .map(|((level, category), figures)| {
                let [recall_1, recall_5, recall_10, recall_20, all_5, ndcg_10] = figures.percents();
                Row {
                    level: level.as_str(),
                    category: category.clone(),
                    questions: figures.questions,
                    recall_1,
                    recall_5,
                    recall_10,
                    recall_20,
                    all_5,
                    ndcg_10,
                }
            })
            .collect(),
        p50_us: micros(0.5),
        p90_us: micros(0.9),
        p99_us: micros(0.99),
        contexts: measured.contexts.as_ref().map(contexts_view),
        answerability: measured.answerability.as_ref().map(|it| {
            let [unanswerable_nothing, unanswerable_weak, answerable_weak, evidence_lost] =
                it.percents();
            AnswerabilityView {
                unanswerable: measured.unanswered.len(),
                unanswerable_nothing,
                unanswerable_weak,
                answerable_weak,
                evidence_lost,
            }
        }),
    }
}

fn print_answerability(out: &mut dyn Write, view: &AnswerabilityView) -> io::Result<()> {
    let text = format!(
        "{} without an answer: {:.1} % find nothing, {:.1} % find nothing or weak hits only. With \
         an answer: {:.1} % find nothing or weak hits only, {:.1} % lose the evidence of the first \
         ten hits to the minimum score.",
        count(view.unanswerable as u64, "question"),
        view.unanswerable_nothing,
        view.unanswerable_weak,
        view.answerable_weak,
        view.evidence_lost
    );
    writeln!(out)?;
    print_text(out, "", &text)
}

fn contexts_view(contexts: &EvalContexts) -> EvalContextsView {
    let row = |method: ContextMethod| {
        let sums = contexts.of(method);
        ContextRow {
            method: method.as_str(),
            gold_raw: sums.gold_raw.mean(),
            gold_any: sums.gold_any.mean(),
            answer: sums.answer.mean(),
            answers: sums.answer.count(),
            cover: sums.cover.mean(),
            filled: sums.filled.mean(),
            p50_us: sums.median_us(),
        }
    };
    EvalContextsView { budget: contexts.budget, rows: ContextMethod::ALL.map(row).into() }
}

fn print(out: &mut dyn Write, view: &View) -> io::Result<()> {
    let mut table = TextTable::new(&[
        Column::Left(""),
        Column::Right("questions"),
        Column::Right("r@1"),
        Column::Right("r@5"),
        Column::Right("r@10"),
        Column::Right("r@20"),
        Column::Right("all@5"),
        Column::Right("nDCG@10"),
    ]);
    let unstyled = |text: String| (Style::new(), text);
    for row in &view.rows {
        let style = if row.category == "ALL" { BOLD } else { DIM };
        table.row([
            (style, format!("{} {}", row.level, row.category)),
            unstyled(grouped(row.questions.into())),
            unstyled(format!("{:.1}", row.recall_1)),
            unstyled(format!("{:.1}", row.recall_5)),
            unstyled(format!("{:.1}", row.recall_10)),
            unstyled(format!("{:.1}", row.recall_20)),
            unstyled(format!("{:.1}", row.all_5)),
            unstyled(format!("{:.1}", row.ndcg_10)),
        ]);
    }
    table.print(out)?;
    let millis = |micros: u64| format!("{:.2} ms", micros as f64 / 1000.0);
    let question_summary = format!(
        "{} over {} and {} in {}: p50 {}, p90 {}, p99 {}. r@10: recall in the first ten hits, in \
         percent.",
        count(view.questions as u64, "question"),
        count(view.turns as u64, "turn"),
        count(view.nodes, "node"),
        count(view.files as u64, "file"),
        millis(view.p50_us),
        millis(view.p90_us),
        millis(view.p99_us)
    );
    writeln!(out)?;
    print_text(out, "", &question_summary)?;
    view.answerability.as_ref().map_or(Ok(()), |it| print_answerability(out, it))?;
    view.contexts.as_ref().map_or(Ok(()), |contexts| print_contexts(out, contexts))
}

fn print_contexts(out: &mut dyn Write, view: &EvalContextsView) -> io::Result<()> {
    writeln!(out, "\ncontexts of {} tokens, in percent", grouped(view.budget.into()))?;
    let mut table = TextTable::new(&[
        Column::Left(""),
        Column::Right("gold raw"),
        Column::Right("gold any"),
        Column::Right("answer"),
        Column::Right("coverage"),
        Column::Right("filled"),
        Column::Right("p50"),
    ]);
    let percent = |figure: f64| (Style::new(), format!("{figure:.1}"));
    for row in &view.rows {
        let style = if row.method == ContextMethod::Cut.as_str() { BOLD } else { DIM };
        table.row([
            (style, row.method.to_owned()),
            percent(row.gold_raw),
            percent(row.gold_any),
            percent(row.answer),
            percent(row.cover),
            percent(row.filled),
            (Style::new(), format!("{:.2} ms", row.p50_us as f64 / 1000.0)),
        ]);
    }
    table.print(out)?;
    let answers = view.rows.first().map_or(0, |row| row.answers);
    let questions = count(answers.into(), "question");
    print_dim(out, "", &format!("answer: the {questions} whose answer has up to six words"))
}
