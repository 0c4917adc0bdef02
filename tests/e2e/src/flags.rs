//! Returns the command lines of the control plane's programs.

use std::path::Path;

use crate::credentials::Credentials;

/// Ports on loopback, all free a moment ago.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peers: u16,
    pub(crate) api: u16,
    pub(crate) controller_manager: u16,
    pub(crate) scheduler: u16,
}

pub(crate) fn etcd(dir: &Path, ports: Ports) -> Vec<String> {
    let clients = format!("http://127.0.0.1:{}", ports.etcd);
    let peers = format!("http://127.0.0.1:{}", ports.etcd_peers);
    vec![
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        "--unsafe-no-fsync".to_owned(), // the data is not needed after a crash
        "--log-level=warn".to_owned(),
    ]
}

/// `service_accounts`: a controller manager will make them.
pub(crate) fn apiserver(
    dir: &Path,
    credentials: &Credentials,
    ports: Ports,
    service_accounts: bool,
) -> Vec<String> {
    let mut flags = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.api),
        // There is no route to a service here, and loopback is no valid endpoint of one.
        "--advertise-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        format!("--cert-dir={}", dir.display()),
        format!("--tls-cert-file={}", credentials.server_cert().display()),
        format!("--tls-private-key-file={}", credentials.server_key().display()),
        format!("--token-auth-file={}", credentials.tokens().display()),
        "--authorization-mode=RBAC".to_owned(),
        format!("--audit-policy-file={}", credentials.audit_policy().display()),
        format!("--audit-log-path={}", credentials.audit_log().display()),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!(
            "--service-account-key-file={}",
            credentials.service_account_public_key().display()
        ),
        format!(
            "--service-account-signing-key-file={}",
            credentials.service_account_key().display()
        ),
    ];
    if !service_accounts {
        // No controller creates the service accounts that this plugin requires of each pod.
        flags.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    flags
}

pub(crate) fn controller_manager(
    kubeconfig: &Path,
    credentials: &Credentials,
    ports: Ports,
    controllers: &str,
) -> Vec<String> {
    let mut flags = common_flags(kubeconfig, credentials, ports.controller_manager);
    flags.extend([
        format!("--controllers={controllers}"),
        "--use-service-account-credentials".to_owned(),
        format!(
            "--service-account-private-key-file={}",
            credentials.service_account_key().display()
        ),
        format!("--root-ca-file={}", credentials.ca_file().display()),
    ]);
    flags
}

pub(crate) fn scheduler(kubeconfig: &Path, credentials: &Credentials, ports: Ports) -> Vec<String> {
    common_flags(kubeconfig, credentials, ports.scheduler)
}

/// Returns the common flags of the controller manager and the scheduler.
fn common_flags(kubeconfig: &Path, credentials: &Credentials, port: u16) -> Vec<String> {
    let kubeconfig = kubeconfig.display();
    vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--leader-elect=false".to_owned(), // there is one of each
        // Thousands of pods are created and bound, and there are no other clients to protect.
        "--kube-api-qps=2000".to_owned(),
        "--kube-api-burst=2000".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", credentials.server_cert().display()),
        format!("--tls-private-key-file={}", credentials.server_key().display()),
    ]
}
