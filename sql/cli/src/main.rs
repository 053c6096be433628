//! `nearfield-sql`: statements of SQL over files of vectors, Parquet and Arrow files, and saved indexes.

mod rows;
mod tables;
mod vectors;
mod words;

use std::fs;
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, Statement};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use nearfield_cli::given::arguments::Threads;
use nearfield_cli::given::device::Name;
use nearfield_cli::given::files;
use nearfield_cli::terminal::{self, output};
use rows::{ENDINGS, Shown};
use tables::Table;
use words::in_words;

/// The stack of the thread that plans queries, recursively: thousands of terms take megabytes. Systems give memory only to the part in use.
const PLAN_STACK_BYTES: usize = 256 << 20;
/// The stack of a thread that runs them.
const STACK_BYTES: usize = 64 << 20;

const LONG: &str = "\
Run statements of SQL, with the functions of nearfield, over files on this machine.

A file in quotes is a table: .parquet, .csv, .json and .arrow, a folder of one kind with / at its end, and every file of vectors that \
`nearfield search` reads (.npy, .fbin and so on), which has the columns `id` (the number of the row, from 0) and `vector`. --table gives a file \
a name; there .csv needs a line of headers, and .nf, an index that `nearfield build` saved, has the columns `id` and `vector` and is searched where it is in memory.

Functions: `knn(table, column, query, k [, metric, filter])` finds the nearest rows of a table, `knn_join` those of each row of another table, \
`knn_maxsim(table, column, query, k [, filter])` the rows whose documents, lists of token vectors, have the largest MaxSim, \
`knn_graph` those of each row among the others, `similar_pairs(table, column, radius)` the pairs of rows below a radius, and \
`knn_index(file, query, k [, probes])` those of an index that `nearfield build` saved. `array_distance`, `cosine_distance`, `inner_product` and others \
compare two vectors; `ORDER BY` them gives the same answers as `knn`. docs/sql.md has all of them. The rest is the SQL of Apache DataFusion.

Statements are separated by semicolons. Their rows are printed as tables, of at most --show rows; long vectors are shortened. --json prints all rows as \
JSON, an object a row. --out writes all rows of the last statement to a file; then --json prints one object in one line:
  rows        written rows
  seconds     running all statements
  out         the written file";

const USAGE: &str = "nearfield-sql <SQL|--file <FILE.sql>> [OPTIONS]";

const EXAMPLES: &str = "\
Examples:
  nearfield-sql \"SELECT count(*) FROM 'base.parquet'\"
  nearfield-sql --table b=base.npy \"SELECT id, _distance FROM knn(b, vector, [0.1, 0.9], 10)\"
  nearfield-sql \"SELECT id FROM 'base.npy' ORDER BY l2_distance(vector, [0.1, 0.9]) LIMIT 10\"
  nearfield-sql \"SELECT * FROM knn_index('index.nf', [0.1, 0.9], 10)\" --json
  nearfield-sql --table b=index.nf \"SELECT id FROM b ORDER BY vector <=> [0.1, 0.9] LIMIT 10\"
  nearfield-sql --table d=docs.parquet \"SELECT * FROM knn_maxsim(d, tokens, [[1, 0], [0, 1]], 9)\"
  nearfield-sql --file report.sql --table base=base.fbin --out report.parquet";

#[derive(Debug, Parser)]
#[command(name = "nearfield-sql", version, about = "Run SQL over Parquet, Arrow and vector files, and saved indexes", long_about = LONG, override_usage = USAGE, after_help = EXAMPLES)]
struct Args {
    /// Statements, separated by semicolons
    #[arg(value_name = "SQL", required_unless_present = "file", conflicts_with = "file")]
    statements: Option<String>,
    /// Read the statements from a file, or from the standard input with -
    #[arg(long, value_name = "FILE.sql")]
    file: Option<PathBuf>,
    /// Give a file, or a folder of Parquet files, the name of a table: .parquet, .csv, .tsv, .jsonl, .arrow, .ipc, .feather, or vectors
    #[arg(long = "table", value_name = "NAME=FILE", value_parser = tables::table)]
    tables: Vec<Table>,
    #[command(flatten)]
    device: Name,
    #[command(flatten)]
    threads: Threads,
    /// Rows of a table that are printed
    #[arg(long, value_name = "N", default_value_t = 40, conflicts_with_all = ["json", "out"])]
    show: usize,
    /// Write the rows of the last statement: .csv, .jsonl or .parquet
    #[arg(long, value_name = "OUT", value_parser = |text: &str| files::output_path(text, ENDINGS))]
    out: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print rows as JSON, an object a row; with --out, print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    terminal::run(|args: Args| run(&args))
}

