#!/bin/sh
# Debian's programs that some tests need. Installed where that is allowed, by root with apt-get; said
# where it is not. Never a failure: without them those tests are skipped, and all others run.
brief="-qq -o Acquire::Retries=0 -o Acquire::http::Timeout=20" # no network: do not wait for it
need() { # program, package, what is skipped without it
    PATH="$PATH:/usr/sbin"
    command -v "$1" >/dev/null && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        [ -n "$updated" ] || { apt-get update $brief; updated=1; } >/dev/null 2>&1
        DEBIAN_FRONTEND=noninteractive apt-get install -y $brief --no-install-recommends "$2" >/dev/null 2>&1
    fi
    command -v "$1" >/dev/null || echo "$2 is not installed (apt-get install $2, as root): $3 are skipped"
}

need mosquitto mosquitto "the tests of MQTT and of a fleet"
need chromium chromium "the tests of pages in a browser"
exit 0
