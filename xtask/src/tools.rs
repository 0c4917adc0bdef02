//! Builds the real programs that tests and measurements start, once from source, then cached.
//!
//! ```text
//! tests/e2e/tools/<module>/go.mod, go.sum     pins, committed
//! bench/oracle/go.mod, go.sum, *.go           pins and our own source
//!           │  go build, readonly
//!           ▼
//! <cache>/tools/<program>-<version>-<key>/<program>
//! ```
//!
//! The key is a hash of everything that decides the result (pins, source, flags, platform), so a
//! changed pin builds a new program in addition to the old one, and a cached program never has to
//! be checked.
//!
//! Invariant: a program is in the cache completely or not at all (it is renamed into place), and
//! only one process builds at a time (a lock file), so parallel test binaries may all call it.
//!
//! To move to another version: change the pins in the module's `go.mod`, run `go mod tidy` there,
//! and change the recipe here.
//!
//! To add a program: a pinned module under `tests/e2e/tools` if it has none yet, a variant of
//! [`Tool`] and its recipe. A kind of source other than Go becomes a sibling of `go` that
//! [`Toolbox::ensure`] chooses by recipe.

mod go;
#[cfg(test)]
mod tests;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::host;
use crate::host::Stopwatch;

/// A program that tests may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Etcd,
    KubeApiserver,
    KubeControllerManager,
    KubeScheduler,
    Kubectl,
    /// Prints the shapes of Kubernetes' kinds (`tests/e2e/tools/kubernetes/shapes`).
    Shapes,
    /// Upstream's decision code around a snapshot, for comparing and measuring (`bench/oracle`).
    Oracle,
    /// Upstream's controller with its KWOK provider, for measuring.
    UpstreamKwok,
}

/// How a program is made.
struct Recipe {
    name: &'static str,
    version: &'static str,
    /// Folder of the pinned Go module in the checkout.
    module: &'static str,
    package: &'static str,
    ldflags: &'static str,
    /// What `GOTOOLCHAIN` is, if not [`go::ENV`]'s `local`.
    toolchain: Option<&'static str>,
    /// How long the build takes on two cores, for the progress line.
    build_time: &'static str,
}

/// The prefix of a package that is a program of our own, whose source also enters the key.
const OWN_PACKAGE_PREFIX: &str = ".";

const UPSTREAM: &str = "sigs.k8s.io/karpenter";
const UPSTREAM_KWOK: &str = "sigs.k8s.io/karpenter/kwok";

const KUBERNETES: Recipe = Recipe {
    name: "",
    version: "v1.36.3",
    module: "tests/e2e/tools/kubernetes",
    package: "",
    // Without a version kubectl cannot parse what the server, or it itself, calls itself.
    ldflags: "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3",
    toolchain: None,
    build_time: "20 seconds",
};

impl Tool {
    /// What the end-to-end tests start, in the order in which they are best built: what the next
    /// one shares comes first.
    pub const ALL: [Self; 5] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kubectl,
    ];

    /// The name of the program, which is also its file name.
    pub fn name(self) -> &'static str {
        self.recipe().name
    }

    /// The version that is pinned.
    pub fn version(self) -> &'static str {
        self.recipe().version
    }

    #[rustfmt::skip]
    fn recipe(self) -> Recipe {
        match self {
            Self::Etcd => Recipe {
                name: "etcd", version: "v3.6.7", module: "tests/e2e/tools/etcd",
                package: "go.etcd.io/etcd/server/v3", ldflags: "-s -w", toolchain: None,
                build_time: "1 minute",
            },
            Self::KubeApiserver => Recipe {
                name: "kube-apiserver", package: "k8s.io/kubernetes/cmd/kube-apiserver",
                build_time: "4 minutes", ..KUBERNETES
            },
            Self::KubeControllerManager => Recipe {
                name: "kube-controller-manager", package: "k8s.io/kubernetes/cmd/kube-controller-manager",
                build_time: "1 minute", ..KUBERNETES
            },
            Self::KubeScheduler => Recipe {
                name: "kube-scheduler", package: "k8s.io/kubernetes/cmd/kube-scheduler", ..KUBERNETES
            },
            Self::Kubectl => Recipe {
                name: "kubectl", package: "k8s.io/kubernetes/cmd/kubectl",
                build_time: "1 minute", ..KUBERNETES
            },
            Self::Shapes => Recipe {
                name: "shapes", package: "./shapes", build_time: "1 minute", ..KUBERNETES
            },
            // Upstream requires a newer Go than most have; Go brings it as a module.
            Self::Oracle => Recipe {
                name: "oracle", version: "v1.15.0", module: "bench/oracle",
                package: OWN_PACKAGE_PREFIX, ldflags: "-s -w", toolchain: Some("auto"), build_time: "2 minutes",
            },
            Self::UpstreamKwok => Recipe {
                name: "upstream-kwok", package: UPSTREAM_KWOK, ..Self::Oracle.recipe()
            },
        }
    }
}

/// Where programs are built from and kept.
#[derive(Debug, Clone)]
pub struct Toolbox {
    /// Holds one folder per program and version.
    cache: PathBuf,
    /// The checkout with the pinned Go modules.
    checkout: PathBuf,
    /// The Go command.
    go: PathBuf,
    /// Prints a line of progress.
    print_progress: fn(&str),
}

