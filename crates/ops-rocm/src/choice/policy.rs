//! Which providers may compute an op, and in which order.
use super::condition::Conditions;
use super::error::PolicyError;
use crate::ProviderId;
use ops_core::{Determinism, Operands};
use std::fmt;
use std::path::Path;

/// An order of providers for each op. Providers that an op's order does not name may not compute it.
///
/// ```
/// # use rocm_ops::rocm::{Policy, ProviderId};
/// // Matrix products by this project's kernels only; softmax by MIOpen if it can.
/// let policy = Policy::parse("matmul=hip; softmax=miopen,hip")?;
/// assert_eq!(policy, Policy::new().order("matmul", ["hip"]).order("softmax", ["miopen", "hip"]));
/// # Ok::<(), rocm_ops::rocm::PolicyError>(())
/// ```
///
/// `*` is any op without its own order; names that such an op lacks are ignored.
///
/// # Conditions on shape
///
/// Conditions in brackets limit a rule to some problems. They compare `rows` (the product of all axes of the
/// op's first operand but the last) or `columns` (its last axis) with a number, with `<=`, `<`, `>=`, `>` or
/// `=`; all must hold.
///
/// ```
/// # use rocm_ops::rocm::{Policy, ProviderId};
/// let policy = Policy::parse("linear[rows<=4]=hip; linear[rows>4,columns>=8192]=rocblas,hip")?;
/// assert_eq!(policy.to_string(), "linear[rows<=4]=hip;linear[rows>4,columns>=8192]=rocblas,hip");
/// let error = Policy::parse("linear[row<=4]=hip").unwrap_err().to_string();
/// assert!(error.contains(r#""row<=4" is not a condition"#), "{error}");
/// # Ok::<(), rocm_ops::rocm::PolicyError>(())
/// ```
///
/// # Determinism
///
/// `determinism=batch` requires at least this level for every call; providers that guarantee less may not
/// compute it.
///
/// ```
/// # use rocm_ops::rocm::Policy;
/// # use rocm_ops::Determinism;
/// let policy = Policy::parse("determinism=batch; linear=hip")?;
/// assert_eq!(policy, Policy::new().order("linear", ["hip"]).at_least(Determinism::Batch));
/// assert_eq!(policy.to_string(), "determinism=batch;linear=hip");
/// # Ok::<(), rocm_ops::rocm::PolicyError>(())
/// ```
///
/// The op's first rule whose conditions hold is used, otherwise its rule without conditions, otherwise a rule
/// of `*`, found in the same way. If no rule applies, the default order does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
    least: Determinism,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    op: String,
    conditions: Conditions,
    providers: Vec<String>,
}

/// Stands for an op in the rule that requires a level of determinism.
const DETERMINISM: &str = "determinism";

/// The indices of an op's providers in the order of a rule, and of those that the rule forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranking {
    pub(crate) ranked: Vec<usize>,
    pub(crate) forbidden: Vec<usize>,
}

impl Policy {
    /// Leaves every op in its default order.
    pub fn new() -> Self {
        Policy::default()
    }

    /// Sets the order for an op, replacing an earlier one. `*` is any op without its own order.
    pub fn order<P: ToString>(self, op: &str, providers: impl IntoIterator<Item = P>) -> Self {
        self.rule(op, Conditions::default(), providers)
    }

    /// Sets the order for problems of an op that meet conditions, such as `rows<=8`.
    ///
    /// # Errors
    /// [`PolicyError::Condition`].
    pub fn order_where<P: ToString>(
        self,
        op: &str,
        conditions: &str,
        providers: impl IntoIterator<Item = P>,
    ) -> Result<Self, PolicyError> {
        Ok(self.rule(op, Conditions::parse(conditions)?, providers))
    }

    /// Requires at least this level of determinism for every call, or the earlier one if that is higher.
    pub fn at_least(self, determinism: Determinism) -> Self {
        Policy { least: self.least.max(determinism), ..self }
    }
    /// The level of determinism required for every call.
    pub fn least(&self) -> Determinism {
        self.least
    }
    fn at_least_named(self, name: &str) -> Result<Self, PolicyError> {
        Ok(self.at_least(name.parse().map_err(PolicyError::Determinism)?))
    }

    fn rule<P: ToString>(
        mut self,
        op: &str,
        conditions: Conditions,
        providers: impl IntoIterator<Item = P>,
    ) -> Self {
        let providers = providers.into_iter().map(|provider| provider.to_string()).collect();
        self.rules.retain(|rule| rule.op != op || rule.conditions != conditions);
        self.rules.push(Rule { op: op.to_string(), conditions, providers });
        self
    }

