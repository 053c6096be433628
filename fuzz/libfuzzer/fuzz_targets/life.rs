#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nearfield_fuzz::life(data));
