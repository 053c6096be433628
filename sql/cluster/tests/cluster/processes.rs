//! Processes of a cluster, which end with the test.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nearfield-cluster");
/// A machine under load starts processes slowly.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running program.
pub(crate) struct Process(Child);

impl Process {
    /// Starts the program, and waits until it listens.
    pub(crate) fn start(arguments: &[&str], port: u16) -> Self {
        let mut process = Self(program(arguments).spawn().expect("a process"));
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = process.0.try_wait().expect("a child");
            assert!(ended.is_none(), "{arguments:?} ended: {ended:?}");
            assert!(start.elapsed() < PATIENCE, "{arguments:?} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        process
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Stops it as it is: its connections stay open, and nothing is answered.
    #[cfg(unix)]
    pub(crate) fn freeze(&self) {
        let done = Command::new("kill").args(["-STOP", &self.id().to_string()]).status();
        assert!(done.expect("a program named kill").success());
    }

    /// Ends it as a machine does that loses power.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("a running process");
        self.0.wait().expect("a killed process");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program with arguments, on the host engine.
pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env("NEARFIELD_ADAPTER", "host").stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// A port that is free together with the next one.
pub(crate) fn free_port() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = first.local_addr().expect("an address").port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}
