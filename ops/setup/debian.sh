#!/usr/bin/env bash
# Installs the Debian packages that the tests against a real MediaWiki and a real Prometheus need; fast
# when they are there.
# Prints what is left out, and exits 0, on a machine that is not Debian or without root.
set -euo pipefail

packages=(php-cli php-sqlite3 php-intl php-mbstring php-xml php-apcu prometheus)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "debian.sh: not a Debian system; left out: ${packages[*]}"
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
# The tests download `mediawiki` themselves, without root, but only from package lists that exist.
if [[ ${#missing[@]} -eq 0 ]] && apt-cache show mediawiki >/dev/null 2>&1; then
  echo "debian.sh: nothing to install"
  exit 0
fi

if [[ $(id -u) -ne 0 ]]; then
  echo "debian.sh: not root; left out: ${missing[*]:-package lists}"
  exit 0
fi

export DEBIAN_FRONTEND=noninteractive
echo "debian.sh: refreshing the package lists"
if ! apt-get update -qq; then
  echo "debian.sh: the package lists cannot be had; left out: ${missing[*]:-package lists}"
  exit 0
fi
if [[ ${#missing[@]} -gt 0 ]]; then
  echo "debian.sh: installing ${missing[*]}"
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
