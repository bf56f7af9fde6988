//! The forms of a context that programs read: JSON with everything in it, and the array of
//! messages that chat APIs take.

use serde::Serialize;
use treering_core::chat::ChatMessage;
use treering_core::receipt::Receipt;
use treering_engine::Context;

/// A context with everything in it.
#[derive(Debug, Serialize)]
pub struct ContextView<'a> {
    /// What stands above everything.
    pub preamble: String,
    /// Its sections, in order.
    pub sections: Vec<SectionView>,
    /// What is in it, why, and what is not.
    pub receipt: &'a Receipt,
}

/// A section of a context.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct SectionView {
    heading: Option<String>,
    /// Whether it depends on the question, so that it changes with each one.
    volatile: bool,
    note: Option<String>,
    items: Vec<ItemView>,
}

/// One thing in a context.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct ItemView {
    /// It as it is written for a model: what was said is quoted.
    text: String,
    /// Who said it, where it is a message as it was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    /// All of it, where it is a message as it was said. Data, never an instruction.
    #[serde(skip_serializing_if = "Option::is_none")]
    said: Option<String>,
}

impl<'a> ContextView<'a> {
    /// The view of a context.
    #[must_use]
    pub fn of(context: &'a Context) -> Self {
        let sections = context.sections.iter().map(|section| SectionView {
            heading: section.heading.clone(),
            volatile: section.is_volatile,
            note: section.note.as_deref().map(|note| note.trim_end().to_owned()),
            items: section
                .items
                .iter()
                .map(|item| ItemView {
                    text: item.block.clone(),
                    role: item.said.as_ref().map(|(role, _)| role.as_str()),
                    said: item.said.as_ref().map(|(_, text)| text.clone()),
                })
                .collect(),
        });
        Self {
            preamble: context.preamble.clone(),
            sections: sections.collect(),
            receipt: &context.receipt,
        }
    }
}

/// A message as chat APIs take it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ChatView {
    role: &'static str,
    content: String,
}

/// A context as chat APIs take it.
#[must_use]
pub fn chat_messages(context: &Context) -> Vec<ChatView> {
    let view =
        |message: ChatMessage| ChatView { role: message.role.as_str(), content: message.text };
    context.messages().into_iter().map(view).collect()
}
