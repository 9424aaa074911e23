//! Whether a family's kernels for AMD GPUs are still those that were measured.
use ops_kernels::{Family, MaxVgprs, instances, source, target};

/// A number that changes with a family's code for AMD GPUs and its register bounds, but not with comments,
/// white space or code for other machines.
pub(super) fn fingerprint(family: Family) -> String {
    let bounds =
        instances().iter().filter(|k| k.family == family).filter(|k| k.max_vgprs != MaxVgprs::default());
    let bounds = bounds.map(|k| (&k.symbol, k.max_vgprs));
    let code = for_amd(&source::unit(family, []));
    hash(&format!("{code}\n{:?}", bounds.collect::<Vec<_>>()))
}

/// The same for everything that a family's code objects depend on, including its instances and the compiler's flags.
pub(super) fn of_sources(family: Family) -> String {
    let of_family = || instances().iter().filter(|k| k.family == family);
    let bounds: Vec<_> = of_family().map(|k| (&k.symbol, k.max_vgprs)).collect();
    let flags = target::recorded().into_iter().filter_map(source::clang_options).collect::<Vec<_>>();
    hash(&format!("{}\n{bounds:?}\n{flags:?}", for_amd(&source::source(family))))
}

/// FNV-1a of everything except white space.
fn hash(text: &str) -> String {
    let bytes = text.bytes().filter(|b| !b.is_ascii_whitespace());
    format!("{:08x}", bytes.fold(0x811c_9dc5u32, |hash, b| (hash ^ u32::from(b)).wrapping_mul(0x0100_0193)))
}

/// The value of a preprocessor condition on AMD; `None` if it depends on more than the machine.
fn on_amd(condition: &str) -> Option<bool> {
    match condition.trim() {
        "defined(OPS_AMD)" | "defined(__HIP__) || defined(__HIPCC_RTC__)" | "!defined(OPS_HOST)" => {
            Some(true)
        }
        "defined(OPS_CUDA)" | "defined(__CUDACC__)" | "defined(OPS_HOST)" | "!defined(OPS_AMD)" => {
            Some(false)
        }
        _ => None,
    }
}

/// An `#if` up to its `#endif`.
struct Chain {
    /// Whether the lines of the current branch count.
    taken: bool,
    /// Whether an earlier branch is known to be taken.
    decided: bool,
    /// Whether a condition so far depends on more than the machine, so that directives are kept.
    open: bool,
}

/// The lines that AMD's compilers see, without comments. Conditions that depend on more than the machine are
/// kept.
fn for_amd(text: &str) -> String {
    let mut out = String::new();
    let mut chains: Vec<Chain> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with("#line")) {
        let line = line.split("//").next().unwrap_or(line);
        let directive = line.trim_start();
        let outside = |chains: &[Chain]| chains.iter().rev().skip(1).all(|chain| chain.taken);
        let shown = if let Some(condition) = directive.strip_prefix("#if ") {
            let known = on_amd(condition);
            let (taken, decided) = (known != Some(false), known == Some(true));
            chains.push(Chain { taken, decided, open: known.is_none() });
            known.is_none() && outside(&chains)
        } else if directive.starts_with("#ifdef") || directive.starts_with("#ifndef") {
            chains.push(Chain { taken: true, decided: false, open: true });
            outside(&chains)
        } else if let Some(chain) = chains.last_mut()
            && (directive.starts_with("#elif ") || directive.starts_with("#else"))
        {
            let known = directive.strip_prefix("#elif ").map_or(Some(true), on_amd);
            chain.taken = !chain.decided && known != Some(false);
            chain.decided |= known == Some(true);
            chain.open |= known.is_none() && chain.taken;
            chain.open && chain.taken && outside(&chains)
        } else if directive.starts_with("#endif") {
            let shown = outside(&chains);
            chains.pop().is_some_and(|chain| chain.open) && shown
        } else {
            chains.iter().all(|chain| chain.taken)
        };
        if shown {
            out += line;
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_for_other_machines_does_not_count() {
        let both = "a\n#if defined(OPS_CUDA)\nb\n#else\nc // why\n#endif\nd";
        assert_eq!(for_amd(both), "a\nc \nd\n");
        assert_eq!(for_amd("#if defined(OPS_AMD)\na\n#elif defined(OPS_CUDA)\nb\n#else\nc\n#endif"), "a\n");
        assert_eq!(for_amd("#if defined(OPS_HOST)\n#if X\na\n#endif\n#endif\nb"), "b\n");
    }

    #[test]
    fn other_conditions_stay() {
        let target = "#if defined(OPS_AMD) && X\na\n#elif defined(OPS_CUDA)\nb\n#else\nc\n#endif";
        assert_eq!(for_amd(target), "#if defined(OPS_AMD) && X\na\n#else\nc\n#endif\n");
        let either = "#if X\na\n#elif defined(OPS_AMD)\nb\n#else\nc\n#endif";
        assert_eq!(for_amd(either), "#if X\na\n#elif defined(OPS_AMD)\nb\n#endif\n");
        assert_eq!(for_amd("#ifndef X\n#define X\n#endif"), "#ifndef X\n#define X\n#endif\n");
        assert_eq!(for_amd("#if X\n#if defined(OPS_CUDA)\na\n#endif\nb\n#endif"), "#if X\nb\n#endif\n");
    }

    #[test]
    fn the_hash_ignores_white_space_only() {
        assert_eq!(hash("a b"), hash("a\n  b"));
        assert_ne!(hash("a b"), hash("a c"));
    }
}
