//! The parameters of a policy as they are in force, each with its origin.

use std::fmt;

use crate::error::Invalid;
use crate::node::Level;
use crate::parameters::Assignment;
use crate::policy::{GroupPolicy, Policy, Preset, SealPolicy, SummaryLength};

/// A parameter in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterInForce<O> {
    /// The name, with a level where the levels differ. The highest level listed holds above it too.
    pub name: String,
    /// The value, as it would be assigned.
    pub value: String,
    /// The origin of the value.
    pub origin: ParameterOrigin<O>,
}

/// The origin of a parameter's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterOrigin<O> {
    /// A preset, and where it was chosen.
    Preset(Preset, O),
    /// An assignment of its own.
    Set(O),
}

impl<O: fmt::Display> fmt::Display for ParameterOrigin<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preset(preset, chosen) => write!(f, "preset {preset} ({chosen})"),
            Self::Set(set) => write!(f, "{set}"),
        }
    }
}

/// Reads the value of a group's parameter.
type GroupValue = fn(&GroupPolicy) -> String;

/// Every parameter of the policy that results from a preset and layers of assignments, each layer
/// over the one before.
pub fn parameters_in_force<O: Clone>(
    (preset, chosen): (Preset, O),
    layers: &[(O, &[Assignment])],
) -> Result<Vec<ParameterInForce<O>>, Invalid> {
    let mut policy = Policy::from(preset);
    let of_preset = ParameterOrigin::Preset(preset, chosen);
    let mut known: Vec<ParameterInForce<O>> = Vec::new();
    for (name, value) in policy.parameters() {
        known.push(ParameterInForce { name, value, origin: of_preset.clone() });
    }
    for (layer, assignments) in layers {
        let presets = assignments.iter().filter(|it| it.preset().is_some());
        let others = assignments.iter().filter(|it| it.preset().is_none());
        for assignment in presets.chain(others) {
            assignment.apply(&mut policy)?;
            let origin = match assignment.preset() {
                Some(preset) => ParameterOrigin::Preset(preset, layer.clone()),
                None => ParameterOrigin::Set(layer.clone()),
            };
            let before = std::mem::take(&mut known);
            for (name, value) in policy.parameters() {
                let earlier = earlier(&before, &name);
                let is_set =
                    assignment.sets(&name) || earlier.is_none_or(|earlier| earlier.value != value);
                let origin = match earlier {
                    Some(earlier) if !is_set => earlier.origin.clone(),
                    _ => origin.clone(),
                };
                known.push(ParameterInForce { name, value, origin });
            }
        }
    }
    Ok(known)
}

/// The earlier state of a parameter, which may have been the same at every level.
fn earlier<'a, O>(
    before: &'a [ParameterInForce<O>],
    name: &str,
) -> Option<&'a ParameterInForce<O>> {
    let own = |it: &&ParameterInForce<O>| it.name == name;
    let base = name.split('@').next().unwrap_or_default();
    let of_all = |it: &&ParameterInForce<O>| it.name.split('@').next() == Some(base);
    before.iter().find(own).or_else(|| before.iter().rfind(of_all))
}

impl Policy {
    /// Every parameter and its value, in the order of the documentation. A parameter that differs
    /// between levels is listed for each.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        let window = &self.window;
        let one = |name: &str, value: String| (name.to_owned(), value);
        let mut list = vec![
            one("enabled", self.enabled.to_string()),
            one("regenerate_on_edit", self.regenerate_on_edit.to_string()),
            one("window_chars", limit(window.window_chars)),
        ];
        let mut wiggles = vec![window.wiggle];
        wiggles.extend(self.groups.iter().map(|group| group.wiggle));
        list.extend(by_level("wiggle", 1, &wiggles, ToString::to_string));
        list.extend([
            one("min_flush_chars", window.min_flush_chars.to_string()),
            one("flush_after", duration(window.flush_after_ms)),
            one("overlap_chars", window.overlap_chars.to_string()),
            one("seal_policy", window.seal_policy.to_string()),
            one("ensure_assistant", window.ensure_assistant.to_string()),
            one("messages", limit(window.messages)),
            one("tokens", limit(window.tokens)),
            one("age", duration(window.age_ms)),
            one("turns", limit(window.turns)),
            one("chars", limit(window.chars)),
            one("min_turns", window.min_turns.to_string()),
            one("keep_recent_turns", window.keep_recent_turns.to_string()),
        ]);
        let groups: [(&str, GroupValue); 7] = [
            ("group_chars", |group| limit(group.group_chars)),
            ("group_children", |group| limit(group.children)),
            ("group_tokens", |group| limit(group.tokens)),
            ("group_messages", |group| limit(group.messages)),
            ("group_limit", |group| limit(group.chars)),
            ("raw_chars", |group| limit(group.raw_chars)),
            ("min_children", |group| group.min_children.to_string()),
        ];
        for (name, value) in groups {
            list.extend(by_level(name, 2, &self.groups, value));
        }
        list.extend(by_level("length", 1, &self.lengths, ToString::to_string));
        list.push(one("top_length", self.top_length.to_string()));
        list.extend(by_level("strategy", 1, &self.strategies, ToString::to_string));
        let is_ratio = |length: &SummaryLength| matches!(length, SummaryLength::Keep(_));
        list.push(one("ratio_only", self.lengths.iter().all(is_ratio).to_string()));
        list.push(one("deduplicate", self.deduplicate.to_string()));
        list
    }
}

