//! Cleaning up when the program is interrupted.

use std::path::PathBuf;
use std::sync::Mutex;

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
pub fn clean_up() -> std::io::Result<()> {
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
    std::thread::Builder::new().name("nearfield-interrupt".into()).spawn(wait)?;
    Ok(())
}

/// Elsewhere, the next file that is written under the same name removes what was left behind.
#[cfg(not(unix))]
pub fn clean_up() -> std::io::Result<()> {
    Ok(())
}
