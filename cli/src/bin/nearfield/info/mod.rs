//! `nearfield info`: lists the devices and says which one is used, or tests one.

mod checks;
mod test;
mod times;

use std::io::{Write, stdout};
use std::path::PathBuf;

use anyhow::{Result, ensure};
use nearfield::{Adapter, AdapterKind, CooperativeSize, Device, MemoryUsage};
use serde_json::{Value, json};

use nearfield_cli::given::device::{self, Name};
use nearfield_cli::given::files;
use nearfield_cli::terminal::output;

const LONG: &str = "\
List the adapters and the host engine, their capabilities, and which one is used and why.

The host engine is the processor. It needs no driver and is used if there is no GPU. Software drivers come after it, and are used \
only if NEARFIELD_ADAPTER or --device asks for them.

--test opens one device, compiles the kernels of searches and compares their answers for small whole numbers with those of the host engine. \
The exit code is 1 if an answer differs. --report does the same, times some searches, and writes a file to attach to an issue about a card. The \
file has no names of users, hosts or files.

--json prints one document:
  adapters            list, best first, of
    index                         its number among the adapters, from 0, which --device and NEARFIELD_ADAPTER take; null for the host
    name, backend, driver, kind   texts; kind is discrete, integrated, virtual, unknown, host or software.
                                  Of the host, driver is the architecture and the instructions for 8-bit products
    best                          whether this one is used without --device
    vendor                        its vendor's number on the PCI bus, like 4318 for NVIDIA; null where unknown
    pci_address                   where the card is on the PCI bus, like 0000:3b:00.0; null where unknown, and for what is no card
    memory_bytes                  bytes of its memory: a GPU's own, or the system's for the host; null where unknown
    memory_used_bytes             bytes of it that this process uses, before it opens a device; null where unknown
    memory_free_bytes             bytes that this process could use besides, beside all other programs; null where unknown
    max_buffer_bytes              most bytes of one buffer
    max_binding_bytes             most bytes of a buffer that a kernel can bind
    max_storage_buffers           most storage buffers of a kernel
    max_workgroup_size            most invocations of a workgroup
    max_workgroup_bytes           most bytes of workgroup memory
    max_workgroups                most workgroups in one dimension of a dispatch
    subgroup_sizes                [smallest, largest], or null without subgroup operations
    f16                           whether kernels compute in f16
    cooperative_sizes             list of {size: [m, n, k], operands, accumulator}
    timestamps                    whether stages can be timed on the device
  best                name of the device that is used, or null
  reason              why that one, or why none
All limits of the host, from max_buffer_bytes to timestamps, are null: it runs no kernels.

--report writes one document, which --test --json prints:
  version, system, architecture   of this program, the operating system and the processor
  adapter             what the list above has of the device
  forms               of kernels, null on the host
    subgroups                     whether lanes exchange values without memory
    byte_products                 whether products of four bytes are one operation
    registers                     how many an invocation fills with data
    matrix_side                   of the matrices that are multiplied cooperatively, or null
    matrices_are_right            in their self-test; null without matrices
    refusals                      list of {kernel, variant, message}: forms that the driver refused; others took their place
  checks              list of {name, passed, differed}: the index, its elements and its metric; what differed first, or null
  times               of --report, list of {index, rows, dim, queries, milliseconds, stages}: wall time of a search, \
and device milliseconds by stage, null without timestamps";

const EXAMPLES: &str = "\
Examples:
  nearfield info
  NEARFIELD_ADAPTER=host nearfield info
  NEARFIELD_ADAPTER=llvmpipe nearfield info
  NEARFIELD_ADAPTER=1 nearfield info
  nearfield info --json | jq '.adapters[].name'
  nearfield info --test
  nearfield info --report report.json --device 1";

#[derive(Debug, clap::Args)]
#[command(about = "List the adapters and the host engine, their capabilities, and which one is used", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Compare what kernels answer on one device with the host engine
    #[arg(long)]
    test: bool,
    /// Test, time some searches, and write what an issue about a card needs to this json
    #[arg(long, value_name = "OUT.json", value_parser = |text: &str| files::output_path(text, &["json"]))]
    report: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    device: Name,
}

/// Prints the devices, or tests one. Fails if the device that NEARFIELD_ADAPTER asks for cannot be opened.
pub(crate) fn run(args: &Args) -> Result<()> {
    files::check_outputs(&[], &[("--report", args.report.as_deref())], args.force)?;
    if args.test || args.report.is_some() {
        return test::run(args);
    }
    let name = args.device.given();
    ensure!(name == "best", "--device: needed --test or --report, which take one device, given {name}");
    let mut adapters = Device::adapters_with_memory();
    let host = Device::host();
    adapters.push((host.adapter().clone(), host.memory_usage()));
    adapters.sort_by_key(|(one, _)| one.kind);
    let best = Device::best().map_err(|error| device::blame(error, "best"));
    let reason = match &best {
        Ok(best) => best.reason().to_owned(),
        Err(error) => error.to_string(),
    };
    let is_best = |one: &Adapter| best.as_ref().is_ok_and(|best| best.adapter() == one);
    let mut out = stdout().lock();
    if args.json {
        let list: Vec<Value> =
            adapters.iter().map(|(one, usage)| to_json(one, *usage, is_best(one))).collect();
        let name = best.as_ref().ok().map(|best| &best.adapter().name);
        let document = json!({ "adapters": list, "best": name, "reason": reason });
        writeln!(out, "{document:#}")?;
    } else {
        for (adapter, usage) in &adapters {
            describe(&mut out, adapter, *usage, is_best(adapter))?;
        }
        if let Ok(best) = &best {
            writeln!(out, "best: {}, {reason}", best.adapter().name)?;
        }
    }
    out.flush()?;
    best.map(|_| ())
}

