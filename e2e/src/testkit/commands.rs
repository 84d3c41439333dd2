//! Commands of `kubectl`, and the output that each must print.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use deltafifo::BoxError;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::recorded::{definition, map};

/// The namespace of the objects of these commands and of the other recorded clients.
pub const NAMESPACE: &str = "shop";
/// The name of the program of the test kit.
const KIT: &str = "deltafifo-testkit";
/// The longest time that a command may take.
const LIMIT: Duration = Duration::from_secs(30);

/// `kubectl`, with the kubeconfig of one server.
pub struct Kubectl {
    program: PathBuf,
    /// The directory with the kubeconfig and the cache.
    dir: PathBuf,
}

/// A command of `kubectl`.
struct Invocation {
    /// The arguments, without the namespace.
    arguments: Vec<String>,
    /// The standard input.
    input: String,
    is_refused: bool,
    /// A part of the output, or of the errors if the command is refused.
    expected: &'static str,
}

impl Invocation {
    fn new(arguments: &str, expected: &'static str) -> Self {
        let arguments = arguments.split(' ').map(str::to_owned).collect();
        Self { arguments, input: String::new(), is_refused: false, expected }
    }

    fn with(arguments: &str, input: &Value, expected: &'static str) -> Self {
        Self { input: input.to_string(), ..Self::new(arguments, expected) }
    }

    fn refused(self) -> Self {
        Self { is_refused: true, ..self }
    }

    /// Returns the command as it is typed.
    fn title(&self) -> String {
        format!("kubectl {}", self.arguments.join(" "))
    }
}

impl Kubectl {
    /// Returns `kubectl` with its kubeconfig and cache in `dir`.
    pub fn new(program: &Path, dir: &Path) -> Self {
        Self { program: program.to_owned(), dir: dir.to_owned() }
    }

    /// Returns the path of the kubeconfig, which must be written before the first command.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubectl.json")
    }

    fn start(&self, arguments: &[String]) -> Result<Child, BoxError> {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .args(["--namespace", NAMESPACE])
            .arg("--cache-dir")
            .arg(self.dir.join("cache"))
            .env("KUBECONFIG", self.kubeconfig())
            .env("KUBECTL_KUBERC", "false")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Ok(command.spawn()?)
    }

    async fn output(&self, arguments: &[String], input: &str) -> Result<Output, BoxError> {
        let mut child = self.start(arguments)?;
        let mut stdin = child.stdin.take().ok_or("the command has no input")?;
        // A command that does not read its input may end before it is written.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let ended = timeout(LIMIT, child.wait_with_output()).await;
        Ok(ended.map_err(|_| format!("kubectl did not end within {LIMIT:?}"))??)
    }

    /// Runs a command. Returns its output, or an error if the output does not contain the expected
    /// part.
    async fn run(&self, command: &Invocation) -> Result<String, BoxError> {
        let output = self.output(&command.arguments, &command.input).await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (printed, errors) = (text(&output.stdout), text(&output.stderr));
        let found = if command.is_refused { &errors } else { &printed };
        if output.status.success() == command.is_refused || !found.contains(command.expected) {
            let (title, expected) = (command.title(), command.expected);
            let why = format!("{title}: {}: {printed}{errors}", output.status);
            return Err(format!("{why}\nthis must contain {expected:?}").into());
        }
        Ok(printed)
    }

    /// Runs all commands. `begin` is called before each but the first, which makes the definition,
    /// with the command as it is typed. Returns how many there are.
    pub async fn run_all(&self, begin: impl Fn(&str)) -> Result<usize, BoxError> {
        let (first, last) = (first(), last());
        self.run(&define()).await?;
        for command in &first {
            begin(&command.title());
            self.run(command).await?;
        }
        begin(&watch().title());
        self.run_watch().await?;
        for command in &last {
            begin(&command.title());
            self.run(command).await?;
        }
        // With the definition, the watch, and the command beside it.
        Ok(first.len() + last.len() + 3)
    }

    /// Runs the command [`watch`] while another command changes an object.
    async fn run_watch(&self) -> Result<(), BoxError> {
        let watch = watch();
        let mut child = self.start(&watch.arguments)?;
        let output = child.stdout.take().ok_or("the command has no output")?;
        let mut lines = BufReader::new(output).lines();
        let mut line = async || -> Result<String, BoxError> {
            let line = timeout(LIMIT, lines.next_line()).await;
            let line = line.map_err(|_| format!("no event arrived within {LIMIT:?}"))??;
            Ok(line.ok_or("the watch has ended")?)
        };
        let mut seen = vec![line().await?, line().await?];
        self.run(&Invocation::new("label widget w watched=yes", "widget.example.com/w labeled"))
            .await?;
        seen.push(line().await?);
        let words: Vec<Vec<&str>> =
            seen.iter().map(|line| line.split_whitespace().collect()).collect();
        let first: Vec<Vec<&str>> =
            words.iter().map(|words| words.iter().copied().take(2).collect()).collect();
        if first != [["EVENT", "NAME"], ["ADDED", "w"], ["MODIFIED", "w"]] {
            return Err(format!("{} printed {seen:?}", watch.title()).into());
        }
        Ok(child.kill().await?)
    }
}

