//! Selects the target whose code runs on a device.
use crate::hip::Gfx;

/// The target whose code to load on a device of architecture `gfx`: its own rather than its generic one, and
/// among those that name features (`:xnack+`), the one that names the most. A target that leaves a feature
/// open runs with either setting; one that names it runs only on devices that report the same.
pub(crate) fn select<'t>(targets: impl IntoIterator<Item = &'t str>, gfx: &Gfx) -> Option<&'t str> {
    let rank = |target: &str| {
        let (name, features) = parts(target);
        let own = name == gfx.name();
        let fits = own || Some(name) == gfx.generic();
        let device: Vec<&str> = parts(gfx.full()).1.collect();
        let features: Vec<&str> = features.collect();
        (fits && features.iter().all(|f| device.contains(f))).then_some((own, features.len()))
    };
    let ranked = targets.into_iter().filter_map(|target| Some((rank(target)?, target)));
    ranked.max_by_key(|(rank, _)| *rank).map(|(_, target)| target)
}

fn parts(target: &str) -> (&str, impl Iterator<Item = &str>) {
    let mut parts = target.split(':');
    (parts.next().unwrap_or_default(), parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen<'t>(targets: &[&'t str], device: &str) -> Option<&'t str> {
        select(targets.iter().copied(), &Gfx::parse(device).unwrap())
    }

    #[test]
    fn its_own_target_comes_before_its_generic_one() {
        let targets = ["gfx11-generic", "gfx1100", "gfx12-generic", "gfx942"];
        assert_eq!(chosen(&targets, "gfx1100"), Some("gfx1100"));
        assert_eq!(chosen(&targets, "gfx1103"), Some("gfx11-generic"));
        assert_eq!(chosen(&targets, "gfx1200"), Some("gfx12-generic"));
        assert_eq!(chosen(&targets, "gfx1030"), None);
        assert_eq!(chosen(&[], "gfx1100"), None);
    }

    #[test]
    fn what_a_device_reports_of_itself_does_not_hide_its_target() {
        let targets = ["gfx90a", "gfx942", "gfx9-generic"];
        assert_eq!(chosen(&targets, "gfx90a:sramecc+:xnack-"), Some("gfx90a"));
        assert_eq!(chosen(&targets, "gfx906:sramecc+:xnack-"), Some("gfx9-generic"));
        assert_eq!(chosen(&targets, "gfx908:sramecc+:xnack-"), None, "gfx9-generic does not cover it");
    }

    #[test]
    fn code_for_a_feature_runs_where_the_device_has_it_so() {
        let both = ["gfx90a:xnack+", "gfx90a:xnack-"];
        assert_eq!(chosen(&both, "gfx90a:sramecc+:xnack-"), Some("gfx90a:xnack-"));
        assert_eq!(chosen(&both, "gfx90a:sramecc+:xnack+"), Some("gfx90a:xnack+"));
        assert_eq!(chosen(&both, "gfx90a"), None, "the device does not say");
        let more = ["gfx90a", "gfx90a:xnack-", "gfx90a:sramecc-:xnack-"];
        assert_eq!(chosen(&more, "gfx90a:sramecc+:xnack-"), Some("gfx90a:xnack-"), "the closest");
        assert_eq!(chosen(&more, "gfx90a:sramecc+:xnack+"), Some("gfx90a"));
        assert_eq!(chosen(&["gfx9-generic:xnack+"], "gfx906:xnack-"), None);
    }

    #[test]
    fn a_name_that_only_begins_alike_is_another() {
        assert_eq!(chosen(&["gfx110"], "gfx1100"), None);
        assert_eq!(chosen(&["gfx1100"], "gfx1101"), None);
    }
}
