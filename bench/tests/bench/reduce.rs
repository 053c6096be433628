//! `nearfield-bench reduce`, from the outside.

use anyhow::Result;
use serde_json::Value;

use crate::kernels;

fn lines(arguments: &str) -> Result<Option<Vec<Value>>> {
    kernels::kernel_lines(&format!("reduce {arguments}"))
}

fn check_figures(line: &Value) {
    kernels::check_figures(line);
    assert!(line["error"].as_f64().is_some_and(|error| (0.0..1e-4).contains(&error)), "{line}");
    // Of rows some are checked, everything else is.
    assert!(line["verified"] == true || line["verified"].as_u64() > Some(0), "{line}");
}

#[test]
fn every_rung_has_a_line_with_figures_or_with_what_it_needs() -> Result<()> {
    let Some(lines) = lines("--ladder --length 10007")? else { return Ok(()) };
    let rungs: Vec<&str> = lines.iter().filter_map(|line| line["rung"].as_str()).collect();
    let all: Vec<&str> = nearfield::internals::ladder::RUNGS.iter().map(|rung| rung.letter).collect();
    assert_eq!(rungs, all);
    for line in &lines {
        assert_eq!((&line["record"], &line["length"]), (&"rung".into(), &10007.into()));
        match line["not_run"].as_str() {
            Some(reason) => assert!(reason.starts_with("needs "), "{line}"),
            None => check_figures(line),
        }
    }
    Ok(())
}

#[test]
fn every_operation_is_verified_and_timed() -> Result<()> {
    let names = "dot,sum,sum-squares,mean,l1,l2,max-norm,std,min,max,argmin,argmax";
    let arguments =
        format!("--length 5003 --operation {names} --summation plain,compensated --elements f32,f16");
    let Some(lines) = lines(&arguments)? else { return Ok(()) };
    assert_eq!(lines.len(), 12 * 2 * 2);
    lines.iter().for_each(check_figures);
    let has = |case: &str, elements: &str| {
        lines.iter().any(|line| line["operation"] == case && line["elements"] == elements)
    };
    assert!(names.split(',').all(|name| has(name, "f32") && has(name, "f16")));
    Ok(())
}

#[test]
fn rungs_without_time_say_so() -> Result<()> {
    let Some(ladder) = lines("--budget 1ms --length 4096 --ladder")? else { return Ok(()) };
    assert_eq!(ladder.len(), nearfield::internals::ladder::RUNGS.len());
    for line in &ladder {
        assert_eq!((&line["record"], &line["length"]), (&"rung".into(), &4096.into()), "{line}");
        assert_eq!(line["not_run"], "no time was left of --budget");
    }
    Ok(())
}

#[test]
fn rows_are_verified_and_timed() -> Result<()> {
    let arguments = "--length 20000 --row-length 77 --operation dot,sum,l2,std,argmax";
    let Some(lines) = lines(arguments)? else { return Ok(()) };
    assert_eq!(lines.len(), 5);
    for line in &lines {
        check_figures(line);
        assert_eq!((&line["length"], &line["row_length"]), (&(20000 / 77 * 77).into(), &77.into()));
    }
    Ok(())
}
