#!/usr/bin/env bash
# Puts the binary and the shared libraries that it is linked with into a folder, which is the root
# file system of the image: image/root-file-system.sh BINARY FOLDER. Nothing is downloaded.
set -euo pipefail

[[ $# -eq 2 ]] || { echo "usage: $0 BINARY FOLDER" >&2; exit 2; }
binary=$1 root=$2

[[ -x "$binary" ]] || { echo "$binary must be an executable file" >&2; exit 2; }
if [[ -e "$root" && -n "$(ls -A "$root")" ]]; then
    echo "$root must be empty: every file in it becomes part of the image" >&2
    exit 2
fi

install -D -m 0755 "$binary" "$root/usr/bin/capstan"
# The loader and the libraries, at the paths where the loader looks for them. A static binary has
# none.
if libraries=$(ldd "$binary" 2>/dev/null); then
    while read -r library; do
        install -D -m 0755 "$(readlink -f "$library")" "$root$library"
    done < <(grep -o '/[^ ]*' <<<"$libraries")
fi
# Names for the numeric user, for programs that show processes.
install -d "$root/etc"
echo 'capstan:x:65532:65532:capstan:/:/sbin/nologin' >"$root/etc/passwd"
echo 'capstan:x:65532:' >"$root/etc/group"
