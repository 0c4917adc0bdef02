//! Creates the credentials of a control plane: certificates, tokens, kubeconfig files.
//!
//! All of it is made anew for each control plane and lives in its directory, which only the
//! user can read.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;

const PRODUCT: &str = "karpenter";

/// Someone with a token.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) name: &'static str,
    pub(crate) token: String,
    group: &'static str,
}

/// Files and secrets of one control plane.
#[derive(Debug)]
pub(crate) struct Credentials {
    dir: PathBuf,
    /// The authority behind the server certificates.
    pub(crate) ca_der: Vec<u8>,
    pub(crate) admin: User,
    pub(crate) unprivileged: User,
    pub(crate) controller_manager: User,
    pub(crate) scheduler: User,
    /// May do everything, and what it does is written down.
    pub(crate) product: User,
}

impl Credentials {
    /// Creates all files in `dir` that the programs need before they start.
    pub(crate) fn generate(dir: &Path) -> Result<Self> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let server = CertificateParams::new(names)?.signed_by(&key, &authority)?;

        let credentials = Self {
            dir: dir.to_owned(),
            ca_der: authority.der().to_vec(),
            admin: User::new("admin", "system:masters")?,
            unprivileged: User::new("nobody", "")?,
            // The names to which Kubernetes itself grants what these two need.
            controller_manager: User::new("system:kube-controller-manager", "")?,
            scheduler: User::new("system:kube-scheduler", "")?,
            product: User::new(PRODUCT, "system:masters")?,
        };
        fs::write(credentials.ca_file(), authority.pem())?;
        fs::write(credentials.server_cert(), server.pem())?;
        fs::write(credentials.server_key(), key.serialize_pem())?;
        let signer = KeyPair::generate()?;
        fs::write(credentials.service_account_key(), signer.serialize_pem())?;
        fs::write(credentials.service_account_public_key(), signer.public_key_pem())?;
        let tokens = credentials.users().map(|user| {
            format!(
                "{token},{name},{name},{group}\n",
                token = user.token,
                name = user.name,
                group = user.group
            )
        });
        fs::write(credentials.tokens(), tokens.concat())?;
        // Each request of the product once, when it is over.
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived", "ResponseStarted"],
            "rules": [{"level": "Metadata", "users": [PRODUCT]}, {"level": "None"}],
        });
        fs::write(credentials.audit_policy(), policy.to_string())?;
        Ok(credentials)
    }

    fn users(&self) -> [&User; 5] {
        let Self { admin, unprivileged, controller_manager, scheduler, product, .. } = self;
        [admin, unprivileged, controller_manager, scheduler, product]
    }

    /// Writes a kubeconfig file for `user` of the API server at `url`.
    pub(crate) fn write_kubeconfig(&self, user: &User, url: &str) -> Result<PathBuf> {
        self.write_kubeconfig_as(&user.name.replace(':', "-"), user, url)
    }

    /// The same in a file with a name of its own.
    pub(crate) fn write_kubeconfig_as(
        &self,
        name: &str,
        user: &User,
        url: &str,
    ) -> Result<PathBuf> {
        let path = self.dir.join(format!("{name}.kubeconfig"));
        // JSON is YAML, too.
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "e2e",
                "cluster": { "server": url, "certificate-authority": self.ca_file() },
            }],
            "users": [{ "name": user.name, "user": { "token": user.token } }],
            "contexts": [{ "name": "e2e", "context": { "cluster": "e2e", "user": user.name } }],
            "current-context": "e2e",
        });
        fs::write(&path, serde_json::to_vec_pretty(&config)?)?;
        Ok(path)
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    pub(crate) fn server_cert(&self) -> PathBuf {
        self.dir.join("server.crt")
    }

    pub(crate) fn server_key(&self) -> PathBuf {
        self.dir.join("server.key")
    }

    pub(crate) fn service_account_key(&self) -> PathBuf {
        self.dir.join("service-account.key")
    }

    pub(crate) fn service_account_public_key(&self) -> PathBuf {
        self.dir.join("service-account.pub")
    }

    pub(crate) fn audit_policy(&self) -> PathBuf {
        self.dir.join("audit-policy.json")
    }

    /// The product's requests, one record per line.
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.dir.join("audit.log")
    }

    pub(crate) fn tokens(&self) -> PathBuf {
        self.dir.join("tokens.csv")
    }
}

impl User {
    fn new(name: &'static str, group: &'static str) -> Result<Self> {
        Ok(Self { name, token: random_token()?, group })
    }
}

/// Returns a random token: other users of this host can reach loopback.
fn random_token() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("no randomness for a token")?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
