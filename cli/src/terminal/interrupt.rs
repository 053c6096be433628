//! Cleaning up when the program is interrupted.

/// From now on, an interrupt (Ctrl-C) and a request to end remove the files that are being written, then end the program as
/// they would have done by themselves.
#[cfg(unix)]
pub(crate) fn clean_up() -> std::io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let wait = move || {
        for signal in signals.forever() {
            nearfield::io::remove_unfinished();
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
pub(crate) fn clean_up() -> std::io::Result<()> {
    Ok(())
}
