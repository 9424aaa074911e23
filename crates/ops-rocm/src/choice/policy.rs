//! Which providers may compute an op, and in which order.
use crate::ProviderId;
use std::fmt;
use std::path::Path;

/// For each op an order of providers. Those that an op's order does not name may not compute it.
///
/// ```
/// # use ops_rocm::{Policy, ProviderId};
/// // Matrix products by this project's kernels only; softmax by MIOpen if it can.
/// let policy = Policy::parse("matmul=hip; softmax=miopen,hip")?;
/// assert_eq!(policy, Policy::new().order("matmul", ["hip"]).order("softmax", ["miopen", "hip"]));
/// # Ok::<(), ops_rocm::PolicyError>(())
/// ```
///
/// `*` is any op without an order of its own; names in it that an op lacks are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<(String, Vec<String>)>,
}

/// A policy that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// An order names a provider that the op does not have.
    #[error("policy: {op} has no provider {provider:?}; it has {has}")]
    NoSuchProvider {
        /// The op.
        op: String,
        /// The provider named.
        provider: String,
        /// The op's providers.
        has: String,
    },
    /// The text is no policy.
    #[error("policy: {text:?} is not OP=PROVIDER,PROVIDER; rules are separated by `;`, and `*` is any op")]
    Syntax {
        /// The part that cannot be read.
        text: String,
    },
    /// The file cannot be read, or is no policy.
    #[error("policy file {path}: {why}")]
    File {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
}

impl Policy {
    /// Every op in its default order.
    pub fn new() -> Self {
        Policy::default()
    }

    /// With this order for an op, in place of an earlier one. `*` is any op without an order of its own.
    pub fn order<P: ToString>(mut self, op: &str, providers: impl IntoIterator<Item = P>) -> Self {
        let providers = providers.into_iter().map(|provider| provider.to_string()).collect();
        self.rules.retain(|(named, _)| named != op);
        self.rules.push((op.to_string(), providers));
        self
    }

    /// Reads `op=provider,provider;op=..`, without a check of the names.
    pub(crate) fn read(text: &str) -> Result<Self, PolicyError> {
        let mut policy = Policy::new();
        for rule in text.split(';').map(str::trim).filter(|rule| !rule.is_empty()) {
            let bad = || PolicyError::Syntax { text: rule.to_string() };
            let (op, providers) = rule.split_once('=').ok_or_else(bad)?;
            let providers: Vec<&str> = providers.split(',').map(str::trim).collect();
            if op.trim().is_empty() || providers.contains(&"") {
                return Err(bad());
            }
            policy = policy.order(op.trim(), providers);
        }
        Ok(policy)
    }

    /// Reads a TOML file, without a check of the names.
    pub(crate) fn read_file(path: &Path) -> Result<Self, PolicyError> {
        let fail = |why: String| PolicyError::File { path: path.display().to_string(), why };
        let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| fail(error.to_string().trim().to_string()))?;
        let mut policy = Policy::new();
        for (op, value) in table {
            let names = match value {
                toml::Value::String(one) => Some(vec![one]),
                toml::Value::Array(list) => {
                    list.into_iter().map(|name| name.as_str().map(str::to_string)).collect()
                }
                _ => None,
            };
            let names = names
                .filter(|names| !names.is_empty())
                .ok_or_else(|| fail(format!("{op} wants a provider or a list of them, such as [\"hip\"]")))?;
            policy = policy.order(&op, names);
        }
        Ok(policy)
    }

    /// With the rules of another, which replace those for the same ops.
    pub fn with(self, other: Policy) -> Self {
        other.rules.into_iter().fold(self, |policy, (op, providers)| policy.order(&op, providers))
    }

    /// The ops that have an order, `*` among them.
    pub(crate) fn ops(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|(op, _)| op.as_str())
    }

    /// Whether no op has an order.
    pub fn is_default(&self) -> bool {
        self.rules.is_empty()
    }

    /// Checks the order of one op against the providers that it has.
    pub(crate) fn check_names(&self, op: &str, has: &[ProviderId]) -> Result<(), PolicyError> {
        let Some((_, named)) = self.rules.iter().find(|(rule, _)| rule == op) else { return Ok(()) };
        match named.iter().find(|name| !has.iter().any(|id| id.name() == **name)) {
            None => Ok(()),
            Some(provider) => Err(PolicyError::NoSuchProvider {
                op: if op == "*" { "any op".to_string() } else { op.to_string() },
                provider: provider.clone(),
                has: has.iter().map(|id| id.name()).collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// The places of an op's providers in the order in which they are asked, and those that are forbidden.
    pub(crate) fn rank(&self, op: &str, has: &[ProviderId]) -> (Vec<usize>, Vec<usize>) {
        let rule = |name: &str| self.rules.iter().find(|(rule, _)| rule == name).map(|(_, order)| order);
        let Some(order) = rule(op).or_else(|| rule("*")) else {
            return ((0..has.len()).collect(), Vec::new());
        };
        let place = |name: &String| has.iter().position(|id| id.name() == name.as_str());
        let mut ranked: Vec<usize> = Vec::new();
        for at in order.iter().filter_map(place) {
            if !ranked.contains(&at) {
                ranked.push(at);
            }
        }
        let forbidden = (0..has.len()).filter(|at| !ranked.contains(at)).collect();
        (ranked, forbidden)
    }
}

impl fmt::Display for Policy {
    /// As [`parse`](Policy::parse) reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<String> =
            self.rules.iter().map(|(op, providers)| format!("{op}={}", providers.join(","))).collect();
        f.write_str(&rules.join(";"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [ProviderId; 2] = [ProviderId::ROCBLAS, ProviderId::HIP];

    #[test]
    fn an_order_ranks_and_forbids() {
        let rank = |text: &str, op| Policy::read(text).unwrap().rank(op, &ALL);
        assert_eq!(rank("", "matmul"), (vec![0, 1], vec![]));
        assert_eq!(rank("matmul=hip,rocblas", "matmul"), (vec![1, 0], vec![]));
        assert_eq!(rank("matmul = hip ;", "matmul"), (vec![1], vec![0]));
        assert_eq!(rank("matmul=hip", "linear"), (vec![0, 1], vec![]));
        assert_eq!(rank("*=hip;matmul=rocblas", "linear"), (vec![1], vec![0]));
        assert_eq!(rank("*=hip;matmul=rocblas", "matmul"), (vec![0], vec![1]));
        assert_eq!(
            rank("*=miopen,hip", "matmul"),
            (vec![1], vec![0]),
            "a name that the op lacks is passed over"
        );
        assert_eq!(rank("*=miopen", "matmul"), (vec![], vec![0, 1]));
        assert_eq!(rank("matmul=hip,hip", "matmul"), (vec![1], vec![0]));
    }

    #[test]
    fn text_that_is_no_policy_is_refused() {
        for text in ["matmul", "=hip", "matmul=", "matmul=hip,,rocblas", "matmul=hip,"] {
            assert!(matches!(Policy::read(text), Err(PolicyError::Syntax { .. })), "{text:?}");
        }
    }

    #[test]
    fn later_rules_replace_earlier_ones() {
        let policy = Policy::new().order("matmul", ["rocblas"]).with(Policy::new().order("matmul", ["hip"]));
        assert_eq!(policy.to_string(), "matmul=hip");
    }
}
