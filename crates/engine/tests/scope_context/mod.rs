//! Contexts over several conversations: one history in time order, with a heading for each
//! conversation, within the budget.

mod notes;
mod projects;

use std::sync::Arc;

use crate::common::{open, run_due_jobs, start};
use proptest::prelude::*;
use treering_core::packing::Profile;
use treering_core::ports::ConversationFilter;
use treering_core::{
    ConversationId, ConversationState, Entry, ExternalId, NewMessage, Policy, Role, ThreadName,
};
use treering_engine::{
    AppendTarget, Context, ContextScope, Engine, EntryBatch, NewConversation, ReplayDetection,
    ScopeContextRequest,
};
use treering_providers::Extractive;
use treering_testkit::FakeClock;
use treering_testkit::generate::external_id;

const DAY_MICROS: i64 = 86_400_000_000;

/// Stores a session of a project on its own day, and closes it.
fn session(
    engine: &Engine,
    number: u32,
    project: &str,
    turns: &[(String, String)],
) -> ConversationId {
    let target = AppendTarget::FindOrCreate(NewConversation {
        external_id: Some(external_id(&format!("{project}-{number}"))),
        cwd: Some(project.to_owned()),
        slug: Some(format!("session-{number}")),
        ..Default::default()
    });
    let id = append_to(engine, target, number, turns);
    engine.set_state(id, ConversationState::Closed).unwrap();
    run_due_jobs(engine, id);
    id
}

/// Stores turns in the conversation with this key.
fn append(engine: &Engine, key: ExternalId, day: u32, turns: &[(String, String)]) {
    let external_id = Some(key);
    let new = NewConversation { external_id, ..Default::default() };
    append_to(engine, AppendTarget::FindOrCreate(new), day, turns);
}

fn append_to(
    engine: &Engine,
    target: AppendTarget,
    day: u32,
    turns: &[(String, String)],
) -> ConversationId {
    let mut at = start().plus_micros(i64::from(day) * DAY_MICROS);
    let mut entries = Vec::new();
    for (asked, answered) in turns {
        for (role, text) in [(Role::User, asked), (Role::Assistant, answered)] {
            entries.push(Entry::message(ThreadName::main(), NewMessage::new(role, text, at)));
            at = at.plus_micros(60_000_000);
        }
        entries.push(Entry::turn_end(ThreadName::main()));
    }
    let batch = EntryBatch { target, entries, replay_detection: ReplayDetection::None };
    engine.append(batch).unwrap().conversation.id
}

fn turns(session: u32, number: u32) -> Vec<(String, String)> {
    let turn = |turn: u32| {
        (
            format!("Which port does service {session}-{turn} use in the staging cluster?"),
            format!("Service {session}-{turn} uses port {}.", 7000 + 100 * session + turn),
        )
    };
    (0..number).map(turn).collect()
}

fn request(project: Option<&str>, budget: u32, query: Option<&str>) -> ScopeContextRequest {
    ScopeContextRequest {
        scope: ContextScope {
            conversations: Vec::new(),
            filter: ConversationFilter {
                project: project.map(str::to_owned),
                states: vec![ConversationState::Open, ConversationState::Closed],
                ..ConversationFilter::all(0)
            },
            exclude: Vec::new(),
            name: project.map_or("this memory".into(), |path| format!("the project {path}")),
        },
        query: query.map(str::to_owned),
        min_score: None,
        budget,
        profile: Profile::named("cut", 2000).unwrap(),
    }
}

fn headings(context: &Context) -> Vec<String> {
    let markdown = context.markdown();
    markdown.lines().filter(|line| line.starts_with("### ")).map(str::to_owned).collect()
}

fn engine(folder: &std::path::Path) -> Engine {
    engine_with(folder, Policy::default())
}

fn engine_with(folder: &std::path::Path, policy: Policy) -> Engine {
    let clock = Arc::new(FakeClock::at(start().plus_micros(400 * DAY_MICROS)));
    open(folder, policy, Arc::new(Extractive), clock)
}