/// The values of a parameter from the level `first` up: one if they are all the same.
fn by_level<T>(
    name: &str,
    first: usize,
    values: &[T],
    value: impl Fn(&T) -> String,
) -> Vec<(String, String)> {
    let values: Vec<String> = values.iter().map(value).collect();
    match values.as_slice() {
        [same, rest @ ..] if rest.iter().all(|other| other == same) => {
            vec![(name.to_owned(), same.clone())]
        }
        _ => {
            let levels = values.into_iter().zip(first..);
            levels.map(|(value, level)| (format!("{name}@{level}"), value)).collect()
        }
    }
}

fn limit(value: Option<u32>) -> String {
    value.map_or_else(|| "off".to_owned(), |value| value.to_string())
}

fn duration(ms: Option<u64>) -> String {
    let Some(ms) = ms else { return "off".to_owned() };
    let units = [(3_600_000, "h"), (60_000, "min"), (1000, "s")];
    let exact = units.into_iter().find(|(unit, _)| ms > 0 && ms % unit == 0);
    exact.map_or_else(|| format!("{ms} ms"), |(unit, name)| format!("{} {name}", ms / unit))
}

impl fmt::Display for SealPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chars => "chars",
            Self::Time => "time",
            Self::Hybrid => "hybrid",
        })
    }
}

/// The level in the name of a parameter.
pub(crate) fn level_of(name: &str) -> Option<Level> {
    name.split_once('@').and_then(|(_, level)| level.parse().ok()).and_then(Level::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_force(layers: &[(&'static str, &[&str])]) -> Vec<ParameterInForce<&'static str>> {
        let layers: Vec<(&str, Vec<Assignment>)> = layers
            .iter()
            .map(|(name, texts)| (*name, texts.iter().map(|text| text.parse().unwrap()).collect()))
            .collect();
        let layers: Vec<_> = layers.iter().map(|(name, set)| (*name, set.as_slice())).collect();
        parameters_in_force((Preset::Window, "default"), &layers).unwrap()
    }

    fn origin(all: &[ParameterInForce<&str>], name: &str) -> String {
        let it = all.iter().find(|it| it.name == name).unwrap_or_else(|| panic!("{name}: {all:?}"));
        format!("{} from {}", it.value, it.origin)
    }

    #[test]
    fn every_parameter_has_a_value_and_an_origin() {
        let all = in_force(&[]);
        for (name, _) in crate::PARAMETERS {
            let is_it = |it: &&ParameterInForce<&str>| it.name.split('@').next() == Some(*name);
            assert!(all.iter().any(|it| is_it(&it)), "{name}");
        }
        assert_eq!(origin(&all, "window_chars"), "6000 from preset window (default)");
        assert_eq!(origin(&all, "flush_after"), "20 min from preset window (default)");
        assert_eq!(origin(&all, "length@2"), "0.1 from preset window (default)");
    }

    #[test]
    fn the_last_layer_that_sets_a_parameter_is_its_origin() {
        let all = in_force(&[
            ("file", &["window_chars=6000", "group_chars@3=20000"]),
            ("conversation", &["wiggle=0.1"]),
        ]);
        assert_eq!(origin(&all, "window_chars"), "6000 from file", "although it is the default");
        assert_eq!(origin(&all, "group_chars@2"), "10000 from preset window (default)");
        assert_eq!(origin(&all, "group_chars@3"), "20000 from file");
        assert_eq!(origin(&all, "wiggle"), "0.1 from conversation");
        let all =
            in_force(&[("file", &["window_chars=4000"]), ("conversation", &["preset=turns"])]);
        assert_eq!(origin(&all, "window_chars"), "off from preset turns (conversation)");
    }

    #[test]
    fn the_values_in_force_give_the_same_policy_again() {
        for preset in Preset::ALL {
            let policy = Policy::from(preset);
            let own = policy.parameters().into_iter().filter(|(name, _)| name != "ratio_only");
            let assignments: Vec<Assignment> =
                own.map(|(name, value)| format!("{name}={value}").parse().unwrap()).collect();
            assert_eq!(
                Policy::default().with(&assignments).unwrap().parameters(),
                policy.parameters()
            );
        }
    }
}
