# SPDX-License-Identifier: MIT
# Set-up: Debian's packages and one Python environment for all checkouts of a user. It takes 0.1 s if nothing is
# missing.

readonly NEEDED_GIB=12  # 5.5 GiB of wheels, as much again in pip's cache during installation, and the build

command_setup() {
  is_checkout || stop 2 "an unpacked archive needs no set-up, only Open MPI and: pip install --no-deps -r $ROOT/tools/requirements.txt"
  setup
  say "set up: Debian's packages are installed, the Python environment is $(readlink "$ROOT/.venv")"
}

setup() {
  is_checkout || return 0
  check_machine
  install_packages
  make_python_environment
}

check_machine() {
  [[ $(uname -sm) == "Linux x86_64" ]] || stop 70 "this is $(uname -sm); Strata is built for Linux on x86_64, because the wheels of LibTorch with CUDA are"
  command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || stop 70 "there is no apt-get here; set-up installs packages of Debian 12. Elsewhere build an archive with tools/strata dist on Debian and unpack it here"
}

# Files with names of packages. A command that needs more than a build does adds its own.
package_lists=("$ROOT/tools/packages.txt")

missing_packages() {
  local wanted
  wanted=$(sed 's/#.*//' "${package_lists[@]}" | tr -s ' ' '\n' | grep .)
  # shellcheck disable=SC2086
  grep -vxF -f <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null | sed -n 's/^installed //p') <<<"$wanted" || true
}

# has_space FOLDER GIB WHAT: stops if the file system of FOLDER has less free space.
has_space() {
  local free
  free=$(free_gib "$1")
  ((free >= $2)) || stop 4 "$3 needs $2 GiB, and $1 has $free GiB free; free some space, or name another place in XDG_CACHE_HOME"
}

install_packages() {
  local missing as_root=() log
  missing=$(missing_packages | tr '\n' ' ')
  [[ -z $missing ]] && return
  if ((EUID != 0)); then
    command -v sudo >/dev/null || stop 70 "Debian packages are missing and there is no sudo here; as root run: apt-get install --no-install-recommends $missing"
    [[ -t 0 ]] || sudo -n true 2>/dev/null || stop 70 "Debian packages are missing and sudo asks for a password; run this first: sudo apt-get install --no-install-recommends $missing"
    as_root=(sudo)
  fi
  has_space /usr 2 "installing Debian's packages"
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  local apt=("${as_root[@]}" apt-get -qq -o DPkg::Lock::Timeout=300)
  say "installing Debian packages: $missing"
  log=$(mktemp)
  # shellcheck disable=SC2086
  if ! "${apt[@]}" update >"$log" 2>&1 ||
    ! "${apt[@]}" install -y --no-install-recommends $missing >>"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    stop 70 "apt-get could not install the packages (its last words are above); see that apt-get update works and run this again"
  fi
  rm -f "$log"
  missing=$(missing_packages | tr '\n' ' ')
  [[ -z $missing ]] || stop 70 "apt-get installed the packages, but these are still not there: $missing"
}

# Stops if others could have put programs into the cache. Its group may write, because Debian gives each user a group.
check_cache() {
  local owner mode link_owner
  (umask 077 && mkdir -p "$CACHE") || stop 4 "the folder $CACHE cannot be made; name a place for it in XDG_CACHE_HOME"
  read -r owner mode < <(stat -Lc '%u %a' "$CACHE")
  link_owner=$(stat -c %u "$CACHE")  # the owner of a link can point it elsewhere
  if ((link_owner != EUID && link_owner != 0)); then owner=$link_owner; fi
  ((owner == EUID || owner == 0)) || stop 4 "the folder $CACHE belongs to user $owner, who could change the programs in it; name a folder of your own in XDG_CACHE_HOME"
  ((!(8#$mode & 2))) || stop 4 "everybody can write to the folder $CACHE, and so change the programs in it; run chmod o-w on it if you trust what is there, or name another place in XDG_CACHE_HOME"
}

# The environment's path contains the hash of its contents and is the same for all checkouts. So the commands of the
# build are the same, and a second checkout compiles nothing that the first one has compiled.
make_python_environment() {
  local environment
  environment=$CACHE/python-$(sha256sum "$ROOT/tools/requirements.txt" | cut -c1-12)
  check_cache
  [[ -e $environment/.complete ]] || alone_in "$CACHE" fill_python_environment "$environment"
  [[ $(readlink "$ROOT/.venv" 2>/dev/null) == "$environment" ]] && return
  [[ -d $ROOT/.venv && ! -L $ROOT/.venv ]] && stop 70 "$ROOT/.venv is a folder, but should be a link to $environment; move it away"
  ln -sfn "$environment" "$ROOT/.venv"
}

fill_python_environment() {
  [[ ! -e $1/.complete ]] || return 0
  has_space "$CACHE" "$NEEDED_GIB" "the Python environment with LibTorch and the CUDA compiler"
  say "installing $(grep -c '^[^#]*==' "$ROOT/tools/requirements.txt") Python packages into $1: 5.5 GiB, 2 to 10 minutes"
  rm -rf "$1"  # a half-made environment
  # Without -I both would import Python files of the current folder, which may have been downloaded.
  /usr/bin/python3 -I -m venv "$1" || stop 70 "python3 -m venv $1 failed; its words are above"
  # Files that are never imported are not compiled to bytecode: that would take 50 s for 12,000 files.
  # Hashes make pip refuse other files under the same names, whatever index a machine names. Source packages would run
  # code of theirs while they are built.
  "$1/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-input --no-deps --no-compile \
    --require-hashes --only-binary :all: -r "$ROOT/tools/requirements.txt" ||
    stop 70 "pip could not install the packages of tools/requirements.txt (its words are above); see that PyPI can be reached and run this again"
  # Without it a power cut soon after could leave empty files in an environment that is trusted for ever.
  sync -f "$1" || stop 4 "$1 could not be written to its disk; see that the disk is sound and run this again"
  touch "$1/.complete"
}