impl Toolbox {
    /// The pins of this checkout and the user's cache.
    pub fn from_env() -> Result<Self> {
        Ok(Self {
            cache: host::cache_dir()?.join("tools"),
            checkout: host::repo().to_owned(),
            go: "go".into(),
            print_progress: host::note,
        })
    }

    /// The path of `tool`, which is built if it is not in the cache. May take minutes.
    pub fn ensure(&self, tool: Tool) -> Result<PathBuf> {
        let recipe = tool.recipe();
        let path = self.cached_path(&recipe)?;
        if path.exists() {
            return Ok(path);
        }
        let _lock = self.lock()?;
        if path.exists() {
            return Ok(path); // the last holder of the lock has built it
        }
        self.build(&recipe, &path)?;
        Ok(path)
    }

    /// The folder of upstream's sources, of the version that is built here.
    pub fn upstream_source(&self) -> Result<PathBuf> {
        let recipe = Tool::UpstreamKwok.recipe();
        go::module_sources(&self.go_module(&recipe), &self.cache.join("go"), UPSTREAM)
    }

    /// Every tool and its path.
    pub fn ensure_all(&self) -> Result<Vec<(Tool, PathBuf)>> {
        Tool::ALL.into_iter().map(|tool| Ok((tool, self.ensure(tool)?))).collect()
    }

    /// Returns why [`Self::ensure_all`] cannot work here, if so. A complete cache needs no Go.
    pub fn check_can_build(&self) -> Result<()> {
        for tool in Tool::ALL {
            let recipe = tool.recipe();
            if !self.cached_path(&recipe)?.exists() {
                go::check_go_version(&self.go_module(&recipe), &label(&recipe))?;
            }
        }
        Ok(())
    }

    fn go_module(&self, recipe: &Recipe) -> go::GoModule<'_> {
        go::GoModule {
            go: &self.go,
            module: self.module_folder(recipe),
            toolchain: recipe.toolchain,
        }
    }

    fn module_folder(&self, recipe: &Recipe) -> PathBuf {
        self.checkout.join(recipe.module)
    }

    fn cached_path(&self, recipe: &Recipe) -> Result<PathBuf> {
        let key = self.cache_key(recipe)?;
        Ok(self
            .cache
            .join(format!("{}-{}-{key:016x}", recipe.name, recipe.version))
            .join(recipe.name))
    }

    /// Hashes all that decides the build, except Go's own version: a rebuild of everything for each
    /// patch release of Go would cost too much.
    fn cache_key(&self, recipe: &Recipe) -> Result<u64> {
        let mut hash = Fnv::new();
        for part in [recipe.name, recipe.version, recipe.package, recipe.ldflags] {
            hash.add(part.as_bytes());
        }
        for flag in go::FLAGS {
            hash.add(flag.as_bytes());
        }
        for (name, value) in go::ENV {
            hash.add(name.as_bytes());
            hash.add(value.as_bytes());
        }
        hash.add(std::env::consts::OS.as_bytes());
        hash.add(std::env::consts::ARCH.as_bytes());
        if let Some(toolchain) = recipe.toolchain {
            hash.add(toolchain.as_bytes());
        }
        let module = self.module_folder(recipe);
        let mut files = vec![module.join("go.mod"), module.join("go.sum")];
        if recipe.package.starts_with(OWN_PACKAGE_PREFIX) {
            files.extend(go_files(&module.join(recipe.package))?);
        }
        for path in files {
            hash.add(&fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
        }
        Ok(hash.0)
    }

    /// Taken by the process that builds. The system releases it if that process dies.
    fn lock(&self) -> Result<File> {
        let path = self.cache.join("lock");
        fs::create_dir_all(&self.cache)
            .with_context(|| format!("cannot make {}", self.cache.display()))?;
        let lock =
            File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => {
                (self.print_progress)("waiting for another process that builds test tools…");
            }
            Err(TryLockError::Error(error)) => return Err(error).context("cannot lock the cache"),
        }
        lock.lock().context("cannot lock the cache")?;
        Ok(lock)
    }

    fn build(&self, recipe: &Recipe, path: &Path) -> Result<()> {
        let (label, source) = (label(recipe), self.go_module(recipe));
        go::check_go_version(&source, &label)?;
        (self.print_progress)(&format!(
            "building {label} (first time only, about {})…",
            recipe.build_time
        ));
        let watch = Stopwatch::start();
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        // We hold the lock, so an unfinished file of that name is a dead process's leftover.
        let unfinished = path.with_extension("unfinished");
        let spare = self.cache.join("go");
        go::build(&source, &spare, recipe.ldflags, recipe.package, &unfinished)
            .with_context(|| format!("cannot build {label}"))?;
        fs::rename(&unfinished, path)?;
        (self.print_progress)(&format!("built {label} in {:.0} s", watch.elapsed().as_secs_f64()));
        Ok(())
    }
}

/// Returns the Go files of a module, in name order.
fn go_files(module: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(module).with_context(|| format!("cannot read {}", module.display()))?;
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .filter(|path| !path.as_ref().is_ok_and(|path| path.extension().is_none_or(|e| e != "go")))
        .collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

fn label(recipe: &Recipe) -> String {
    format!("{} {}", recipe.name, recipe.version)
}

/// FNV-1a, which stays the same over Rust releases (std's hasher does not promise that) and is
/// all that telling a few versions apart takes.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds `bytes` and a separator, so that "ab" + "c" is not "a" + "bc".
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&[0xff]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
