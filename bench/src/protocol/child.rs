//! Runs a child process and reads its output.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use super::{ChildArgs, Interrupt, Line};
use crate::names::EngineName;

/// The reason why a child process did not complete its task.
#[derive(Debug, thiserror::Error)]
pub enum ChildFailed {
    #[error("cannot start {}", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("{engine} printed {line:?}, which is not a line of the protocol")]
    Protocol { engine: EngineName, line: String, source: serde_json::Error },
    #[error("cannot read the output of {engine}")]
    Read { engine: EngineName, source: io::Error },
    #[error("{engine} failed ({status}): {message}")]
    Ended { engine: EngineName, status: ExitStatus, message: String },
    #[error(
        "{engine} was killed, as the system does if memory runs out: \
         pass fewer --objects, or leave the engine out"
    )]
    Killed { engine: EngineName },
    /// This process was asked to end.
    #[error("interrupted")]
    Interrupted,
}

/// Runs a child process to its end, and returns its description of the engine.
///
/// Calls `on_line` with each line of progress and each row, as they arrive. `command` starts this
/// binary, or the peer in Go; both take the same arguments. Rows that arrive before an error are
/// complete.
pub fn run_child(
    mut command: Command,
    args: &ChildArgs,
    interrupt: &Interrupt,
    mut on_line: impl FnMut(Line),
) -> Result<String, ChildFailed> {
    let engine = args.engine;
    add_arguments(&mut command, args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = interrupt.start(&mut command);
    let started = started
        .map_err(|source| ChildFailed::Start { program: command.get_program().into(), source })?;
    let (stdout, stderr) = started.ok_or(ChildFailed::Interrupted)?;
    // Read concurrently: a child that fills the pipe of its standard error would block for ever.
    let message = thread::spawn(move || {
        let mut message = String::new();
        let read = stderr.map_or(Ok(0), |mut stderr| stderr.read_to_string(&mut message));
        read.map_or_else(|error| error.to_string(), |_| message.trim().to_owned())
    });
    let mut done = None;
    let read_all = || {
        let Some(stdout) = stdout else { return Ok(()) };
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(|source| ChildFailed::Read { engine, source })?;
            match serde_json::from_str(&line) {
                Ok(Line::Done { version }) => done = Some(version),
                Ok(line) => on_line(line),
                Err(source) => return Err(ChildFailed::Protocol { engine, line, source }),
            }
        }
        Ok(())
    };
    let read = read_all();
    if read.is_err() {
        interrupt.kill();
    }
    let status = interrupt
        .wait()
        .map_err(|source| ChildFailed::Read { engine, source })?
        .unwrap_or_default();
    match (read, done) {
        (Ok(()), Some(version)) if status.success() => Ok(version),
        _ if interrupt.is_requested()
            || (was_signalled(status) && interrupt.is_requested_soon()) =>
        {
            Err(ChildFailed::Interrupted)
        }
        (Err(failed), _) => Err(failed),
        _ if status.signal() == Some(SIGKILL) => Err(ChildFailed::Killed { engine }),
        _ => {
            let message = message.join().unwrap_or_default();
            Err(ChildFailed::Ended { engine, status, message })
        }
    }
}

const SIGKILL: i32 = 9;

/// Returns whether the child was ended by SIGHUP, SIGINT or SIGTERM. A terminal signals all its
/// processes at once, so the child may end before this process has received the signal.
fn was_signalled(status: ExitStatus) -> bool {
    matches!(status.signal(), Some(1 | 2 | 15))
}

fn add_arguments(command: &mut Command, args: &ChildArgs) {
    let settings = &args.settings;
    let workloads: Vec<_> = settings.workloads.iter().map(|workload| workload.name()).collect();
    command.args(["--engine", args.engine.name(), "--workload", &workloads.join(",")]);
    command.args(["--objects", &args.objects.to_string()]);
    command.args(["--seconds", &settings.length.as_secs_f64().to_string()]);
    if let Some(input) = &settings.input {
        command.arg("--input").arg(input);
    }
    if let Some(list) = &settings.second_list {
        command.arg("--second-list").arg(list);
    }
}