fn describe(out: &mut impl Write, adapter: &Adapter, usage: Option<MemoryUsage>, best: bool) -> Result<()> {
    let limits = &adapter.capabilities;
    let yes = |yes: bool| if yes { "yes" } else { "no" };
    writeln!(out, "{}{}", adapter.name, if best { "  <- best" } else { "" })?;
    let kind = adapter.kind.to_string();
    let mut lines: Vec<_> = adapter.index.map(|index| ("index", index.to_string())).into_iter().collect();
    lines.extend([("backend", adapter.backend.clone()), ("driver", adapter.driver.clone()), ("kind", kind)]);
    lines.extend(adapter.pci_address.clone().map(|address| ("PCI address", address)));
    lines.extend(adapter.memory_bytes.map(|bytes| ("memory", output::bytes(bytes))));
    lines.extend(usage.map(|usage| {
        let [free, used] = [usage.free_bytes, usage.used_bytes].map(output::bytes);
        ("free memory", format!("{free}, beside {used} that this process uses"))
    }));
    if adapter.kind != AdapterKind::Host {
        let bytes = [limits.max_buffer_bytes, limits.max_binding_bytes, limits.max_workgroup_bytes.into()];
        let [buffer, binding, memory] = bytes.map(output::bytes);
        let (size, groups) = (limits.max_workgroup_size, limits.max_workgroups);
        let subgroups = match limits.subgroup_sizes {
            Some((least, most)) if least == most => format!("of {least}"),
            Some((least, most)) => format!("of {least} to {most}"),
            None if adapter.backend == "gl" => "no: OpenGL has none, and kernels run slower".to_owned(),
            None => "no".to_owned(),
        };
        let sizes = limits.cooperative_sizes.iter().map(|one| {
            let [m, n, k] = one.size;
            format!("{m}x{n}x{k} {} into {}", one.operands, one.accumulator)
        });
        let sizes: Vec<String> = sizes.collect();
        lines.extend([
            (
                "buffers",
                format!("up to {buffer}, bound up to {binding}, {} a kernel", limits.max_storage_buffers),
            ),
            ("workgroups", format!("up to {size} invocations and {memory}, {groups} in a dimension")),
            ("subgroups", subgroups),
            ("f16", format!("{} (arithmetic; f16 rows are stored everywhere)", yes(limits.f16))),
            ("timestamps", yes(limits.timestamps).to_owned()),
            ("cooperative", if sizes.is_empty() { "no".to_owned() } else { sizes.join(", ") }),
        ]);
    }
    print(out, &lines)
}

/// Prints lines of a name and a value, and an empty one.
fn print(out: &mut impl Write, lines: &[(&str, String)]) -> Result<()> {
    lines.iter().try_for_each(|(name, value)| writeln!(out, "  {name:<12} {value}"))?;
    Ok(writeln!(out)?)
}

fn to_json(adapter: &Adapter, usage: Option<MemoryUsage>, best: bool) -> Value {
    let limits = &adapter.capabilities;
    let size = |one: &CooperativeSize| json!({ "size": one.size, "operands": one.operands, "accumulator": one.accumulator });
    let sizes: Vec<Value> = limits.cooperative_sizes.iter().map(size).collect();
    let mut limits = json!({
        "max_buffer_bytes": limits.max_buffer_bytes, "max_binding_bytes": limits.max_binding_bytes,
        "max_storage_buffers": limits.max_storage_buffers, "max_workgroup_size": limits.max_workgroup_size,
        "max_workgroup_bytes": limits.max_workgroup_bytes, "max_workgroups": limits.max_workgroups,
        "subgroup_sizes": limits.subgroup_sizes, "f16": limits.f16, "cooperative_sizes": sizes,
        "timestamps": limits.timestamps,
    });
    let mut document = device::to_json(adapter);
    document["best"] = json!(best);
    document["index"] = json!(adapter.index);
    document["vendor"] = json!(adapter.vendor);
    document["pci_address"] = json!(adapter.pci_address);
    document["memory_bytes"] = json!(adapter.memory_bytes);
    document["memory_used_bytes"] = json!(usage.map(|usage| usage.used_bytes));
    document["memory_free_bytes"] = json!(usage.map(|usage| usage.free_bytes));
    if let (Value::Object(document), Value::Object(limits)) = (&mut document, &mut limits) {
        if adapter.kind == AdapterKind::Host {
            // The host engine has no limits of its own.
            limits.values_mut().for_each(|limit| *limit = Value::Null);
        }
        document.append(limits);
    }
    document
}
