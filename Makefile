# SPDX-License-Identifier: Apache-2.0
.PHONY: image release test lanes

# Programs, SBOMs and images of both architectures, into target/image.
image:
	image/build

# Archives, packages, SBOMs, image, notes and sums of a tagged version, into target/dist: make release PROGRAM=peermem-doctor
PROGRAM = peermem-gate
release:
	release/make $(PROGRAM)

# What needs only Rust and a C compiler, in minutes.
test:
	cargo test --locked

# Everything, on Debian as root.
lanes:
	tests/run
