//! The client curl. It receives the server's response and does nothing else with it.

use std::io;
use std::process::Command;

use kube::config::Kubeconfig;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::error::TurnFailed;
use super::process::{Process, Usage};

/// The query of the initial list of this project's reflector.
const LIST: &str = "limit=500&resourceVersion=0";
/// The query of the first watch of this project's reflector, which begins with all objects.
const WATCH: &str = "watch=true&allowWatchBookmarks=true&timeoutSeconds=600&sendInitialEvents=true&\
                     resourceVersionMatch=NotOlderThan";
/// A text that only the last of the initial events contains.
const END: &[u8] = b"k8s.io/initial-events-end";
/// The number of bytes at the end of the output that are searched for [`END`].
const TAIL: usize = 1024;

/// The configuration with which curl reaches the server of a kubeconfig.
pub(super) struct Curl {
    /// The URL of the server, without the path.
    url: String,
    /// Lines of curl's configuration.
    settings: String,
    pub version: String,
}

/// The reason why curl cannot be used, in general or with this kubeconfig.
#[derive(Debug, thiserror::Error)]
pub(super) enum CurlUnusable {
    #[error("cannot run `curl --version`")]
    Start(#[from] io::Error),
    #[error("curl cannot use the kubeconfig: only a token and certificates in files are supported")]
    Kubeconfig(#[from] serde_json::Error),
}

impl Curl {
    pub fn of(kubeconfig: &Kubeconfig) -> Result<Self, CurlUnusable> {
        let output = Command::new("curl").arg("--version").output()?;
        let output = String::from_utf8_lossy(&output.stdout);
        let version = output.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        let (url, settings) = settings(&serde_json::to_value(kubeconfig)?)?;
        Ok(Self { url, settings, version })
    }

    /// Reads all objects once. Returns the elapsed time, the CPU time and the memory of curl's
    /// process, and the number of received bytes.
    pub async fn read(
        &self,
        namespace: &str,
        streamed: bool,
    ) -> Result<(Usage, usize), TurnFailed> {
        let mut command = tokio::process::Command::new("curl");
        // HTTP/1.1, as kube's client.
        command.args(["--silent", "--show-error", "--fail", "--http1.1", "--config", "-"]);
        if streamed {
            command.args(["--no-buffer", "--header", "Accept-Encoding: identity"]);
        } else {
            command.args(["--output", "/dev/null", "--write-out", "%{size_download}"]);
        }
        let mut process = Process::start(command)?;
        let query = if streamed { WATCH } else { LIST };
        let url = format!("{}/api/v1/namespaces/{namespace}/configmaps?{query}", self.url);
        process.write_line(&format!("url = {}\n{}", quoted(&url), self.settings)).await?;
        process.end_input();
        if streamed { read_streamed(process).await } else { read_list(process).await }
    }
}

async fn read_list(mut process: Process) -> Result<(Usage, usize), TurnFailed> {
    let bytes = process.line("the list").await?;
    let usage = process.usage()?;
    if process.status().await?.success() {
        let bytes = bytes.parse().map_err(|_| TurnFailed::Answer(bytes))?;
        return Ok((usage, bytes));
    }
    Err(process.ended("the list").await)
}

async fn read_streamed(mut process: Process) -> Result<(Usage, usize), TurnFailed> {
    let (mut bytes, mut buffer, mut tail) = (0, vec![0; 64 << 10], Vec::new());
    loop {
        let read = process.read(&mut buffer, "the list").await?;
        if read == 0 {
            return Err(process.ended("the list").await);
        }
        bytes += read;
        tail.extend_from_slice(&buffer[read.saturating_sub(TAIL)..read]);
        tail.drain(..tail.len().saturating_sub(TAIL));
        if tail.windows(END.len()).any(|part| part == END) {
            return Ok((process.usage()?, bytes));
        }
    }
}

/// The parts of a kubeconfig's cluster and user that curl can use. Other parts are errors.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Access {
    server: String,
    certificate_authority: Option<String>,
    client_certificate: Option<String>,
    client_key: Option<String>,
    token: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: bool,
    #[serde(default, rename = "extensions")]
    _extensions: IgnoredAny,
    #[serde(default, rename = "disable-compression")]
    _disable_compression: IgnoredAny,
}

/// Returns the URL of the server, and curl's other settings.
fn settings(kubeconfig: &Value) -> serde_json::Result<(String, String)> {
    let context = named(&kubeconfig["contexts"], &kubeconfig["current-context"], "context");
    let cluster = named(&kubeconfig["clusters"], &context["cluster"], "cluster");
    let user = named(&kubeconfig["users"], &context["user"], "user");
    let fields = [cluster, user].into_iter().filter_map(Value::as_object).flatten();
    let fields = fields.filter(|(_, value)| !value.is_null());
    let fields = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
    let access: Access = serde_json::from_value(Value::Object(fields))?;
    let mut lines = vec![header("Accept: application/json")];
    lines.extend(access.token.map(|token| header(&format!("Authorization: Bearer {token}"))));
    for (option, file) in [
        ("cacert", access.certificate_authority),
        ("cert", access.client_certificate),
        ("key", access.client_key),
    ] {
        lines.extend(file.map(|file| format!("{option} = {}", quoted(&file))));
    }
    if access.insecure_skip_tls_verify {
        lines.push("insecure".to_owned());
    }
    Ok((access.server.trim_end_matches('/').to_owned(), lines.join("\n")))
}

/// Returns `field` of the item of `list` that has this name; null if there is none.
fn named<'a>(list: &'a Value, name: &Value, field: &str) -> &'a Value {
    let found = list.as_array().into_iter().flatten().find(|one| one["name"] == *name);
    found.map_or(&Value::Null, |one| &one[field])
}

fn header(text: &str) -> String {
    format!("header = {}", quoted(text))
}

/// Quotes a text for curl's configuration.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kubeconfig(cluster: &Value, user: &Value) -> Value {
        json!({
            "current-context": "here",
            "contexts": [{ "name": "there" }, { "name": "here", "context": { "cluster": "c", "user": "u" } }],
            "clusters": [{ "name": "c", "cluster": cluster }],
            "users": [{ "name": "other", "user": { "exec": {} } }, { "name": "u", "user": user }],
        })
    }

    #[test]
    fn settings_are_those_of_the_current_context() {
        let cluster = json!({ "server": "https://127.0.0.1:6443/", "certificate-authority": "/ca \"1\".crt",
            "insecure-skip-tls-verify": true });
        let user = json!({ "token": "t", "client-certificate": null });
        let (url, lines) = settings(&kubeconfig(&cluster, &user)).expect("curl can use it");
        assert_eq!(url, "https://127.0.0.1:6443");
        let lines: Vec<_> = lines.lines().collect();
        assert_eq!(
            &lines[1..],
            ["header = \"Authorization: Bearer t\"", r#"cacert = "/ca \"1\".crt""#, "insecure",]
        );
    }

    #[test]
    fn kubeconfig_that_curl_cannot_use_is_rejected_with_its_field() {
        let server = json!({ "server": "https://a", "extensions": [] });
        assert!(settings(&kubeconfig(&server, &json!({}))).is_ok());
        let proxy = json!({ "server": "https://a", "proxy-url": "x" });
        for (config, field) in [
            (kubeconfig(&proxy, &json!({})), "proxy-url"),
            (kubeconfig(&server, &json!({ "exec": {} })), "exec"),
            (json!({}), "server"),
        ] {
            let error = settings(&config).expect_err(field).to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
