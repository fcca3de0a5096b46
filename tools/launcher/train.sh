# SPDX-License-Identifier: MIT
# train: all stages from the check of the config to the message after the run.

usage_of_train() { echo "tools/strata train CONFIG [--ranks N] [--hosts FILE|a:2,b:2] [KEY=VALUE ...]"; }

command_train() {
  local arguments hosts='' value beside
  ranks_as_key "$@"
  set -- "${arguments[@]}"
  arguments=()
  while (($#)); do
    case $1 in
      --help | -h)
        usage_of_train
        print_keys
        ;;
      # With the value of an empty variable, all ranks would run on this machine.
      --hosts | --hosts=*) take_value "$(usage_of_train)" "$@" && hosts=$value && shift "$beside" ;;
      -*) refuse_option "$@" ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  [[ ${#arguments[@]} -gt 0 && ${arguments[0]} != *=* ]] || stop 2 "which config? $(usage_of_train)"

  # If the check program is built, it reports a wrong config at once, and not after minutes of set-up.
  if is_built; then
    ask trainer/check --to-train "${arguments[@]}"
    setup
  else
    setup
    build
    ask trainer/check --to-train "${arguments[@]}"
  fi
  find_libraries
  prepare_missing_data
  plan_for_best "${arguments[@]}"
  make_packages "${facts[packages.ops]}" "${arguments[@]}"
  local folder=${facts[run.folder]}
  run_until_done "$hosts" "$folder" "${arguments[@]}"
  if [[ -d $folder ]]; then
    [[ ${facts[data.train]-} == data/bible/* ]] && show_sample "$folder"
    say "the results are in $folder: metrics.jsonl, TensorBoard events, checkpoints"
  fi
}

# Prints all keys without waiting for a build, even if the program is older than the sources.
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

# refuse_option --steps 4: stops with a message that names what may have been meant.
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

# Finds the plan for `best` if none is named: the plan of this model and device, which is measured now if it does not
# exist. The file name is a hash of everything that a plan depends on, so an existing file fits. The argument that names
# it is added to `arguments`.
plan_for_best() {
  local plan
  [[ ${facts[kernels.default]} == best && -z ${facts[kernels.plan]} ]] || return 0
  ask tools/plan/plan_kernels "$@"
  plan=${facts[kernels.plan]}
  if [[ ! -e $plan ]]; then
    alone_in "$(dirname "$plan")" measure_plan "$plan" "$@"
    if has_packages "${facts[run.device]}"; then facts[packages.ops]=all; fi  # any op may be fastest at this level
  fi
  say "best is what $plan says"
  arguments+=("${facts[override]}")
}

measure_plan() {
  local plan=$1
  shift
  [[ -e $plan ]] && return
  say "best has no plan yet: measuring every level of this model's ops into $plan"
  make_packages_for_plan "$@"
  "$(binary tools/plan/plan_kernels)" "$@" --output "$plan" >/dev/null || exit
}

# Provides the data of the quick starts if they are missing.
prepare_missing_data() {
  if [[ ${facts[data.train]-} == data/bible/train.bin ]] && ! has_text data/bible; then command_prepare bible --output data/bible; fi
  if [[ ${facts[data.train_images]-} == data/fashion-mnist/* ]] && ! has_images data/fashion-mnist; then command_prepare fashion-mnist --output data/fashion-mnist; fi
  prepare_missing_graph
}

prepare_missing_graph() {
  if [[ ${facts[data.file]-} == data/wordnet/graph.npz ]] && ! has_graph data/wordnet; then command_prepare graph --output data/wordnet; fi
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

# Removes control characters: a model of bytes that has learnt little prints any byte, also commands for terminals.
printable() { iconv -c -f UTF-8 -t UTF-8 | LC_ALL=C sed 's/\xc2[\x80-\x9f]//g' | tr -d '\000-\010\013-\037\177'; }
