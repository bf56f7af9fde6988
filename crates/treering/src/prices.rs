//! Prices of models: the built-in table, overridden by the user's own prices.

use std::collections::BTreeMap;

use serde::Deserialize;
use treering_core::Invalid;
use treering_core::quota::Quota;
use treering_core::spend::{Caps, Price, Prices};
use treering_engine::SpendLimits;

/// List prices, without discounts for caching or batches.
const TABLE: &str = include_str!("../prices.json");

/// Spending caps, and prices that the built-in table lacks or that differ from it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpendOptions {
    /// The spending caps.
    pub caps: Caps,
    /// The user's own prices, by `PROVIDER/MODEL`.
    pub prices: BTreeMap<String, Price>,
}

#[derive(Deserialize)]
struct PriceTable {
    date: String,
    /// The prices of input and output tokens.
    models: BTreeMap<String, [f64; 2]>,
}

/// Combines the caps, the prices and the quotas.
pub(crate) fn spend_limits(
    options: SpendOptions,
    quotas: BTreeMap<String, Quota>,
) -> Result<SpendLimits, Invalid> {
    let table: PriceTable = serde_json::from_str(TABLE)
        .map_err(|error| Invalid::new("price table", error.to_string()))?;
    let listed =
        table.models.into_iter().map(|(name, [input, output])| (name, Price { input, output }));
    let models = listed.chain(options.prices).collect();
    Ok(SpendLimits { caps: options.caps, prices: Prices { date: table.date, models }, quotas })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_dated_and_custom_prices_override_it() {
        let custom = Price { input: 9.0, output: 9.0 };
        let prices =
            [("openai/gpt-6-luna".to_owned(), custom), ("compatible/*".to_owned(), custom)].into();
        let prices =
            spend_limits(SpendOptions { prices, ..SpendOptions::default() }, BTreeMap::new())
                .unwrap()
                .prices;
        assert_eq!(prices.date.len(), "2026-11-16".len());
        assert_eq!(prices.find("openai/gpt-6-luna"), Some(custom));
        assert_eq!(prices.find("compatible/qwen3"), Some(custom));
        assert_eq!(prices.find("openai/text-embedding-3-small").unwrap().output, 0.0);
        assert_eq!(prices.find("openai/who-knows"), None);
        for example in [
            "anthropic/claude-haiku-5-5",
            "gemini/gemini-3.5-flash-lite",
            "gemini/gemini-embedding-2",
        ] {
            assert!(prices.find(example).is_some(), "{example}, which the docs name");
        }
        let providers = crate::models::PROVIDERS.map(|(name, ..)| name);
        for (model, price) in &prices.models {
            let provider = model.split('/').next().unwrap();
            assert!(
                providers.contains(&provider) && price.input >= 0.0 && price.output >= 0.0,
                "{model}"
            );
        }
    }
}
