//! Tests of the program `deltafifo-testkit`, each in a process of its own.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Client, Config};
use serde_json::Value;

/// Starts the program. Returns its output after the first line, and that line, which is the URL.
fn start(arguments: &[&str]) -> (Child, BufReader<ChildStdout>, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_deltafifo-testkit"))
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut url = String::new();
    output.read_line(&mut url).unwrap();
    (program, output, url.trim_end().to_owned())
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_deltafifo-testkit")).args(arguments).output().unwrap()
}

async fn namespaces(url: &str) -> Vec<String> {
    let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
    let all = Api::<Namespace>::all(client).list(&ListParams::default()).await.unwrap();
    all.into_iter().filter_map(|namespace| namespace.metadata.name).collect()
}

#[cfg(unix)]
#[tokio::test]
async fn signals_end_the_program_without_an_error() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let (mut program, mut output, url) = start(&["--listen", "127.0.0.1:0"]);
        assert_eq!(namespaces(&url).await, ["default", "kube-system"]);
        kill(Pid::from_raw(program.id().try_into().unwrap()), signal).unwrap();
        let status = program.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{signal}: {status}");
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "the URL is the last line");
    }
}

#[test]
fn address_that_is_not_loopback_is_refused() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let output = run(&["--listen", address]);
        assert_eq!(output.status.code(), Some(2), "{address}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("--allow-remote-clients"), "{text}");
    }
}

#[tokio::test]
async fn clients_of_all_addresses_get_the_loopback_address() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubeconfig.json");
    let arguments = ["--listen", "0.0.0.0:0", "--allow-remote-clients", "--kubeconfig"];
    let (mut program, _output, url) = start(&[&arguments[..], &[file.to_str().unwrap()]].concat());
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    assert_eq!(namespaces(&url).await.len(), 2);
    let config: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(config["clusters"][0]["cluster"]["server"], url);
    program.kill().unwrap();
    program.wait().unwrap();
}

#[test]
fn error_says_what_failed() {
    let directory = env!("CARGO_MANIFEST_DIR");
    let output = run(&["--listen", "127.0.0.1:0", "--kubeconfig", directory]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.starts_with("deltafifo-testkit: cannot write "), "{text}");
}
