# SPDX-License-Identifier: Apache-2.0
.PHONY: image test

# Programs, SBOMs and the image of both architectures, into target/image.
image:
	image/build

# Everything, on Debian as root.
test:
	tests/run
