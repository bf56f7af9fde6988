//! Spend: the cost of model calls, and the caps on it. Pure arithmetic; the ledger itself is in
//! the store.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use crate::chat::{ChatReply, ChatRequest, Usage};
use crate::error::{ProviderError, RetryAdvice};
use crate::ids::ConversationId;
use crate::ports::{ChatModel, Meter};
use crate::redact::Redactions;
use crate::time::Timestamp;

/// An amount of money in billionths of a US dollar; a token costs a few hundred of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Money(pub i64);

impl Money {
    /// Converts from dollars.
    #[must_use]
    pub fn from_dollars(dollars: f64) -> Self {
        Self((dollars * 1e9).round() as i64)
    }

    /// Converts to dollars.
    #[must_use]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = self.dollars();
        let digits = match dollars.abs() {
            0.0 | 1.0.. => 2,
            0.01.. => 4,
            _ => 6,
        };
        write!(f, "${dollars:.digits$}")
    }
}

/// The price of a million tokens, in dollars.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Input tokens.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
}

impl Price {
    /// The cost of a call.
    #[must_use]
    pub fn of(&self, usage: Usage) -> Money {
        let millionths =
            usage.tokens_in as f64 * self.input + usage.tokens_out as f64 * self.output;
        Money((millionths * 1e3).ceil() as i64)
    }
}

/// Prices by provider and model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prices {
    /// The date of the price table, e.g. `2026-11-16`.
    pub date: String,
    /// The price of each model by its full name, e.g. `openai/gpt-6-luna`. `ollama/*` matches
    /// every model of a provider.
    pub models: BTreeMap<String, Price>,
}

impl Prices {
    /// The price of a model. Falls back to the name without its date suffix, then to the
    /// wildcard of its provider.
    #[must_use]
    pub fn find(&self, model: &str) -> Option<Price> {
        let unversioned = model.split('@').next().unwrap_or(model);
        let every = format!("{}/*", provider_of(unversioned));
        let names = [unversioned, undated(unversioned), &every];
        names.into_iter().find_map(|name| self.models.get(name)).copied()
    }
}

/// The name without a trailing date: `-20251001` or `-2024-07-18`.
fn undated(name: &str) -> &str {
    let before_date = |length: usize| {
        let (head, date) = name.split_at_checked(name.len().checked_sub(length)?)?;
        let digits = date.bytes().filter(u8::is_ascii_digit).count();
        let dashes = date.bytes().filter(|byte| *byte == b'-').count();
        (date.starts_with('-') && digits == 8 && digits + dashes == length).then_some(head)
    };
    before_date("-2024-07-18".len()).or_else(|| before_date("-20251001".len())).unwrap_or(name)
}

/// An amount spent. Corrections to the ledger may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpendAmount {
    /// Calls.
    pub calls: i64,
    /// Input tokens.
    pub tokens_in: i64,
    /// Output tokens.
    pub tokens_out: i64,
    /// The cost of the calls with a known price.
    pub money: Money,
    /// Calls with an unknown price.
    pub unpriced: i64,
}

impl SpendAmount {
    /// The amount for the usage of one or more calls; the price may be unknown.
    #[must_use]
    pub fn of(usage: Usage, price: Option<Price>) -> Self {
        let saturating = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let calls = i64::from(usage.calls);
        Self {
            calls,
            tokens_in: saturating(usage.tokens_in),
            tokens_out: saturating(usage.tokens_out),
            money: price.map(|price| price.of(usage)).unwrap_or_default(),
            unpriced: if price.is_none() { calls } else { 0 },
        }
    }

    /// Input and output tokens.
    #[must_use]
    pub const fn tokens(&self) -> i64 {
        self.tokens_in.saturating_add(self.tokens_out)
    }
}

impl Add for SpendAmount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            tokens_in: self.tokens_in.saturating_add(other.tokens_in),
            tokens_out: self.tokens_out.saturating_add(other.tokens_out),
            money: Money(self.money.0.saturating_add(other.money.0)),
            unpriced: self.unpriced + other.unpriced,
        }
    }
}

impl AddAssign for SpendAmount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for SpendAmount {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        let Self { calls, tokens_in, tokens_out, money, unpriced } = other;
        let minus = Self {
            calls: -calls,
            tokens_in: -tokens_in,
            tokens_out: -tokens_out,
            money: Money(-money.0),
            unpriced: -unpriced,
        };
        self + minus
    }
}

