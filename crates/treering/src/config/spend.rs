//! Settings of spending caps and prices.

use std::collections::BTreeMap;

use confique::Config;
use serde::Deserialize;
use treering_core::spend::{Cap, Caps, Money, Price};

use crate::SpendOptions;

/// Spending caps for remote models. Beyond a cap, summaries use the extractive fallback until
/// `treering update` asks the model again, and nothing is embedded.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct SpendSettings {
    /// Maximum number of input and output tokens per day (UTC); 0 for no limit.
    #[config(env = "TREERING_SPEND_DAY_TOKENS", default = 0)]
    pub day_tokens: u64,

    /// Maximum US dollars per day (UTC); 0 for no limit. Models without a known price do not
    /// count.
    #[config(env = "TREERING_SPEND_DAY_DOLLARS", default = 0.0, validate = are_dollars)]
    pub day_dollars: f64,

    /// Maximum number of tokens per conversation; 0 for no limit.
    #[config(env = "TREERING_SPEND_CONVERSATION_TOKENS", default = 0)]
    pub conversation_tokens: u64,

    /// Maximum US dollars per conversation; 0 for no limit.
    #[config(env = "TREERING_SPEND_CONVERSATION_DOLLARS", default = 0.0, validate = are_dollars)]
    pub conversation_dollars: f64,

    /// Maximum number of tokens for the tenant in total; 0 for no limit.
    #[config(env = "TREERING_SPEND_TENANT_TOKENS", default = 0)]
    pub tenant_tokens: u64,

    /// Maximum US dollars for the tenant in total; 0 for no limit.
    #[config(env = "TREERING_SPEND_TENANT_DOLLARS", default = 0.0, validate = are_dollars)]
    pub tenant_dollars: f64,

    /// Prices in US dollars per million tokens that the built-in table lacks or that differ
    /// from it, such as `"openai/gpt-6-luna" = { input = 0.1, output = 0.5 }` or
    /// `"compatible/*" = { input = 0, output = 0 }`.
    #[config(default = {}, validate = are_prices)]
    pub prices: BTreeMap<String, PriceSetting>,
}

/// The price of a million tokens of a model.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceSetting {
    /// The price of input tokens.
    pub input: f64,
    /// The price of output tokens.
    #[serde(default)]
    pub output: f64,
}

impl From<&SpendSettings> for SpendOptions {
    fn from(settings: &SpendSettings) -> Self {
        let cap = |tokens: u64, dollars: f64| Cap {
            tokens: Some(tokens).filter(|tokens| *tokens > 0),
            money: Some(Money::from_dollars(dollars)).filter(|money| money.0 > 0),
        };
        let price = |(name, price): (&String, &PriceSetting)| {
            (name.clone(), Price { input: price.input, output: price.output })
        };
        Self {
            caps: Caps {
                tenant: cap(settings.tenant_tokens, settings.tenant_dollars),
                conversation: cap(settings.conversation_tokens, settings.conversation_dollars),
                day: cap(settings.day_tokens, settings.day_dollars),
            },
            prices: settings.prices.iter().map(price).collect(),
        }
    }
}

fn are_dollars(dollars: &f64) -> Result<(), String> {
    match dollars.is_finite() && (0.0..1e9).contains(dollars) {
        true => Ok(()),
        false => Err(format!("{dollars} is not an amount in dollars, 0 or more")),
    }
}

fn are_prices(prices: &BTreeMap<String, PriceSetting>) -> Result<(), String> {
    let is_price = |price: f64| price.is_finite() && (0.0..1e6).contains(&price);
    let invalid = prices.iter().find(|(name, price)| {
        !name.contains('/') || !is_price(price.input) || !is_price(price.output)
    });
    match invalid {
        None => Ok(()),
        Some((name, _)) => Err(format!(
            "the price of {name:?} is invalid: expected PROVIDER/MODEL and dollars per million tokens, 0 or more"
        )),
    }
}
