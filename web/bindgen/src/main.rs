//! `nearfield-bindgen IN.wasm FOLDER NAME`: writes FOLDER/NAME.js and FOLDER/NAME_bg.wasm, as `wasm-bindgen --target web` does. That program
//! also brings a client for servers, which takes longer to compile than all the rest.

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().context("needed three arguments: IN.wasm FOLDER NAME");
    let (input, folder, name) = (next()?, next()?, next()?);
    let mut bindgen = Bindgen::new();
    bindgen.input_path(input).out_name(&name).typescript(true).web(true)?;
    bindgen.remove_name_section(true).remove_producers_section(true);
    bindgen.generate(folder)
}
