//! Runs one program as long as the test process needs it, and never longer.
//!
//! A test process may end in ways that run no destructor: `kill -9`, a timeout in CI, a `static`.
//! So each program is started by a shell that first leaves a watcher behind and then becomes the
//! program. The watcher reads a pipe whose other end only this process holds:
//!
//! ```text
//! test process ──pipe──► watcher (sh)      end of file? kill the program; a line? leave
//!        └──────────────► program          same pid as the shell that started it
//! ```
//!
//! The system closes the pipe whenever this process ends, so no cleanup can be forgotten. The
//! watcher gets a line once the program is known to have ended: another process may have its pid by
//! then.
//! (`PR_SET_PDEATHSIG` would do the same on Linux alone, and needs `unsafe`.)

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use xtask::host::Stopwatch;

/// Kills the program at the end of the pipe.
/// `$$` is the shell that becomes the program, also inside the parentheses.
const WATCHER_SCRIPT: &str = r#"
exec 3<&0 </dev/null
( read -r _ <&3 || kill -KILL $$ 2>/dev/null ) &
exec "$@" 3<&-
"#;

/// Removes the directory at the end of the pipe; retries while killed programs still write.
const SWEEPER_SCRIPT: &str = r#"
while read -r _; do :; done
for _ in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf -- "$1"
    [ -e "$1" ] || exit 0
    sleep 1
done
"#;

/// A running program. Dropping it kills it and waits until it is gone.
#[derive(Debug)]
pub struct Component {
    name: &'static str,
    log: PathBuf,
    child: Child,
    /// Closing it without a line stops the program.
    watcher_stdin: Option<ChildStdin>,
}

impl Component {
    /// Starts `program`, with its output in `<dir>/<name>.log`.
    pub fn spawn(name: &'static str, program: &Path, args: &[String], dir: &Path) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let output =
            File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
        let mut command = Command::new("sh");
        command.args(["-c", WATCHER_SCRIPT, name]).arg(program).args(args).current_dir(dir);
        command.stdout(output.try_clone()?).stderr(output);
        Self::start(name, log, command)
    }

    /// Starts something that removes `dir` when it is dropped, or this process ends.
    pub(crate) fn sweeper(dir: &Path) -> Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SWEEPER_SCRIPT, "sweeper"]).arg(dir);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self::start("sweeper", PathBuf::new(), command)
    }

    fn start(name: &'static str, log: PathBuf, mut command: Command) -> Result<Self> {
        // In a group of its own, so that Ctrl-C reaches the one that cleans up, and not this.
        command.stdin(Stdio::piped()).process_group(0);
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let lifeline = child.stdin.take();
        Ok(Self { name, log, child, watcher_stdin: lifeline })
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal, such as `TERM` or `KILL`.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let (signal, pid) = (format!("-{signal}"), self.pid().to_string());
        let status =
            Command::new("kill").args([&signal, &pid]).status().context("cannot start kill")?;
        anyhow::ensure!(status.success(), "{} did not take {signal}", self.name);
        Ok(())
    }

    /// Returns the exit status if the program has ended by itself.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten()?;
        self.dismiss_watcher();
        Some(status)
    }

    /// Lets the watcher leave without killing.
    fn dismiss_watcher(&mut self) {
        if let Some(mut lifeline) = self.watcher_stdin.take() {
            let _ = lifeline.write_all(b"gone\n"); // fails if the watcher is gone, too
        }
    }

    /// All it has printed so far.
    pub fn log(&self) -> String {
        fs::read(&self.log)
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }

    /// The end of what it has printed, for an error message.
    pub fn log_tail(&self) -> String {
        const LINES: usize = 15;
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let tail = &lines[lines.len().saturating_sub(LINES)..];
        format!("last lines of {}:\n{}", self.name, tail.join("\n"))
    }

    /// Stops the program unless it has ended; does not wait for its end.
    pub(crate) fn stop(&mut self) {
        if self.exit_status().is_none() {
            self.watcher_stdin = None;
        }
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        self.stop();
        // What still ran is killed by the watcher before we find it gone, and free its pid.
        let watch = Stopwatch::start();
        while let Ok(None) = self.child.try_wait() {
            if watch.elapsed() > Duration::from_secs(5) {
                let _ = self.child.kill(); // the watcher itself was killed
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, dir: &Path) -> Component {
        let args = ["-c".to_owned(), script.to_owned()];
        Component::spawn("shell", Path::new("sh"), &args, dir).unwrap()
    }

    #[test]
    fn an_exited_program_leaves_its_status_and_its_log_tail() {
        let dir = tempfile::tempdir().unwrap();
        let mut shell = shell("seq 1 100; echo no such flag >&2; exit 3", dir.path());
        let status = loop {
            match shell.exit_status() {
                Some(status) => break status,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(status.code(), Some(3));
        let tail = shell.log_tail();
        assert!(tail.starts_with("last lines of shell:\n87\n"), "{tail}");
        assert!(tail.ends_with("\n100\nno such flag"), "{tail}");
    }

    #[test]
    fn dropping_a_component_kills_a_program_that_ignores_signals() {
        let dir = tempfile::tempdir().unwrap();
        let shell = shell("trap '' TERM INT HUP; while :; do sleep 0.1; done", dir.path());
        let watch = Stopwatch::start();
        drop(shell); // waits until it is gone
        assert!(watch.elapsed() < Duration::from_secs(5), "the watcher did not kill it");
    }

    #[test]
    fn a_dismissed_watcher_kills_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut shell = shell("sleep 0.3; exit 3", dir.path());
        shell.dismiss_watcher();
        assert_eq!(shell.child.wait().unwrap().code(), Some(3));
    }

    #[test]
    fn the_sweeper_removes_the_directory() {
        let dir = tempfile::tempdir().unwrap().keep();
        fs::write(dir.join("file"), "").unwrap();
        drop(Component::sweeper(&dir).unwrap());
        assert!(!dir.exists());
    }
}