    /// Reads `op=provider,provider;op[condition]=..`, without checking the names.
    pub(crate) fn read(text: &str) -> Result<Self, PolicyError> {
        let mut policy = Policy::new();
        for rule in text.split(';').map(str::trim).filter(|rule| !rule.is_empty()) {
            let bad = || PolicyError::Syntax { text: rule.to_string() };
            let (head, providers) = split(rule).ok_or_else(bad)?;
            if head.trim() == DETERMINISM {
                policy = policy.at_least_named(providers.trim())?;
                continue;
            }
            let (op, conditions) = read_head(head)?.ok_or_else(bad)?;
            let providers: Vec<&str> = providers.split(',').map(str::trim).collect();
            if providers.contains(&"") {
                return Err(bad());
            }
            policy = policy.rule(op, conditions, providers);
        }
        Ok(policy)
    }

    /// Reads a TOML file, without checking the names.
    pub(crate) fn read_file(path: &Path) -> Result<Self, PolicyError> {
        let fail = |why: String| PolicyError::File { path: path.display().to_string(), why };
        let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| fail(error.to_string().trim().to_string()))?;
        let mut policy = Policy::new();
        for (head, value) in table {
            if let (DETERMINISM, Some(level)) = (head.as_str(), value.as_str()) {
                policy = policy.at_least_named(level).map_err(|error| fail(error.to_string()))?;
                continue;
            }
            let names = match value {
                toml::Value::String(one) => Some(vec![one]),
                toml::Value::Array(list) => {
                    list.into_iter().map(|name| name.as_str().map(str::to_string)).collect()
                }
                _ => None,
            };
            let names = names.filter(|names| !names.is_empty()).ok_or_else(|| {
                fail(format!("{head} must be a provider or a list of them, such as [\"hip\"]"))
            })?;
            let (op, conditions) = read_head(&head)
                .map_err(|error| fail(error.to_string()))?
                .ok_or_else(|| fail(format!("{head:?} is not OP or OP[CONDITION,CONDITION]")))?;
            policy = policy.rule(op, conditions, names);
        }
        Ok(policy)
    }

    /// Adds another policy's rules, which replace all rules for the same ops.
    pub fn with(mut self, other: Policy) -> Self {
        self.rules.retain(|rule| other.rules.iter().all(|new| new.op != rule.op));
        self.rules.extend(other.rules);
        self.least = self.least.max(other.least);
        self
    }

    /// The ops that have an order, `*` among them.
    pub(crate) fn ops(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.op.as_str())
    }

    /// The order for a call that is not an op, whatever its shape; rules of `*` do not apply.
    pub(crate) fn order_of(&self, name: &str) -> Option<&[String]> {
        let rule = self.rules.iter().find(|rule| rule.op == name && rule.conditions.is_empty())?;
        Some(&rule.providers)
    }

    /// Whether no op has an order, regardless of the required determinism.
    pub fn is_default(&self) -> bool {
        self.rules.is_empty()
    }

    /// Checks the orders of one op against its providers.
    pub(crate) fn check_names(&self, op: &str, has: &[ProviderId]) -> Result<(), PolicyError> {
        let mut named = self.rules.iter().filter(|rule| rule.op == op).flat_map(|rule| &rule.providers);
        match named.find(|name| !has.iter().any(|id| id.name() == **name)) {
            None => Ok(()),
            Some(provider) => Err(PolicyError::NoSuchProvider {
                op: if op == "*" { "any op".to_string() } else { op.to_string() },
                provider: provider.clone(),
                has: has.iter().map(|id| id.name()).collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// The providers of an op in the order of the rule for this problem; `None` if there is no rule for it.
    pub(crate) fn rank(&self, op: &str, has: &[ProviderId], on: &dyn Operands) -> Option<Ranking> {
        let Rule { providers, .. } = self.rule_for(op, on).or_else(|| self.rule_for("*", on))?;
        let place = |name: &String| has.iter().position(|id| id.name() == name.as_str());
        let mut ranked: Vec<usize> = Vec::new();
        for at in providers.iter().filter_map(place) {
            if !ranked.contains(&at) {
                ranked.push(at);
            }
        }
        let forbidden = (0..has.len()).filter(|at| !ranked.contains(at)).collect();
        Some(Ranking { ranked, forbidden })
    }

    fn rule_for(&self, op: &str, on: &dyn Operands) -> Option<&Rule> {
        let mut with_conditions =
            self.rules.iter().filter(|rule| rule.op == op && !rule.conditions.is_empty());
        let without = || self.rules.iter().find(|rule| rule.op == op && rule.conditions.is_empty());
        with_conditions.find(|rule| rule.conditions.hold(on)).or_else(without)
    }
}

/// Splits a rule at the `=` that follows its op and the brackets.
fn split(rule: &str) -> Option<(&str, &str)> {
    let sign = rule.find('=')?;
    let from = match rule.find('[') {
        Some(open) if open < sign => rule.find(']')?,
        _ => sign,
    };
    let at = from + rule[from..].find('=')?;
    Some((&rule[..at], &rule[at + 1..]))
}

/// Reads `op` or `op[condition,condition]`; `None` for anything else.
fn read_head(text: &str) -> Result<Option<(&str, Conditions)>, PolicyError> {
    let text = text.trim();
    let (op, conditions) = match text.split_once('[') {
        None => (text, Conditions::default()),
        Some((op, rest)) => match rest.strip_suffix(']') {
            Some(conditions) => (op.trim(), Conditions::parse(conditions)?),
            None => return Ok(None),
        },
    };
    Ok((!op.is_empty() && !op.contains(']')).then_some((op, conditions)))
}

impl fmt::Display for Policy {
    /// In the form that [`parse`](Policy::parse) reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule =
            |Rule { op, conditions, providers }: &Rule| format!("{op}{conditions}={}", providers.join(","));
        let least = (self.least > Determinism::Run).then(|| format!("{DETERMINISM}={}", self.least));
        let rules: Vec<String> = least.into_iter().chain(self.rules.iter().map(rule)).collect();
        f.write_str(&rules.join(";"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::condition::tests::Shaped;
    use super::*;

    const ALL: [ProviderId; 2] = [ProviderId::ROCBLAS, ProviderId::HIP];

    fn rank(text: &str, op: &str, rows: usize) -> Option<(Vec<usize>, Vec<usize>)> {
        let ranking = Policy::read(text).unwrap().rank(op, &ALL, &Shaped::new(&[rows, 4]))?;
        Some((ranking.ranked, ranking.forbidden))
    }

    #[test]
    fn an_order_ranks_and_forbids() {
        let rank = |text: &str, op| rank(text, op, 1);
        assert_eq!(rank("", "matmul"), None);
        assert_eq!(rank("matmul=hip,rocblas", "matmul"), Some((vec![1, 0], vec![])));
        assert_eq!(rank("matmul = hip ;", "matmul"), Some((vec![1], vec![0])));
        assert_eq!(rank("matmul=hip", "linear"), None);
        assert_eq!(rank("*=hip;matmul=rocblas", "linear"), Some((vec![1], vec![0])));
        assert_eq!(rank("*=hip;matmul=rocblas", "matmul"), Some((vec![0], vec![1])));
        assert_eq!(
            rank("*=miopen,hip", "matmul"),
            Some((vec![1], vec![0])),
            "a name that the op lacks is ignored"
        );
        assert_eq!(rank("*=miopen", "matmul"), Some((vec![], vec![0, 1])));
        assert_eq!(rank("matmul=hip,hip", "matmul"), Some((vec![1], vec![0])));
    }

    #[test]
    fn a_rule_with_conditions_applies_where_they_hold() {
        let first = |text: &str, rows| rank(text, "linear", rows).map(|(ranked, _)| ranked[0]);
        assert_eq!([4, 5].map(|rows| first("linear[rows<=4]=hip", rows)), [Some(1), None]);
        let both = "linear=rocblas;linear [ rows<=4 ] = hip";
        assert_eq!([4, 5].map(|rows| first(both, rows)), [Some(1), Some(0)], "in any order");
        let two = "linear[rows<=4]=hip;linear[rows<=8]=rocblas";
        assert_eq!([4, 8, 9].map(|rows| first(two, rows)), [Some(1), Some(0), None], "the first that holds");
        let any = "*[rows<=4]=hip;*=rocblas";
        assert_eq!([4, 5].map(|rows| first(any, rows)), [Some(1), Some(0)]);
        assert_eq!(first("*[rows<=4]=hip;linear=rocblas", 4), Some(0), "an op's own rule comes first");
    }

    #[test]
    fn text_that_is_no_policy_is_refused() {
        for text in [
            "matmul",
            "=hip",
            "matmul=",
            "matmul=hip,,rocblas",
            "matmul=hip,",
            "linear[rows<=8=hip",
            "linear[rows<=8]",
            "linear[rows<=8]x=hip",
            "linear]=hip",
            "[rows<=8]=hip",
        ] {
            assert!(matches!(Policy::read(text), Err(PolicyError::Syntax { .. })), "{text:?}");
        }
        for text in ["linear[]=hip", "linear[row<=8]=hip", "linear[rows<=8,]=hip", "linear[rows]=hip"] {
            assert!(matches!(Policy::read(text), Err(PolicyError::Condition { .. })), "{text:?}");
        }
    }

    #[test]
    fn later_rules_replace_earlier_ones() {
        let policy = Policy::new().order("matmul", ["rocblas"]).with(Policy::new().order("matmul", ["hip"]));
        assert_eq!(policy.to_string(), "matmul=hip");
        let policy = Policy::read("linear[rows<=8]=hip;linear[rows<=9]=hip;linear[rows<=8]=rocblas").unwrap();
        assert_eq!(policy.to_string(), "linear[rows<=9]=hip;linear[rows<=8]=rocblas");
        let code = Policy::new().order_where("linear", "rows<=8", ["hip"]).unwrap();
        let replaced = code.with(Policy::read("linear=rocblas").unwrap());
        assert_eq!(replaced.to_string(), "linear=rocblas", "another policy replaces all rules of an op");
    }
}
