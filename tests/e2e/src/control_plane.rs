//! Starts the control plane, waits until it is ready, and creates clients for it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use kube::{Client, Config};
use xtask::tools::{Tool, Toolbox};

use crate::audit::{self, AuditedRequest};
use crate::component::Component;
use crate::credentials::Credentials;
use crate::flags::{self, Ports};
use crate::kubectl::{self, KubectlOutput};
use crate::objects::Objects;
use crate::wait;

/// The start limit on a slow host under load; a failing program is noticed at once.
const START_LIMIT: Duration = Duration::from_secs(90);

/// How long one request to a starting program may take before a retry.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// How often a start is retried because another process took a free port.
const PORT_ATTEMPTS: u32 = 5;

const API_SERVER: &str = "kube-apiserver";

/// The programs that run in addition to etcd and kube-apiserver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// What kube-controller-manager runs (its flag `--controllers`), if it runs. `*` makes service
    /// accounts, collects garbage, takes the not-ready taint off nodes, and so on.
    pub controllers: Option<&'static str>,
    /// Binds pods to nodes.
    pub scheduler: bool,
}

impl Parts {
    /// The API alone: objects are stored and checked, and nothing happens to them.
    pub const API: Self = Self { controllers: None, scheduler: false };
    /// The API and the controllers that remove objects: all else stays as written.
    pub const API_AND_GARBAGE_COLLECTION: Self = Self {
        controllers: Some("garbage-collector-controller,namespace-controller"),
        scheduler: false,
    };
    /// Everything but kubelets.
    pub const ALL: Self = Self { controllers: Some("*"), scheduler: true };

    /// Every namespace gets a service account for its pods.
    fn service_accounts(self) -> bool {
        self.controllers == Some("*")
    }
}

/// A running control plane. Dropping it stops what it started and removes its files.
#[derive(Debug)]
pub struct ControlPlane {
    components: Vec<Component>,
    credentials: Credentials,
    url: String,
    kubeconfig: PathBuf,
    kubectl: PathBuf,
    dir: PathBuf,
    /// The command that starts its API server again.
    api_server_command: (PathBuf, Vec<String>),
    api_port: u16,
    /// Last, so that it is dropped last.
    _sweeper: Component,
}

impl ControlPlane {
    /// Starts etcd and kube-apiserver.
    pub async fn start() -> Result<Self> {
        Self::start_with(Parts::API).await
    }

