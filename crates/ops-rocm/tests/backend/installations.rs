//! Installations of ROCm as packages, Python's wheels and distributions leave them, made of the stand-in's libraries.
use ops_core::Backend;
use ops_core::ops::MatMulMethods;
use ops_rocm::{Policy, Rocm, Survey, Version};
use standin_testing::with_standin;
use std::fs;
use std::path::{Path, PathBuf};

/// What an installation leaves. All paths are relative to a root that stands for `/`.
struct Installation {
    name: &'static str,
    /// The folder of HIP, hipRTC and comgr.
    runtime: &'static str,
    /// The folder of the other libraries, if they are installed.
    libraries: Option<&'static str>,
    /// Other files, with their text.
    files: &'static [(&'static str, &'static str)],
    /// Links, with the folder that they lead to.
    links: &'static [(&'static str, &'static str)],
    /// The environment: a variable and a list of paths.
    variable: (&'static str, &'static str),
    /// The version of ROCm that it says.
    version: Option<Version>,
}

const SITE_PACKAGES: &str = "venv/lib/python3.12/site-packages";

const INSTALLATIONS: [Installation; 10] = [
    Installation {
        name: "AMD's packages to 7.2",
        runtime: "opt/rocm-7.2.1/lib",
        libraries: Some("opt/rocm-7.2.1/lib"),
        files: &[("opt/rocm-7.2.1/.info/version", "7.2.1-43\n")],
        links: &[],
        variable: ("ROCM_PATH", "opt/rocm-7.2.1"),
        version: Some(Version::new(7, 2, 1)),
    },
    Installation {
        name: "AMD's packages from 7.14",
        runtime: "opt/rocm/core-10.1/lib",
        libraries: Some("opt/rocm/core-10.1/lib"),
        files: &[("opt/rocm/core-7.14/lib/README", "the remains of an older installation")],
        links: &[("opt/rocm/core-10.1/lib", "opt/rocm/lib"), ("opt/rocm/core-10.1", "opt/rocm/core-10")],
        variable: ("ROCM_PATH", "opt/rocm"),
        version: Some(Version::new(10, 1, 0)),
    },
    Installation {
        name: "AMD's package of the runtime alone",
        runtime: "opt/rocm/core-10.1/lib",
        libraries: None,
        files: &[],
        links: &[],
        variable: ("ROCM_PATH", "opt/rocm"),
        version: Some(Version::new(10, 1, 0)),
    },
    Installation {
        name: "wheels in an environment",
        runtime: "venv/lib/python3.12/site-packages/_rocm_sdk_core/lib",
        libraries: Some("venv/lib/python3.12/site-packages/_rocm_sdk_libraries/lib"),
        files: &[("venv/lib/python3.12/site-packages/rocm_sdk_core-10.0.0.dist-info/METADATA", "")],
        links: &[],
        variable: ("VIRTUAL_ENV", "venv"),
        version: Some(Version::new(10, 0, 0)),
    },
    Installation {
        name: "older wheels in a container",
        runtime: "venv/lib/python3.12/site-packages/_rocm_sdk_core/lib",
        libraries: Some("venv/lib/python3.12/site-packages/_rocm_sdk_libraries_gfx110X_all/lib"),
        files: &[("venv/lib/python3.12/site-packages/rocm_sdk_core-7.9.0rc1.dist-info/METADATA", "")],
        links: &[],
        variable: ("OPS_ROCM_PATH", SITE_PACKAGES),
        version: Some(Version::new(7, 9, 0)),
    },
    Installation {
        name: "conda",
        runtime: "conda/lib",
        libraries: Some("conda/lib"),
        files: &[],
        links: &[],
        variable: ("CONDA_PREFIX", "conda"),
        version: None,
    },
    Installation {
        name: "Debian and Ubuntu",
        runtime: "usr/lib/x86_64-linux-gnu",
        libraries: Some("usr/lib/x86_64-linux-gnu"),
        files: &[],
        links: &[],
        variable: ("LD_LIBRARY_PATH", "usr/lib/x86_64-linux-gnu"),
        version: None,
    },
    Installation {
        name: "Fedora",
        runtime: "usr/lib64",
        libraries: Some("usr/lib64"),
        files: &[],
        links: &[],
        variable: ("ROCM_PATH", "usr"),
        version: None,
    },
    Installation {
        name: "Arch",
        runtime: "opt/rocm/lib",
        libraries: Some("opt/rocm/lib"),
        files: &[("opt/rocm/.info/version", "7.2.0\n")],
        links: &[],
        variable: ("ROCM_PATH", "opt/rocm"),
        version: Some(Version::new(7, 2, 0)),
    },
    Installation {
        name: "Nix",
        runtime: "store/hip/lib",
        libraries: Some("store/rocm-libraries/lib"),
        files: &[],
        links: &[],
        variable: ("LD_LIBRARY_PATH", "store/hip/lib:store/rocm-libraries/lib"),
        version: None,
    },
];

