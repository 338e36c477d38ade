// SPDX-License-Identifier: Apache-2.0
//! Every program here is this file, and runs the fuzz target of its own name.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| peermem_gate_fuzz::run(env!("CARGO_BIN_NAME"), data));