fn run(args: &Args) -> Result<()> {
    let tables = args.tables.iter().map(|table| ("--table", Some(table.file.as_path())));
    let inputs: Vec<_> = tables.chain([("--file", args.file.as_deref())]).collect();
    files::check_outputs(&inputs, &[("--out", args.out.as_deref())], args.force)?;
    let text = read(args)?;
    // Searches run on threads of the session too, so these threads are those of the whole program.
    args.threads.set_for_all()?;
    let threads = rayon::current_num_threads();
    let runtime = Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()?;
    let context = session(args.device.given(), threads)?;
    std::thread::scope(|scope| {
        let all = || run_all(args, &runtime, &context, &text);
        let thread = std::thread::Builder::new().stack_size(PLAN_STACK_BYTES).spawn_scoped(scope, all)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The text of the statements.
fn read(args: &Args) -> Result<String> {
    let Some(path) = &args.file else {
        return args.statements.clone().context("SQL: needed statements, or --file, given neither");
    };
    let mut text = String::new();
    let read = match path == Path::new("-") {
        true => stdin().lock().read_to_string(&mut text).map(|_| text),
        false => fs::read_to_string(path),
    };
    read.with_context(|| format!("--file {}", path.display()))
}

fn parsed(text: &str) -> Result<Vec<Statement>> {
    let statements: Vec<Statement> = DFParser::parse_sql(text).map_err(in_words).context("SQL")?.into();
    ensure!(!statements.is_empty(), "SQL: needed a statement, given none");
    Ok(statements)
}

/// A session in which files are tables.
fn session(device: &str, threads: usize) -> Result<SessionContext> {
    let context = nearfield_datafusion::context().enable_url_table();
    vectors::enable_tables(&context);
    let state = context.state_ref();
    let mut state = state.write();
    let options = state.config_mut().options_mut();
    options.execution.target_partitions = threads;
    options.set("nearfield.device", device).map_err(in_words).context("--device")?;
    drop(state);
    Ok(context)
}

fn run_all(args: &Args, runtime: &Runtime, context: &SessionContext, text: &str) -> Result<()> {
    let statements = parsed(text)?;
    for table in &args.tables {
        runtime.block_on(table.register(context))?;
    }
    let (start, count) = (Instant::now(), statements.len());
    for (number, statement) in (1..).zip(statements) {
        let about = || if count == 1 { "SQL".to_owned() } else { format!("SQL, statement {number}") };
        let frame = runtime.block_on(async {
            let plan = context.state().statement_to_plan(statement).await?;
            context.execute_logical_plan(plan).await
        });
        let frame = frame.map_err(in_words).with_context(about)?;
        let schema = frame.schema().as_arrow().clone();
        let stream = runtime.block_on(frame.execute_stream()).map_err(in_words).with_context(about)?;
        let rows = rows::Rows::new(runtime, stream, schema);
        match &args.out {
            Some(path) if number == count => {
                let written = rows.write(path).with_context(about)?;
                let seconds = start.elapsed();
                let record = json!({ "rows": written, "seconds": seconds.as_secs_f64(), "out": path });
                let lines = [
                    ("time", output::time(seconds)),
                    ("wrote", format!("{}, {}", path.display(), output::counted(written, "row", "rows"))),
                ];
                output::print(args.json, &record, &lines)?;
            }
            // What the others answer would be between the lines of that.
            Some(_) => rows.run().with_context(about)?,
            None => rows
                .print(if args.json { Shown::Json } else { Shown::Table(args.show) })
                .with_context(about)?,
        }
    }
    Ok(())
}