impl Installation {
    /// Makes the installation below `root`.
    fn make(&self, root: &Path, standin: &Path) {
        _ = fs::remove_dir_all(root);
        let is_runtime =
            |name: &str| ["libamdhip64", "libhiprtc", "libamd_comgr"].iter().any(|lib| name.starts_with(lib));
        copy(standin, &root.join(self.runtime), &is_runtime);
        if let Some(libraries) = self.libraries {
            let is_library = |name: &str| !is_runtime(name) && name != "objects" && name != "lock";
            copy(standin, &root.join(libraries), &is_library);
        }
        for (file, text) in self.files {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        for (to, at) in self.links {
            std::os::unix::fs::symlink(root.join(to), root.join(at)).unwrap();
        }
    }

    /// Checks what is found, and runs an op.
    fn check(&self, root: &Path) {
        let survey = Survey::here();
        let file = |name: &str| {
            let library = survey.libraries.iter().find(|library| library.name == name).unwrap();
            library.found.clone().map(|(path, _)| fs::canonicalize(path).unwrap())
        };
        let name = self.name;
        assert_eq!(survey.rocm, self.version, "{name}");
        assert_eq!(file("HIP").unwrap(), root.join(self.runtime).join("libamdhip64.so.7"), "{name}");
        for (library, soname) in
            [("rocBLAS", "librocblas.so.5"), ("hipBLASLt", "libhipblaslt.so.1"), ("MIOpen", "libMIOpen.so.1")]
        {
            match self.libraries {
                Some(folder) => assert_eq!(file(library).unwrap(), root.join(folder).join(soname), "{name}"),
                None => assert!(file(library).unwrap_err().contains(soname), "{name}"),
            }
        }
        let policy = Policy::parse("matmul=rocblas,hip").unwrap();
        let rocm = Rocm::builder().policy(policy).build().unwrap();
        let (a, b) =
            (rocm.tensor(&[2, 3], &[1.0f32; 6]).unwrap(), rocm.tensor(&[3, 2], &[2.0f32; 6]).unwrap());
        let c = rocm.matmul(a.as_ref(), b.as_ref()).unwrap();
        assert_eq!(c.as_ref().to_vec(&rocm).unwrap(), [6.0; 4], "{name}");
        let decision = rocm.decisions().last().unwrap().to_string();
        let chosen = if self.libraries.is_some() { "rocblas: chosen" } else { "hip: chosen" };
        assert!(decision.contains(chosen), "{name}: {decision}");
    }
}

/// Copies a folder's entries whose names are wanted, with everything below them, as hard links where possible.
fn copy(from: &Path, to: &Path, wanted: &dyn Fn(&str) -> bool) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        if !wanted(&name.to_string_lossy()) {
            continue;
        }
        let (source, target) = (fs::canonicalize(entry.path()).unwrap(), to.join(&name));
        if source.is_dir() {
            copy(&source, &target, &|_| true);
        } else if fs::hard_link(&source, &target).is_err() {
            fs::copy(&source, &target).unwrap();
        }
    }
}

#[test]
fn every_kind_of_installation_is_found_and_runs_an_op() {
    const ROOT: &str = "OPS_TEST_ROOT";
    let test = "installations::every_kind_of_installation_is_found_and_runs_an_op";
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("installations");
    let in_child = std::env::var_os(ROOT).map(PathBuf::from);
    for (number, installation) in INSTALLATIONS.iter().enumerate() {
        let root = in_child.clone().unwrap_or_else(|| folder.join(number.to_string()));
        if in_child.is_some() && !root.ends_with(number.to_string()) {
            continue;
        }
        if let Some(standin) = standin_testing::folder().filter(|_| in_child.is_none()) {
            installation.make(&root, standin);
        }
        let (variable, list) = installation.variable;
        let paths =
            list.split(':').map(|path| root.join(path).display().to_string()).collect::<Vec<_>>().join(":");
        let root_text = root.display().to_string();
        let mut variables = vec![("OPS_ROCM_PATH", ""), (ROOT, &*root_text)];
        variables.retain(|(name, _)| *name != variable);
        variables.push((variable, &paths));
        with_standin(test, &variables, |_| installation.check(&fs::canonicalize(&root).unwrap()));
    }
}
