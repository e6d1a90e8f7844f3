#!/usr/bin/env bash
# Make sure that a Chromium is there for the browser tests: an existing one, else the system's package.
# Never a download by the test runner itself.
set -euo pipefail

find_browser() {
  local name
  for name in "${NBP_CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable; do
    if [ -n "$name" ] && command -v "$name" >/dev/null 2>&1; then command -v "$name"; return 0; fi
  done
  return 1
}

if found=$(find_browser); then echo "browser: $found"; exit 0; fi
if command -v apt-get >/dev/null 2>&1; then
  sudo=""; [ "$(id -u)" -eq 0 ] || sudo="sudo"
  echo "browser: installing the package chromium"
  $sudo apt-get update -qq >/dev/null
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null
fi
if found=$(find_browser); then echo "browser: $found"; exit 0; fi
echo "No Chromium found and none could be installed: install one and set NBP_CHROMIUM to its path." >&2
exit 1
