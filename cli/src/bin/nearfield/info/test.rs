//! `nearfield info --test`: the forms of kernels that a device takes, and whether they answer as the host engine does.

use std::env::consts::ARCH;
use std::io::{Write, stdout};

use anyhow::{Context, Result, ensure};
use nearfield::io::write_file;
use nearfield::{Device, DeviceOptions, KernelForms, Refusal};
use serde_json::{Value, json};

use super::checks::{self, Check};
use super::{Args, describe, print, times, to_json};
use nearfield_cli::terminal::output;

/// Tests a device. Fails if a check does.
pub(super) fn run(args: &Args) -> Result<()> {
    // Closed before the other is opened.
    let best = Device::best().ok().map(|best| best.adapter().clone());
    let device = args.device.open(DeviceOptions::default())?;
    let (adapter, usage) = (device.adapter(), device.memory_usage());
    let is_best = best.as_ref() == Some(adapter);
    let mut checks = checks::run(&device)?;
    let times = args.report.as_ref().map(|_| times::run(&device)).transpose();
    let times = times.unwrap_or_else(|error| {
        checks.push(Check { name: "times".to_owned(), differed: Some(output::one_line(&error)) });
        None
    });
    let forms = device.kernel_forms();
    let document = json!({
        "version": env!("CARGO_PKG_VERSION"), "system": sysinfo::System::long_os_version(), "architecture": ARCH,
        "adapter": to_json(adapter, usage, is_best), "forms": forms.as_ref().map(forms_to_json),
        "checks": checks.iter().map(Check::to_json).collect::<Vec<_>>(), "times": times,
    });
    if let Some(path) = &args.report {
        write_file(path, |file| writeln!(file, "{document:#}")).context("--report")?;
    }
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{document:#}")?;
    } else {
        describe(&mut out, adapter, usage, is_best)?;
        match &forms {
            Some(forms) => print_checks(&mut out, forms, &checks)?,
            None => writeln!(out, "The host engine runs no kernels, so there is nothing to test.")?,
        }
        if let Some(path) = &args.report {
            writeln!(out, "wrote {}", output::printable(&path.display().to_string()))?;
        }
    }
    out.flush()?;
    let failed = checks.iter().filter(|check| check.differed.is_some()).count();
    ensure!(failed == 0, "{failed} of {} checks failed on {adapter}", checks.len());
    Ok(())
}

fn forms_to_json(forms: &KernelForms) -> Value {
    let refusal = |Refusal { kernel, variant, message, .. }: &Refusal| json!({ "kernel": kernel, "variant": variant, "message": message });
    json!({
        "subgroups": forms.subgroups, "byte_products": forms.byte_products, "registers": forms.registers,
        "matrix_side": forms.matrix_side, "matrices_are_right": forms.matrix_side.and(forms.matrices_are_right),
        "refusals": forms.refusals.iter().map(refusal).collect::<Vec<_>>(),
    })
}

fn print_checks(out: &mut impl Write, forms: &KernelForms, checks: &[Check]) -> Result<()> {
    let matrices = forms.matrix_side.map_or("no".to_owned(), |side| {
        let state = match forms.matrices_are_right {
            Some(true) => "right in their self-test",
            Some(false) => "not used, because they were wrong in their self-test",
            None => "not used",
        };
        format!("{side}x{side}, {state}")
    });
    let products = if forms.byte_products { "four bytes at once" } else { "in plain arithmetic" };
    let mut lines = vec![
        ("subgroups", if forms.subgroups { "used" } else { "not used" }.to_owned()),
        ("products", products.to_owned()),
        ("registers", format!("{} an invocation", forms.registers)),
        ("matrices", matrices),
    ];
    let refused = |one: &Refusal| {
        let said = one.message.lines().next().unwrap_or_default();
        let text = format!("{} {}, another form took its place: {said}", one.kernel, one.variant);
        ("refused", output::printable(&text).into_owned())
    };
    lines.extend(forms.refusals.iter().map(refused));
    writeln!(out, "kernels")?;
    print(out, &lines)?;
    writeln!(out, "checks")?;
    for Check { name, differed } in checks {
        let result = differed.as_ref().map_or("passed".into(), |differed| format!("FAILED: {differed}"));
        writeln!(out, "  {name:<28} {}", output::printable(&result))?;
    }
    let passed = checks.iter().filter(|check| check.differed.is_none()).count();
    Ok(writeln!(out, "{passed} of {} checks passed", checks.len())?)
}
