# SPDX-License-Identifier: MIT
# prepare: converts text into token files and provides the data of the quick starts.

readonly BIBLE_SHA256=b5c4940bcfeee072c0935b5200d0f9d88a00a0199cb0961d16133458fcdfae5d
readonly IMAGE_FILES=({train,t10k}-{images-idx3,labels-idx1}-ubyte.gz)

command_prepare() {
  local what=${1:-}
  (($#)) && shift
  case $what in
    text)
      setup
      python "$ROOT/tools/text/prepare_text.py" "$@" || exit
      ;;
    bible) prepare_bible "$@" ;;
    fashion-mnist) prepare_fashion_mnist "$@" ;;
    graph) prepare_graph "$@" ;;
    *) stop 2 "what? tools/strata prepare text --input FILE... --output FOLDER, or tools/strata prepare bible, fashion-mnist or graph" ;;
  esac
}

# output_option WHAT DEFAULT [--output FOLDER]: sets `output`.
output_option() {
  local what=$1 value beside
  output=$2
  shift 2
  while (($#)); do
    [[ $1 == --output || $1 == --output=* ]] || stop 2 "prepare $what has only the option --output FOLDER"
    take_value 'which folder' "$@"
    output=$value
    shift "$((beside + 1))"
  done
}

# has_text FOLDER, has_images FOLDER, has_graph FOLDER: succeeds if all files are there.
has_text() { [[ -e $1/train.bin && -e $1/validation.bin ]]; }
has_graph() { [[ -e $1/graph.npz ]]; }
has_images() {
  local name
  for name in "${IMAGE_FILES[@]}"; do [[ -e $1/$name ]] || return 1; done
}

# The files are copied unchanged, because other machines of a run may not have the Debian package.
prepare_fashion_mnist() {
  local output name installed=${STRATA_DATASETS:-/usr/share/datasets}/fashion-mnist
  output_option fashion-mnist data/fashion-mnist "$@"
  for name in "${IMAGE_FILES[@]}"; do
    [[ -e $output/$name ]] && continue
    [[ -e $installed/$name ]] || setup
    [[ -e $installed/$name ]] || stop 3 "the images come from the Debian package dataset-fashion-mnist, which is not installed: there is no $installed/$name"
    mkdir -p "$output" && cp "$installed/$name" "$output/$name.$$.tmp" && mv "$output/$name.$$.tmp" "$output/$name" ||
      stop 4 "$output/$name cannot be written"
  done
  say "$output has the images of the Debian package dataset-fashion-mnist"
}

prepare_graph() {
  local output installed=${STRATA_WORDNET:-/usr/share/wordnet}/data.noun
  output_option graph data/wordnet "$@"
  if has_graph "$output"; then
    say "$output has the graph already"
    return
  fi
  setup
  [[ -e $installed ]] || stop 3 "the graph comes from the Debian package wordnet-base, which is not installed: there is no $installed"
  alone_in "$output" make_graph "$installed" "$output"
}

make_graph() {
  local installed=$1 output=$2
  has_graph "$output" && return
  say "making the graph of WordNet's nouns in $output"
  python "$ROOT/tools/prepare_graph.py" --input "$installed" --output "$output/graph.npz" || exit
}

prepare_bible() {
  local output
  output_option bible data/bible "$@"
  if has_text "$output"; then
    say "$output has the text already"
    return
  fi
  setup
  command -v bible >/dev/null || stop 3 "the text comes from the Debian package bible-kjv, which is not installed"
  alone_in "$output" make_text "$output"
}

make_text() {
  local output=$1 text found
  has_text "$output" && return
  say "preparing the text of the Debian package bible-kjv in $output"
  make_temporary_folder
  text=$temporary
  bible -f 'Gen1:1-Rev22:21' </dev/null | LC_ALL=C sed 's/^[^ ]* //' >"$text/bible-kjv"
  found=$(sha256sum "$text/bible-kjv" | cut -d' ' -f1)
  [[ $found == "$BIBLE_SHA256" ]] || say "this is another version of the text than the one that the README's figures speak of ($(stat -c %s "$text/bible-kjv") bytes instead of 4137850, sha256 $found)"
  python "$ROOT/tools/text/prepare_text.py" --input "$text/bible-kjv" --output "$output" --validation 0.1 || exit
  rm -rf -- "$temporary"
  trap - EXIT
}
