use super::*;
use crate::Version;
use standin_testing::Scratch;
use std::fs;

/// Folders and files of one installation.
struct Tree(Scratch);

impl Tree {
    fn new() -> Tree {
        Tree(Scratch::new())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    #[cfg(unix)]
    fn link(&self, to: &str, at: &str) {
        std::os::unix::fs::symlink(self.path(to), self.path(at)).unwrap();
    }

    /// The places of a search with these variables, whose values are relative to this tree, as text relative to it.
    fn places(&self, variables: &[(&str, &str)]) -> Vec<String> {
        let search = self.search(variables);
        search.folders.iter().map(|folder| self.relative(&folder.path)).collect()
    }

    fn search(&self, variables: &[(&str, &str)]) -> Search {
        let value = |name: &str| {
            let (_, list) = variables.iter().find(|(known, _)| *known == name)?;
            Some(std::env::join_paths(list.split(':').map(|path| self.path(path))).unwrap())
        };
        Search::from_parts(&value, &self.path("opt"))
    }

    fn relative(&self, path: &Path) -> String {
        let roots = [self.0.path().to_path_buf(), fs::canonicalize(self.0.path()).unwrap()];
        let below = roots.iter().find_map(|root| path.strip_prefix(root).ok());
        below.unwrap_or(path).display().to_string()
    }
}

#[test]
fn installations_are_sorted_by_version_and_not_by_name() {
    let tree = Tree::new();
    for name in ["rocm-6.4.1", "rocm-7.2", "rocm-7.10.0", "other"] {
        tree.folder(&format!("opt/{name}"));
    }
    assert_eq!(tree.places(&[]), ["opt/rocm-7.10.0", "opt/rocm-7.2", "opt/rocm-6.4.1"]);
}

#[test]
fn an_unnamed_version_is_read_from_the_installation() {
    let tree = Tree::new();
    tree.folder("opt/rocm-6.4.1");
    tree.file("opt/rocm/.info/version", "7.0.2-56\n");
    assert_eq!(tree.places(&[]), ["opt/rocm", "opt/rocm-6.4.1"]);
    tree.file("opt/rocm/.info/version", "6.3.0\n");
    assert_eq!(tree.places(&[]), ["opt/rocm-6.4.1", "opt/rocm"]);
}

#[test]
fn an_installation_without_a_version_may_be_the_newest() {
    let tree = Tree::new();
    tree.folder("opt/rocm-7.2.1/lib");
    tree.folder("opt/rocm/lib");
    assert_eq!(tree.places(&[]), ["opt/rocm/lib", "opt/rocm", "opt/rocm-7.2.1/lib", "opt/rocm-7.2.1"]);
}

#[cfg(unix)]
#[test]
fn a_link_to_an_installation_is_not_a_second_one() {
    let tree = Tree::new();
    tree.folder("opt/rocm-7.1.0");
    tree.link("opt/rocm-7.1.0", "opt/rocm");
    assert_eq!(tree.places(&[]), ["opt/rocm-7.1.0"]);
}

/// AMD's packages since 7.14, with all alternatives, beside the remains of an older installation.
#[cfg(unix)]
#[test]
fn cores_come_before_older_installations() {
    let tree = Tree::new();
    for core in ["core-7.14", "core-10.1", "core-10.0"] {
        tree.folder(&format!("opt/rocm/{core}/lib"));
    }
    tree.link("opt/rocm/core-10.1", "opt/rocm/core-10");
    tree.link("opt/rocm/core-10.1", "opt/rocm/core");
    tree.link("opt/rocm/core-10.1/lib", "opt/rocm/lib");
    tree.folder("opt/rocm-7.2.1/lib");
    let libraries: Vec<String> =
        tree.places(&[]).into_iter().filter(|place| place.ends_with("/lib")).collect();
    let expected =
        ["core-10.1/lib", "lib", "core-10.0/lib", "core-7.14/lib"].map(|name| format!("opt/rocm/{name}"));
    assert_eq!(libraries[..4], expected);
    assert_eq!(libraries[4..], ["opt/rocm-7.2.1/lib"]);
}

/// AMD's packages of the runtime alone make no links.
#[test]
fn a_core_is_found_without_links_and_below_a_variable() {
    let tree = Tree::new();
    tree.folder("opt/rocm/core-10.1/lib");
    assert_eq!(tree.places(&[]), ["opt/rocm", "opt/rocm/core-10.1/lib", "opt/rocm/core-10.1"]);
    tree.folder("elsewhere/core-9.9/lib");
    tree.folder("elsewhere/core-10.0/lib");
    let places = tree.places(&[("ROCM_PATH", "elsewhere")]);
    assert_eq!(places[..2], ["elsewhere/core-10.0/lib", "elsewhere/core-10.0"]);
}

#[test]
fn variables_come_before_installations_and_lib_before_the_root() {
    let tree = Tree::new();
    for folder in ["ops/lib64", "user", "home", "hip", "opt/rocm-7.2/lib"] {
        tree.folder(folder);
    }
    let variables =
        [("HIP_PATH", "hip"), ("OPS_ROCM_PATH", "ops"), ("ROCM_HOME", "home"), ("ROCM_PATH", "user")];
    let expected = ["ops/lib64", "ops", "user", "home", "hip", "opt/rocm-7.2/lib", "opt/rocm-7.2"];
    assert_eq!(tree.places(&variables), expected);
    let search = tree.search(&variables);
    assert!(search.system && search.folders[0].chosen && !search.folders[2].chosen);
}

#[test]
fn a_variable_may_be_a_list() {
    let tree = Tree::new();
    tree.folder("a/lib");
    tree.folder("b");
    assert_eq!(tree.places(&[("OPS_ROCM_PATH", "a:b")]), ["a/lib", "a", "b"]);
}

/// Debian and Fedora put ROCm's libraries among the system's.
#[test]
fn a_variable_may_name_the_systems_folders() {
    let tree = Tree::new();
    let architecture = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    tree.folder(&architecture);
    assert_eq!(tree.places(&[("ROCM_PATH", "usr")]), ["usr/lib", &architecture, "usr"]);
}

/// What `pip install rocm[libraries]` leaves.
fn python(tree: &Tree, site_packages: &str) -> Vec<String> {
    let packages = ["_rocm_sdk_core", "_rocm_sdk_devel", "_rocm_sdk_libraries_gfx110X_all"];
    let folders: Vec<String> = packages.iter().map(|name| format!("{site_packages}/{name}/lib")).collect();
    folders.iter().for_each(|folder| _ = tree.folder(folder));
    tree.folder(&format!("{site_packages}/rocm_sdk_core-7.13.0.dist-info"));
    folders
}

#[test]
fn python_packages_are_found_in_an_environment_and_from_any_of_their_folders() {
    let tree = Tree::new();
    let site_packages = "venv/lib/python3.12/site-packages";
    let packages = python(&tree, site_packages);
    assert_eq!(tree.places(&[("VIRTUAL_ENV", "venv")]), packages);
    assert_eq!(tree.places(&[("CONDA_PREFIX", "venv")])[..3], packages);
    let core = format!("{site_packages}/_rocm_sdk_core");
    for chosen in [site_packages, "venv", &core, &format!("{core}/lib")] {
        let places = tree.places(&[("OPS_ROCM_PATH", chosen)]);
        assert!(packages.iter().all(|package| places.contains(package)), "{chosen}: {places:?}");
    }
    let beside = Search::new().after([tree.path(&packages[0])]);
    let beside: Vec<String> = beside.folders.iter().map(|folder| tree.relative(&folder.path)).collect();
    assert_eq!(beside, packages);
}

#[test]
fn conda_has_libraries_in_its_own_folder() {
    let tree = Tree::new();
    tree.folder("conda/lib");
    assert_eq!(tree.places(&[("CONDA_PREFIX", "conda")]), ["conda/lib"]);
}

#[test]
fn every_installation_says_the_version_of_rocm() {
    let tree = Tree::new();
    python(&tree, "site-packages");
    tree.file("arch/rocm/.info/version", "7.2.0\n");
    for (library, version) in [
        ("opt/rocm-7.1.0/lib/libamdhip64.so.7", Some(Version::new(7, 1, 0))),
        ("opt/rocm/core-10.1/lib/libamdhip64.so.7", Some(Version::new(10, 1, 0))),
        ("arch/rocm/lib/libamdhip64.so.7", Some(Version::new(7, 2, 0))),
        ("site-packages/_rocm_sdk_core/lib/libamdhip64.so.7", Some(Version::new(7, 13, 0))),
        ("usr/lib/x86_64-linux-gnu/libamdhip64.so.6", None),
    ] {
        assert_eq!(rocm_version(&tree.file(library, "")), version, "{library}");
    }
}

#[test]
fn unset_and_empty_variables_are_noted() {
    let tree = Tree::new();
    let search = Search::from_parts(&|name| (name == "ROCM_PATH").then(OsString::new), &tree.path("opt"));
    assert!(search.folders.is_empty());
    assert_eq!(search.notes[..2], ["OPS_ROCM_PATH is not set", "ROCM_PATH is not set"]);
    assert!(search.notes.last().unwrap().starts_with("there is no "));
}

#[test]
fn a_variable_that_names_no_folder_is_noted() {
    let tree = Tree::new();
    let search = tree.search(&[("OPS_ROCM_PATH", "typo")]);
    assert!(search.notes[0].ends_with("typo, which is not a folder"), "{:?}", search.notes);
}
