#!/bin/sh
# Turns Debian with kind's files into a kind node. Runs while the image is built.
set -eu

# None of the distribution's services start in a node or set kernel parameters, since the kernel is
# the machine's.
find /lib/systemd/system/sysinit.target.wants/ -name systemd-tmpfiles-setup.service -delete
rm -f /lib/systemd/system/multi-user.target.wants/* /etc/systemd/system/*.wants/* \
  /lib/systemd/system/local-fs.target.wants/* /lib/systemd/system/sockets.target.wants/*udev* \
  /lib/systemd/system/sockets.target.wants/*initctl* /lib/systemd/system/basic.target.wants/*
rm -f /usr/lib/sysctl.d/* /lib/systemd/system/containerd.service
echo "ReadKMsg=no" >>/etc/systemd/journald.conf
ln -sf "$(command -v systemd)" /sbin/init
chmod 755 /kind/bin /kind/bin/* /usr/local/bin/*
systemctl enable kubelet.service containerd.service undo-mount-hacks.service pod-network.service
systemctl mask systemd-binfmt.service
mkdir -p /etc/kubernetes/manifests /opt/cni/bin
ln -s /usr/lib/cni/* /opt/cni/bin/
for program in containerd ctr containerd-shim-runc-v2; do ln -s "/usr/bin/$program" /usr/local/bin/; done
ln -s /usr/sbin/runc /usr/local/sbin/runc

# Without CAP_SYS_RESOURCE, as in nested containers, neither the OOM score nor limits can change.
sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' /etc/containerd/config.toml
ctr oci spec |
  jq '.hooks.createContainer += [{"path": "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)' \
    >/etc/containerd/cri-base.json

# Since 1.35, the kubelet refuses cgroup v1, and kind does not configure it otherwise.
sed -i 's/^KUBELET_EXTRA_ARGS=/&--fail-cgroupv1=false /' /etc/default/kubelet

kubelet --version | sed 's/Kubernetes //' | tr -d '\n' >/kind/version

# The images for Kubernetes' own pods, under the names that kubeadm and kind's manifests use.
work=$(mktemp -d)
containerd --root "$work/root" --state "$work/state" --address "$work/socket" \
  --config /dev/null >"$work/log" 2>&1 &
daemon=$!
tries=100
until ctr --address "$work/socket" version >/dev/null 2>&1; do
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || { cat "$work/log"; exit 1; }
  sleep 0.1
done

# image NAME ENTRYPOINT: makes a single-layer image from the files in $work/files.
image() {
  tar --directory "$work/files" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
    --create --file "$work/layer.tar" .
  jq --null-input --arg layer "sha256:$(sha256sum "$work/layer.tar" | cut -d' ' -f1)" \
    --argjson entrypoint "$2" --arg machine "$(dpkg --print-architecture)" \
    '{architecture: $machine, os: "linux", config: {Entrypoint: $entrypoint,
      Env: ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
      rootfs: {type: "layers", diff_ids: [$layer]}}' >"$work/config.json"
  jq --null-input --arg name "$1" '[{Config: "config.json", RepoTags: [$name], Layers: ["layer.tar"]}]' \
    >"$work/manifest.json"
  tar --directory "$work" --create manifest.json config.json layer.tar |
    ctr --address "$work/socket" --namespace k8s.io images import --no-unpack - >/dev/null
  rm -r "$work/files" "$work/layer.tar"
}

# put PROGRAM DIRECTORY: moves it from /usr/bin to the image's files; nodes need it only there.
put() {
  mkdir -p "$work/files$2" && mv "/usr/bin/$1" "$work/files$2/"
}

kubeadm config images list --kubernetes-version "$(cat /kind/version)" >/kind/images
name() {
  grep "/$1:" /kind/images
}

for program in kube-apiserver kube-controller-manager kube-scheduler; do
  put "$program" /usr/local/bin
  image "$(name "$program")" '[]'
done
put etcd-server /usr/local/bin
mv "$work/files/usr/local/bin/etcd-server" "$work/files/usr/local/bin/etcd"
image "$(name etcd)" '[]'
put coredns ""
image "$(name coredns)" '["/coredns"]'
put pause ""
image "$(name pause)" '["/pause"]'
put local-path-provisioner /usr/local/bin
image "$(cat /kind/provisioner)" '[]'
mkdir -p "$work/files/bin" && cp /bin/busybox "$work/files/bin/"
for program in sh mkdir rm; do ln -s busybox "$work/files/bin/$program"; done
image "$(cat /kind/helper)" '[]'

# kube-proxy calls these; they load some libraries by name (iptables extensions).
put kube-proxy /usr/local/bin
for program in /usr/sbin/iptables /usr/sbin/iptables-save /usr/sbin/iptables-restore /usr/sbin/ip6tables \
  /usr/sbin/ip6tables-save /usr/sbin/ip6tables-restore /usr/sbin/nft /usr/sbin/conntrack; do
  ldd "$(readlink -f "$program")" | grep -o '/lib[^ ]*' | xargs cp --parents -Lu -t "$work/files"
  mkdir -p "$work/files/usr/sbin" && cp -Lu "$program" "$work/files$program"
done
cp -r --parents /usr/lib/*/xtables "$work/files"
ldd /usr/lib/*/xtables/*.so | grep -o '/lib[^ ]*' | grep -v : | sort -u | xargs cp --parents -Lu -t "$work/files"
image "$(name kube-proxy)" '[]'

sed -i "s#sandbox_image = .*#sandbox_image = \"$(name pause)\"#" /etc/containerd/config.toml
kill "$daemon" && wait "$daemon" || true
mkdir -p /var/lib/containerd && cp -a "$work/root/." /var/lib/containerd/
rm -r "$work" /kind/images /kind/provisioner /kind/helper
