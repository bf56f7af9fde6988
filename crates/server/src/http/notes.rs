//! The HTTP handlers of notes.

use axum::Extension;

use super::api::{ApiResult, READ, WRITE, respond};
use super::problem::{Body, PathParams, Problems, QueryParams};
use crate::service::Grant;
use crate::service::requests::{ChangeNoteRequest, NoteRequest, NotesRequest};
use crate::views::{NoteList, NoteView};

/// Store a note
///
/// A note is a statement to keep, outside any conversation. Durable when the response arrives.
#[utoipa::path(post, path = "/v1/notes", tag = "notes", request_body = NoteRequest,
    responses((status = 200, description = "The note", body = NoteView), Problems))]
pub(super) async fn add_note(
    Extension(grant): Extension<Grant>,
    Body(request): Body<NoteRequest>,
) -> ApiResult<NoteView> {
    respond(&grant, WRITE, move |service| service.add_note(request)).await
}

/// List notes, pinned ones first
#[utoipa::path(get, path = "/v1/notes", tag = "notes", params(NotesRequest),
    responses((status = 200, description = "The notes", body = NoteList), Problems))]
pub(super) async fn list_notes(
    Extension(grant): Extension<Grant>,
    QueryParams(request): QueryParams<NotesRequest>,
) -> ApiResult<NoteList> {
    respond(&grant, READ, move |service| service.notes(&request)).await
}

/// Pin, unpin, correct or withdraw a note
#[utoipa::path(patch, path = "/v1/notes/{notes}/{number}", tag = "notes",
    params(("notes" = String, Path, description = "The name before the # of the note, such as notes-shop"),
        ("number" = u32, Path, description = "The number after it")),
    request_body = ChangeNoteRequest, responses((status = 200, description = "The note", body = NoteView), Problems))]
pub(super) async fn change_note(
    Extension(grant): Extension<Grant>,
    PathParams((notes, number)): PathParams<(String, u32)>,
    Body(request): Body<ChangeNoteRequest>,
) -> ApiResult<NoteView> {
    let reference = format!("{notes}#{number}");
    respond(&grant, WRITE, move |service| service.change_note(&reference, request)).await
}
