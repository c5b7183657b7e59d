#!/usr/bin/env bash
# Puts the binary and the shared libraries that it is linked with into a folder, which is the root
# file system of the image: image/root-file-system.sh BINARY FOLDER [LIBRARIES]. Nothing is
# downloaded.
#
# LIBRARIES is a folder with the libraries of another architecture, such as
# /usr/aarch64-linux-gnu/lib of Debian's package libc6-arm64-cross. Without it, the binary is for
# this machine, and the libraries are those that its loader finds.
set -euo pipefail

[[ $# -eq 2 || $# -eq 3 ]] || { echo "usage: $0 BINARY FOLDER [LIBRARIES]" >&2; exit 2; }
binary=$1 root=$2 libraries=${3:-}

[[ -x "$binary" ]] || { echo "$binary must be an executable file" >&2; exit 2; }
if [[ -e "$root" && -n "$(ls -A "$root")" ]]; then
    echo "$root must be empty: every file in it becomes part of the image" >&2
    exit 2
fi

# The names of the libraries that a file of any architecture needs.
needed() { readelf --dynamic --wide "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

# Copies a library and those that it needs to /lib, which every loader searches.
copy() {
    local name=$1
    [[ -e "$root/lib/$name" ]] && return
    [[ -e "$libraries/$name" ]] || { echo "$libraries must contain $name" >&2; exit 2; }
    install -D -m 0755 "$(readlink -f "$libraries/$name")" "$root/lib/$name"
    for other in $(needed "$libraries/$name"); do copy "$other"; done
}

install -D -m 0755 "$binary" "$root/usr/bin/capstan"
# The loader and the libraries, at the paths where the loader looks for them. A static binary has
# none.
if [[ -n "$libraries" ]]; then
    loader=$(readelf --program-headers --wide "$binary" | sed -n 's/.*program interpreter: \(.*\)\]/\1/p')
    if [[ -n "$loader" ]]; then
        install -D -m 0755 "$(readlink -f "$libraries/$(basename "$loader")")" "$root$loader"
    fi
    for name in $(needed "$binary"); do copy "$name"; done
elif found=$(ldd "$binary" 2>/dev/null); then
    while read -r library; do
        install -D -m 0755 "$(readlink -f "$library")" "$root$library"
    done < <(grep -o '/[^ ]*' <<<"$found")
fi
# Names for the numeric user, for programs that show processes.
install -d "$root/etc"
echo 'capstan:x:65532:65532:capstan:/:/sbin/nologin' >"$root/etc/passwd"
echo 'capstan:x:65532:' >"$root/etc/group"
