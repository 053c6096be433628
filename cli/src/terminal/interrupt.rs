//! What the program does before a signal ends it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
#[cfg(unix)]
use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use tempfile::TempDir;

/// Directories that an interrupt removes. One that is gone already does no harm.
static DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(vec![]);

/// A directory for temporary files, which is removed at the end of its use and when the program is interrupted.
pub fn temporary_directory() -> std::io::Result<TempDir> {
    let directory = tempfile::Builder::new().prefix("nearfield-").tempdir()?;
    let mut all = DIRECTORIES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    all.retain(|path| path.exists());
    all.push(directory.path().to_owned());
    Ok(directory)
}

/// From now on, an interrupt (Ctrl-C) and a request to end remove the files that are being written, then end the program as
/// they would have done by themselves.
#[cfg(unix)]
pub fn clean_up() -> anyhow::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let wait = move || {
        for signal in signals.forever() {
            nearfield::io::remove_unfinished();
            let directories = DIRECTORIES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            for path in directories.iter() {
                // Another thread may still write files there. The program ends whether the directory can be removed or not.
                (0..5).find(|_| std::fs::remove_dir_all(path).is_ok() || !path.exists());
            }
            // Shells then see the signal: 130 and 143. It returns only if the signal cannot be raised.
            if signal_hook::low_level::emulate_default_handler(signal).is_err() {
                std::process::exit(128 + signal);
            }
        }
    };
    // A thread that begins without memory aborts.
    crate::memory::with_room::<u8>(Some(4 << 20), || "no memory for a thread".into())?;
    std::thread::Builder::new().name("nearfield-interrupt".into()).spawn(wait)?;
    Ok(())
}

/// Elsewhere, the next file that is written under the same name removes what was left behind.
#[cfg(not(unix))]
pub fn clean_up() -> anyhow::Result<()> {
    Ok(())
}

/// The message for a mapped file that cannot be read.
#[cfg(unix)]
static UNREADABLE: OnceLock<String> = OnceLock::new();

/// From now on, the program ends with exit code 1 and the name of this file where it reads what another program has cut off the mapped
/// file, or what its disk cannot read. The system would end it without a word, by SIGBUS. A copy of the file would take the memory that
/// mapping it saves.
#[cfg(unix)]
pub fn name_unreadable(path: &Path) -> std::io::Result<()> {
    let path = path.display().to_string();
    let path = super::output::printable(&path);
    let line = format!("error: {path}: the mapped file was cut while it was read, or its disk failed\n");
    if UNREADABLE.set(line).is_err() {
        return Ok(());
    }
    #[expect(
        unsafe_code,
        reason = "the standard library handles no signals, and signal-hook asks its predecessors first"
    )]
    // SAFETY: all bytes of the action are set: the handler, which has the signature that SA_SIGINFO asks for, an empty mask, and flags. The
    // handler stays for the life of the program.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = end_unreadable as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut())
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Ends the program in a handler of SIGBUS. Several threads may read the file at once: the first speaks, the others wait for the end.
#[cfg(unix)]
extern "C" fn end_unreadable(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    static IS_FIRST: AtomicBool = AtomicBool::new(true);
    #[expect(unsafe_code, reason = "what runs in a signal's handler may not do everything")]
    // SAFETY: the system gives a valid `info`. The handler takes no memory and no lock: it reads a text that was set before, and calls what
    // may be called in a handler.
    unsafe {
        if (*info).si_code <= 0 {
            // Another process sent the signal: it ends the program as it would have without a handler.
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
            libc::raise(libc::SIGBUS);
            return;
        }
        while !IS_FIRST.swap(false, Ordering::Relaxed) {
            libc::pause();
        }
        if let Some(line) = UNREADABLE.get() {
            libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        }
        libc::_exit(1);
    }
}

/// Elsewhere the system does not let others cut a file that is mapped.
#[cfg(not(unix))]
pub fn name_unreadable(_path: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::process::{Command, Output};

    use super::*;

    const CHILD: &str = "NEARFIELD_TEST_UNREADABLE";

    /// Runs in a process of its own, which the variable starts: maps a file, cuts it and reads it from two threads.
    #[test]
    #[ignore = "the test below runs it in processes of its own"]
    fn process() {
        let Ok(path) = std::env::var(CHILD) else { return };
        name_unreadable(Path::new("large\u{1b}.npy")).expect("a handler");
        if path.is_empty() {
            signal_hook::low_level::raise(signal_hook::consts::SIGBUS).expect("raised");
            return;
        }
        let file = File::options().read(true).write(true).open(path).expect("a file");
        #[expect(unsafe_code, reason = "a mapping that outlives its file's end")]
        // SAFETY: the mapping is only read, which the handler ends.
        unsafe {
            let (kind, flags) = (libc::PROT_READ, libc::MAP_SHARED);
            let start = libc::mmap(std::ptr::null_mut(), 4096, kind, flags, file.as_raw_fd(), 0);
            file.set_len(0).expect("cut");
            let start = start as usize;
            let read = move || (start as *const u8).read_volatile();
            let other = std::thread::spawn(read);
            println!("{} {:?}", read(), other.join());
        }
    }

    fn run(path: &str) -> Output {
        let program = std::env::current_exe().expect("a path");
        let mut command = Command::new(program);
        command.args(["--exact", "terminal::interrupt::tests::process", "--ignored", "--nocapture"]);
        command.env(CHILD, path).output().expect("it starts")
    }

    #[test]
    fn reading_what_was_cut_off_a_mapped_file_names_it() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(4096).expect("a page");
        let output = run(file.path().to_str().expect("a name"));
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(told.matches("error: large\\u{1b}.npy: the mapped file was cut").count(), 1, "{told}");
        assert_eq!(output.status.code(), Some(1), "{told}");
        // One that another process sends says nothing of files.
        let sent = run("");
        assert!(sent.status.code().is_none() && !String::from_utf8_lossy(&sent.stderr).contains("mapped"));
    }
}