impl fmt::Display for SpendAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.calls == 1 { "" } else { "s" };
        write!(
            f,
            "{} call{plural}, {} tokens in, {} out, ",
            self.calls, self.tokens_in, self.tokens_out
        )?;
        match self.unpriced {
            0 => write!(f, "{}", self.money),
            unpriced if unpriced == self.calls => write!(f, "price unknown"),
            unpriced => write!(f, "{} and {unpriced} of unknown price", self.money),
        }
    }
}

/// An entry in the ledger of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The time of the call's slot.
    pub at: Timestamp,
    /// The conversation, if the call belongs to one.
    pub conversation: Option<ConversationId>,
    /// The provider and model.
    pub model: String,
    /// The amount.
    pub spent: SpendAmount,
}

impl Charge {
    /// The provider of the model.
    #[must_use]
    pub fn provider(&self) -> &str {
        provider_of(&self.model)
    }
}

/// The provider in a model's full name.
#[must_use]
pub(crate) fn provider_of(model: &str) -> &str {
    model.split('/').next().unwrap_or(model)
}

/// The UTC day of a time, counted from 1970.
#[must_use]
pub const fn day_of(time: Timestamp) -> i64 {
    time.as_micros().div_euclid(86_400_000_000)
}

/// A spending limit; `None` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cap {
    /// Input and output tokens.
    pub tokens: Option<u64>,
    /// Money.
    pub money: Option<Money>,
}

/// The caps of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caps {
    /// For all spending of the tenant.
    pub tenant: Cap,
    /// For each conversation.
    pub conversation: Cap,
    /// For each UTC day.
    pub day: Cap,
}

impl Caps {
    /// Whether any cap is set.
    #[must_use]
    pub fn are_set(&self) -> bool {
        *self != Self::default()
    }
}

/// The amounts that the caps apply to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// All spending of the tenant.
    pub tenant: SpendAmount,
    /// The current conversation; zero if there is none.
    pub conversation: SpendAmount,
    /// The current UTC day.
    pub day: SpendAmount,
}

/// A cap that has been reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapReached {
    /// The scope of the cap, as text.
    pub of: &'static str,
    /// The cap.
    pub cap: String,
    /// The amount spent.
    pub spent: String,
}

impl fmt::Display for CapReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the cap of {} {} is reached: {} spent", self.cap, self.of, self.spent)
    }
}

/// The first cap that leaves no room for another call; `None` if the call is allowed. Calls in
/// flight count at their maximum, so that a cap is exceeded by less than one call.
#[must_use]
pub fn reached_cap(caps: &Caps, account: &Account) -> Option<CapReached> {
    let scopes = [
        ("for this conversation", caps.conversation, account.conversation),
        ("a day", caps.day, account.day),
        ("for this tenant", caps.tenant, account.tenant),
    ];
    scopes.into_iter().find_map(|(of, cap, spent)| {
        let tokens = cap.tokens.filter(|cap| i128::from(spent.tokens()) >= i128::from(*cap));
        let money = cap.money.filter(|cap| spent.money >= *cap);
        let of_tokens = |cap: u64| CapReached {
            of,
            cap: format!("{cap} tokens"),
            spent: spent.tokens().to_string(),
        };
        let of_money =
            |cap: Money| CapReached { of, cap: cap.to_string(), spent: spent.money.to_string() };
        tokens.map(of_tokens).or_else(|| money.map(of_money))
    })
}

impl CapReached {
    /// The error for the refused call; a fallback has to do the work.
    #[must_use]
    pub fn to_error(&self) -> ProviderError {
        ProviderError::new(self.to_string(), RetryAdvice::UseFallback)
    }
}

/// The amount reserved for a call in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation(pub Charge);

/// A chat model whose calls are metered.
pub struct Metered<'a> {
    /// The model.
    pub chat: &'a dyn ChatModel,
    /// The meter.
    pub meter: &'a dyn Meter,
}

impl Metered<'_> {
    fn account(
        &self,
        request: &ChatRequest,
        call: impl FnOnce() -> Result<ChatReply, ProviderError>,
    ) -> Result<ChatReply, ProviderError> {
        let reservation = self.meter.reserve_usage(self.chat.name(), request.max_usage())?;
        let reply = call();
        match &reply {
            Ok(reply) => self.meter.settle(reservation, reply.usage, &reply.redacted),
            Err(error) => {
                let call = error.call.as_deref().cloned().unwrap_or_default();
                self.meter.settle(reservation, call.usage, &call.redacted);
            }
        }
        reply
    }
}

impl ChatModel for Metered<'_> {
    fn name(&self) -> &str {
        self.chat.name()
    }

    fn is_remote(&self) -> bool {
        self.chat.is_remote()
    }

    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ProviderError> {
        self.account(request, || self.chat.complete(request))
    }

    fn stream(
        &self,
        request: &ChatRequest,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<ChatReply, ProviderError> {
        self.account(request, || self.chat.stream(request, on_text))
    }
}

