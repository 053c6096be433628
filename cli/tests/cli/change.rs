//! `nearfield add`, `update`, `remove`, `merge` and `checkpoint`.

use anyhow::Result;
use nearfield_testing::programs::names;

use crate::{Here, PROGRAM};

/// With an index of three rows, and `two.npy` and `one.npy` to change it by.
fn here() -> Result<Here> {
    let here = Here::with_three_rows()?;
    here.write("two.npy", [2, 2], &[9.0, 9.0, -1.0, -1.0])?;
    here.write("one.npy", [1, 2], &[50.0, 50.0])?;
    here.run("build --rows three.npy --metric l2sq --out index.nf")?;
    Ok(here)
}

fn ids(here: &Here, query: &str) -> Result<String> {
    let found = format!("search --index-file index.nf --queries {query} -k 9 --device host --format csv");
    let text = here.run(&found)?;
    let ids: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split(',').nth(2)).collect();
    Ok(ids.join(" "))
}

#[test]
fn changes_of_a_saved_index_go_to_its_log_and_every_command_reads_it() -> Result<()> {
    let here = here()?;
    let file = here.read("index.nf")?;
    let record = here.record("add index.nf --rows two.npy")?;
    assert_eq!((record["rows"].as_u64(), record["changed"].as_u64()), (Some(5), Some(2)));
    assert_eq!(ids(&here, "one.npy")?, "3 2 1 0 4");
    here.run("add index.nf --rows one.npy --row-ids 70")?;
    assert_eq!(ids(&here, "one.npy")?, "70 3 2 1 0 4");
    here.run("update index.nf --rows two.npy --row-ids 70,0")?;
    assert_eq!(ids(&here, "one.npy")?, "3 70 2 1 0 4");
    here.run("remove index.nf --row-ids 3,2")?;
    assert_eq!(ids(&here, "one.npy")?, "70 1 0 4");
    assert_eq!(here.read("index.nf")?, file, "the file stays as it was");

    let log = &here.record("show index.nf")?["log"];
    let of = |name: &str| log[name].as_u64();
    assert_eq!([of("added"), of("updated"), of("removed"), of("unfinished")], [3, 2, 2, 0].map(Some));
    let text = here.run("show index.nf")?;
    assert!(text.contains("3 rows added, 2 updated, 2 removed"), "{text}");

    let record = here.record("checkpoint index.nf")?;
    assert_eq!((record["rows"].as_u64(), record["log_bytes"].as_u64()), (Some(4), Some(0)));
    assert_eq!(ids(&here, "one.npy")?, "70 1 0 4");
    assert_ne!(here.read("index.nf")?, file);
    here.run("build --rows one.npy --metric l2sq --out other.nf")?;
    PROGRAM.fail(here.path(), "merge index.nf other.nf", &["other.nf", "given 0 again"])?;
    here.run("remove other.nf --row-ids 0")?;
    here.run("add other.nf --rows one.npy --row-ids 71")?;
    here.run("merge index.nf other.nf")?;
    assert_eq!(ids(&here, "one.npy")?, "71 70 1 0 4");
    assert!(names(here.path())?.contains(&"index.nf.log".to_owned()));
    here.run("build --rows three.npy --metric l2sq --out index.nf --force")?;
    assert_eq!(ids(&here, "one.npy")?, "2 1 0");
    Ok(())
}

#[test]
fn changes_that_do_not_fit_are_refused_and_leave_the_log() -> Result<()> {
    let here = here()?;
    here.write("wide.npy", [1, 3], &[0.0; 3])?;
    here.run("add index.nf --rows two.npy")?;
    let log = here.read("index.nf.log")?;
    for (command, needed) in [
        ("add index.nf --rows wide.npy", "--rows: needed dim 2, as the index has, given dim 3"),
        ("add index.nf --rows two.npy --row-ids 5", "--row-ids: needed 2 ids, one a row, given 1"),
        ("add index.nf --rows two.npy --row-ids 4,5", "given 4 again"),
        ("update index.nf --rows one.npy --row-ids 9", "given 9, which no row has"),
        ("remove index.nf --row-ids 1,9", "given 9, which no row has"),
        (
            "remove index.nf --row-ids one",
            "--row-ids: needed a .npy of whole numbers, or numbers like 3,5,8, given one",
        ),
        ("add three.npy --rows two.npy", "needed an index that `nearfield build` saved, found vectors"),
        ("search --rows index.nf.log --queries one.npy", "index.nf.log"),
    ] {
        PROGRAM.fail(here.path(), command, &[needed])?;
        assert_eq!(here.read("index.nf.log")?, log, "{command}");
    }
    Ok(())
}
