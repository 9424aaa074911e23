//! Reading policies, checking the names in them against the lists of providers.
use super::{known, providers_of};
use crate::ProviderId;
use crate::choice::{Policy, PolicyError};
use std::path::Path;

impl Policy {
    /// From text, `op=provider,provider;op[condition,condition]=..`.
    ///
    /// # Errors
    /// [`PolicyError`]: the text is no policy, or an op lacks a provider that is named for it.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let policy = Policy::read(text)?;
        policy.check()?;
        Ok(policy)
    }

    /// From a TOML file: `matmul = ["rocblas", "hip"]`, `softmax = "hip"`, `"linear[rows<=8]" = "hip"`, `"*" = [..]`.
    ///
    /// # Errors
    /// [`PolicyError`]: the file cannot be read, is no policy, or an op lacks a provider that is named for it.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, PolicyError> {
        let policy = Policy::read_file(path.as_ref())?;
        policy.check()?;
        Ok(policy)
    }

    /// The value of `OPS_ROCM_POLICY`: rules, or the path of a `.toml` file.
    ///
    /// # Errors
    /// As [`parse`](Self::parse) and [`from_file`](Self::from_file).
    pub fn from_env() -> Result<Self, PolicyError> {
        match std::env::var("OPS_ROCM_POLICY") {
            Ok(path) if path.trim().ends_with(".toml") => Policy::from_file(path.trim()),
            Ok(text) => Policy::parse(&text),
            Err(_) => Ok(Policy::new()),
        }
    }

    /// Checks the names of providers for the ops of this crate. Names for other ops are checked when the op runs.
    ///
    /// # Errors
    /// [`PolicyError::NoSuchProvider`].
    pub fn check(&self) -> Result<(), PolicyError> {
        for op in self.ops() {
            if op == "*" {
                self.check_names("*", &known())?;
            } else if let Some(has) = providers_of(op).or_else(|| providers_of_collective(op)) {
                self.check_names(op, &has)?;
            }
        }
        Ok(())
    }

    /// Warns about rules for ops that this crate does not compute: they may be for another crate's ops, or
    /// misspelt.
    pub(crate) fn warn_of_unknown_ops(&self) {
        let known =
            |op: &str| op == "*" || providers_of(op).is_some() || providers_of_collective(op).is_some();
        for op in self.ops().filter(|op| !known(op)) {
            tracing::warn!(op, "the policy names an op that this crate does not compute");
        }
    }
}

/// The providers of a collective of which a policy can choose one.
fn providers_of_collective(name: &str) -> Option<Vec<ProviderId>> {
    ["all_reduce", "all_gather"].contains(&name).then(|| vec![ProviderId::HIP, ProviderId::RCCL])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_that_the_op_lacks_is_an_error_that_lists_those_it_has() {
        let error = Policy::parse("matmul=miopen").unwrap_err().to_string();
        assert_eq!(error, "policy: matmul has no provider \"miopen\"; it has hipblaslt, rocblas, hip");
        let error = Policy::parse("*=cublas").unwrap_err().to_string();
        assert!(
            error.contains("any op has no provider \"cublas\"; it has hip, rocblas, hipblaslt, miopen"),
            "{error}"
        );
        assert!(Policy::parse("op_of_another_crate=theirs").is_ok());
    }

    #[test]
    fn files_say_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        let rules = "matmul = [\"hip\", \"rocblas\"]\n\"linear[rows<=8]\" = \"rocblas\"\n\"*\" = \"hip\"\n";
        std::fs::write(&path, rules).unwrap();
        let mut read: Vec<String> =
            Policy::from_file(&path).unwrap().to_string().split(';').map(String::from).collect();
        read.sort();
        assert_eq!(read, ["*=hip", "linear[rows<=8]=rocblas", "matmul=hip,rocblas"]);
        for bad in [
            "matmul = 3",
            "matmul = []",
            "matmul = [\"hip\", 2]",
            "matmul = [",
            "matmul = \"miopen\"",
            "\"linear[rows<=8\" = \"hip\"",
            "\"linear[rows]\" = \"hip\"",
        ] {
            std::fs::write(&path, bad).unwrap();
            assert!(Policy::from_file(&path).is_err(), "{bad}");
        }
        assert!(matches!(Policy::from_file(&path), Err(PolicyError::File { .. })));
    }
}
