#!/bin/sh
# Unpack a program of Debian (or Ubuntu) and its libraries into a folder, with nothing installed; some tests run it.
#   tools/debian.sh FOLDER PROGRAM LIBRARY...    a library is named as its package's name begins
# Best effort: where apt or the network is missing it says so, and tests that need the program are skipped.

folder=$1 program=$2
shift 2

unpack() {
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" && cd "$folder" || return
    options="-qq -o Dir::State::Lists=$PWD/apt/lists -o Dir::Cache=$PWD/apt/cache -o APT::Sandbox::User="
    apt-get $options update || return
    packages=$program
    for library in "$@"; do
        found=$(apt-cache $options depends "$program" | sed -n "s/.*Depends: \($library.*\)/\1/p" | head -n 1)
        packages="$packages $found"
    done
    apt-get $options download $packages || return
    for archive in *.deb; do dpkg-deb -x "$archive" . || return; done
    rm -rf apt ./*.deb
}

PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null && exit 0
[ -x "$folder/usr/sbin/$program" ] && exit 0
(unpack "$@") >/dev/null 2>&1 || echo "   $program could not be unpacked from Debian's packages; its tests are skipped"
