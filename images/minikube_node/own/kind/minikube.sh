#!/bin/sh
# Turns a kind node into a minikube node; runs after assemble.sh.
# https://github.com/kubernetes/minikube/blob/v1.36.0/deploy/kicbase/Dockerfile
set -eu

apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
  openssh-server openssh-client sudo rsync lz4 iputils-ping netcat-openbsd
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*

# minikube logs in with its own key. sshd refuses an account that useradd has locked with `!`.
useradd --create-home --shell /bin/bash --groups sudo --password '*' docker
install -d -m 700 -o docker -g docker /home/docker/.ssh
echo '%sudo ALL=(ALL) NOPASSWD:ALL' >/etc/sudoers.d/minikube
rm -f /etc/ssh/ssh_host_*
cat >/etc/ssh/sshd_config.d/minikube.conf <<END
UsePAM no
SetEnv PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
END
systemctl enable ssh.service

# minikube writes the kubelet's unit itself, and starts containerd once it has configured it.
systemctl disable containerd.service kubelet.service
rm -r /etc/systemd/system/kubelet.service*
# Without spaces: otherwise minikube's sed would set it to false again.
sed -i 's/restrict_oom_score_adj = true/restrict_oom_score_adj=true/' /etc/containerd/config.toml
sed -i 's/^hosts:.*/hosts: files dns/' /etc/nsswitch.conf

# minikube looks for the programs here before copying them into the node.
version=$(cat /kind/version)
programs=/var/lib/minikube/binaries/$version
mkdir -p "$programs"
ln -s /usr/bin/kubelet /usr/bin/kubectl /usr/local/lib/minikube/kubeadm "$programs/"
chmod 755 /usr/local/lib/minikube/kubeadm
echo '{"iso_version": "v1.36.0", "kicbase_version": "v0.0.47", "minikube_version": "v1.36.0", "commit": ""}' >/version.json

# Each node has its own host keys. systemd would mount the machine's cgroup v2 hierarchy, and leave
# groups behind in it.
{
  echo '#!/bin/bash'
  echo 'ssh-keygen -A'
  echo 'umount /sys/fs/cgroup/unified && rmdir /sys/fs/cgroup/unified || true'
  echo 'export SYSTEMD_PROC_CMDLINE=systemd.legacy_systemd_cgroup_controller=1'
  cat /usr/bin/minikube-entrypoint
} >/usr/local/bin/entrypoint
rm /usr/bin/minikube-entrypoint
