//! `knn_index` answers as the saved indexes do, one or several, which stay in memory.

use std::path::Path;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::array::types::{Float64Type, UInt64Type};
use nearfield::{Device, Flat, Ivf, MatrixView, Metric, Neighbors};

use crate::support::{DIM, QUERIES, ROWS, Sql, devices, literal, save_index};

fn view(values: &[f32]) -> MatrixView<'_, f32> {
    MatrixView::new(values, DIM).expect("whole rows")
}

/// Saves the rows of a range under their own numbers.
fn save(rows: std::ops::Range<usize>, path: &Path) {
    let values = &ROWS[rows.start * DIM..rows.end * DIM];
    save_index(path, values, DIM, Metric::L2Squared, rows.start as u64);
}

fn queries(count: usize) -> String {
    let queries: Vec<String> = QUERIES.chunks(DIM).take(count).map(literal).collect();
    format!("[{}]", queries.join(", "))
}

/// The answer has these neighbours.
async fn check(sql: &Sql, call: &str, wanted: &Neighbors) {
    let found = sql.run(&format!("SELECT query_index, rank, id, _distance FROM {call} ORDER BY 1, 2")).await;
    let numbers = |place: usize| found.column(place).as_primitive::<UInt64Type>().values().to_vec();
    let distances = found.column(3).as_primitive::<Float64Type>();
    let hits = wanted
        .iter()
        .enumerate()
        .flat_map(|(query, row)| row.iter().enumerate().map(move |hit| (query, hit)));
    let hits: Vec<_> = hits.collect();
    assert_eq!(found.num_rows(), hits.len());
    let (query_indexes, ranks, ids) = (numbers(0), numbers(1), numbers(2));
    for (place, (query, (rank, hit))) in hits.into_iter().enumerate() {
        let found = (query_indexes[place], ranks[place], ids[place], distances.value(place));
        assert_eq!(found, (query as u64, rank as u64, hit.id, f64::from(hit.distance)), "{call:.100}");
    }
}

#[tokio::test]
async fn one_file_and_a_folder_of_shards_answer_as_one_index() {
    for device_name in devices() {
        let device = Device::open(Some(device_name), Default::default()).expect("a device");
        let folder = tempfile::tempdir().expect("a folder");
        save(0..900, &folder.path().join("whole.index"));
        for (shard, rows) in [0..300, 300..310, 310..900].into_iter().enumerate() {
            save(rows, &folder.path().join(format!("{shard}.nf")));
        }
        let sql = Sql::new(device_name).await;
        let whole = Flat::load(&device, folder.path().join("whole.index")).expect("the index");
        let path = folder.path().display();
        for k in [1, 7, 1000] {
            let wanted = whole.search(view(&QUERIES[..5 * DIM]), k).expect("an answer");
            for files in [
                format!("{path}/whole.index"),
                format!("{path}"),
                format!("{path}/2.nf, {path}/0.nf,{path}/1.nf"),
            ] {
                check(&sql, &format!("knn_index('{files}', {}, {k})", queries(5)), &wanted).await;
            }
        }
        let files = sql
            .run(&format!("SELECT DISTINCT file FROM knn_index('{path}', {}, 900) ORDER BY 1", queries(1)))
            .await;
        assert_eq!(files.num_rows(), 3);
    }
}

#[tokio::test]
async fn lists_are_probed_and_a_file_that_was_written_anew_is_loaded_again() {
    let device = Device::host();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lists.nf");
    let mut index =
        Ivf::builder(&device, Metric::Cosine, DIM).lists(20).train(view(&ROWS[..800 * DIM])).expect("lists");
    index.add(view(&ROWS[..800 * DIM])).expect("rows");
    index.save(&path).expect("a saved index");
    let sql = Sql::new("host").await;
    let text = path.display();
    for probes in [2, 20] {
        let wanted = index.search(view(&QUERIES[..3 * DIM]), 5, probes).expect("an answer");
        check(&sql, &format!("knn_index('{text}', {}, 5, {probes})", queries(3)), &wanted).await;
    }
    let is_resident =
        || nearfield_datafusion::resident_indexes().contains(&path.canonicalize().expect("a file"));
    assert!(is_resident());
    save(0..50, &path);
    let wanted =
        Flat::load(&device, &path).expect("the index").search(view(&QUERIES[..DIM]), 5).expect("an answer");
    check(&sql, &format!("knn_index('{text}', {}, 5)", queries(1)), &wanted).await;
    // With room for nothing, it leaves after the query.
    sql.run("SET nearfield.resident_bytes = 0").await;
    save(0..60, &path);
    assert_eq!(
        sql.run(&format!("SELECT id FROM knn_index('{text}', {}, 100)", queries(1))).await.num_rows(),
        60
    );
    assert!(!is_resident());
    // A device that does not open leaves nothing behind.
    sql.run("SET nearfield.device = 'no such card'").await;
    let error = sql.error(&format!("SELECT id FROM knn_index('{text}', {}, 1)", queries(1))).await;
    assert!(error.contains("no such card") && !is_resident(), "{error}");
}

#[tokio::test]
async fn files_that_cannot_be_searched_are_errors_that_name_them() {
    let sql = Sql::new("host").await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display().to_string();
    std::fs::write(folder.path().join("text.nf"), "no index").expect("a file");
    save(0..5, &folder.path().join("good.index"));
    // A file by two names is one.
    let name = folder.path().file_name().expect("a name").display();
    let twice = format!("{path}/good.index,{path}/../{name}/good.index");
    let found = sql.run(&format!("SELECT id FROM knn_index('{twice}', {}, 100)", queries(1))).await;
    assert_eq!(found.num_rows(), 5);
    for (call, wanted) in [
        (format!("knn_index('{path}/absent.nf', {}, 3)", queries(1)), "absent.nf"),
        (format!("knn_index('{path}/text.nf', {}, 3)", queries(1)), "text.nf"),
        (format!("knn_index('{path}/good.index', [1.0], 3)"), "good.index"),
        (format!("knn_index('', {}, 3)", queries(1)), "needed a file, given"),
        (
            format!("knn_index('{path}/good.index', {}, 3, 0)", queries(1)),
            "needed a whole number from 1, given",
        ),
    ] {
        let error = sql.error(&format!("SELECT * FROM {call}")).await;
        assert!(error.contains(wanted), "{call:.100}: {error}");
    }
    std::fs::remove_file(folder.path().join("text.nf")).expect("it was there");
    let error = sql.error(&format!("SELECT * FROM knn_index('{path}', {}, 3)", queries(1))).await;
    assert!(error.contains("needed index files (.nf), there are none in"), "{error}");
}
