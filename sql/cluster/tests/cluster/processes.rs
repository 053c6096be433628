//! Processes of a cluster, which end with the test.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nearfield-cluster");
/// A machine under load starts processes slowly.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ports that are tried.
const ATTEMPTS: usize = 5;

/// A running program.
pub(crate) struct Process(Child);

impl Process {
    /// Starts the program with arguments in which PORT stands for a free port, and waits until it listens there, or that much above. Another
    /// program may take the port before this one does: then at another port.
    pub(crate) fn start(arguments: &str, above: u16) -> (Self, u16) {
        let start = Instant::now();
        for _ in 0..ATTEMPTS {
            let port = free_port();
            let arguments = arguments.replace("PORT", &port.to_string());
            let words: Vec<&str> = arguments.split_whitespace().collect();
            let mut process = Self(program(&words).spawn().expect("a process"));
            while process.0.try_wait().expect("a child").is_none() {
                if TcpStream::connect(("127.0.0.1", port + above)).is_ok() {
                    return (process, port);
                }
                assert!(start.elapsed() < PATIENCE, "{arguments} does not listen");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        panic!("{arguments} ends at every port");
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

/// Bytes that wait at a port for a program that does not read them.
#[cfg(target_os = "linux")]
pub(crate) fn waiting_bytes(port: u16) -> u64 {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux has it");
    let of_port = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = fields.get(1)?.rsplit_once(':')?;
        let (_, received) = fields.get(4)?.split_once(':')?;
        let is_it = u16::from_str_radix(local, 16) == Ok(port);
        u64::from_str_radix(received, 16).ok().filter(|_| is_it)
    };
    table.lines().filter_map(of_port).sum()
}

/// A port that is free together with the next one, at the moment.
pub(crate) fn free_port() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = first.local_addr().expect("an address").port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}
