#!/usr/bin/env bash
# Installs what `make image` needs beside Rust and a C compiler: image/packages.sh [ARCHITECTURE].
# Everything is a package of Debian, except the standard library of Rust for another architecture,
# which rustup installs. ARCHITECTURE is aarch64 or x86_64; without it, the image is for this
# machine. Without the permission to install packages, the script names them.
set -euo pipefail

architecture=${1:-}
packages=()
command -v buildah >/dev/null || packages+=(buildah)
command -v readelf >/dev/null || packages+=(binutils)
if [[ -n "$architecture" ]]; then
    debian=${architecture/aarch64/arm64}
    debian=${debian/x86_64/amd64}
    command -v "$architecture-linux-gnu-gcc" >/dev/null || packages+=("gcc-${architecture/_/-}-linux-gnu")
    [[ -e "/usr/$architecture-linux-gnu/lib/libc.so.6" ]] || packages+=("libc6-dev-$debian-cross")
fi
if [[ ${#packages[@]} -gt 0 ]]; then
    if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
        echo "install the packages first: apt-get install ${packages[*]}" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${packages[@]}"
fi
if [[ -n "$architecture" ]] && command -v rustup >/dev/null; then
    rustup target add "$architecture-unknown-linux-gnu"
fi
