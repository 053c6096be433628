//! Has cargo alone link the module, which scripts/python tests.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
