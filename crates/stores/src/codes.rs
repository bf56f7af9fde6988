//! The numbers that stand for roles and states in a store. Never renumber: existing stores keep them.

use treering_core::{ConversationState, JobEventKind, JobKind, JobState, Role, TitleSource};

pub(crate) const fn role_code(role: Role) -> i64 {
    match role {
        Role::System => 0,
        Role::User => 1,
        Role::Assistant => 2,
        Role::Tool => 3,
    }
}

pub(crate) fn role(code: i64) -> Option<Role> {
    Role::ALL.into_iter().find(|role| role_code(*role) == code)
}

pub(crate) const fn state_code(state: ConversationState) -> i64 {
    match state {
        ConversationState::Open => 0,
        ConversationState::Closed => 1,
        ConversationState::Archived => 2,
    }
}

pub(crate) fn state(code: i64) -> Option<ConversationState> {
    ConversationState::ALL.into_iter().find(|state| state_code(*state) == code)
}

pub(crate) const fn title_source_code(title_source: TitleSource) -> i64 {
    match title_source {
        TitleSource::Untitled => 0,
        TitleSource::FirstMessage => 1,
        TitleSource::Source => 2,
        TitleSource::Person => 3,
    }
}

pub(crate) fn title_source(code: i64) -> Option<TitleSource> {
    TitleSource::ALL.into_iter().find(|title_source| title_source_code(*title_source) == code)
}

pub(crate) const fn job_kind_code(kind: &JobKind) -> i64 {
    match kind {
        JobKind::EmbedTurn(_) => 0,
        JobKind::Summarize(_) => 1,
        JobKind::EmbedNode(..) => 2,
        JobKind::PlanProject => 3,
    }
}

pub(crate) const fn job_state_code(state: &JobState) -> i64 {
    match state {
        JobState::Waiting { .. } => 0,
        JobState::Leased { .. } => 1,
        JobState::Dead => 2,
    }
}

pub(crate) const fn event_code(event: JobEventKind) -> i64 {
    match event {
        JobEventKind::Acquire => 0,
        JobEventKind::Release => 1,
        JobEventKind::Fail => 2,
        JobEventKind::Dead => 3,
        JobEventKind::Retry => 4,
        JobEventKind::Update => 5,
        JobEventKind::Ask => 6,
        JobEventKind::Updated => 7,
        JobEventKind::Clear => 8,
    }
}

pub(crate) fn event(code: i64) -> Option<JobEventKind> {
    JobEventKind::ALL.into_iter().find(|event| event_code(*event) == code)
}
