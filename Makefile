# SPDX-License-Identifier: Apache-2.0
.PHONY: image release test quick

# Programs, SBOMs and images of both architectures, into target/image.
image:
	image/build

# Archives, packages, SBOMs, image, notes and sums of a tagged version, into target/dist: make release PROGRAM=peermem-doctor
PROGRAM = peermem-gate
release:
	release/make $(PROGRAM)

# Everything, on Debian as root.
test:
	tests/run

# What needs no root and no kernel, in a minute.
quick:
	tests/quick
