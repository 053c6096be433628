//! Ballista: a scheduler and two executors.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballista_core::config::TaskSchedulingPolicy;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use nearfield_cluster::batch::Session;

use crate::processes::{Process, free_port};
use crate::statements::{one_machine, register, register_table, same, statements};
use crate::support::{DIM, QUERIES, ROWS, Sql, Stored, literal, table, vectors};

fn scheduler() -> (Process, u16) {
    Process::start("scheduler --port PORT --patience 4", 0)
}

/// An executor with one task at a time.
fn executor(scheduler: u16, work: &Path) -> Process {
    let (scheduler, work) = (format!("127.0.0.1:{scheduler}"), work.display());
    let arguments =
        format!("executor --scheduler {scheduler} --port PORT --tasks 1 --heartbeat 1 --work {work}");
    Process::start(&arguments, 1).0
}

async fn session(scheduler: u16) -> Session {
    Session::connect(&format!("df://127.0.0.1:{scheduler}")).await.expect("a session")
}

/// What tasks have written, in all folders below.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else { return vec![] };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_one_machine_and_both_executors_work() {
    let sql = one_machine().await;
    let (_scheduler, port) = scheduler();
    let work = [0, 1].map(|number| sql.folder.path().join(format!("work-{number}")));
    let _executors = [executor(port, &work[0]), executor(port, &work[1])];
    let session = session(port).await;
    register(session.context(), &sql).await;
    for statement in statements(&sql) {
        same(&sql, &statement, session.run(&statement).await).await;
    }
    // What tasks hand on is removed after the job; the job's folder stays, beside those of DataFusion.
    for folder in work {
        let mut names = folder.read_dir().expect("a folder").flatten().map(|entry| entry.file_name());
        let ran = names.any(|name| !name.to_string_lossy().starts_with("datafusion-"));
        assert!(ran, "no task ran in {}", folder.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_ends_with_the_same_answer_when_an_executor_is_lost() {
    let sql = Sql::new("host").await;
    sql.run("SET datafusion.execution.target_partitions = 32").await;
    let repeated = vectors(&ROWS.repeat(10), DIM);
    sql.parquet("t", &table(&repeated, DIM, Stored::FixedF32), 32).await;
    let queries: Vec<String> = QUERIES.chunks(DIM).take(7).map(literal).collect();
    let statement = format!(
        "SELECT id, query_index, rank, _distance FROM knn(t, vec, [{}], 25) ORDER BY 2, 3",
        queries.join(", ")
    );
    let (_scheduler, port) = scheduler();
    let work = [0, 1].map(|number| sql.folder.path().join(format!("work-{number}")));
    let mut executors = [executor(port, &work[0]), executor(port, &work[1])];
    let session = session(port).await;
    register_table(session.context(), &sql, "t").await;
    session.run("SET datafusion.execution.target_partitions = 32").await.expect("an option");
    let job = {
        let statement = statement.clone();
        tokio::spawn(async move { session.run(&statement).await })
    };
    // The first has done a task, whose result is lost with it.
    let start = Instant::now();
    while files(&work[0]).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(120), "no task of the first executor ends");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!job.is_finished(), "the job has ended before an executor was lost");
    executors[0].kill();
    same(&sql, &statement, job.await.expect("no panic")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executor_without_the_extension_is_an_error_that_names_it() {
    let sql = one_machine().await;
    let (_scheduler, scheduler) = scheduler();
    let port = free_port();
    let stock = ExecutorProcessConfig {
        port,
        grpc_port: port + 1,
        scheduler_host: "127.0.0.1".into(),
        scheduler_port: scheduler,
        scheduler_connect_timeout_seconds: 20,
        vcores: 1,
        task_scheduling_policy: TaskSchedulingPolicy::PushStaged,
        work_dir: Some(sql.folder.path().to_str().expect("a path").into()),
        ..ExecutorProcessConfig::default()
    };
    tokio::spawn(async move { start_executor_process(Arc::new(stock)).await.expect("an executor") });
    let session = session(scheduler).await;
    register(session.context(), &sql).await;
    let error = session.run(&statements(&sql)[0]).await.expect_err("no search there").to_string();
    assert!(
        error.contains("an executor could not read its task. Executors have to know nearfield"),
        "{error}"
    );
    // A statement without a search runs there.
    let statement = "SELECT count(*) FROM t";
    same(&sql, statement, session.run(statement).await).await;
}