#[test]
fn a_project_is_one_history_with_a_heading_for_each_session() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    for number in 0..4 {
        session(&engine, number, "/srv/shop", &turns(number, 6));
    }
    session(&engine, 9, "/srv/other", &turns(9, 6));
    let context = engine.scope_context(&request(Some("/srv/shop"), 2000, None)).unwrap();
    let markdown = context.markdown();
    assert!(markdown.starts_with("Record of the earlier conversations in the project /srv/shop."));
    let days: Vec<String> = headings(&context).iter().map(|it| it[4..14].to_owned()).collect();
    assert_eq!(days.len(), 4, "{markdown}");
    assert!(days.is_sorted(), "{days:?}");
    for number in 0..4 {
        assert!(markdown.contains(&format!("Service {number}-")), "session {number}: {markdown}");
    }
    assert!(!markdown.contains("Service 9-"), "another project");
    let receipt = context.receipt();
    assert_eq!(receipt.scope.as_deref(), Some("the project /srv/shop"));
    assert_eq!(receipt.sessions.len(), 4);
    assert!(receipt.items.iter().all(|item| item.conversation.is_some() && item.until <= 12));
    assert!(receipt.tokens <= 2000);
    let whole = engine.scope_context(&request(None, 2000, None)).unwrap();
    assert!(whole.markdown().contains("Service 9-"));
}

#[test]
fn the_asking_session_and_archived_ones_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let ids: Vec<ConversationId> =
        (0..3).map(|number| session(&engine, number, "/srv/shop", &turns(number, 3))).collect();
    engine.set_state(ids[0], ConversationState::Archived).unwrap();
    let mut asked = request(Some("/srv/shop"), 2000, Some("which port does service 2-1 use"));
    asked.scope.exclude = vec![ids[2]];
    let markdown = engine.scope_context(&asked).unwrap().markdown();
    assert!(markdown.contains("Service 1-"), "{markdown}");
    assert!(!markdown.contains("Service 0-") && !markdown.contains("Service 2-"), "{markdown}");
}

#[test]
fn a_question_quotes_sessions_that_have_no_room_in_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let secret =
        ("What is the name of the harbour cat?".to_owned(), "Its name is Quillfish.".to_owned());
    session(&engine, 0, "/srv/shop", &[vec![secret], turns(0, 4)].concat());
    for number in 1..60 {
        session(&engine, number, "/srv/shop", &turns(number, 2));
    }
    let query = Some("what is the name of the harbour cat");
    let context = engine.scope_context(&request(Some("/srv/shop"), 600, query)).unwrap();
    let markdown = context.markdown();
    assert!(markdown.contains("Quillfish"), "{markdown}");
    assert!(markdown.contains("session-0#0"), "the name to look it up by: {markdown}");
    assert!(
        markdown
            .starts_with("Record of the latest conversations in the project /srv/shop; older ones"),
        "{markdown}"
    );
    assert!(context.receipt().tokens <= 600);
}

#[test]
fn a_profile_for_one_conversation_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let profile = Profile::named("tiered", 2000).unwrap();
    let refused =
        engine.scope_context(&ScopeContextRequest { profile, ..request(None, 600, None) });
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("tiered") && why.contains("cut"), "{why}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_scope_keeps_to_its_budget_and_its_order(
        sizes in prop::collection::vec(1_u32..14, 1..7),
        budget in 128_u32..3000,
        asks in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(folder.path());
        for (number, size) in (0_u32..).zip(&sizes) {
            session(&engine, number, "/srv/shop", &turns(number, *size));
        }
        let query = asks.then_some("which port does service 0-0 use");
        let context = engine.scope_context(&request(Some("/srv/shop"), budget, query)).unwrap();
        let receipt = context.receipt();
        prop_assert!(receipt.tokens <= budget, "{} of {budget}", receipt.tokens);
        for section in receipt.items.chunk_by(|one, next| one.section == next.section) {
            let place = |item: &treering_core::ReceiptItem| {
                let slug = item.conversation.clone().unwrap();
                (slug.rsplit_once('-').unwrap().1.parse::<u32>().unwrap(), item.from)
            };
            prop_assert!(section.iter().map(place).is_sorted());
        }
    }
}
