//! Remote chat models for every dialect: requests, streams, and validation of the answers.

use treering_core::chat::{ChatReply, ChatRequest, FinishReason, Usage};
use treering_core::{ChatModel, FailedCall, ProviderError, Redactions};

use crate::dialect::{ApiRequest, ChatCall, ChatDelta, ChatDialect};
use crate::http::{Client, HttpCall};
use crate::model::{Fields, RemoteModel};
use crate::stream;

/// A remote model as a chat model.
pub(crate) struct RemoteChat<D> {
    model: RemoteModel,
    dialect: D,
}

impl<D: ChatDialect> RemoteChat<D> {
    /// The model with this id.
    pub(crate) fn new(client: Client, model: &str, dialect: D) -> Self {
        Self { model: RemoteModel::new(client, model), dialect }
    }

    fn call(&self, request: &ChatRequest, streams: bool, fields: &Fields) -> HttpCall {
        let call = ChatCall { model: &self.model.id, request, streams, fields };
        let ApiRequest { path, body } = self.dialect.post(call);
        let headers = self.dialect.headers(self.model.client.endpoint().key.as_ref());
        HttpCall { path, headers, body }
    }

    /// Builds the reply. An empty answer is an error unless the model declined or was cut off.
    /// Usage is estimated if the server does not report it.
    fn reply(
        &self,
        request: &ChatRequest,
        answer: ChatDelta,
        redacted: Redactions,
    ) -> Result<ChatReply, ProviderError> {
        let usage = usage_of(request, &answer);
        let end = answer.end.unwrap_or_default();
        if answer.text.is_empty()
            && !matches!(end, FinishReason::Declined | FinishReason::Truncated)
        {
            let call = FailedCall { is_charged: true, usage, redacted };
            return Err(self.model.client.unusable("an answer without text").with_call(call));
        }
        Ok(ChatReply { text: answer.text, finish_reason: end, usage, redacted })
    }
}

/// The usage of a call, estimated if the server did not report it.
fn usage_of(request: &ChatRequest, answer: &ChatDelta) -> Usage {
    match answer.usage.tokens_in {
        0 => Usage::for_call(request.estimated_tokens(), (answer.text.len() as u64).div_ceil(4)),
        tokens_in => Usage::for_call(tokens_in, answer.usage.tokens_out),
    }
}

/// Adds the usage to the error of a call that the provider charges for.
fn charged(request: &ChatRequest, answer: &ChatDelta, mut error: ProviderError) -> ProviderError {
    if let Some(call) = error.call.as_mut().filter(|call| call.is_charged) {
        call.usage = usage_of(request, answer);
    }
    error
}

impl<D: ChatDialect> ChatModel for RemoteChat<D> {
    fn name(&self) -> &str {
        &self.model.name
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ProviderError> {
        let answer = self.model.send(D::OPTIONAL, |fields| self.call(request, false, fields));
        let answer = answer.map_err(|error| charged(request, &ChatDelta::default(), error))?;
        self.reply(request, self.dialect.parse_response(&answer.body), answer.redacted)
    }

    fn stream(
        &self,
        request: &ChatRequest,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<ChatReply, ProviderError> {
        let mut answer = ChatDelta::default();
        let mut take = |line: &str| {
            let Some(data) = stream::data(line, D::EVENTS) else { return Ok(false) };
            if data == stream::DONE {
                return Ok(true);
            }
            let piece = self.dialect.parse_chunk(&stream::json(data)?);
            if !piece.text.is_empty() {
                answer.text.push_str(&piece.text);
                on_text(&piece.text);
            }
            answer.end = piece.end.or(answer.end);
            // Providers report cumulative counts.
            answer.usage.tokens_in = answer.usage.tokens_in.max(piece.usage.tokens_in);
            answer.usage.tokens_out = answer.usage.tokens_out.max(piece.usage.tokens_out);
            Ok(piece.is_last)
        };
        let call = |fields: &Fields| self.call(request, true, fields);
        match self.model.send_streaming(D::OPTIONAL, call, &mut take) {
            Ok(redacted) => self.reply(request, answer, redacted),
            Err(error) => Err(charged(request, &answer, error)),
        }
    }
}
