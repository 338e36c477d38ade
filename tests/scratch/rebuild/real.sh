# SPDX-License-Identifier: Apache-2.0
first=$1 generation=$2 node=$3 source=$4 headers=$5 target=$6
shift 6
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work /mnt/root
root=/mnt/root
mount -t overlay -o "lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work" none $root
mount --rbind /proc $root/proc
mount --rbind /dev $root/dev
mkdir -p "$root$target" $root/usr/src $root/lib/modules/@KERNEL@
mount --bind "$target" "$root$target"
cp -r "$node/lib/modules/@KERNEL@/kernel" $root/lib/modules/@KERNEL@/
cp -r "$source" $root/usr/src/nvidia-@VERSION@
ln -s "$headers" $root/lib/modules/@KERNEL@/build
# Debian's kernel of the day goes by the name of the node's.
echo '#define UTS_RELEASE "@KERNEL@"' >/mnt/utsrelease.h
sed 's/^\(override KERNELRELEASE = \).*/\1@KERNEL@/' "$headers/.kernelvariables" >/mnt/kernelvariables
mount --bind /mnt/utsrelease.h "$root$headers/include/generated/utsrelease.h"
mount --bind /mnt/kernelvariables "$root$headers/.kernelvariables"
ln -s "${headers%-amd64}-common" $root/lib/modules/@KERNEL@/source
depmod -b $root @KERNEL@ 2>/dev/null
# In place, for what was there first, and again for what is there now.
in_place() {
    chroot $root make -C /usr/src/nvidia-@VERSION@ -j2 modules NV_KERNEL_MODULES=nvidia-peermem \
        KERNEL_UNAME=@KERNEL@ >/mnt/log 2>&1 || { cat /mnt/log >&2; exit 1; }
}
ofa=$root/usr/src/ofa_kernel/@KERNEL@
mofed() {
    mkdir -p $ofa
    cp "$target/modules/$1/Module.symvers" $ofa/
}
rm -rf $root/usr/src/ofa_kernel
if [ "$first" ]; then mofed "$first"; fi
now() { read -r uptime _ </proc/uptime; echo "$uptime"; }
begun=$(now)
in_place
made=$(now)
mofed "$generation"
in_place
cp $root/usr/src/nvidia-@VERSION@/nvidia-peermem.ko "$node/trap.ko"
# The kernel's part of a load.
mkdir -p "$root$node" && mount --bind "$node" "$root$node"
rm $root/usr/sbin/modprobe
cat >$root/usr/sbin/modprobe <<MODPROBE
#!/bin/sh
modules=/lib/modules/@KERNEL@
for word; do
[ "\$word" != --show-depends ] || { echo "insmod \$modules/kernel/drivers/video/nvidia.ko"; echo "insmod \$modules/updates/nvidia-peermem.ko"; exit; }
done
mkdir -p $node/sys/module/nvidia_peermem
echo live >$node/sys/module/nvidia_peermem/initstate
echo OE >$node/sys/module/nvidia_peermem/taint
sed -i 's/^\(ib_uverbs .*\) mlx5_ib,/\1 nvidia_peermem,mlx5_ib,/' $node/proc/modules
echo "nvidia_peermem 1 0 - Live 0x0 (OE)" >>$node/proc/modules
MODPROBE
chmod 755 $root/usr/sbin/modprobe
ready=$(now)
"$@"
echo "plain make from $begun to $made, from ready to the end from $ready to $(now)"
cp $root/lib/modules/@KERNEL@/updates/nvidia-peermem.ko "$node/rebuilt.ko"
