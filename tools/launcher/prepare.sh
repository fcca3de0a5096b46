# SPDX-License-Identifier: MIT
# prepare: text into token files.

readonly BIBLE_SHA256=b5c4940bcfeee072c0935b5200d0f9d88a00a0199cb0961d16133458fcdfae5d

command_prepare() {
  local what=${1:-}
  (($#)) && shift
  case $what in
    text)
      setup
      python "$ROOT/tools/prepare_text.py" "$@" || exit
      ;;
    bible) prepare_bible "$@" ;;
    *) stop 2 "what? tools/strata prepare text --input FILE... --output FOLDER, or tools/strata prepare bible" ;;
  esac
}

prepare_bible() {
  local output=data/bible text found
  while (($#)); do
    case $1 in
      --output) output=${2:?--output wants a folder} && shift 2 ;;
      *) stop 2 "prepare bible has only the option --output FOLDER" ;;
    esac
  done
  if [[ -e $output/train.bin && -e $output/validation.bin ]]; then
    say "$output has the text already"
    return
  fi
  setup
  command -v bible >/dev/null || stop 3 "the text comes from the Debian package bible-kjv, which is not installed"
  say "preparing the text of the Debian package bible-kjv in $output"
  text=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$text'" EXIT
  bible -f 'Gen1:1-Rev22:21' </dev/null | LC_ALL=C sed 's/^[^ ]* //' >"$text/bible-kjv"
  found=$(sha256sum "$text/bible-kjv" | cut -d' ' -f1)
  [[ $found == "$BIBLE_SHA256" ]] || say "this is another version of the text than the one that the README's figures speak of ($(stat -c %s "$text/bible-kjv") bytes instead of 4137850, sha256 $found)"
  python "$ROOT/tools/prepare_text.py" --input "$text/bible-kjv" --output "$output" --validation 0.1 || exit
  rm -rf "$text"
  trap - EXIT
}
