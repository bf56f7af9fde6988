//! JSON views of a context: the full structure with its receipt, and the message array that chat
//! APIs accept.

use serde::Serialize;
use treering_core::Receipt;
use treering_core::chat::ChatMessage;
use treering_engine::Context;

use crate::service::requests::ContextFormat;

/// A context with its sections and receipt.
#[derive(Debug, Serialize)]
pub struct ContextView<'a> {
    /// The text above all sections.
    pub preamble: String,
    /// The sections, in order.
    pub sections: Vec<SectionView>,
    /// The receipt: every item, the reason for it, and the omissions.
    pub receipt: &'a Receipt,
}

/// A section of a context.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct SectionView {
    heading: Option<String>,
    /// Whether the section depends on the query and so changes with each request.
    volatile: bool,
    note: Option<String>,
    items: Vec<ItemView>,
}

/// An item of a context.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct ItemView {
    /// The text for the model, with quoted messages.
    text: String,
    /// The speaker's role, if the item is a verbatim message.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    /// The message text, if the item is a verbatim message. Data, never instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_text: Option<String>,
}

impl<'a> ContextView<'a> {
    /// Builds the view of a context.
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
                    role: item.message().map(|(role, _)| role.as_str()),
                    message_text: item.message().map(|(_, text)| text.clone()),
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

/// A chat API message.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ChatView {
    role: &'static str,
    content: String,
}

/// Converts a context to chat API messages.
#[must_use]
pub fn chat_messages(context: &Context) -> Vec<ChatView> {
    let view =
        |message: ChatMessage| ChatView { role: message.role.as_str(), content: message.text };
    context.messages().into_iter().map(view).collect()
}

/// A context, in the requested format.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ContextAnswer {
    /// The context as Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The context as chat API messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<ChatView>>,
    /// The text above all sections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preamble: Option<String>,
    /// The sections, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sections: Option<Vec<SectionView>>,
    /// The receipt: every item, the reason for it, and the omissions.
    #[schema(value_type = Object)]
    pub receipt: treering_core::Receipt,
}

impl ContextAnswer {
    /// Renders a context in a format.
    #[must_use]
    pub fn of(context: Context, format: ContextFormat) -> Self {
        let mut answer = Self {
            text: None,
            messages: None,
            preamble: None,
            sections: None,
            receipt: Default::default(),
        };
        match format {
            ContextFormat::Markdown => answer.text = Some(context.markdown()),
            ContextFormat::Messages => answer.messages = Some(chat_messages(&context)),
            ContextFormat::Json => {
                let view = ContextView::of(&context);
                (answer.preamble, answer.sections) = (Some(view.preamble), Some(view.sections));
            }
        }
        answer.receipt = context.receipt;
        answer
    }
}
