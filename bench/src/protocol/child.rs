//! Runs a child process and reads its output.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use super::{Interrupt, Line};
use crate::protocol::ChildArgs;

/// A child process did not complete its task.
#[derive(Debug, thiserror::Error)]
pub enum ChildFailed {
    /// The child did not start.
    #[error("{} does not start: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The child printed a line that is not part of the protocol.
    #[error("{engine} said {line:?}, which is not a line of the protocol: {source}")]
    Protocol {
        /// The engine of the child.
        engine: &'static str,
        /// The line.
        line: String,
        /// The error of the decoder.
        source: serde_json::Error,
    },
    /// The output of the child could not be read.
    #[error("{engine} cannot be read: {source}")]
    Read {
        /// The engine of the child.
        engine: &'static str,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The child exited with an error.
    #[error("{engine} failed ({status}): {message}")]
    Ended {
        /// The engine of the child.
        engine: &'static str,
        /// Its exit status.
        status: String,
        /// Its standard error.
        message: String,
    },
    /// The child was killed.
    #[error(
        "{engine} was killed, as the system does where memory runs out: pass fewer --objects, or leave the engine out"
    )]
    Killed {
        /// The engine of the child.
        engine: &'static str,
    },
    /// This process was asked to end.
    #[error("interrupted")]
    Interrupted,
}

/// Runs a child process to its end, and returns its description of the engine. Calls `told` with
/// each line of progress and each row, as they arrive. `command` starts this binary, or the peer in
/// Go; both take the same arguments.
///
/// # Errors
/// [`ChildFailed`]. The rows that arrived before the error are complete.
pub fn run_child(
    mut command: Command,
    args: &ChildArgs,
    interrupt: &Interrupt,
    mut on_line: impl FnMut(Line),
) -> Result<String, ChildFailed> {
    let engine = args.engine.name();
    command
        .args(arguments(args))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
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
            match serde_json::from_str(&line).map_err(|source| ChildFailed::Protocol {
                engine,
                line,
                source,
            })? {
                Line::Done(end) => done = Some(end.version),
                line => on_line(line),
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
            Err(ChildFailed::Ended { engine, status: status.to_string(), message })
        }
    }
}

const SIGKILL: i32 = 9;

/// Returns whether the child was ended by SIGHUP, SIGINT or SIGTERM. A terminal signals all its
/// processes at once, so the child may end before this process is notified.
fn was_signalled(status: ExitStatus) -> bool {
    matches!(status.signal(), Some(1 | 2 | 15))
}

fn arguments(args: &ChildArgs) -> Vec<OsString> {
    let workloads: Vec<_> = args.workloads.iter().map(|workload| workload.name()).collect();
    let mut arguments: Vec<OsString> = vec![
        "--engine".into(),
        args.engine.name().into(),
        "--workload".into(),
        workloads.join(",").into(),
        "--objects".into(),
        args.objects.to_string().into(),
        "--seconds".into(),
        args.length.as_secs_f64().to_string().into(),
    ];
    if let Some(input) = &args.input {
        arguments.extend(["--input".into(), input.into()]);
    }
    arguments
}
