# SPDX-License-Identifier: MIT
# train: everything from the config's check to the words after the run.

usage_of_train() { echo "tools/strata train CONFIG [--ranks N] [--hosts FILE|a:2,b:2] [KEY=VALUE ...]"; }

command_train() {
  local arguments hosts=''
  ranks_as_key "$@"
  set -- "${arguments[@]}"
  arguments=()
  while (($#)); do
    case $1 in
      --help | -h)
        usage_of_train
        print_keys
        ;;
      --hosts | --hosts=)
        # Of an empty variable, all ranks would run here.
        [[ $1 == --hosts && -n ${2:-} ]] || stop 2 "--hosts wants a value that is not empty: $(usage_of_train)"
        hosts=$2
        shift
        ;;
      --hosts=*) hosts=${1#*=} ;;
      -*) refuse_option "$@" ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  [[ ${#arguments[@]} -gt 0 && ${arguments[0]} != *=* ]] || stop 2 "which config? $(usage_of_train)"

  # A wrong config is said at once when the program that knows is there, and not after minutes of set-up.
  if is_built; then
    check_config "${arguments[@]}"
    setup
  else
    setup
    build
    check_config "${arguments[@]}"
  fi
  find_libraries
  local ranks folder train_data images graph
  {
    read -r ranks
    read -r folder
    read -r train_data
    read -r images
    read -r graph
  } < <(for key in run.ranks run.folder data.train data.train_images data.file; do config_value "$key" "${arguments[@]}"; done)
  prepare_missing_data "$train_data" "$images" "$graph"
  plan_for_best "${arguments[@]}"
  [[ -z $made_plan ]] || arguments+=("kernels.plan=$made_plan")
  make_packages_in_use "${arguments[@]}"
  run_ranks "$ranks" "$hosts" "$folder" "$(binary trainer/train)" "${arguments[@]}"
  if [[ -d $folder ]]; then
    [[ $train_data == data/bible/* ]] && show_sample "$folder"
    say "the results are in $folder: metrics.jsonl, TensorBoard events, checkpoints"
  fi
}

# Prints all keys without waiting for a build, also where the program is older than the sources.
print_keys() {
  usage_of_train
  if [[ ! -x $(binary trainer/check) ]]; then
    setup
    build
  elif ! is_built; then
    say "these are the keys of the last build; the sources have changed since"
  fi
  exec "$(binary trainer/check)" --help-keys
}

# refuse_option --steps 4: stops, and says what may have been meant.
refuse_option() {
  local name=${1#-} value=${2:-} meant
  name=${name#-}
  if [[ $name == *=* ]]; then value=${name#*=} name=${name%%=*}; fi
  meant=$(nearest "$name" ranks hosts help)
  if [[ -n $meant ]]; then
    meant="did you mean --$meant?"
  else
    [[ -n $value && $value != -* && ! -e $value ]] || value=VALUE
    meant="a key of the configuration is given as $name=$value:"
  fi
  stop 2 "train has no option $1; $meant $(usage_of_train)"
}

# `best` without a plan: the one of this model and this device, measured now if it was not before. Its name follows from
# all that a plan must fit, so that the one that is there fits.
plan_for_best() {
  made_plan=''
  [[ $(config_value kernels.default "$@") == best && -z $(config_value kernels.plan "$@") ]] || return 0
  made_plan=$("$(binary tools/bench/plan_kernels)" "$@" --print-path) || exit
  [[ -e $made_plan ]] || alone_in "$(dirname "$made_plan")" measure_plan "$@"
  say "best is what $made_plan says"
}

measure_plan() {
  [[ -e $made_plan ]] && return
  say "best has no plan yet: measuring every level of this model's ops into $made_plan"
  make_packages all "$@"
  "$(binary tools/bench/plan_kernels)" "$@" --output "$made_plan" >/dev/null || exit
}

check_config() { "$(binary trainer/check)" "$@" >/dev/null || exit; }

# config_value KEY CONFIG OVERRIDES...: a value of the resolved config; an empty line where it has none.
config_value() {
  local key=$1
  shift
  "$(binary trainer/check)" --print "$key" "$@" 2>/dev/null || echo
}

# prepare_missing_data TEXT IMAGES GRAPH: the quick starts bring their own data.
prepare_missing_data() {
  if [[ $1 == data/bible/train.bin ]] && ! has_text data/bible; then command_prepare bible --output data/bible; fi
  if [[ $2 == data/fashion-mnist/* ]] && ! has_images data/fashion-mnist; then command_prepare fashion-mnist --output data/fashion-mnist; fi
  if [[ $3 == data/wordnet/graph.npz ]] && ! has_graph data/wordnet; then command_prepare graph --output data/wordnet; fi
}

show_sample() {
  local prompt='In the beginning' text
  if text=$(sample "$1" --prompt "$prompt" 2>&1 | printable); then
    printf '\n%s\n\n' "$text"
    say "more of it: tools/strata generate $1 --prompt '$prompt'"
  else
    say "no sample could be drawn: $text"
  fi
}

# A young model of bytes writes anything, also what terminals take for commands.
printable() { iconv -c -f UTF-8 -t UTF-8 | tr -d '\000-\010\013-\037\177'; }
