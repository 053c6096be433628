//! The client as users start it.

use std::process::Stdio;

use crate::processes::{Process, free_port, program};
use crate::statements::one_machine;

fn output(arguments: &[&str]) -> (bool, String, String) {
    let output = program(arguments).stderr(Stdio::piped()).output().expect("a process");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_printed_and_timed() {
    let sql = one_machine().await;
    let (_worker, port) = Process::start("worker --port PORT", 0);
    let workers = format!("http://127.0.0.1:{port}");
    let small = format!("small={}", sql.folder.path().join("small").display());
    let docs = format!("docs={}", sql.folder.path().display());
    let statement = "SELECT id, rank, _distance FROM knn(small, vec, [1, 0, 2], 3, 'l2')";
    let (done, printed, told) =
        output(&["sql", "--workers", &workers, "--table", &small, "--repeat", "3", statement]);
    assert!(done, "{told}");
    let wanted = sql.run(statement).await;
    let wanted = datafusion::arrow::util::pretty::pretty_format_batches(&[wanted]).expect("a table");
    assert_eq!(printed.trim(), wanted.to_string());
    assert!(told.contains("3 runs: median "), "{told}");
    // A folder of indexes, no rows, and a NULL.
    let statement = "SELECT id, CAST(NULL AS INT) AS nothing FROM docs WHERE id < 1";
    for (statement, wanted) in [(statement, "NULL"), ("SELECT id FROM docs WHERE id > 9999", "| id |")] {
        let (done, printed, told) = output(&["sql", "--workers", &workers, "--table", &docs, statement]);
        assert!(done && printed.contains(wanted), "{printed} {told}");
    }
    let statement = "SELECT id FROM knn_index('/nowhere/a.nf', [1.0], 1)";
    let (done, _, told) = output(&["sql", "--workers", &workers, statement]);
    assert!(!done && told.contains("/nowhere/a.nf: No such file"), "{told}");
    assert_eq!((told.lines().count(), told.matches("No such file").count()), (1, 1), "{told}");
}

#[test]
fn wrong_arguments_are_errors_that_say_what_is_needed() {
    for (arguments, wanted) in [
        (&["sql", "SELECT 1"][..], "--scheduler"),
        (
            &["sql", "--workers", "here", "SELECT 1"],
            "needed addresses as in http://host:50060, given \"here\"",
        ),
        (
            &["sql", "--scheduler", "df://a:1", "--table", "t", "SELECT 1"],
            "--table: needed NAME=PATH, given \"t\"",
        ),
        (&["executor", "--scheduler", "here"], "--scheduler: needed host:port, given \"here\""),
        (&["executor", "--port", "65535"], "--port: needed a port below 65535"),
        (&["worker", "--resident", "many"], "--resident"),
        (&["worker", "--resident", "nan"], "needed a number of GiB from 0"),
        (&["executor", "--tasks", "0"], "--tasks"),
        (&["executor", "--heartbeat", "0"], "--heartbeat"),
        (&["scheduler", "--patience", "0"], "--patience"),
    ] {
        let (done, _, told) = output(arguments);
        assert!(!done && told.contains(wanted), "{arguments:?}: {told}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, port) = (taken.local_addr().expect("an address"), taken.local_addr().expect("one").port());
    for program in ["scheduler", "executor", "worker"] {
        let (done, _, told) = output(&[program, "--port", &port.to_string()]);
        assert!(!done && told.contains(&format!("cannot listen at {address}")), "{program}: {told}");
    }
    for name in ["worker", "executor"] {
        let port = free_port().to_string();
        let mut program = program(&[name, "--port", &port]);
        program.env("NEARFIELD_ADAPTER", "no such card").stderr(Stdio::piped());
        let output = program.output().expect("a process");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.matches("no such card").count() == 1, "{name}: {told}");
    }
    let (done, help, _) = output(&["sql", "--help"]);
    assert!(done && help.contains("Examples:"), "{help}");
}
