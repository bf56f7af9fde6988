//! What models cost: the table that comes with the program, and prices of one's own over it.

use std::collections::BTreeMap;

use serde::Deserialize;
use treering_core::Invalid;
use treering_core::quota::Quota;
use treering_core::spend::{Caps, Price, Prices};
use treering_engine::SpendLimits;

/// List prices, without discounts for caches or batches.
const TABLE: &str = include_str!("../prices.json");

/// What may be spent on models, and what they cost where the table does not know it or knows another price.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpendOptions {
    /// The caps.
    pub caps: Caps,
    /// Prices of one's own, by provider and model.
    pub prices: BTreeMap<String, Price>,
}

#[derive(Deserialize)]
struct PriceTable {
    date: String,
    /// What is read, and what is written.
    models: BTreeMap<String, [f64; 2]>,
}

/// The caps, the prices of the table with one's own over them, and the quotas.
pub(crate) fn settings(
    options: SpendOptions,
    quotas: BTreeMap<String, Quota>,
) -> Result<SpendLimits, Invalid> {
    let table: PriceTable = serde_json::from_str(TABLE)
        .map_err(|error| Invalid::new("table of prices", error.to_string()))?;
    let listed =
        table.models.into_iter().map(|(name, [input, output])| (name, Price { input, output }));
    let models = listed.chain(options.prices).collect();
    Ok(SpendLimits { caps: options.caps, prices: Prices { date: table.date, models }, quotas })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_dated_and_ones_own_prices_prevail() {
        let own = Price { input: 9.0, output: 9.0 };
        let prices =
            [("openai/gpt-6-luna".to_owned(), own), ("compatible/*".to_owned(), own)].into();
        let prices = settings(SpendOptions { prices, ..SpendOptions::default() }, BTreeMap::new())
            .unwrap()
            .prices;
        assert_eq!(prices.date.len(), "2026-11-16".len());
        assert_eq!(prices.find("openai/gpt-6-luna"), Some(own));
        assert_eq!(prices.find("compatible/qwen3"), Some(own));
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
