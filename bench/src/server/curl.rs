//! The client curl. It receives the server's response and does nothing else with it.

use std::io;
use std::process::Command;

use kube::config::Kubeconfig;
use serde_json::Value;

use super::error::TurnFailed;
use super::process::{Process, Usage};

/// The query of the first list of this project's reflector.
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
    #[error("the kubeconfig's current context has no cluster with a server")]
    NoServer,
    #[error("the kubeconfig has {0}; curl can use a token, and certificates in files")]
    Field(&'static str),
}

impl Curl {
    pub fn of(kubeconfig: &Kubeconfig) -> Result<Self, CurlUnusable> {
        let output = Command::new("curl").arg("--version").output()?;
        let output = String::from_utf8_lossy(&output.stdout);
        let version = output.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        // A kubeconfig that cannot be written as JSON is treated as one without a server.
        let (url, settings) = settings(&serde_json::to_value(kubeconfig).unwrap_or_default())?;
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

/// Returns the URL of the server, and curl's other settings.
fn settings(kubeconfig: &Value) -> Result<(String, String), CurlUnusable> {
    const UNKNOWN: [&str; 10] = [
        "certificate-authority-data",
        "proxy-url",
        "tls-server-name",
        "client-certificate-data",
        "client-key-data",
        "username",
        "tokenFile",
        "as",
        "exec",
        "auth-provider",
    ];
    let context = named(&kubeconfig["contexts"], &kubeconfig["current-context"], "context");
    let cluster = named(&kubeconfig["clusters"], &context["cluster"], "cluster");
    let user = named(&kubeconfig["users"], &context["user"], "user");
    let get = |field: &str| {
        let parts = [cluster, user].into_iter();
        parts.filter_map(|part| part.get(field)).find(|value| !value.is_null())
    };
    if let Some(field) = UNKNOWN.into_iter().find(|field| get(field).is_some()) {
        return Err(CurlUnusable::Field(field));
    }
    let text = |field: &str| get(field).and_then(Value::as_str);
    let url = text("server").ok_or(CurlUnusable::NoServer)?.trim_end_matches('/').to_owned();
    let mut lines = vec![header("Accept: application/json")];
    lines.extend(text("token").map(|token| header(&format!("Authorization: Bearer {token}"))));
    for (field, option) in
        [("certificate-authority", "cacert"), ("client-certificate", "cert"), ("client-key", "key")]
    {
        lines.extend(text(field).map(|file| format!("{option} = {}", quoted(file))));
    }
    if get("insecure-skip-tls-verify").and_then(Value::as_bool) == Some(true) {
        lines.push("insecure".to_owned());
    }
    Ok((url, lines.join("\n")))
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
        let cluster = json!({ "server": "https://127.0.0.1:6443/", "certificate-authority": "/ca \"1\".crt" });
        let user = json!({ "token": "t", "client-certificate": null });
        let (url, lines) = settings(&kubeconfig(&cluster, &user)).expect("curl can use it");
        assert_eq!(url, "https://127.0.0.1:6443");
        let lines: Vec<_> = lines.lines().collect();
        assert_eq!(
            &lines[1..],
            ["header = \"Authorization: Bearer t\"", r#"cacert = "/ca \"1\".crt""#]
        );
        let insecure = json!({ "server": "https://a", "insecure-skip-tls-verify": true });
        let (_, lines) = settings(&kubeconfig(&insecure, &json!({}))).expect("curl can use it");
        assert!(lines.ends_with("\ninsecure"), "{lines}");
    }

    #[test]
    fn kubeconfig_that_curl_cannot_use_is_rejected_with_its_field() {
        let server = json!({ "server": "https://a" });
        for field in ["certificate-authority-data", "proxy-url"] {
            let mut cluster = server.clone();
            cluster[field] = "x".into();
            let error = settings(&kubeconfig(&cluster, &json!({}))).expect_err(field).to_string();
            assert!(error.contains(field), "{error}");
        }
        let error =
            settings(&kubeconfig(&server, &json!({ "exec": {} }))).expect_err("exec").to_string();
        assert!(error.contains("exec"), "{error}");
        let error = settings(&json!({})).expect_err("nothing").to_string();
        assert!(error.contains("no cluster"), "{error}");
    }
}
