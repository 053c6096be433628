//! `knn_index` answers as the saved indexes do, one or several, which stay in memory.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::array::types::{Float64Type, UInt64Type};
use nearfield::Metric::{Cosine, L2Squared};
use nearfield::{Device, Flat, Ivf, MatrixView, Neighbors, SearchOptions};

use crate::support::{DIM, QUERIES, ROWS, Sql, devices, literal, save_rows};

fn view(values: &[f32]) -> MatrixView<'_, f32> {
    MatrixView::new(values, DIM).expect("whole rows")
}

fn queries(count: usize) -> String {
    let queries: Vec<String> = QUERIES.chunks(DIM).take(count).map(literal).collect();
    format!("[{}]", queries.join(", "))
}

/// The answer has these neighbours.
async fn check(sql: &Sql, call: &str, wanted: &Neighbors) {
    let found = sql.run(&format!("SELECT query_index, rank, id, _distance FROM {call} ORDER BY 1, 2")).await;
    let [query, rank, id] = [0, 1, 2].map(|place| found.column(place).as_primitive::<UInt64Type>());
    let distance = found.column(3).as_primitive::<Float64Type>();
    let row = |row: usize| (query.value(row), rank.value(row), id.value(row), distance.value(row));
    let found: Vec<_> = (0..found.num_rows()).map(row).collect();
    let mut rows: Vec<(u64, u64, u64, f64)> = vec![];
    for (query, hits) in (0..).zip(wanted.iter()) {
        rows.extend((0..).zip(hits).map(|(rank, hit)| (query, rank, hit.id, f64::from(hit.distance))));
    }
    assert_eq!(found, rows, "{call:.100}");
}

#[tokio::test]
async fn one_file_and_a_folder_of_shards_answer_as_one_index() {
    for device_name in devices() {
        let device = Device::open(Some(device_name), Default::default()).expect("a device");
        let sql = Sql::new(device_name).await;
        let folder = sql.folder.path();
        save_rows(&folder.join("whole.index"), 0..900, L2Squared);
        for (shard, rows) in [0..300, 300..310, 310..900].into_iter().enumerate() {
            save_rows(&folder.join(format!("{shard}.nf")), rows, L2Squared);
        }
        let whole = Flat::load(&device, folder.join("whole.index")).expect("the index");
        let path = folder.display();
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
        let call = format!("knn_index('{path}', {}, 900)", queries(1));
        assert_eq!(sql.run(&format!("SELECT DISTINCT file FROM {call}")).await.num_rows(), 3);
    }
}

#[tokio::test]
async fn lists_are_probed_and_a_file_that_was_changed_is_loaded_again() {
    let sql = Sql::new("host").await;
    let (device, path) = (Device::host(), sql.folder.path().join("lists.nf"));
    let rows = view(&ROWS[..800 * DIM]);
    let mut index = Ivf::builder(&device, Cosine, DIM).lists(20).train(rows).expect("lists");
    index.add(rows).expect("rows");
    index.save(&path).expect("a saved index");
    let call = |count, rest| format!("knn_index('{}', {}, {rest})", path.display(), queries(count));
    for (probes, rest) in [(2, "5, 2"), (20, "5, 20")] {
        let wanted = index
            .search_with(view(&QUERIES[..3 * DIM]), &SearchOptions::new(5).probes(probes))
            .expect("an answer")
            .neighbors;
        check(&sql, &call(3, rest), &wanted).await;
    }
    let is_resident =
        || nearfield_datafusion::resident_indexes().contains(&path.canonicalize().expect("a file"));
    assert!(is_resident());
    save_rows(&path, 0..50, L2Squared);
    let anew = Flat::load(&device, &path).expect("the index");
    check(&sql, &call(1, "5"), &anew.search(view(&QUERIES[..DIM]), 5).expect("an answer")).await;
    // So is one with other changes in its log.
    let mut changed = Flat::open(&device, &path).expect("the index");
    changed.add(view(&QUERIES[..DIM])).expect("a row");
    drop(changed);
    let anew = Flat::load(&device, &path).expect("the index");
    assert_eq!(anew.len(), 51);
    check(&sql, &call(1, "5"), &anew.search(view(&QUERIES[..DIM]), 5).expect("an answer")).await;
    // With room for nothing, it leaves after the query.
    sql.run("SET nearfield.resident_bytes = 0").await;
    save_rows(&path, 0..60, L2Squared);
    assert_eq!(sql.run(&format!("SELECT id FROM {}", call(1, "100"))).await.num_rows(), 60);
    assert!(!is_resident());
    // A device that does not open leaves nothing behind.
    sql.run("SET nearfield.device = 'no such card'").await;
    let error = sql.error(&format!("SELECT id FROM {}", call(1, "1"))).await;
    assert!(error.contains("no such card") && !is_resident(), "{error}");
}

#[tokio::test]
async fn files_that_cannot_be_searched_are_errors_that_name_them() {
    let sql = Sql::new("host").await;
    let folder = sql.folder.path();
    std::fs::create_dir(folder.join("empty")).expect("a folder");
    std::fs::write(folder.join("text.nf"), "no index").expect("a file");
    save_rows(&folder.join("good.index"), 0..5, L2Squared);
    let written = |call: &str| {
        let call = call.replace("AT", &folder.display().to_string()).replace("QUERY", &queries(1));
        format!("SELECT id FROM knn_index({call})")
    };
    // A file by two names is one.
    let twice = sql.run(&written("'AT/good.index,AT/empty/../good.index', QUERY, 100")).await;
    assert_eq!(twice.num_rows(), 5);
    for (call, wanted) in [
        ("'AT/absent.nf', QUERY, 3", "absent.nf"),
        ("'AT/text.nf', QUERY, 3", "text.nf"),
        ("'AT/good.index', [1.0], 3", "good.index"),
        ("'', QUERY, 3", "needed a file, given"),
        ("'AT/good.index', QUERY, 3, 0", "needed a whole number from 1, given"),
        ("'AT/empty', QUERY, 3", "needed index files (.nf), there are none in"),
    ] {
        let error = sql.error(&written(call)).await;
        assert!(error.contains(wanted), "{call}: {error}");
    }
}
