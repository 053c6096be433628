//! datafusion-distributed: two workers.

use std::sync::Arc;
use std::time::Duration;

use nearfield_cluster::online::{Session, Workers};

#[cfg(target_os = "linux")]
use crate::processes::waiting_bytes;
use crate::processes::{Process, free_port};
use crate::statements::{one_machine, register, same, statements};
use crate::support::{DIM, QUERIES, Sql, literal};

fn worker() -> (Process, String) {
    let (process, port) = Process::start("worker --port PORT", 0);
    (process, format!("http://127.0.0.1:{port}"))
}

/// A session that knows what one machine does.
async fn session(workers: Arc<Workers>, sql: &Sql) -> Session {
    let session = Session::new(workers).expect("a session");
    // Several tasks even for a few rows.
    session.run("SET distributed.file_scan_config_bytes_per_partition = 1000").await.expect("an option");
    register(session.context(), sql).await;
    session
}

/// What `EXPLAIN ANALYZE` tells.
async fn plan(session: &Session, statement: &str) -> String {
    let plan = session.run(&format!("EXPLAIN ANALYZE {statement}")).await.expect("a plan");
    format!("{:?}", plan[0].column(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_one_machine_on_two_workers_and_on_the_one_that_is_left() {
    let sql = one_machine().await;
    let [(_first, first), (mut second, address)] = [worker(), worker()];
    let workers = Workers::watch([first, address]).expect("addresses");
    let session = session(workers.clone(), &sql).await;
    for statement in statements(&sql) {
        same(&sql, &statement, session.run(&statement).await).await;
    }
    // Every task gets all queries of a table.
    let joined = plan(&session, "SELECT id FROM knn_join(q, vec, t, vec, 2)").await;
    for part in ["NetworkBroadcastExec", "KnnPartialExec", "tasks=2"] {
        assert!(joined.contains(part), "{part}: {joined}");
    }
    second.kill();
    // A single index of a single worker is searched there too, and not by the client.
    let call = format!("knn_index('{}/0.nf', {}, 3)", sql.folder.path().display(), literal(&QUERIES[..DIM]));
    let plan = plan(&session, &format!("SELECT id FROM {call}")).await;
    assert!(plan.contains("DistributedExec") && plan.contains("rows_searched=200"), "{plan}");
    for statement in statements(&sql) {
        same(&sql, &statement, session.run(&statement).await).await;
    }
    assert_eq!(workers.alive().len(), 1);
}

/// The second worker stands still from before the query until it is killed, so that the query cannot end without being run again.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_run_again_when_a_worker_is_lost() {
    /// Pings are shorter than a plan.
    const PLAN_BYTES: u64 = 1000;
    let sql = one_machine().await;
    let queries: Vec<String> = QUERIES.chunks(DIM).take(7).map(literal).collect();
    let statement =
        format!("SELECT id, query_index, rank FROM knn(t, vec, [{}], 25) ORDER BY 2, 3", queries.join(", "));
    let [(_first, first), (mut second, address)] = [worker(), worker()];
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
    let session = session(Workers::watch([first, address]).expect("addresses"), &sql).await;
    second.freeze();
    let run = session.run(&statement);
    let kill = async {
        while waiting_bytes(port) < PLAN_BYTES {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        second.kill();
    };
    let (answer, ()) = tokio::join!(run, kill);
    same(&sql, &statement, answer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_workers_the_error_names_them() {
    let port = free_port();
    let workers = Workers::watch([format!("http://127.0.0.1:{port}")]).expect("an address");
    while !workers.alive().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let session = Session::new(workers).expect("a session");
    let error = session
        .run("SELECT id FROM knn_index('rows.nf', [1.0], 1)")
        .await
        .expect_err("nobody answers")
        .to_string();
    assert!(error.contains("no worker answers") && error.contains(&port.to_string()), "{error}");
    for wrong in ["", "http://", "gpu-1:50060", "ftp://a:1", "http://host"] {
        let error = Workers::watch([wrong]).expect_err("no address").to_string();
        assert!(error.contains("needed addresses as in http://host:50060"), "{error}");
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn workers_that_never_answer_hold_no_query_up() {
    let sql = one_machine().await;
    let [(_first, first), (frozen, address)] = [worker(), worker()];
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = format!("http://{}", silent.local_addr().expect("an address"));
    let session = session(Workers::watch([first, address, nobody]).expect("addresses"), &sql).await;
    let statement = &statements(&sql)[3];
    for is_frozen in [false, true] {
        if is_frozen {
            frozen.freeze();
        }
        let answer = tokio::time::timeout(Duration::from_secs(60), session.run(statement)).await;
        same(&sql, statement, answer.expect("in time")).await;
    }
}

/// Bytes that a process has read from files.
#[cfg(target_os = "linux")]
fn bytes_read(process: &Process) -> u64 {
    let counters = std::fs::read_to_string(format!("/proc/{}/io", process.id())).expect("counters");
    let line = counters.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("a counter");
    line.parse().expect("a number")
}

/// Each index stays in the memory of one worker, to which every query for it goes.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn indexes_stay_with_their_workers() {
    let sql = one_machine().await;
    let [(first, one), (second, two)] = [worker(), worker()];
    let session = session(Workers::watch([one, two]).expect("addresses"), &sql).await;
    // The worker's own limit decides.
    session.run("SET nearfield.resident_bytes = 0").await.expect("an option");
    let call = |query: usize| {
        let query = literal(&QUERIES[query * DIM..][..DIM]);
        format!("SELECT id FROM knn_index('{}', {query}, 3)", sql.folder.path().display())
    };
    let shard = sql.folder.path().join("0.nf").metadata().expect("a file").len();
    let before = [&first, &second].map(bytes_read);
    session.run(&call(0)).await.expect("an answer");
    let loaded = [&first, &second].map(bytes_read);
    for (before, loaded) in before.iter().zip(loaded) {
        assert!(loaded - before >= 4 * shard, "each worker has half of the 8 shards: {before} {loaded}");
    }
    for query in 1..10 {
        session.run(&call(query)).await.expect("an answer");
    }
    for (loaded, now) in loaded.iter().zip([&first, &second].map(bytes_read)) {
        assert!(now - loaded < shard, "an index was read again: {} of {shard} bytes", now - loaded);
    }
}