    /// Starts etcd, kube-apiserver and `parts`. The first time, this builds them, too.
    pub async fn start_with(parts: Parts) -> Result<Self> {
        let programs = tokio::task::spawn_blocking(Programs::ensure_built).await??;
        let mut attempt = 1;
        loop {
            match Self::try_start(&programs, parts, free_ports()?).await {
                Err(error) if error.is::<PortTaken>() && attempt < PORT_ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }

    async fn try_start(programs: &Programs, parts: Parts, free: Ports) -> Result<Self> {
        // Tokens of an administrator are in there.
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let dir =
            tempfile::Builder::new().prefix("karpenter-e2e-").permissions(private).tempdir()?;
        let dir = dir.keep();
        let sweeper = Component::sweeper(&dir)?;
        let credentials = Credentials::generate(&dir)?;
        let url = format!("https://127.0.0.1:{}", free.api);
        let args = flags::apiserver(&dir, &credentials, free, parts.service_accounts());
        let mut plane = Self {
            components: Vec::new(),
            api_server_command: (programs.apiserver.clone(), args.clone()),
            api_port: free.api,
            kubeconfig: credentials.write_kubeconfig(&credentials.admin, &url)?,
            kubectl: programs.kubectl.clone(),
            credentials,
            url,
            dir,
            _sweeper: sweeper,
        };
        plane.spawn("etcd", &programs.etcd, &flags::etcd(&plane.dir, free))?;
        plane.spawn(API_SERVER, &programs.apiserver, &args)?;
        plane.wait_for_api_server().await?;

        if let Some(controllers) = parts.controllers {
            let credentials = &plane.credentials;
            let config =
                credentials.write_kubeconfig(&credentials.controller_manager, &plane.url)?;
            let args = flags::controller_manager(&config, credentials, free, controllers);
            plane.spawn("kube-controller-manager", &programs.controller_manager, &args)?;
        }
        if parts.scheduler {
            let credentials = &plane.credentials;
            let config = credentials.write_kubeconfig(&credentials.scheduler, &plane.url)?;
            let args = flags::scheduler(&config, credentials, free);
            plane.spawn("kube-scheduler", &programs.scheduler, &args)?;
        }
        if parts.controllers.is_some() {
            plane.wait_for_health("kube-controller-manager", free.controller_manager).await?;
        }
        if parts.scheduler {
            plane.wait_for_health("kube-scheduler", free.scheduler).await?;
        }
        Ok(plane)
    }

    /// A client of an administrator.
    ///
    /// Make one in each test: its connections belong to the runtime of the test that made it.
    pub fn client(&self) -> Result<Client> {
        self.client_with_token(&self.credentials.admin.token)
    }

    /// Returns an administrator's client that returns every response, without retries.
    pub fn client_without_retries(&self) -> Result<Client> {
        let mut config = self.config(&self.url, &self.credentials.admin.token)?;
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    /// Returns a client of a known user without any permission of its own.
    pub fn client_without_permissions(&self) -> Result<Client> {
        self.client_with_token(&self.credentials.unprivileged.token)
    }

    /// A client with a token of your own, such as a service account's.
    pub fn client_with_token(&self, token: &str) -> Result<Client> {
        self.client_for(&self.url, token)
    }

    /// Creates and changes objects from plain manifests, as an administrator.
    pub fn objects(&self) -> Result<Objects> {
        Ok(Objects::new(self.client()?))
    }

    /// Runs the kubectl of the same version as an administrator; `stdin` is for `-f -`.
    pub async fn kubectl(&self, args: &[&str], stdin: Option<&str>) -> Result<KubectlOutput> {
        kubectl::run(&self.kubectl, &self.kubeconfig, &self.dir, args, stdin).await
    }

    /// Applies CRDs (one or more YAML documents) and waits until the API server serves them.
    /// Returns their names as `kind/name`.
    pub async fn apply_crds(&self, yaml: &str) -> Result<Vec<String>> {
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-", "-o", "name"];
        let applied = self.kubectl(&apply, Some(yaml)).await?.into_stdout()?;
        let names: Vec<_> = applied.lines().map(str::to_owned).collect();
        let mut wait = vec!["wait", "--for=condition=Established", "--timeout=30s"];
        wait.extend(names.iter().map(String::as_str));
        self.kubectl(&wait, None).await?.into_stdout()?;
        for name in &names {
            self.wait_until_discoverable(name).await?;
        }
        Ok(names)
    }

    /// Waits until discovery and OpenAPI have the kinds of a CRD. Established kinds are served at
    /// once, but discovery and OpenAPI, which kubectl reads first, follow a moment later.
    async fn wait_until_discoverable(&self, crd: &str) -> Result<()> {
        let path = "jsonpath={.spec.group} {.spec.versions[0].name} {.spec.names.plural}";
        let kind = self.kubectl(&["get", crd, "-o", path], None).await?.into_stdout()?;
        let [group, version, plural] = kind.split(' ').collect::<Vec<_>>()[..] else {
            bail!("{crd} is no CRD: {kind}");
        };
        let (api, own) = (format!("apis/{group}/{version}"), format!("/{plural}"));
        let described = format!("/openapi/v3/{api}");
        let discovery = format!("/{api}");
        wait::until(&format!("{crd} is described"), START_LIMIT, async || {
            let pages = [described.as_str(), discovery.as_str()];
            for (page, text) in pages.into_iter().zip([own.as_str(), plural]) {
                let page = self.kubectl(&["get", "--raw", page], None).await?;
                if !page.status.success() || !page.stdout.contains(text) {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await
    }

    /// A kubeconfig file of an administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns a kubeconfig file of the product, whose requests are audited: see
    /// [`Self::audited_requests`].
    pub fn product_kubeconfig(&self) -> Result<PathBuf> {
        self.credentials.write_kubeconfig(&self.credentials.product, &self.url)
    }

    /// The same for a product that comes by another port of loopback.
    pub fn product_kubeconfig_by_port(&self, port: u16) -> Result<PathBuf> {
        let (url, name) = (format!("https://127.0.0.1:{port}"), format!("port-{port}"));
        self.credentials.write_kubeconfig_as(&name, &self.credentials.product, &url)
    }

    /// Returns the product's requests so far; of watches, those that have ended.
    pub fn audited_requests(&self) -> Result<Vec<AuditedRequest>> {
        audit::read_audit_log(&self.credentials.audit_log())
    }

    /// The port of its API server.
    pub fn api_port(&self) -> u16 {
        self.api_port
    }

    /// Kills the API server as a crash would. The data in etcd stay.
    pub fn kill_api_server(&mut self) {
        self.components.retain(|component| component.name() != API_SERVER);
    }

    /// Starts the API server again on the same port and waits until it is ready.
    pub async fn restart_api_server(&mut self) -> Result<()> {
        let (program, args) = self.api_server_command.clone();
        self.spawn(API_SERVER, &program, &args)?;
        self.wait_for_api_server().await
    }

    /// Where its files and logs are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The programs that it runs, in the order in which they were started.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    fn spawn(&mut self, name: &'static str, program: &Path, args: &[String]) -> Result<()> {
        self.components.push(Component::spawn(name, program, args, &self.dir)?);
        Ok(())
    }

    /// What a client of an administrator is made from, for a runtime that is elsewhere.
    pub fn admin_config(&self) -> Result<Config> {
        self.config(&self.url, &self.credentials.admin.token)
    }

    fn client_for(&self, url: &str, token: &str) -> Result<Client> {
        Ok(Client::try_from(self.config(url, token)?)?)
    }

    fn config(&self, url: &str, token: &str) -> Result<Config> {
        let mut config = Config::new(url.parse()?);
        config.root_cert = Some(vec![self.credentials.ca_der.clone()]);
        config.auth_info.token = Some(token.to_owned().into());
        Ok(config)
    }

    /// Waits until the API server is ready and has created the namespace `default`.
    async fn wait_for_api_server(&mut self) -> Result<()> {
        let client = self.client()?;
        self.wait_for_path(API_SERVER, &client, "/readyz").await?;
        self.wait_for_path(API_SERVER, &client, "/api/v1/namespaces/default").await
    }

    async fn wait_for_health(&mut self, name: &'static str, port: u16) -> Result<()> {
        let url = format!("https://127.0.0.1:{port}");
        let client = self.client_for(&url, &self.credentials.admin.token)?;
        self.wait_for_path(name, &client, "/healthz").await
    }

    /// Waits until `path` answers. Ends early when a program ends.
    async fn wait_for_path(&mut self, name: &str, client: &Client, path: &str) -> Result<()> {
        let description = format!("{name} answers to {path}");
        let waited = wait::until(&description, START_LIMIT, async || {
            self.components.iter_mut().try_for_each(check_running)?;
            let request = http::Request::get(path).body(Vec::new())?;
            // Another process that listens there takes the connection and does not answer.
            let answer = tokio::time::timeout(PROBE_LIMIT, client.request_text(request)).await;
            Ok(answer.ok().and_then(Result::ok))
        });
        let Err(error) = waited.await else { return Ok(()) };
        let component = self.components.iter_mut().find(|component| component.name() == name);
        if let Some(component) = component
            && component.exit_status().is_none()
        {
            return Err(error.context(component.log_tail()));
        }
        Err(error) // contains the output of that program already
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // All at once, and only then wait for each.
        self.components.iter_mut().for_each(Component::stop);
        self.components.clear();
        // The sweeper would remove it as well, but the caller may check at once.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Another process listens on a port that was free before.
#[derive(Debug)]
struct PortTaken(String);

impl std::error::Error for PortTaken {}

impl std::fmt::Display for PortTaken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a port that was free is taken; {}", self.0)
    }
}

fn check_running(component: &mut Component) -> Result<()> {
    let Some(status) = component.exit_status() else { return Ok(()) };
    if component.log().contains("address already in use") {
        return Err(PortTaken(component.log_tail()).into());
    }
    bail!("{} ended by itself ({status}); {}", component.name(), component.log_tail())
}

/// Reserves all ports before it releases one, so that they differ.
fn free_ports() -> Result<Ports> {
    let listen = || TcpListener::bind("127.0.0.1:0");
    let listeners = [listen()?, listen()?, listen()?, listen()?, listen()?];
    let port = |n: usize| listeners[n].local_addr().map(|address| address.port());
    Ok(Ports {
        etcd: port(0)?,
        etcd_peers: port(1)?,
        api: port(2)?,
        controller_manager: port(3)?,
        scheduler: port(4)?,
    })
}

/// Where the programs are.
#[derive(Debug)]
struct Programs {
    etcd: PathBuf,
    apiserver: PathBuf,
    controller_manager: PathBuf,
    scheduler: PathBuf,
    kubectl: PathBuf,
}

impl Programs {
    /// Finds the programs in the cache, or builds them, which takes minutes.
    fn ensure_built() -> Result<Self> {
        let tools = Toolbox::from_env()?;
        Ok(Self {
            etcd: tools.ensure(Tool::Etcd)?,
            apiserver: tools.ensure(Tool::KubeApiserver)?,
            controller_manager: tools.ensure(Tool::KubeControllerManager)?,
            scheduler: tools.ensure(Tool::KubeScheduler)?,
            kubectl: tools.ensure(Tool::Kubectl)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_distinguished_from_other_failures() {
        let programs = tokio::task::spawn_blocking(Programs::ensure_built).await.unwrap().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let free = free_ports().unwrap();
        for ports in [Ports { etcd: port, ..free }, Ports { api: port, ..free }] {
            let error = ControlPlane::try_start(&programs, Parts::API, ports).await.unwrap_err();
            assert!(error.is::<PortTaken>(), "{ports:?}: {error:#}");
        }
    }
}
