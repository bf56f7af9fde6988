//! State shared by all remote models: the client, the model's name, and the optional fields
//! that its server has rejected.

use std::sync::{Mutex, PoisonError};

use treering_core::{ProviderError, Redactions, RetryAdvice};

use crate::http::{CallError, Client, HttpAnswer, HttpCall};

/// An optional field, and the words in an error message that show the server rejected it.
pub(crate) type OptionalField = (&'static str, &'static [&'static str]);

/// A model behind a client.
pub(crate) struct RemoteModel {
    pub(crate) client: Client,
    pub(crate) id: String,
    pub(crate) name: String,
    /// Fields that the server rejected once; they are never sent again.
    left_out: Mutex<Vec<&'static str>>,
}

/// The fields that are left out of a request.
pub(crate) struct Fields(Vec<&'static str>);

impl Fields {
    /// Whether a field may be sent.
    pub(crate) fn accepts(&self, field: &str) -> bool {
        !self.0.contains(&field)
    }
}

impl RemoteModel {
    pub(crate) fn new(client: Client, id: &str) -> Self {
        let name = format!("{}/{id}", client.endpoint().provider);
        Self { client, id: id.to_owned(), name, left_out: Mutex::default() }
    }

    /// Sends a call. If the server rejects an optional field, retries without it.
    pub(crate) fn send(
        &self,
        optional: &[OptionalField],
        call: impl Fn(&Fields) -> HttpCall,
    ) -> Result<HttpAnswer, ProviderError> {
        self.with_fewer_fields(optional, |fields| self.client.post(call(fields)))
    }

    /// Like [`send`](Self::send), but reads the answer line by line.
    pub(crate) fn send_streaming(
        &self,
        optional: &[OptionalField],
        call: impl Fn(&Fields) -> HttpCall,
        on_line: &mut dyn FnMut(&str) -> Result<bool, ProviderError>,
    ) -> Result<Redactions, ProviderError> {
        self.with_fewer_fields(optional, |fields| self.client.post_lines(call(fields), on_line))
    }

    fn with_fewer_fields<T>(
        &self,
        optional: &[OptionalField],
        mut ask: impl FnMut(&Fields) -> Result<T, CallError>,
    ) -> Result<T, ProviderError> {
        loop {
            let fields =
                Fields(self.left_out.lock().unwrap_or_else(PoisonError::into_inner).clone());
            let refused = match ask(&fields) {
                Ok(answer) => return Ok(answer),
                Err(refused) => refused,
            };
            let Some(field) = refused_field(&refused, optional, &fields) else {
                return Err(refused.into());
            };
            self.left_out.lock().unwrap_or_else(PoisonError::into_inner).push(field);
        }
    }
}

/// The optional field that caused a rejection, if any.
fn refused_field(
    refused: &CallError,
    optional: &[OptionalField],
    fields: &Fields,
) -> Option<&'static str> {
    let is_about_the_request = matches!(refused.status, Some(400 | 404 | 422 | 501));
    if !is_about_the_request
        || refused.error.advice == RetryAdvice::Retry && refused.status != Some(501)
    {
        return None;
    }
    let reason = refused.error.reason.to_lowercase();
    let is_named = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    optional
        .iter()
        .find(|(field, words)| fields.accepts(field) && is_named(words))
        .map(|(field, _)| *field)
}