/// Returns the command that creates the definition of widgets.
fn define() -> Invocation {
    let expected = "customresourcedefinition.apiextensions.k8s.io/widgets.example.com created";
    Invocation::with("create --validate=false -f -", &definition(), expected)
}

/// Returns the commands before a watch of widgets.
fn first() -> Vec<Invocation> {
    let namespace =
        json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": { "name": NAMESPACE } });
    let widget = json!({
        "kind": "Widget", "apiVersion": "example.com/v1", "metadata": { "name": "w" },
        "spec": { "colour": "red" },
    });
    let labels = json!({ "app": "web" });
    let containers = json!([{ "name": "web", "image": "1" }]);
    let deployment = json!({
        "kind": "Deployment", "apiVersion": "apps/v1", "metadata": { "name": "d" },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": containers } },
        },
    });
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "p" },
        "spec": { "containers": containers },
    });
    let data = |value: &str| json!({ "k": value });
    let apply = "apply --validate=false -f -";
    let on_server = "apply --server-side --validate=false -f -";
    let as_other = "apply --server-side --validate=false --field-manager=other -f -";
    let json_patch =
        r#"patch configmap a --type=json -p [{"op":"add","path":"/data/m","value":"1"}]"#;
    let strategic = r#"patch deployment d -p {"spec":{"template":{"spec":{"containers":[{"name":"log","image":"1"}]}}}}"#;
    let status = r#"patch widget w --subresource=status --type=merge -p {"status":{"size":1}}"#;
    vec![
        Invocation::with("create --validate=false -f -", &namespace, "namespace/shop created"),
        Invocation::with(apply, &map("a", &data("1")), "configmap/a created"),
        Invocation::with(apply, &map("a", &data("2")), "configmap/a configured"),
        Invocation::with(apply, &map("a", &data("2")), "configmap/a unchanged"),
        Invocation::with(on_server, &map("b", &data("1")), "configmap/b serverside-applied"),
        Invocation::with(as_other, &map("b", &data("2")), "conflict with \"kubectl\": .data.k")
            .refused(),
        Invocation::with(
            "apply --dry-run=server --validate=false -f -",
            &map("a", &data("3")),
            "configmap/a configured (server dry run)",
        ),
        // Its exit code is 1 because there is a difference.
        Invocation::with("diff -f -", &map("a", &data("3")), "").refused(),
        Invocation::new("get configmaps", "NAME"),
        Invocation::new("get configmaps -o json", "\"kind\": \"ConfigMap\""),
        Invocation::new("get configmap a -o jsonpath={.data.k}", "2"),
        Invocation::new("get configmap missing", "configmaps \"missing\" not found").refused(),
        Invocation::new("label configmap a app=web", "configmap/a labeled"),
        Invocation::new("annotate configmap a note=x", "configmap/a annotated"),
        Invocation::new("get configmaps -l app=web -o name", "configmap/a\n"),
        Invocation::new("get configmaps --field-selector metadata.name=b -o name", "configmap/b\n"),
        Invocation::new(r#"patch configmap a --type=merge -p {"data":{"l":"1"}}"#, "patched"),
        Invocation::new(json_patch, "configmap/a patched"),
        Invocation::with("replace --validate=false -f -", &map("b", &data("3")), "replaced"),
        Invocation::with("create --validate=false -f -", &deployment, "deployment.apps/d created"),
        Invocation::new(strategic, "deployment.apps/d patched"),
        Invocation::new("set image deployment/d web=2", "deployment.apps/d image updated"),
        Invocation::new("scale deployment d --replicas=2", "deployment.apps/d scaled"),
        Invocation::new("get deployment d -o jsonpath={.spec.replicas}", "2"),
        Invocation::new(
            "scale deployment d --current-replicas=2 --replicas=3",
            "deployment.apps/d scaled",
        ),
        Invocation::new(
            "scale deployment d --current-replicas=2 --replicas=4",
            "Expected replicas to be 2, was 3",
        )
        .refused(),
        Invocation::new(
            "scale deployment d --replicas=5 --dry-run=server",
            "deployment.apps/d scaled (server dry run)",
        ),
        Invocation::new("get deployment d -o jsonpath={.spec.replicas}", "3"),
        Invocation::new("rollout restart deployment d", "deployment.apps/d restarted"),
        Invocation::new("get deployment d", "NAME"),
        Invocation::with("create --validate=false -f -", &pod, "pod/p created"),
        Invocation::with(apply, &widget, "widget.example.com/w created"),
        Invocation::new(status, "widget.example.com/w patched"),
        Invocation::new("get widget w", "AGE"),
    ]
}

