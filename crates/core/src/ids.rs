//! Identifiers. Each is its own type, so that one cannot be passed for another.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::hash::ContentHash;

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $label:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Box<str>);

        impl TryFrom<String> for $name {
            type Error = Invalid;
            fn try_from(name: String) -> Result<Self, Invalid> {
                Self::new(name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.into()
            }
        }

        impl $name {
            /// Validates a name.
            pub fn new(name: impl Into<String>) -> Result<Self, Invalid> {
                let name: String = name.into();
                let check: fn(&str) -> Result<(), String> = $check;
                match check(&name) {
                    Ok(()) => Ok(Self(name.into_boxed_str())),
                    Err(reason) => Err(Invalid::new(format!(concat!($label, " {:?}"), crate::text::preview(&name, 60)), reason)),
                }
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(name: &str) -> Result<Self, Invalid> {
                Self::new(name)
            }
        }
    };
}

name_type! {
    /// An isolation boundary: no query and no write crosses it.
    TenantId, "tenant", |name| {
        let fits = !name.is_empty()
            && name.len() <= 64
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b));
        if fits { Ok(()) } else { Err("use 1 to 64 letters a-z, digits, '-', '_' or '.'".into()) }
    }
}

name_type! {
    /// A branch of a conversation.
    ThreadName, "thread", |name| {
        let fits = !name.is_empty() && name.chars().count() <= 100 && !name.chars().any(char::is_control);
        if fits { Ok(()) } else { Err("use 1 to 100 characters and no control characters".into()) }
    }
}

name_type! {
    /// The id of a message, tool call or conversation at its source. An item with an external
    /// id is stored once, however often it is replayed.
    ExternalId, "external id", |name| {
        let fits = !name.is_empty() && name.len() <= 512 && !name.contains('\0');
        if fits { Ok(()) } else { Err("use 1 to 512 bytes and no NUL".into()) }
    }
}

impl TenantId {
    /// The tenant used when none is named.
    #[must_use]
    pub fn default_tenant() -> Self {
        Self("default".into())
    }
}

impl Default for TenantId {
    fn default() -> Self {
        Self::default_tenant()
    }
}

impl ThreadName {
    /// The thread every conversation starts with.
    #[must_use]
    pub fn main() -> Self {
        Self("main".into())
    }

    /// Whether this is the thread every conversation starts with.
    #[must_use]
    pub fn is_main(&self) -> bool {
        &*self.0 == "main"
    }
}

impl Default for ThreadName {
    fn default() -> Self {
        Self::main()
    }
}

/// The id of a conversation within its tenant: 128 bits, shown as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConversationId([u8; 16]);

impl TryFrom<String> for ConversationId {
    type Error = Invalid;
    fn try_from(digits: String) -> Result<Self, Invalid> {
        digits.parse()
    }
}

impl From<ConversationId> for String {
    fn from(id: ConversationId) -> Self {
        id.to_string()
    }
}

impl ConversationId {
    /// An id from random bytes or a hash.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The id of the conversation with this external id.
    #[must_use]
    pub fn of_external(tenant: &TenantId, external: &ExternalId) -> Self {
        Self(
            *ContentHash::of_fields(&[
                b"conversation",
                tenant.as_str().as_bytes(),
                external.as_str().as_bytes(),
            ])
            .as_bytes(),
        )
    }

    /// The bytes of the id.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The first eight digits, enough to distinguish conversations by eye.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string()[..8].to_owned()
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::hash::write_hex(f, &self.0)
    }
}

impl fmt::Debug for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ConversationId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        crate::hash::parse_hex(text).map(Self).ok_or_else(|| {
            Invalid::new(format!("conversation id {text:?}"), "an id has 32 hexadecimal digits")
        })
    }
}

/// The full key of a conversation. The tenant comes first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConversationKey {
    /// The tenant.
    pub tenant: TenantId,
    /// The conversation's id.
    pub id: ConversationId,
}

/// The position of a message in its conversation, counted over all threads from 0, without
/// gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageIdx(pub u32);

/// The number of a turn in its conversation, counted over all threads from 0, without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnNo(pub u32);

impl fmt::Display for MessageIdx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for TurnNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