/// A meter that allows every call and records nothing.
pub struct Unmetered;

impl Meter for Unmetered {
    fn reserve_usage(&self, model: &str, _: Usage) -> Result<Reservation, ProviderError> {
        let spent = SpendAmount::default();
        Ok(Reservation(Charge {
            at: Timestamp::from_micros(0),
            conversation: None,
            model: model.to_owned(),
            spent,
        }))
    }

    fn settle(&self, _: Reservation, _: Usage, _: &Redactions) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(tokens: i64, dollars: f64) -> SpendAmount {
        SpendAmount {
            calls: 1,
            tokens_in: tokens,
            money: Money::from_dollars(dollars),
            ..SpendAmount::default()
        }
    }

    #[test]
    fn a_cap_is_reached_by_tokens_or_by_money_of_its_own_scope() {
        let tokens = |tokens: u64| Cap { tokens: Some(tokens), money: None };
        let money = |dollars: f64| Cap { tokens: None, money: Some(Money::from_dollars(dollars)) };
        let account = Account {
            tenant: spent(900, 9.0),
            conversation: spent(100, 1.0),
            day: spent(500, 5.0),
        };
        let check = |caps: Caps, words: Option<&str>| {
            let found = reached_cap(&caps, &account).map(|reached| reached.to_string());
            assert_eq!(found.as_deref(), words, "{caps:?}");
        };
        check(Caps::default(), None);
        check(Caps { tenant: tokens(901), conversation: tokens(101), day: tokens(501) }, None);
        check(Caps { tenant: money(9.01), conversation: money(1.01), day: money(5.01) }, None);
        let of_day = Caps { day: tokens(500), ..Caps::default() };
        check(of_day, Some("the cap of 500 tokens a day is reached: 500 spent"));
        let of_tenant = Caps { tenant: money(8.0), ..Caps::default() };
        check(of_tenant, Some("the cap of $8.00 for this tenant is reached: $9.00 spent"));
        let of_conversation = Caps { conversation: money(0.5), ..Caps::default() };
        check(
            of_conversation,
            Some("the cap of $0.5000 for this conversation is reached: $1.00 spent"),
        );
        check(
            Caps { tenant: tokens(0), ..Caps::default() },
            Some("the cap of 0 tokens for this tenant is reached: 900 spent"),
        );
    }

    #[test]
    fn a_price_is_found_by_the_name_its_family_or_its_provider() {
        let price = |input: f64| Price { input, output: 2.0 * input };
        let models = [
            ("openai/gpt-4o-mini", 1.0),
            ("anthropic/claude-haiku-4-5", 2.0),
            ("ollama/*", 0.0),
            ("openai/e-3", 3.0),
        ];
        let models = models.map(|(name, input)| (name.to_owned(), price(input))).into();
        let prices = Prices { date: "2026-11-16".into(), models };
        let check = |model: &str, input: Option<f64>| {
            assert_eq!(prices.find(model).map(|price| price.input), input, "{model}");
        };
        check("openai/gpt-4o-mini", Some(1.0));
        check("openai/gpt-4o-mini-2024-07-18", Some(1.0));
        check("anthropic/claude-haiku-4-5-20251001", Some(2.0));
        check("openai/e-3@256", Some(3.0));
        check("ollama/qwen3:8b", Some(0.0));
        for unknown in
            ["openai/gpt-4o", "compatible/qwen3", "anthropic/claude-haiku-4", "", "-2024-07-18"]
        {
            check(unknown, None);
        }
    }

    #[test]
    fn money_is_counted_to_the_token() {
        let price = Price { input: 0.15, output: 0.6 };
        assert_eq!(price.of(Usage::for_call(1_000_000, 0)), Money::from_dollars(0.15));
        assert_eq!(price.of(Usage::for_call(1, 1)), Money(750));
        let call = SpendAmount::of(Usage::for_call(1000, 100), Some(price));
        assert_eq!(call.to_string(), "1 call, 1000 tokens in, 100 out, $0.000210");
        let unpriced_call = SpendAmount::of(Usage::for_call(10, 1), None);
        assert_eq!(unpriced_call.to_string(), "1 call, 10 tokens in, 1 out, price unknown");
        assert_eq!(
            (call + unpriced_call).to_string(),
            "2 calls, 1010 tokens in, 101 out, $0.000210 and 1 of unknown price"
        );
        assert_eq!(call + unpriced_call - unpriced_call, call);
    }
}