/// Returns the command that watches widgets.
fn watch() -> Invocation {
    Invocation::new("get widgets --watch --output-watch-events", "")
}

/// Returns the commands after the watch.
fn last() -> Vec<Invocation> {
    vec![
        Invocation::new("wait widget/w --for=jsonpath={.spec.colour}=red", "condition met"),
        Invocation::new("get widgets -l watched=yes -o name", "widget.example.com/w\n"),
        Invocation::new("delete configmap a", "configmap \"a\" deleted"),
        Invocation::new("delete configmap a", "configmaps \"a\" not found").refused(),
        Invocation::new("delete configmap b --wait=false", "configmap \"b\" deleted"),
        Invocation::new("delete pod p --grace-period=1", "pod \"p\" deleted"),
        Invocation::new("delete deployment d --cascade=orphan", "deployment.apps \"d\" deleted"),
        Invocation::new("delete widgets --all", "widget.example.com \"w\" deleted"),
        Invocation::new("delete namespace shop --wait=false", "namespace \"shop\" deleted"),
    ]
}

/// Runs all commands with the test kit's program. Returns how many there are.
pub async fn check(program: &Path, dir: &Path) -> Result<usize, BoxError> {
    let kubectl = Kubectl::new(program, dir);
    // Cargo puts the programs of one profile into one directory.
    let kit = env::current_exe()?.with_file_name(KIT);
    let mut kit = Command::new(&kit)
        .args(["--listen", "127.0.0.1:0", "--kubeconfig"])
        .arg(kubectl.kubeconfig())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}; ci/e2e.sh builds it", kit.display()))?;
    let output = kit.stdout.take().ok_or("the program has no output")?;
    // The kubeconfig is written before the URL is printed.
    let url = timeout(LIMIT, BufReader::new(output).lines().next_line()).await??;
    url.ok_or("the program has ended")?;
    kubectl.run_all(|_| {}).await
}
