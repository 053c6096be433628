//! What the program does before a signal ends it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

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

/// What is said when a mapped file was cut.
static CUT: OnceLock<String> = OnceLock::new();

/// From now on, the program ends with exit code 1 and the name of this file where it reads what another program has cut off the mapped
/// file. The system would end it without a word, by SIGBUS. A copy of the file would take the memory that mapping it saves.
#[cfg(unix)]
pub fn name_cut_file(path: &Path) -> std::io::Result<()> {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;
    let path = path.display().to_string();
    let path = super::output::printable(&path);
    let line =
        format!("error: {path}: needed the file as it was when it was mapped, but it was cut meanwhile\n");
    if CUT.set(line).is_err() {
        return Ok(());
    }
    // Unlike that of the standard library, it has no lock.
    let stderr = File::from(std::io::stderr().as_fd().try_clone_to_owned()?);
    let end = move || {
        if let Some(line) = CUT.get() {
            (&stderr).write_all(line.as_bytes()).ok();
        }
        signal_hook::low_level::exit(1);
    };
    #[expect(unsafe_code, reason = "what runs in a signal's handler may not do everything")]
    // SAFETY: the handler takes no memory and no lock: it reads a text that was set before, writes it with one system call, and ends the
    // program by `_exit`.
    unsafe { signal_hook::low_level::register(signal_hook::consts::SIGBUS, end) }?;
    Ok(())
}

/// Elsewhere the system does not let others cut a file that is mapped.
#[cfg(not(unix))]
pub fn name_cut_file(_path: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;

    use super::*;

    const CHILD: &str = "NEARFIELD_TEST_CUT";

    #[test]
    fn reading_what_was_cut_off_a_mapped_file_names_it() {
        if std::env::var_os(CHILD).is_some() {
            name_cut_file(Path::new("large\u{1b}.npy")).expect("a handler");
            signal_hook::low_level::raise(signal_hook::consts::SIGBUS).expect("raised");
            unreachable!("the handler ends the program");
        }
        let program = std::env::current_exe().expect("a path");
        let name = "terminal::interrupt::tests::reading_what_was_cut_off_a_mapped_file_names_it";
        let run = Command::new(program).args(["--exact", name, "--nocapture"]).env(CHILD, "1").output();
        let output = run.expect("it starts");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains("error: large\\u{1b}.npy: needed the file as it was"), "{told}");
        assert_eq!(output.status.code(), Some(1), "{told}");
    }
}
